// Channels: pixels taken apart and put together, with the common conversions; permutations by tables; the loop of chains.
// Packs of short rows.
#include "table.hpp"
namespace LEVEL {
#include "channels.hpp"
#include "packed.hpp"

// [elements of a pixel]: by size from 2 on; and with the common conversions of 3 and 4 elements, without arithmetic and with
// it: those that are often large have steps past the caches.
#define BY_SIZE(move, T) {move<T, T, 2, Nothing, false>, move<T, T, 3, Nothing, true>, move<T, T, 4, Nothing, true>, \
    move<T, T, 5, Nothing, false>, move<T, T, 6, Nothing, false>, move<T, T, 7, Nothing, false>}
#define CONVERTED(streams, move, S, T) {nullptr, move<S, T, 3, Nothing, streams>, move<S, T, 4, Nothing, streams>}, \
    {nullptr, move<S, T, 3, MultiplyAdd, streams>, move<S, T, 4, MultiplyAdd, streams>}
constexpr Move to_planes[][6] = {
    BY_SIZE(pixels_to_planes, uint8_t), BY_SIZE(pixels_to_planes, uint16_t), BY_SIZE(pixels_to_planes, uint32_t),
    CONVERTED(true, pixels_to_planes, uint8_t, float), CONVERTED(true, pixels_to_planes, uint8_t, half),
    CONVERTED(true, pixels_to_planes, uint8_t, Bfloat16), CONVERTED(false, pixels_to_planes, uint16_t, float),
    CONVERTED(false, pixels_to_planes, half, float), CONVERTED(false, pixels_to_planes, float, half),
    CONVERTED(false, pixels_to_planes, float, uint8_t),
};
constexpr Move to_pixels[][6] = {
    BY_SIZE(planes_to_pixels, uint8_t), BY_SIZE(planes_to_pixels, uint16_t), BY_SIZE(planes_to_pixels, uint32_t),
    CONVERTED(true, planes_to_pixels, float, uint8_t), CONVERTED(true, planes_to_pixels, half, uint8_t),
    CONVERTED(true, planes_to_pixels, uint8_t, float), CONVERTED(true, planes_to_pixels, uint8_t, half),
    CONVERTED(false, planes_to_pixels, half, float), CONVERTED(false, planes_to_pixels, float, half),
};
// [bytes of an element][order of a pixel's elements]; the last two are mirrored rows.
#define ORDERS(T) { \
    pixels_to_pixels<T, 2, false, 1, 0>, pixels_to_pixels<T, 3, false, 2, 1, 0>, pixels_to_pixels<T, 4, false, 2, 1, 0, 3>, \
    pixels_to_pixels<T, 4, false, 3, 2, 1, 0>, pixels_to_pixels<T, 4, false, 3, 0, 1, 2>, pixels_to_pixels<T, 4, false, 1, 2, 3, 0>, \
    pixels_to_pixels<T, 4, false, 0, 1, 2>, pixels_to_pixels<T, 4, false, 2, 1, 0>, \
    pixels_to_pixels<T, 3, false, 0, 1, 2, -1>, pixels_to_pixels<T, 3, false, 2, 1, 0, -1>, \
    pixels_to_pixels<T, 3, true, 0, 1, 2>, pixels_to_pixels<T, 4, true, 0, 1, 2, 3>}
constexpr Move orders[][12] = {ORDERS(uint8_t), ORDERS(uint16_t), ORDERS(uint32_t)};
// [bytes of an element], and rows of pixels: as bytes, and between gaps.
constexpr Move many_planes[] = {many_to_planes<uint8_t>, many_to_planes<uint16_t>, many_to_planes<uint32_t>};
constexpr Move many_pixels[] = {many_to_pixels<uint8_t>, many_to_pixels<uint16_t>, many_to_pixels<uint32_t>};
constexpr Move pixel_rows[] = {copy_pixels, copy_between_gaps};
constexpr Move permutations[] = {
    permute<16>,
#if defined(__AVX512VBMI__)
    permute<64>,
#endif
};
constexpr Loop channel_loops[] = {channels}, packed_loops[] = {packs};

const Family families[] = {
    FAMILY("channels", channel_loops), FAMILY("to planes", to_planes), FAMILY("to pixels", to_pixels),
    FAMILY("many to planes", many_planes), FAMILY("many to pixels", many_pixels), FAMILY("pixel rows", pixel_rows),
    FAMILY("orders", orders), FAMILY("permute", permutations), FAMILY("packed", packed_loops),
};
}  // namespace LEVEL

UNIT(channels)
