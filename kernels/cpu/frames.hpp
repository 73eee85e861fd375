// Frames: luma and chroma to colours by integers, and back, in strips of a row that stay in the L1 cache.
//
//     samples    y y y y ...  u u ...  v v ...      rows of each kind: as they lie, or taken apart
//     pairs      y y | y y | ...                    two pixels share the products of their chroma
//     colours    r r r r ... | g ... | b ...        clamped rows, which go through the stages of matrix.hpp
//
// Strips begin at even columns: of a window that begins or ends within a pair, one more pixel is computed, and left out.
// It is read where the frame has it; of a frame of odd width, a strip's samples are copied before. Chroma of 4:4:4 is
// taken apart to that of even columns and that of odd ones. Formats of colours have no sums: each row is multiplied.
#pragma once
#include "matrix.hpp"

// Of chroma: planes of its own, pairs in one plane, pairs after luma. COLOURS: the planes are red, green and blue.
enum Arrangement { PLANAR, PAIRED, PACKED, COLOURS };

struct FramePlane { char* address; int64_t pitch; };
struct ColourMatrix {
    int64_t luma_least, luma_floor, centre, luma, red_v, green_u, green_v, blue_u;
    int64_t bits, floors;                           // fractional ones; products are rounded down each, or their sum is
};
struct Frame {
    FramePlane luma, blue, red;                     // of PAIRED and PACKED samples, blue is the plane of both
    int64_t parity, phase;                          // of the window's first row and column in a sample of chroma
    int64_t first_row, last_row, last_column;       // of the frame's chroma, from the window's first sample
    int64_t columns;                                // of the frame, from that sample's first column
    int64_t arrangement, swapped, luma_second;      // `swapped`: red before blue; `luma_second`: of packed pixels
    int64_t down, across;                           // rows and columns that share chroma: 1 or 2
    ColourMatrix matrix;
    Move apart, copy;                               // pairs of samples, and samples
    int64_t target_row, target_across, target_step; // in bytes, from a row, a channel and a pixel to the next
    int64_t width, mirrored;
    int64_t is_direct;                              // the channels are the colours, in order or in reverse, in planes
    int64_t groups, count, step, copies;            // the colours that stages begin with: in even steps, or copies
    const int64_t* order;                           // the colour of each channel
    Stages stages;                                  // of all channels, or of more than four of each one
};

template <class T> struct Sample;
template <> struct Sample<uint8_t> { typedef uint16_t Pair; typedef int32_t Sum; typedef uint16_t Mean; };
template <> struct Sample<uint16_t> { typedef uint32_t Pair; typedef int64_t Sum; typedef uint32_t Mean; };

constexpr int FRACTION = 20;                        // bits of the constants from samples to colours
constexpr int64_t FRAME_STRIP = 2048;                // the most bytes of a row of samples in a strip
constexpr int64_t FRAME_ROW = FRAME_STRIP + 2 * LINE;

// Samples times constants below 2^31: a product of 64 bits is one of 32 that widens.
template <class Sum, int N> INLINE Vec<Sum, N> times(Vec<int32_t, N> x, int64_t factor) {
    return cast<Sum, int32_t, N>(x) * cast<Sum, int32_t, N>(all<int32_t, N>(int32_t(factor)));
}

// Sums of even and of odd pixels, clamped to the samples' range, as pixels in order. Those of 16 bits have FRACTION ones.
template <class T, int N>
INLINE auto joined(Vec<typename Sample<T>::Sum, N> even, Vec<typename Sample<T>::Sum, N> odd, int32_t fraction) {
    if constexpr (sizeof(T) == 1) {
        auto pairs = ((even >> fraction) & 0xFFFF) | ((odd >> (fraction - 16)) & ~0xFFFF);
        auto words = bits<Vec<int16_t, 2 * N>>(pairs);
        return clamped<uint8_t, int16_t, 2 * N>(words);
    } else {
        auto colour = [](auto sum) INLINE_LAMBDA {  // the lower half of a logical shift is that of an arithmetic one
            auto whole = cast<int32_t, uint64_t, N>((Vec<uint64_t, N>)sum >> FRACTION);
            whole = pick(whole > 0, whole, Vec<int32_t, N>{});
            return (Vec<uint32_t, N>)pick(whole < 65535, whole, all<int32_t, N>(65535));
        };
        auto pairs = colour(even) | colour(odd) << 16;
        return bits<Vec<uint16_t, 2 * N>>(pairs);
    }
}

// Colours of N pairs of pixels or more. `chroma`: rows of blue and red of the even columns, and with `own` of the odd ones.
// With `floors` each product is rounded down, luma's with the sum. Sums of bytes may wrap round, as swscale's of 4:4:4.
template <class T, bool own, bool floors>
INLINE void colours_of(const ColourMatrix& m, const char* luma, const char* const (&chroma)[4], char* colours,
                       int64_t pitch, int64_t pairs) {
    typedef typename Sample<T>::Sum Sum;
    constexpr int N = LINE / sizeof(Sum);
    typedef Vec<Sum, N> Sums;
    typedef Vec<int32_t, N> Numbers;
    const int32_t fraction = int32_t(m.bits);
    const Sum black = (floors ? 0 : Sum(1) << (fraction - 1)) - Sum(m.luma_floor) * m.luma, centre = m.centre;
    const Sum red = black - centre * m.red_v, blue = black - centre * m.blue_u;
    const Sum green = black - centre * (m.green_u + m.green_v), whole = Sum(-1) << fraction;
    const int64_t factor = m.luma, red_v = m.red_v, green_u = m.green_u, green_v = m.green_v, blue_u = m.blue_u;
    const auto least = all<T, 2 * N>(T(m.luma_least));
    for_steps<N>(pairs, [&](int64_t at) INLINE_LAMBDA {
        struct Products { Sums of[3]; };
        auto products = [&](const char* blues, const char* reds) INLINE_LAMBDA {
            auto u = cast<int32_t, T, N>(load<Vec<T, N>>(blues + at * sizeof(T)));
            auto v = cast<int32_t, T, N>(load<Vec<T, N>>(reds + at * sizeof(T)));
            if constexpr (floors) {
                u -= int32_t(centre);
                v -= int32_t(centre);
                return Products{{(times<Sum, N>(v, red_v) & whole) + black,
                                 (times<Sum, N>(v, green_v) & whole) + (times<Sum, N>(u, green_u) & whole) + black,
                                 (times<Sum, N>(u, blue_u) & whole) + black}};
            }
            return Products{{times<Sum, N>(v, red_v) + red, times<Sum, N>(v, green_v) + times<Sum, N>(u, green_u) + green,
                             times<Sum, N>(u, blue_u) + blue}};
        };
        auto counted = __builtin_elementwise_max(load<Vec<T, 2 * N>>(luma + 2 * at * sizeof(T)), least);
        auto y = bits<Vec<typename Sample<T>::Pair, N>>(counted);
        const Sums even = times<Sum, N>(__builtin_convertvector(y & T(-1), Numbers), factor);
        const Sums odd = times<Sum, N>(__builtin_convertvector(y >> 8 * sizeof(T), Numbers), factor);
        const Products first = products(chroma[0], chroma[1]), second = own ? products(chroma[2], chroma[3]) : first;
        unrolled<3>([&](auto c) INLINE_LAMBDA {
            store(colours + c * pitch + 2 * at * sizeof(T), joined<T, N>(even + first.of[c], odd + second.of[c], fraction));
        });
    });
}

// Linear chroma of one kind: from samples of a row and of the one beside it, or of one row, to those of even and odd
// columns. There is one sample more than pairs.
template <class T> INLINE void linear_chroma(const char* own, const char* beside, char* even, char* odd, int64_t pairs) {
    typedef typename Sample<T>::Mean Mean;
    constexpr int N = LINE / sizeof(Mean);
    for (int64_t at = 0; at < pairs; at += N) {  // rows of a strip have a line behind them
        auto sum = [&](int64_t place) INLINE_LAMBDA {
            auto wide = cast<Mean, T, N>(load<Vec<T, N>>(own + place * sizeof(T)));
            return beside ? wide * 3 + cast<Mean, T, N>(load<Vec<T, N>>(beside + place * sizeof(T))) : wide << 2;
        };
        auto near = sum(at), far = sum(at + 1);
        store(even + at * sizeof(T), cast<T, Mean, N>((near + 2) >> 2));
        store(odd + at * sizeof(T), cast<T, Mean, N>((near + far + 4) >> 3));
    }
}

// A row of colours times a factor, in place, to the end of a step.
template <class T> INLINE void scale_row(char* row, int64_t factor, int64_t size) {
    typedef typename Sample<T>::Sum Sum;
    constexpr int N = LINE / sizeof(Sum);
    for (int64_t at = 0; at < size; at += N) {
        auto numbers = cast<int32_t, T, N>(load<Vec<T, N>>(row + at * sizeof(T)));
        auto scaled = cast<int32_t, Sum, N>((times<Sum, N>(numbers, factor) + Sum(1 << (FRACTION - 1))) >> FRACTION);
        constexpr int32_t most = T(-1);
        store(row + at * sizeof(T), cast<T, int32_t, N>(pick(scaled < most, scaled, all<int32_t, N>(most))));
    }
}

// Samples to a row of a strip, or to several, by a move.
INLINE void moved(Move move, const char* source, char* target, int64_t rows, int64_t size, int64_t bytes, int64_t pitch = 0,
                  int64_t step = 0) {
    Block k = {source, target, rows, size, pitch, FRAME_ROW, step ? step : bytes, bytes, nullptr, nullptr, nullptr, 0, 0, 0, 0, 0};
    move(k);
}

// `own`: odd columns have chroma of their own, which is linear chroma, or that of 4:4:4.
template <class T, bool own> void frames(const char*, char* target, const void* parameters, int64_t first, int64_t last) {
    const Frame& p = *(const Frame*)parameters;
    constexpr int64_t bytes = sizeof(T), least = 2 * LINE / sizeof(typename Sample<T>::Sum);  // pixels of a step
    enum Row {
        LUMA, OTHERS, BLUE, RED, BESIDE_BLUE, BESIDE_RED, EVEN_BLUE, ODD_BLUE, EVEN_RED, ODD_RED,
        MADE, ORDERED = MADE + 3, TURNED = ORDERED + 4, ROWS = TURNED + 4,
    };
    alignas(LINE) char rows[ROWS][FRAME_ROW];
    alignas(LINE) char tiles[2][STRIP_BYTES];
    const int64_t width = (p.width + p.phase + 1) & -2;
    for (int64_t row = first; row < last; row++) for (int64_t next = 0; next < width; next += p.stages.strip) {
        int64_t begin = next, size = width - next < p.stages.strip ? width - next : p.stages.strip;
        if (size < least && width >= least) { begin = width - least; size = least; }
        const bool is_short = size < least;
        const int64_t pairs = size / 2, in_frame = row + p.parity, shared = in_frame >> (p.down - 1);
        const int64_t there = p.columns - begin < size ? p.columns - begin : size;  // of the frame
        const bool copies = is_short || there < size;
        // Luma, and chroma of a row of its planes: as they lie, or in rows of the strip.
        const char* luma = p.luma.address + row * p.luma.pitch + begin * bytes;
        auto chroma_row = [&](int64_t number, Row blue, const char*& u, const char*& v) INLINE_LAMBDA {
            const bool is_whole = p.across == 1, is_linear = own && !is_whole;
            const int64_t place = is_whole ? begin : begin / 2, left = p.last_column - place;
            const int64_t count = is_whole ? there : is_linear && left >= pairs ? pairs + 1 : pairs;
            const char* from = p.blue.address + number * p.blue.pitch + place * bytes;
            u = rows[blue]; v = rows[blue + 1];
            if (p.arrangement == PLANAR) {
                const char* other = p.red.address + number * p.red.pitch + place * bytes;
                if (!is_linear && !copies) { u = from; v = other; return; }
                moved(p.copy, from, rows[blue], 1, count, bytes);
                moved(p.copy, other, rows[blue + 1], 1, count, bytes);
            } else {
                from += place * bytes;
                if (p.arrangement == PACKED) {
                    from += 2 * place * bytes;
                    moved(p.apart, from, rows[LUMA], 2, 2 * count, bytes);
                    luma = rows[p.luma_second ? OTHERS : LUMA];
                    from = rows[p.luma_second ? LUMA : OTHERS];
                }
                moved(p.apart, from, rows[blue], 2, count, bytes);
                if (p.swapped) { u = rows[blue + 1]; v = rows[blue]; }
            }
            if (is_linear && count == pairs) for (int k = 0; k < 2; k++) {  // the last sample is its own neighbour
                char* end = rows[blue + k] + pairs * bytes;
                store(end, load<T>(end - bytes));
            }
        };
        char* colours = rows[MADE];
        int64_t colours_pitch = FRAME_ROW;
        const bool is_direct = p.is_direct && !is_short && width == p.width;
        if (is_direct) {
            colours = target + row * p.target_row + begin * bytes + (p.order[0] ? 2 * p.target_across : 0);
            colours_pitch = p.order[0] ? -p.target_across : p.target_across;
        }
        if (!own && p.arrangement == COLOURS) {
            const FramePlane* const planes[] = {&p.luma, &p.blue, &p.red};
            for (int c = 0; c < 3; c++) {
                moved(p.copy, planes[c]->address + row * planes[c]->pitch + begin * bytes, rows[MADE + c], 1, there, bytes);
                if (p.matrix.luma != 1 << FRACTION) scale_row<T>(rows[MADE + c], p.matrix.luma, there);
            }
        } else {
            const char *u, *v;
            chroma_row(shared, BLUE, u, v);
            if (copies && p.arrangement != PACKED) { moved(p.copy, luma, rows[LUMA], 1, there, bytes); luma = rows[LUMA]; }
            if (own && p.across == 1) {
                moved(p.apart, u, rows[EVEN_BLUE], 2, pairs, bytes);
                moved(p.apart, v, rows[EVEN_RED], 2, pairs, bytes);
                u = rows[EVEN_BLUE]; v = rows[EVEN_RED];
            } else if constexpr (own) {
                const char *beside_u = nullptr, *beside_v = nullptr;
                if (p.down == 2) {
                    int64_t beside = shared + ((in_frame & 1) ? 1 : -1);
                    beside = beside > p.last_row ? p.last_row : beside;
                    chroma_row(beside < p.first_row ? p.first_row : beside, BESIDE_BLUE, beside_u, beside_v);
                }
                linear_chroma<T>(u, beside_u, rows[EVEN_BLUE], rows[ODD_BLUE], pairs);
                linear_chroma<T>(v, beside_v, rows[EVEN_RED], rows[ODD_RED], pairs);
                u = rows[EVEN_BLUE]; v = rows[EVEN_RED];
            }
            const char* const chroma[] = {u, v, rows[ODD_BLUE], rows[ODD_RED]};
            auto computed = [&](auto floors) INLINE_LAMBDA {
                colours_of<T, own, floors != 0>(p.matrix, luma, chroma, colours, colours_pitch, is_short ? least / 2 : pairs);
            };
            if constexpr (sizeof(T) == 1 && !own) {  // all that have such a matrix
                if (p.matrix.floors) computed(Count<1>());
                else computed(Count<0>());
            } else computed(Count<0>());
        }
        if (is_direct) continue;
        // The window's pixels of the strip, through the stages.
        const int64_t from = begin < p.phase ? 0 : begin - p.phase, end = begin + size - p.phase;
        const int64_t count = (end < p.width ? end : p.width) - from, skipped = from + p.phase - begin;
        for (int64_t channel = 0; channel < p.copies; channel++)
            moved(p.copy, rows[MADE + p.order[channel]] + skipped * bytes, rows[ORDERED + channel], 1, count, bytes);
        for (int64_t group = 0; group < p.groups; group++) {
            const char* source = p.copies ? rows[ORDERED] : rows[MADE + p.order[group]] + skipped * bytes;
            int64_t pitch = p.copies ? FRAME_ROW : p.step * FRAME_ROW, step = p.target_step;
            char* written = target + row * p.target_row + group * p.target_across + from * step;
            if (p.mirrored) {
                moved(p.copy, source + (count - 1) * bytes, rows[TURNED], p.count, count, bytes, pitch, -bytes);
                source = rows[TURNED]; pitch = FRAME_ROW; written += (count - 1) * step; step = -step;
            }
            Block k = {source, written, 0, count, pitch, p.target_across, bytes, step, nullptr, nullptr, nullptr, 0, 0, 0, 0, 0};
            run_stages(p.stages, k, tiles, group);
        }
    }
}

struct Weights { int64_t red, green, blue, offset; };  // `offset`: with half of the last bit, in units of the sum
struct FrameEncoding {
    const char* colours[3];                         // planes, or of pixels the first one's first element
    int64_t pitch;
    FramePlane luma, blue, red;                     // as above; without chroma, blue is null
    int64_t places[3], of_pixels;                   // `places`: of red, green and blue in a pixel
    int64_t arrangement, swapped, luma_second, down, across;
    Weights y, u, v;
    int64_t bits, most, shift;
    Move apart, together, copy;                     // pixels of three, pairs of samples, and samples
    int64_t height, width;
};

// One kind of sample, of N colours. Where no instruction multiplies 64 bits, sums of 16-bit colours are of float64: they
// are exact below 2^53, and become whole numbers and shifted ones at once, toward 0, at which they are clamped.
#if defined(__AVX512DQ__)
typedef int64_t WideSum;
#else
typedef double WideSum;
#endif
template <class T, int N> struct Weighted {
    typedef either<sizeof(T) == 1, int32_t, WideSum> Sum;
    static constexpr bool is_exact = same<Sum, double>;
    Vec<Sum, N> weights[3], offset;
    int32_t bits, most, shift;  // of bytes: FRACTION, 255 and 0

    INLINE Vec<Sum, N> constant(int64_t number) const {
        return all<Sum, N>(is_exact ? Sum(double(number) / double(int64_t(1) << bits)) : Sum(number));
    }
    INLINE Weighted(const FrameEncoding& p, const Weights& w)
        : bits(int32_t(p.bits)), most(int32_t(p.most)), shift(int32_t(p.shift)) {
        const int64_t numbers[] = {w.red, w.green, w.blue};
        for (int c = 0; c < 3; c++) weights[c] = constant(numbers[c]);
        offset = constant(w.offset);
    }
    INLINE Vec<T, N> of(const Vec<int32_t, N> (&colours)[3]) const {
        Vec<Sum, N> total = offset;
        unrolled<3>([&](auto c) INLINE_LAMBDA {
            const auto x = cast<Sum, int32_t, N>(colours[c]);
            if constexpr (is_exact) total = __builtin_elementwise_fma(x, weights[c], total);
            else total = total + x * weights[c];
        });
        if constexpr (sizeof(T) == 1) return clamped<uint8_t, int32_t, N>(total >> FRACTION);
        else {
            if constexpr (!is_exact) total = total >> all<Sum, N>(bits);
            auto whole = cast<int32_t, Sum, N>(total);
            whole = pick(whole > 0, whole, Vec<int32_t, N>{});
            whole = pick(whole < most, whole, all<int32_t, N>(most));
            return cast<uint16_t, int32_t, N>(whole << shift);
        }
    }
};

template <class T> void frame_samples(const char*, char*, const void* parameters, int64_t first, int64_t last) {
    const FrameEncoding& p = *(const FrameEncoding*)parameters;
    typedef typename Sample<T>::Pair Pair;
    constexpr int N = LINE / 4 / sizeof(T);
    constexpr int64_t bytes = sizeof(T), strip = FRAME_STRIP / bytes;
    constexpr int least = 2 * N;
    enum Row { GIVEN, LUMA = GIVEN + 3, OTHERS, BLUE, RED, ROWS };
    alignas(LINE) char rows[ROWS][FRAME_ROW];
    const Weighted<T, N> weighted[] = {{p, p.y}, {p, p.u}, {p, p.v}};
    for (int64_t item = first; item < last; item++)
    for (int64_t number = 0; number < p.down && item * p.down + number < p.height; number++)
    for (int64_t next = 0; next < p.width; next += strip) {
        int64_t begin = next, size = p.width - next < strip ? p.width - next : strip;
        if (size < least && p.width >= least) { begin = (p.width - least) & -2; size = p.width - begin; }
        const bool is_short = size < least, is_cut = size % 2 && p.across == 2;  // the last pixel has no neighbour
        const int64_t row = item * p.down + number;
        const char* colours[3];
        if (p.of_pixels) moved(p.apart, p.colours[0] + row * p.pitch + begin * 3 * bytes, rows[GIVEN], 3, size, bytes);
        for (int c = 0; c < 3; c++) {
            char* const given = rows[GIVEN + p.places[c]];
            const char* from = p.colours[c] + row * p.pitch + begin * bytes;
            colours[c] = p.of_pixels || is_short || is_cut ? given : from;
            if (!p.of_pixels && colours[c] == given) moved(p.copy, from, given, 1, size, bytes);
            if (is_cut) store(given + size * bytes, load<T>(given + (size - 1) * bytes));
        }
        const bool is_packed = p.arrangement == PACKED, is_whole = p.across == 1;
        const bool has_chroma = p.blue.address && number == 0;
        const int64_t pairs = (size + 1) / 2, place = is_whole ? begin : begin / 2;
        char *u = rows[p.swapped ? RED : BLUE], *v = rows[p.swapped ? BLUE : RED];
        char* const luma_at = p.luma.address + row * p.luma.pitch + begin * bytes;
        char* luma = is_short || is_packed ? rows[is_packed && p.luma_second ? OTHERS : LUMA] : luma_at;
        char* const samples[] = {luma, u, v};
        for (int kind = 0; kind < (is_whole && has_chroma ? 3 : 1); kind++)
        for_steps<least>(is_short ? least : is_packed ? 2 * pairs : size, [&](int64_t at) INLINE_LAMBDA {
            unrolled<2>([&](auto half) INLINE_LAMBDA {
                Vec<int32_t, N> pixels[3];
                unrolled<3>([&](auto c) INLINE_LAMBDA {
                    pixels[c] = cast<int32_t, T, N>(load<Vec<T, N>>(colours[c] + (at + half * N) * bytes));
                });
                store(samples[kind] + (at + half * N) * bytes, weighted[kind].of(pixels));
            });
        });
        if (is_short && !is_packed) moved(p.copy, luma, luma_at, 1, size, bytes);
        if (!has_chroma) continue;
        auto chroma = [&](auto sums) INLINE_LAMBDA {
            for_steps<N>(is_short ? N : pairs, [&](int64_t at) INLINE_LAMBDA {
                Vec<int32_t, N> pixels[3];
                unrolled<3>([&](auto c) INLINE_LAMBDA {
                    auto both = load<Vec<Pair, N>>(colours[c] + 2 * at * bytes);
                    pixels[c] = __builtin_convertvector(both & Pair(T(-1)), Vec<int32_t, N>);
                    if constexpr (decltype(sums)::value) pixels[c] += __builtin_convertvector(both >> 8 * bytes, Vec<int32_t, N>);
                });
                const Vec<T, N> blue = weighted[1].of(pixels), red = weighted[2].of(pixels);
                store(u + at * bytes, blue);
                store(v + at * bytes, red);
            });
        };
        if (p.across == 2 && p.down == 1) chroma(Count<1>());
        else if (p.across == 2) chroma(Count<0>());  // of the first of two pixels
        char* const to = p.blue.address + item * p.blue.pitch;
        auto together = [&](const char* from, char* written, int64_t count) INLINE_LAMBDA {
            Block k = {from, written, 2, count, FRAME_ROW, 0, bytes, 2 * bytes, nullptr, nullptr, nullptr, 0, 0, 0, 0, 0};
            p.together(k);
        };
        const int64_t count = is_whole ? size : pairs;
        if (p.arrangement == PAIRED) together(rows[BLUE], to + 2 * place * bytes, count);
        else if (is_packed) {
            together(rows[BLUE], rows[p.luma_second ? LUMA : OTHERS], pairs);
            together(rows[LUMA], luma_at + begin * bytes, 2 * pairs);
        } else {
            moved(p.copy, u, to + place * bytes, 1, count, bytes);
            moved(p.copy, v, p.red.address + item * p.red.pitch + place * bytes, 1, count, bytes);
        }
    }
}
