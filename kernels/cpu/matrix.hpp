// Mixed channels: each channel of a pixel's result is a sum of all its channels, each times a number of a matrix.
//
//     source     r g b r g b ...  or planes
//     numbers    r r r ... | g g g ... | b b b ...    rows of a strip in the L1 cache, in the type of the arithmetic
//     mixed      r*m00 + g*m01 + b*m02                each product rounded, then each sum; converted in the same step
//     target     planes, or rows of a strip that are put together to pixels
//
// Strips go through stages, each a move of all rows of a strip: what frames are made of goes through them, too.
#pragma once
#include "copy.hpp"
#include "interleave.hpp"

// body(at) for steps of P of at least as many elements; the last is moved back to end with them.
template <int P, class Body> INLINE void for_steps(int64_t size, Body body) {
    for (int64_t at = 0;;) {
        body(at);
        if (at + P >= size) return;
        at = at + 2 * P <= size ? at + P : size - P;
    }
}

// The first channels of pixels as rows of a tile, which may be written to the end of a step; a pixel may end with
// elements that are no channels.
template <class T, int C> void pixels_to_rows(const Block& k) {
    const int64_t size = k.size, pitch = k.target_pitch, rows = k.rows;
    const char* source = k.source;
    char* target = k.target;
    auto steps = [&](auto nbytes) INLINE_LAMBDA {
        constexpr int P = decltype(nbytes)::value / sizeof(T);
        for_steps<P>(size, [&](int64_t at) INLINE_LAMBDA {
            Vec<T, P> pieces[C];
            take_apart<T, C, P>(source + at * C * sizeof(T), pieces);
            unrolled<C>([&](auto c) INLINE_LAMBDA {
                if (c < rows) store(target + c * pitch + at * sizeof(T), channel_of<T, C, P, decltype(c)::value>(pieces));
            });
        });
    };
    const int64_t nbytes = size * sizeof(T);
    char in[16 * C];
    if (nbytes >= LINE) return steps(Count<LINE>());
    if (nbytes < 16) { copy_short(in, source, nbytes * C); source = in; }
    steps(Count<16>());
}

// Rows of a tile, which may be read to the end of a step, as pixels.
template <class T, int C> void rows_to_pixels(const Block& k) {
    const int64_t size = k.size, pitch = k.source_pitch;
    const char* source = k.source;
    char* target = k.target;
    auto steps = [&](auto nbytes) INLINE_LAMBDA {
        constexpr int P = decltype(nbytes)::value / sizeof(T);
        for_steps<P>(size, [&](int64_t at) INLINE_LAMBDA {
            Vec<T, P> channels[C];
            unrolled<C>([&](auto c) INLINE_LAMBDA { channels[c.value] = load<Vec<T, P>>(source + c * pitch + at * sizeof(T)); });
            put_together<T, C, P>(channels, target + at * C * sizeof(T));
        });
    };
    const int64_t nbytes = size * sizeof(T);
    char out[16 * C];
    if (nbytes >= LINE) return steps(Count<LINE>());
    if (nbytes < 16) target = out;
    steps(Count<16>());
    if (nbytes < 16) copy_short(k.target, out, nbytes * C);
}

// Rows of a result, of a step or more, of `columns` rows of a source. The weights lie at `scale`, row by row, the scale
// and the bias of each row at `bias` and `low`; `unit` is 0 where these change nothing.
template <class S, class T, int columns> void mix(const Block& k) {
    typedef Compute<S, T> F;
    constexpr int P = row_step<F, T>;
    typedef Vec<F, P> Numbers;
    typedef Vec<Stored<T>, P> Results;
    const char *source = k.source, *weights = k.scale, *scales = k.bias, *biases = k.low;
    char* target = k.target;
    const int64_t pitch = k.source_pitch, target_pitch = k.target_pitch, rows = k.rows;
    auto constant = [](const char* values, int64_t at) INLINE_LAMBDA { return all<F, P>(load<F>(values + at * sizeof(F))); };
    auto read_rows = [&](int64_t at, Numbers* numbers) INLINE_LAMBDA {
        unrolled<columns>([&](auto c) INLINE_LAMBDA {
            numbers[c] = converted<S, F, P>(load<Vec<Stored<S>, P>>(source + c * pitch + at * sizeof(Stored<S>)));
        });
    };
    auto mixed = [&](const Numbers* numbers, const Numbers* weights, auto affine) INLINE_LAMBDA {
        Numbers total = numbers[0] * weights[0];
        unrolled<columns - 1>([&](auto c) INLINE_LAMBDA {
            Numbers product = numbers[c + 1] * weights[c + 1];
            total = total + product;
        });
        total = affine(total);
        if constexpr (is_float<T>) total = pick(is_nan(total), all<F, P>(F(__builtin_nan(""))), total);
        return converted<F, T, P>(total);
    };
    auto write = [&](int64_t row, int64_t at, Results results) INLINE_LAMBDA {
        store(target + row * target_pitch + at * sizeof(results[0]), results);
    };
    if (columns != 3 || rows != 3) return for_steps<P>(k.size, [&](int64_t at) INLINE_LAMBDA {
        Numbers numbers[columns], some[columns];
        read_rows(at, numbers);
        for (int64_t row = 0; row < rows; row++) {
            unrolled<columns>([&](auto c) INLINE_LAMBDA { some[c] = constant(weights, row * columns + c); });
            write(row, at, mixed(numbers, some, [&](Numbers x) INLINE_LAMBDA {
                return MultiplyAdd::of<F, P>(x, constant(scales, row), constant(biases, row), x, 0, 0);
            }));
        }
    });
    // The constants of three rows of three numbers stay in registers, and so do pixels of float32.
    if constexpr (columns == 3) {
        Numbers of_row[3][3], scale[3], bias[3];
        unrolled<3>([&](auto row) INLINE_LAMBDA {
            unrolled<3>([&](auto c) INLINE_LAMBDA { of_row[row][c] = constant(weights, row * 3 + c); });
            scale[row] = constant(scales, row); bias[row] = constant(biases, row);
        });
        auto steps = [&](auto read, auto written) INLINE_LAMBDA {
            auto by = [&](auto affine) INLINE_LAMBDA {
                for_steps<P>(k.size, [&](int64_t at) INLINE_LAMBDA {
                    Numbers numbers[3];
                    Results results[3];
                    read(at, numbers);
                    unrolled<3>([&](auto row) INLINE_LAMBDA {
                        results[row] = mixed(numbers, of_row[row], [&](Numbers x) INLINE_LAMBDA { return affine(x, row); });
                    });
                    written(at, results);
                });
            };
            if (k.unit == 0) by([](Numbers x, auto) INLINE_LAMBDA { return x; });
            else by([&](Numbers x, auto row) INLINE_LAMBDA { return MultiplyAdd::of<F, P>(x, scale[row], bias[row], x, 0, 0); });
        };
        auto write_rows = [&](int64_t at, const Results (&results)[3]) INLINE_LAMBDA {
            unrolled<3>([&](auto row) INLINE_LAMBDA { write(row, at, results[row]); });
        };
        if constexpr (same<T, float>) {
            constexpr int64_t pixel = 3 * sizeof(float);
            const bool to_pixels = k.target_step == pixel;
            auto write_pixels = [&](int64_t at, const Results (&from)[3]) INLINE_LAMBDA {
                put_together<float, 3, P>(from, target + at * pixel);
            };
            if constexpr (same<S, float>) if (k.source_step == pixel) {
                auto read_pixels = [&](int64_t at, Numbers (&to)[3]) INLINE_LAMBDA {
                    Numbers pieces[3];
                    take_apart<float, 3, P>(source + at * pixel, pieces);
                    unrolled<3>([&](auto c) INLINE_LAMBDA { to[c] = channel_of<float, 3, P, decltype(c)::value>(pieces); });
                };
                if (to_pixels) return steps(read_pixels, write_pixels);
                return steps(read_pixels, write_rows);
            }
            if (to_pixels) return steps(read_rows, write_pixels);
        }
        steps(read_rows, write_rows);
    }
}

struct PixelStage { Move move; int64_t rows, bytes; };  // rows, and bytes of an element, that the move writes
struct Stages {
    const char *scale, *bias, *low;
    int64_t constants_pitch;
    double unit;
    int64_t strip, count;
    PixelStage stage[6];
};
constexpr int64_t STRIP_BYTES = 8192;

// A strip through the stages. `k` has its source and size, and the target's pitch and step; `channel` is that of the
// first constants.
INLINE void run_stages(const Stages& s, Block& k, char (*tiles)[STRIP_BYTES], int64_t channel = 0) {
    char* const target = k.target;
    const int64_t pitch = k.target_pitch, step = k.target_step;
    const int64_t at = channel * s.constants_pitch;
    k.scale = s.scale + at; k.bias = s.bias + at; k.low = s.low + at; k.constants_pitch = s.constants_pitch; k.unit = s.unit;
    for (int64_t number = 0; number < s.count; number++) {
        const PixelStage& stage = s.stage[number];
        const bool ends = number == s.count - 1;
        k.rows = stage.rows;
        k.target = ends ? target : tiles[number & 1];
        k.target_pitch = ends ? pitch : s.strip * stage.bytes;
        k.target_step = ends ? step : stage.bytes;
        stage.move(k);
        k.source = k.target; k.source_pitch = k.target_pitch; k.source_step = stage.bytes;
    }
}

// The strips of a step or more of pixels by body(from, size). The last one is moved back to a whole step.
constexpr int64_t MOST_LANES = LINE / sizeof(float);
template <class Body> INLINE void for_strips(int64_t size, int64_t strip, Body body) {
    for (int64_t at = 0; at < size; at += strip) {
        int64_t rest = size - at < strip ? size - at : strip;
        if (rest < MOST_LANES) rest = MOST_LANES;
        body(size - at < rest ? size - rest : at, rest);
    }
}

// A side of a strip: `across` leads from a channel to the next. Lines of few pixels are copied to or from a tile, in
// which they are one line: `parts` of each, one or one of each channel, of `elements` a pixel.
struct Side { int64_t across; Move copy; int64_t parts, elements, bytes; };
struct Mixing { Stages stages; Side in, out; Grid grid; };  // `a`: lines, `b`: pixels

template <class Copy> INLINE void for_parts(const Side& side, int64_t strip, int64_t size, Copy copy) {
    for (int64_t part = 0; part < side.parts; part++) copy(part * side.across, part * strip * side.bytes, size * side.elements);
}

inline void mixing(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    const Mixing& p = *(const Mixing*)parameters;
    const Grid& grid = p.grid;
    const Side &in = p.in, &out = p.out;
    const int64_t strip = p.stages.strip;
    alignas(LINE) char tiles[2][STRIP_BYTES];
    for_items(grid, source, target, first, last, [&](const Item& item) INLINE_LAMBDA {
        Block k = {nullptr, nullptr, 0, 0, 0, 0, 0, 0, nullptr, nullptr, nullptr, 0, 0, 0, 0, 0};
        if (!in.copy) {
            for (int64_t line = 0; line < item.rows; line++) for_strips(item.size, strip, [&](int64_t at, int64_t size) INLINE_LAMBDA {
                k.source = item.source + line * grid.a.source + at * grid.b.source;
                k.target = item.target + line * grid.a.target + at * grid.b.target;
                k.source_pitch = in.across; k.source_step = grid.b.source;
                k.target_pitch = out.across; k.target_step = grid.b.target;
                k.size = size;
                run_stages(p.stages, k, tiles);
            });
            return;
        }
        auto copied = [&](const Side& side, const char* from, char* to, int64_t size, int64_t pitch, int64_t written) INLINE_LAMBDA {
            k.source = from; k.target = to; k.rows = item.rows; k.size = size;
            k.source_pitch = pitch; k.target_pitch = written;
            k.source_step = k.target_step = side.bytes;
            side.copy(k);
        };
        char *const read = tiles[1], *const written = tiles[(p.stages.count - 1) & 1];
        int64_t size = item.rows * item.size;
        for (; size < LINE; size++)  // steps are whole: zeros behind
            for_parts(in, strip, 1, [&](int64_t, int64_t at, int64_t elements) INLINE_LAMBDA {
                for (int64_t byte = 0; byte < elements * in.bytes; byte++)
                    *(volatile char*)(read + at + size * elements * in.bytes + byte) = 0;  // no call of memset
            });
        for_parts(in, strip, item.size, [&](int64_t there, int64_t here, int64_t elements) INLINE_LAMBDA {
            copied(in, item.source + there, read + here, elements, grid.a.source, elements * in.bytes);
        });
        k.source = read; k.target = written; k.size = size;
        k.source_pitch = strip * in.bytes; k.source_step = in.elements * in.bytes;
        k.target_pitch = strip * out.bytes; k.target_step = out.elements * out.bytes;
        run_stages(p.stages, k, tiles);
        for_parts(out, strip, item.size, [&](int64_t there, int64_t here, int64_t elements) INLINE_LAMBDA {
            copied(out, written + here, item.target + there, elements, elements * out.bytes, grid.a.target);
        });
    });
}
