// Resizes: the loops over entries, the passes that they call by address, and the tables of filters.
#include "table.hpp"
namespace LEVEL {
#include "resize_linear.hpp"
#include "resize_pairs.hpp"
#include "resize_rows.hpp"
#include "resize_tables.hpp"
#include "resize_taps.hpp"

constexpr Loop orders[] = {columns_first, rows_first, rows_as_they_lie, both_passes};
// [parts of weights, less 1][channels, less 1]
constexpr Along along[] = {
    along_pairs<1, 1>, along_pairs<2, 1>, along_pairs<3, 1>, along_pairs<4, 1>,
    along_pairs<1, 2>, along_pairs<2, 2>, along_pairs<3, 2>, along_pairs<4, 2>,
};
constexpr Down down[] = {down_pairs<1>, down_pairs<2>};
// [rule][channels, less 1]: the element, that behind the pass, the sums, and how these are finished
#define ALONG(...) \
    along_numbers<__VA_ARGS__, 1>, along_numbers<__VA_ARGS__, 2>, along_numbers<__VA_ARGS__, 3>, along_numbers<__VA_ARGS__, 4>
typedef TapByTap<float, true, true> Fused;
typedef TapByTap<int32_t, false> Ones;
constexpr Along along_by_taps[] = {
    ALONG(uint8_t, uint8_t, Copies, KEPT), ALONG(uint16_t, uint16_t, Copies, KEPT),
    ALONG(uint32_t, uint32_t, Copies, KEPT), ALONG(uint64_t, uint64_t, Copies, KEPT),
    ALONG(uint16_t, uint16_t, TapByTap<double>, HALF_UP), ALONG(float, float, TapByTap<double>, HALF_UP),
    ALONG(uint8_t, int32_t, Pairs, KEPT), ALONG(uint8_t, float, TapByTap<float>, KEPT),
    ALONG(uint16_t, float, TapByTap<float>, KEPT), ALONG(float, float, TapByTap<float>, KEPT),
    ALONG(float, float, Fused, HALF_EVEN), ALONG(uint16_t, int32_t, Ones, KEPT),
};
// By the bytes of an element.
constexpr IntoColumns to_columns[] = {
    into_columns<uint8_t>, into_columns<uint16_t>, into_columns<uint32_t>, into_columns<uint64_t>,
};
constexpr IntoRows to_rows[] = {into_rows<uint8_t>, into_rows<uint16_t>, into_rows<uint32_t>, into_rows<uint64_t>};
constexpr Down down_by_taps[] = {
    down_numbers<uint8_t, uint8_t, Copies, KEPT>, down_numbers<uint16_t, uint16_t, Copies, KEPT>,
    down_numbers<uint32_t, uint32_t, Copies, KEPT>, down_numbers<uint64_t, uint64_t, Copies, KEPT>,
    down_numbers<uint16_t, uint16_t, TapByTap<double>, HALF_UP>, down_numbers<float, float, TapByTap<double>, HALF_UP>,
    down_numbers<int32_t, uint8_t, TapByTap<int32_t>, SHIFTED>,
    down_numbers<int32_t, uint8_t, Ones, MEAN>,
    down_numbers<float, uint8_t, TapByTap<float>, HALF_EVEN>, down_numbers<float, uint16_t, TapByTap<float>, HALF_EVEN>,
    down_numbers<float, float, TapByTap<float>, HALF_EVEN>,
    down_numbers<float, float, Fused, HALF_EVEN>,
    down_numbers<int32_t, uint16_t, Ones, MEAN>, down_numbers<int32_t, uint16_t, Ones, SHIFTED>,
};
constexpr Along along_linear[] = {along_words<false, 1>, along_words<false, 2>, along_words<true, 1>, along_words<true, 2>};
// [of sums, both passes, both passes of blocks of 2 x 2][pixels, planes][channels, less 1]
constexpr Down down_linear[] = {
    down_words<1, false>, down_words<2, false>, down_words<3, false>, down_words<4, false>,
    down_words<1, true>, down_words<2, true>, down_words<3, true>, down_words<4, true>,
    linear_row<1, false>, linear_row<2, false>, linear_row<3, false>, linear_row<4, false>,
    linear_row<1, true>, linear_row<2, true>, linear_row<3, true>, linear_row<4, true>,
    halves_row<1, false>, halves_row<2, false>, halves_row<3, false>, halves_row<4, false>,
    halves_row<1, true>, halves_row<2, true>, halves_row<3, true>, halves_row<4, true>,
};
constexpr Prepare prepared[] = {
    frame_row, premultiply<2>, premultiply<4>, gather_pixels<1>, gather_pixels<2>, gather_pixels<3>, gather_pixels<4>,
};
constexpr Divide divisions[] = {divide_planes, divide_pixels<2>, divide_pixels<4>};
constexpr Loop tables[] = {filter_table};

const Family families[] = {
    FAMILY("resize", orders), FAMILY("resize along", along), FAMILY("resize down", down), FAMILY("resize table", tables),
    FAMILY("resize along linear", along_linear), FAMILY("resize down linear", down_linear),
    FAMILY("resize prepared row", prepared), FAMILY("resize by alpha", divisions),
    FAMILY("resize into columns", to_columns), FAMILY("resize into rows", to_rows),
    FAMILY("resize along by taps", along_by_taps), FAMILY("resize down by taps", down_by_taps),
};
}  // namespace LEVEL

UNIT(resize)
