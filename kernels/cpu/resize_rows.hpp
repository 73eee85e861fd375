// Rows of the source that are prepared: those of a frame, pixels that are gathered, and colours weighted by alpha; and rows
// of the result that are divided by it.
#pragma once
#include "resize.hpp"

// A row of a frame as packed pixels: the loop of frames writes rows of its own numbers, at this pitch.
inline void frame_row(const Geometry& g, const char* source, int64_t row, char* into) {
    g.rows_kernel(source, (char*)(uintptr_t(into) - uintptr_t(row * g.rows_pitch)), source, row, row + 1);
}
// The C bytes of pixels in any order, in one plane or in several, as packed pixels. Those of one plane come from 16 bytes at a
// time as far as these lie in the row, backwards where `apart` is negative; a row of the result has 16 bytes behind it.
template <int C> void gather_pixels(const Geometry& g, const char* source, int64_t row, char* into) {
    const char* start = source + row * g.row_stride;
    const int64_t count = g.pixels, step = g.apart, away = step < 0 ? -step : step;
    int64_t x = 0;
    if (2 * away <= 16 && g.gathered[C - 1] == g.gathered[0] + C - 1) {
        const int64_t block = (16 - C) / away + 1, begin = step < 0 ? 16 - C : 0, last = (count - 1) * away + C - 16;
        auto places = all<uint8_t, 16>(255);
        for (int64_t k = 0; k < block * C; k++) places[k] = uint8_t(begin + k / C * step + k % C);
        for (; x + block <= count; x += block) {
            const int64_t at = g.gathered[0] + x * step - begin;
            if (at < 0 || at > last) break;
            store(into + x * C, placed<16>(load<Vec<uint8_t, 16>>(start + at), places));
        }
    }
    for (; x < count; x++)
        unrolled<C>([&](auto c) INLINE_LAMBDA { into[x * C + c] = start[x * step + g.gathered[c]]; });
}

// Alpha, the last channel of a pixel without gaps: colours times it, rounded as Pillow's MULDIV255 does, and by it, rounded
// down, at most 255. Where alpha is 0 or 255 they stay. A quotient of float32 has the whole part of the exact one.

template <int C, int V> INLINE Vec<uint8_t, V> alphas(Vec<uint8_t, V> v, int64_t place) {
    Vec<uint8_t, V> places;
    unrolled<V>([&](auto k) INLINE_LAMBDA { places[k.value] = uint8_t(k % 16 / C * C + place); });
    return placed<V>(v, places);
}
template <int C, int V> INLINE Vec<uint8_t, V> is_alpha(int64_t place) {
    Vec<uint8_t, V> lanes;
    unrolled<V>([&](auto k) INLINE_LAMBDA { lanes[k.value] = k % C == place ? 255 : 0; });
    return lanes;
}
template <int C> void premultiply(const Geometry& g, const char* source, int64_t number, char* into) {
    const char* row = source + number * g.row_stride;
    auto step = [&](auto width, int64_t x) INLINE_LAMBDA {
        constexpr int V = decltype(width)::value;
        auto v = load<Vec<uint8_t, V>>(row + x);
        auto wide = [](Vec<uint8_t, V> bytes) INLINE_LAMBDA { return cast<uint16_t, uint8_t, V>(bytes); };
        auto product = wide(v) * wide(alphas<C, V>(v, C - 1)) + 128;
        auto weighted = cast<uint8_t, uint16_t, V>(((product >> 8) + product) >> 8);
        store(into + x, bits<Vec<uint8_t, V>>((is_alpha<C, V>(C - 1) & v) | (~is_alpha<C, V>(C - 1) & weighted)));
    };
    int64_t x = 0;
    for (; x + VECTOR <= g.elements; x += VECTOR) step(Count<VECTOR>(), x);
    for (; x < g.elements; x += 16) step(Count<16>(), x + 16 <= g.elements ? x : g.elements - 16);
}
INLINE Vec<uint8_t, 16> divided(Vec<uint8_t, 16> color, Vec<uint8_t, 16> alpha) {
    auto number = [](Vec<uint8_t, 16> v) INLINE_LAMBDA { return cast<float, int32_t, 16>(cast<int32_t, uint8_t, 16>(v)); };
    auto quotient = number(color) * 255.0f / number(alpha);
    quotient = pick(quotient < 255, quotient, all<float, 16>(255));
    auto stays = bits<Vec<uint8_t, 16>>((alpha == 0) | (alpha == 255));
    return (stays & color) | (~stays & cast<uint8_t, int32_t, 16>(cast<int32_t, float, 16>(quotient)));
}
inline void divide_planes(const Geometry& g, char* row) {
    const int64_t apart = g.channel_out / ROWS, alpha = g.alpha, unit = g.unit;
    for (int64_t plane = 0; plane < unit; plane += apart) if (plane != alpha * apart)
        for (int64_t x = 0; x < apart; x += 16)
            store(row + plane + x,
                  divided(load<Vec<uint8_t, 16>>(row + plane + x), load<Vec<uint8_t, 16>>(row + alpha * apart + x)));
}
template <int C> void divide_pixels(const Geometry& g, char* row) {
    const auto lanes = is_alpha<C, 16>(g.alpha);
    for (int64_t x = 0, unit = g.unit, alpha = g.alpha; x < unit; x += 16) {
        auto v = load<Vec<uint8_t, 16>>(row + x);
        store(row + x, (lanes & v) | (~lanes & divided(v, alphas<C, 16>(v, alpha))));
    }
}
