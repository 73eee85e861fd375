// One tile of a resized image in shared memory: its taps, and both passes from source rows to the tile.
#pragma once
#include "indexing.cuh"
#include "resize_readers.cuh"
#include "resize_rules.cuh"

namespace sg {

struct ResizePolicy {
    ResizeArithmetic arithmetic;
    bool columns_first;       // the horizontal pass is the first one
    bool pixels;              // the target is interleaved: a store takes adjacent elements of pixels
    bool premultiplies;       // alpha, the last channel, weights the others
    int store_bytes;          // of one access
    Channels affines, order;
};

// Offsets in shared memory, in bytes. The spans of the columns are at offset 0.
struct ResizeMemory {
    uint32 row_spans, column_weights, row_weights, starts, stage, between, sums, result;
    uint32 chunk_rows;                                            // source rows in shared memory together
    uint32 stage_pitch, between_pitch, sums_pitch, result_pitch;  // bytes of a row
    uint32 most_row_taps;
};

template <typename Reader, typename Conversion, ResizePolicy policy> struct ResizeParameters {
    const uint8* records;  // samples, then their taps
    uint8* target;
    const uint8* source;   // the base of the offsets in samples
    const typename Conversion::Source* fill;  // one element for each channel of the source
    ChannelAffines<typename Conversion::Compute, policy.affines> affines;
    ChannelOrder<uint32, policy.order> order;                        // from target channels to source channels
    int64 offset, sample_stride, channel_stride, row_stride, column_stride;  // of the target, in elements
    Divisor<uint32> columns, rows, groups;                           // tiles across and down a window; of channels
    Divisor<uint32> vectors, channels;                               // of a row of a tile; of the target
    uint32 height, width;                                            // of a window
    uint32 tile_height, tile_width;
    ResizeMemory memory;
};

template <typename Reader, typename Conversion, ResizePolicy policy> struct ResizeTile {
    using Element = typename Reader::Element;
    using Passes = ResizePasses<policy.arithmetic, Element>;
    using First = typename Passes::First;
    using Second = typename Passes::Second;
    using Between = typename First::To;
    using Weight = typename First::Weight;
    static constexpr int count = Reader::count;
    static constexpr int threads = 256, warps = threads / 32;
    static constexpr int rows_at_once = sizeof(Weight) == 8 ? 2 : 4;
    // Elements between the passes that a thread sums at once: their sums take 16 or 32 bytes of registers.
    static constexpr int elements_at_once = sizeof(Between) == 1 ? 8 : 4;

    const ResizeParameters<Reader, Conversion, policy>& p;
    const ResizeSample& sample;
    const uint32 channel, channels_end;  // of the target
    const TileAxis rows, columns;
    const int32 warp, lane;
    unsigned char* const memory;

    __device__ __forceinline__ ResizeTile(const ResizeParameters<Reader, Conversion, policy>& parameters,
                                          const ResizeSample& one, uint32 group, int32 top, int32 left)
        : p(parameters), sample(one), channel(group * count),
          channels_end(p.groups.divisor == 1 ? p.channels.divisor
                                             : uint32(smaller(int32(channel) + count, int32(p.channels.divisor)))),
          rows(p.records, sample.rows, top, int32(p.tile_height), sample.top, sample.height),
          columns(p.records, sample.columns, left, int32(p.tile_width), sample.left, sample.width),
          warp(int32(threadIdx.x) / 32), lane(int32(threadIdx.x) % 32), memory(dynamic_shared_memory()) {}

    // The weights of adjacent columns are contiguous for each tap; the weights of a row are contiguous.
    __device__ __forceinline__ void read_taps() const {
        const LoadedTaps<2> along(*this, sample.columns, columns);
        const LoadedTaps<1> down(*this, sample.rows, rows);
        keep_accesses_in_order();
        along.keep(*this, 0, p.memory.column_weights, 1, int32(p.tile_width));
        down.keep(*this, p.memory.row_spans, p.memory.row_weights, int32(p.memory.most_row_taps), 1);
    }

    // Both passes, from the source to the tile. Taps are in shared memory, and the image overlaps the tile.
    __device__ __forceinline__ void resize() const {
        const Reader reader(p.source, p.records, sample, p.order, channel, channels_end);
        const auto to_between = [&](int32 r) { return between(r); };
        const auto to_result = [&](int32 y) { return result(y); };
        const int32 chunk_rows = int32(p.memory.chunk_rows);
        const PixelRange inside = {clamped(columns.reach, sample.columns),
                                   clamped(columns.reach_end - 1, sample.columns) + 1};
        // Elements before the first column inside the image, and their bytes in whole vectors.
        const int32 missing = (inside.first - columns.reach) * count;
        const uint32 place = (uint32(missing) * uint32(sizeof(Element)) + 15u) & ~15u;
        for (int32 row = rows.reach; row < rows.reach_end; row += chunk_rows) {
            const int32 some = smaller(chunk_rows, rows.reach_end - row);
            for (int32 r = warp; r < some; r += warps * Reader::rows_at_once) {
                reader.stage({at<uint8>(p.memory.stage), p.memory.stage_pitch, r, warps, some, row}, sample, inside,
                             place, lane);
            }
            // Rows begin with the first column that taps reach, inside the image or not.
            for (int32 r = int32(threadIdx.x); r < some; r += threads) {
                at<uint32>(p.memory.starts)[r] = p.memory.stage + uint32(r) * p.memory.stage_pitch + place +
                                                 reader.skew(sample, row + r, inside) -
                                                 uint32(missing) * uint32(sizeof(Element));
            }
            __syncthreads();
            const auto staged = [&](int32 r) { return at<Element>(at<uint32>(p.memory.starts)[r]); };
            if (missing > 0 || columns.reach_end > inside.stop) {
                for (int32 r = warp; r < some; r += warps) repeat_edges(staged(r), missing, inside);
                __syncthreads();
            }
            if constexpr (policy.premultiplies) {
                if (has_pass()) premultiply(some, staged);
                __syncthreads();
            }
            if constexpr (policy.columns_first) {
                across<First>(some, staged, to_between);
                __syncthreads();
                down<Second, elements_at_once>(row, row + some, slots_end(), to_between, to_result);
            } else {
                down<First, 1>(row, row + some, (columns.reach_end - columns.reach) * count, staged, to_between);
                __syncthreads();
            }
        }
        if constexpr (!policy.columns_first) across<Second>(rows.count, to_between, to_result);
    }

    // Divides colours by alpha, rounded down, at most 255. With alpha 0 or 255 they are unchanged.
    __device__ __forceinline__ void divide() const {
        __syncthreads();
        if (!has_pass()) return;
        for (int32 y = warp; y < rows.count; y += warps) {
            Element* const row = result(y);
            for (int32 x = columns.skipped + lane; x < columns.skipped + columns.count; x += 32) {
                const uint32 alpha = row[slot(x, count - 1)];
                if (alpha == 0 || alpha == 255) continue;
#pragma unroll
                for (int c = 0; c < count - 1; ++c) {
                    const uint32 color = row[slot(x, c)] * 255u / alpha;
                    row[slot(x, c)] = Element(color < 255u ? color : 255u);
                }
            }
        }
    }

    // A row of the tile, with elements in the order of the target.
    __device__ __forceinline__ Element* result(int32 y) const {
        return at<Element>(p.memory.result + uint32(y) * p.memory.result_pitch);
    }
    // The position in its row of an element of the tile's pixel `x`; channels are those of the reader.
    __device__ __forceinline__ int32 slot(int32 x, int32 c) const {
        return policy.pixels ? x * count + c : c * int32(p.tile_width) + x;
    }

  private:
    __device__ __forceinline__ bool has_pass() const { return !(sample.rows.copies && sample.columns.copies); }
    // Multiplies the colours of staged rows by alpha, rounded as by Pillow's MULDIV255.
    template <typename Input> __device__ __forceinline__ void premultiply(int32 some, Input staged) const {
        for (int32 r = warp; r < some; r += warps) {
            Element* pixel = staged(r) + lane * count;
            for (int32 x = columns.reach + lane; x < columns.reach_end; x += 32, pixel += 32 * count) {
                const uint32 alpha = pixel[count - 1];
#pragma unroll
                for (int c = 0; c < count - 1; ++c) {
                    const uint32 product = pixel[c] * alpha + 128u;
                    pixel[c] = Element(((product >> 8) + product) >> 8);
                }
            }
        }
    }
    template <typename T> __device__ __forceinline__ T* at(uint32 bytes) const {
        return reinterpret_cast<T*>(memory + bytes);
    }
    __device__ __forceinline__ Between* between(int32 row) const {
        return at<Between>(p.memory.between + uint32(row) * p.memory.between_pitch);
    }
    // One past the last one that belongs to the image.
    __device__ __forceinline__ int32 slots_end() const {
        return slot(columns.skipped + columns.count - 1, count - 1) + 1;
    }

    // A thread's part of the taps of an axis: loaded first, and stored when those of both axes are on their way. Eight
    // lanes have a pixel's weights, `Turns` pixels one after another and 16 weights of each; what is more is read
    // singly.
    template <int Turns> struct LoadedTaps {
        static constexpr int32 lanes = 8, pixels = threads / lanes, loads = 2;
        const TapSpan* const spans;
        const Weight* const weights;
        const int32 count, taps;
        TapSpan span;
        Weight loaded[Turns][loads];

        __device__ __forceinline__ LoadedTaps(const ResizeTile& tile, const ResizeAxis& axis, const TileAxis& part)
            : spans(reinterpret_cast<const TapSpan*>(tile.p.records + axis.spans) + part.first),
              weights(reinterpret_cast<const Weight*>(tile.p.records + axis.weights) + int64(part.first) * axis.taps),
              count(part.count), taps(axis.taps) {
            span = spans[smaller(int32(threadIdx.x), count - 1)];
#pragma unroll
            for (int32 turn = 0; turn < Turns; ++turn) {
#pragma unroll
                for (int32 load = 0; load < loads; ++load) {
                    const int32 i = smaller(pixel(turn), count - 1), k = smaller(tap(load), taps - 1);
                    loaded[turn][load] = weights[int64(i) * taps + k];
                }
            }
        }

        __device__ __forceinline__ void keep(const ResizeTile& tile, uint32 spans_at, uint32 weights_at,
                                             int32 pixel_step, int32 tap_step) const {
            TapSpan* const kept_spans = tile.template at<TapSpan>(spans_at);
            Weight* const kept = tile.template at<Weight>(weights_at);
            if (int32(threadIdx.x) < count) kept_spans[threadIdx.x] = span;
#pragma unroll
            for (int32 turn = 0; turn < Turns; ++turn) {
#pragma unroll
                for (int32 load = 0; load < loads; ++load) {
                    if (has(turn, load)) kept[pixel(turn) * pixel_step + tap(load) * tap_step] = loaded[turn][load];
                }
            }
            if (count <= Turns * pixels && taps <= loads * lanes) return;
#pragma unroll 1
            for (int32 i = int32(threadIdx.x) + threads; i < count; i += threads) kept_spans[i] = spans[i];
#pragma unroll 1
            for (int32 i = pixel(0); i < count; i += pixels) {
#pragma unroll 1
                for (int32 k = tap(i < Turns * pixels ? loads : 0); k < taps; k += lanes) {
                    kept[i * pixel_step + k * tap_step] = weights[int64(i) * taps + k];
                }
            }
        }

      private:
        static __device__ __forceinline__ int32 pixel(int32 turn) { return int32(threadIdx.x) / lanes + turn * pixels; }
        static __device__ __forceinline__ int32 tap(int32 load) { return int32(threadIdx.x) % lanes + load * lanes; }
        __device__ __forceinline__ bool has(int32 turn, int32 load) const {
            return pixel(turn) < count && tap(load) < taps;
        }
    };

    // Fills in the pixels beyond the source's edges, in one row of shared memory.
    __device__ __forceinline__ void repeat_edges(Element* row, int32 missing, const PixelRange& inside) const {
        const int32 stop = missing + (inside.stop - inside.first) * count;
        const int32 end = (columns.reach_end - columns.reach) * count;
        for (int32 e = lane; e < missing; e += 32) row[e] = row[missing + e % count];
        for (int32 e = stop + lane; e < end; e += 32) row[e] = row[stop - count + (e - stop) % count];
    }

    // The horizontal pass over some rows. A thread computes all channels of one column in a few rows with its weights.
    template <typename Pass, typename Input, typename Output>
    __device__ __forceinline__ void across(int32 some, Input input, Output output) const {
        // A tile has up to 64 columns: two warps.
        const int32 halves = columns.count > 32, items = (some + rows_at_once - 1) / rows_at_once << halves;
        for (int32 item = warp; item < items; item += warps) {
            const int32 first = (item >> halves) * rows_at_once, x = (item & halves) * 32 + lane;
            if (x >= columns.count) continue;
            const typename Pass::From* from[rows_at_once];
            const TapSpan span = at<TapSpan>(0)[x];
            const Weight* weights = at<Weight>(p.memory.column_weights) + x;
            typename Pass::Sum sums[rows_at_once][count];
#pragma unroll
            for (int i = 0; i < rows_at_once; ++i) {
                from[i] = input(smaller(first + i, some - 1)) + (span.first - columns.reach) * count;
#pragma unroll
                for (int c = 0; c < count; ++c) sums[i][c] = Pass::start();
            }
            const Weight* const fused = weights + rounded_taps<Pass>(span.count) * int32(p.tile_width);
            // Taps are few: the remainder of an unrolled loop would cost more than unrolling saves.
#pragma unroll 1
            for (const Weight* const end = weights + span.count * int32(p.tile_width); weights != end;
                 weights += p.tile_width) {
                const Weight weight = *weights;
#pragma unroll
                for (int i = 0; i < rows_at_once; ++i) {
#pragma unroll
                    for (int c = 0; c < count; ++c) {
                        sums[i][c] = Pass::add(sums[i][c], weight, from[i][c], weights >= fused);
                    }
                    from[i] += count;
                }
            }
#pragma unroll
            for (int i = 0; i < rows_at_once; ++i) {
                if (first + i >= some) break;
                auto* const to = output(first + i);
#pragma unroll
                for (int c = 0; c < count; ++c) {
                    typename Pass::To made = Pass::finish(sums[i][c], sample.factor);
                    if constexpr (Pass::keeps_copies) made = sample.columns.copies ? (from[i] - count)[c] : made;
                    to[slot(x + columns.skipped, c)] = made;
                }
            }
        }
    }

    __device__ __forceinline__ const Between* below(const Between* element) const {
        return reinterpret_cast<const Between*>(reinterpret_cast<const uint8*>(element) + p.memory.between_pitch);
    }

    // An element of a vector: a byte of a word in one instruction, where a shift and a mask are two.
    template <typename V> static __device__ __forceinline__ auto one_of(const V& vector, int i) {
        if constexpr (is_same<typename V::Element, uint8> && V::bytes >= 4) {
            return int32(__byte_perm(vector.word[i / 4], 0, 0x4440 + i % 4));
        } else {
            return vector.get(i);
        }
    }

    template <typename Pass, int N>
    __device__ __forceinline__ Vector<typename Pass::To, N> finished(const typename Pass::Sum (&sums)[N]) const {
        Vector<typename Pass::To, N> made{};
        if constexpr (Pass::saturates && N % 4 == 0) {
#pragma unroll
            for (int w = 0; w < N / 4; ++w) {
                int32 whole[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) whole[i] = Pass::whole(sums[w * 4 + i]);
                made.word[w] = saturated_word<uint8>(whole);
            }
        } else {
#pragma unroll
            for (int i = 0; i < N; ++i) made.set(i, Pass::finish(sums[i], sample.factor));
        }
        return made;
    }

    // The vertical pass over rows `row` to `row_end`: adds their terms to the sums of each row of the tile.
    template <typename Pass, int N, typename Input, typename Output>
    __device__ __forceinline__ void down(int32 row, int32 row_end, int32 elements, Input input, Output output) const {
        using Sum = typename Pass::Sum;
        using From = Vector<typename Pass::From, N>;
        using To = Vector<typename Pass::To, N>;
        const bool is_first = row == rows.reach, is_last = row_end == rows.reach_end;
        for (int32 y = warp; y < rows.count; y += warps) {
            const TapSpan span = at<TapSpan>(p.memory.row_spans)[y];
            const int32 begin = larger(row - span.first, 0), end = smaller(row_end - span.first, span.count);
            const int32 fused = rounded_taps<Pass>(span.count);
            const Weight* weights = at<Weight>(p.memory.row_weights) + y * int32(p.memory.most_row_taps);
            for (int32 e = lane * N; e < elements; e += 32 * N) {
                if constexpr (Pass::keeps_copies) {
                    if (sample.rows.copies) {
                        if (begin < end) store(output(y) + e, bit_cast<To>(load<From>(input(span.first - row) + e)));
                        continue;
                    }
                }
                Sum* const kept = at<Sum>(p.memory.sums + uint32(y) * p.memory.sums_pitch) + e;
                Sum sums[N];
#pragma unroll
                for (int i = 0; i < N; ++i) sums[i] = is_first ? Pass::start() : kept[i];
                const auto* from = input(span.first + begin - row) + e;
#pragma unroll 1
                for (int32 k = begin; k < end; ++k) {
                    const Weight weight = weights[k];
                    const From elements = load<From>(from);
#pragma unroll
                    for (int i = 0; i < N; ++i) sums[i] = Pass::add(sums[i], weight, one_of(elements, i), k >= fused);
                    // Rows between the passes have one pitch; source rows may begin inside a vector.
                    if constexpr (policy.columns_first) from = below(from);
                    else if (k + 1 < end) from = input(span.first + k + 1 - row) + e;
                }
                if (is_last) {
                    store(output(y) + e, finished<Pass>(sums));
                } else {
#pragma unroll
                    for (int i = 0; i < N; ++i) kept[i] = sums[i];
                }
            }
        }
    }
};

}  // namespace sg
