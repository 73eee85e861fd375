// Channels: pixels taken apart and put together, with the common conversions; permutations by tables; the loop of chains.
#include "table.hpp"
namespace LEVEL {
#include "channels.hpp"

// [elements of a pixel, from 2 on]: by size, and with the common conversions, without arithmetic and with it.
#define UP_TO_4(move, S, T, ...) move<S, T, 2, __VA_ARGS__>, move<S, T, 3, __VA_ARGS__>, move<S, T, 4, __VA_ARGS__>
#define UP_TO_7(move, T) \
    {UP_TO_4(move, T, T, Nothing, false), move<T, T, 5, Nothing, false>, move<T, T, 6, Nothing, false>, move<T, T, 7, Nothing, false>}
#define BY_SIZE(move) UP_TO_7(move, uint8_t), UP_TO_7(move, uint16_t), UP_TO_7(move, uint32_t), UP_TO_7(move, uint64_t)
#define CONVERTED(move, S, T) {UP_TO_4(move, S, T, Nothing, true)}, {UP_TO_4(move, S, T, MultiplyAdd, true)}
#define COMMON(move) \
    BY_SIZE(move), CONVERTED(move, uint8_t, float), CONVERTED(move, uint8_t, half), CONVERTED(move, uint8_t, Bfloat16), \
    CONVERTED(move, uint16_t, float), CONVERTED(move, half, float), CONVERTED(move, float, half), CONVERTED(move, float, uint8_t), \
    CONVERTED(move, half, uint8_t)
constexpr Move to_planes[][6] = {COMMON(pixels_to_planes)};
constexpr Move to_pixels[][6] = {COMMON(planes_to_pixels)};
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
