// Short runs: the loop of networks of shuffles.
#include "table.hpp"
namespace LEVEL {
#include "short_runs.hpp"

constexpr Loop networks[] = {short_runs};

const Family families[] = {FAMILY("short runs", networks)};
}  // namespace LEVEL

UNIT(short_runs)
