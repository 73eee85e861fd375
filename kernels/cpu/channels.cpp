// Channels: pixels taken apart and put together, with the common conversions; permutations by tables; the loop of chains.
#include "table.hpp"
namespace LEVEL {
#include "channels.hpp"

// [elements of a pixel, from 2 on]: by size, and with the common conversions; without arithmetic, bytes become numbers by a
// scale of 1 and a bias of -0.0.
#define UP_TO_4(move, S, T, arithmetic) move<S, T, 2, arithmetic>, move<S, T, 3, arithmetic>, move<S, T, 4, arithmetic>
#define UP_TO_7(move, T) {UP_TO_4(move, T, T, Nothing), move<T, T, 5, Nothing>, move<T, T, 6, Nothing>, move<T, T, 7, Nothing>}
#define BY_SIZE(move) UP_TO_7(move, uint8_t), UP_TO_7(move, uint16_t), UP_TO_7(move, uint32_t), UP_TO_7(move, uint64_t)
constexpr Move to_planes[][6] = {
    BY_SIZE(pixels_to_planes), {UP_TO_4(pixels_to_planes, uint8_t, float, MultiplyAdd)},
    {UP_TO_4(pixels_to_planes, uint8_t, half, MultiplyAdd)}, {UP_TO_4(pixels_to_planes, uint8_t, Bfloat16, MultiplyAdd)},
};
constexpr Move to_pixels[][6] = {
    BY_SIZE(planes_to_pixels), {UP_TO_4(planes_to_pixels, float, uint8_t, Nothing)},
    {UP_TO_4(planes_to_pixels, float, uint8_t, MultiplyAdd)}, {UP_TO_4(planes_to_pixels, half, uint8_t, Nothing)},
    {UP_TO_4(planes_to_pixels, half, uint8_t, MultiplyAdd)},
};
#define ORDERS(T) {pixels_to_pixels<T, 3, 2, 1, 0>, pixels_to_pixels<T, 4, 2, 1, 0, 3>, pixels_to_pixels<T, 4, 0, 1, 2>, \
    pixels_to_pixels<T, 4, 2, 1, 0>, pixels_to_pixels<T, 3, 0, 1, 2, -1>, pixels_to_pixels<T, 3, 2, 1, 0, -1>}
constexpr Move orders[][6] = {ORDERS(uint8_t), ORDERS(uint16_t), ORDERS(uint32_t)};
constexpr Move permutations[] = {
    permute<16>,
#if defined(__AVX512VBMI__)
    permute<64>,
#endif
};
constexpr Loop channel_loops[] = {channels};

const Family families[] = {
    FAMILY("channels", channel_loops), FAMILY("to planes", to_planes), FAMILY("to pixels", to_pixels),
    FAMILY("orders", orders), FAMILY("permute", permutations),
};
}  // namespace LEVEL

UNIT(channels)
