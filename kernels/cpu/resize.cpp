// Resizes: the loops over entries, the passes that they call by address, and the tables of filters.
#include "table.hpp"
namespace LEVEL {
#include "resize.hpp"

constexpr Loop orders[] = {columns_first, rows_first};
// [parts of weights, less 1][channels, less 1]
constexpr Along along[] = {
    along_pairs<1, 1>, along_pairs<2, 1>, along_pairs<3, 1>, along_pairs<4, 1>,
    along_pairs<1, 2>, along_pairs<2, 2>, along_pairs<3, 2>, along_pairs<4, 2>,
};
constexpr Down down[] = {down_pairs<1>, down_pairs<2>};
constexpr Loop tables[] = {filter_table};

const Family families[] = {
    FAMILY("resize", orders), FAMILY("resize along", along), FAMILY("resize down", down), FAMILY("resize table", tables),
};
}  // namespace LEVEL

UNIT(resize)
