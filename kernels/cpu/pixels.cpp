// Pixels: raw samples, mixed channels, crops, frames.
#include "table.hpp"
namespace LEVEL {
#include "crops.hpp"
#include "frames.hpp"
#include "raw.hpp"

// Pixels of 2, 3 and 4 elements: [bytes of an element][elements].
#define BY_COUNT(move, T) {move<T, 2>, move<T, 3>, move<T, 4>}
#define BY_SIZE(move) {BY_COUNT(move, uint8_t), BY_COUNT(move, uint16_t), BY_COUNT(move, uint32_t), BY_COUNT(move, uint64_t)}
constexpr Move pixels_apart[4][3] = BY_SIZE(pixels_to_rows);
constexpr Move pixels_together[4][3] = BY_SIZE(rows_to_pixels);

// Mixed channels: [uint8, uint16, float16, float32][to uint8, float16, bfloat16, float32][channels of the source].
#define BY_COLUMNS(S, T) {mix<S, T, 1>, mix<S, T, 2>, mix<S, T, 3>, mix<S, T, 4>}
#define BY_TARGET(S) {BY_COLUMNS(S, uint8_t), BY_COLUMNS(S, half), BY_COLUMNS(S, Bfloat16), BY_COLUMNS(S, float)}
constexpr Move mixes[4][4][4] = {BY_TARGET(uint8_t), BY_TARGET(uint16_t), BY_TARGET(half), BY_TARGET(float)};
constexpr Move mixes_of_doubles[4] = BY_COLUMNS(double, double);
constexpr Loop raw_loops[] = {raw}, mixing_loops[] = {mixing}, crop_loops[] = {entries, bordered};
constexpr Loop frame_loops[] = {frames<uint8_t, false>, frames<uint8_t, true>, frames<uint16_t, false>, frames<uint16_t, true>};
constexpr Loop encoding_loops[] = {frame_samples<uint8_t>, frame_samples<uint16_t>};
constexpr decltype(&list_windows) lists[] = {list_windows};

const Family families[] = {
    FAMILY("raw", raw_loops), FAMILY("crops", crop_loops), FAMILY("crop list", lists),
    FAMILY("frames", frame_loops), FAMILY("frame samples", encoding_loops),
    FAMILY("mixing", mixing_loops), FAMILY("mix", mixes), FAMILY("mix float64", mixes_of_doubles),
    FAMILY("take apart", pixels_apart), FAMILY("put together", pixels_together),
};
}  // namespace LEVEL

UNIT(pixels)
