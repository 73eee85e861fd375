// Short runs: the loops of networks of shuffles, and of units.
#include "table.hpp"
namespace LEVEL {
#include "short_runs.hpp"

constexpr Loop networks[] = {short_runs}, unit_loops[] = {units};

const Family families[] = {FAMILY("short runs", networks), FAMILY("units", unit_loops)};
}  // namespace LEVEL

UNIT(short_runs)
