// Short runs: the loops of merges, of units, of turned pixels and of networks.
#include "table.hpp"
namespace LEVEL {
#include "short_runs.hpp"

constexpr Loop short_run_loops[] = {
    merges, units, turns,
#if defined(__AVX512VBMI__)
    networks,
#endif
};

const Family families[] = {FAMILY("short runs", short_run_loops)};
}  // namespace LEVEL

UNIT(short_runs)
