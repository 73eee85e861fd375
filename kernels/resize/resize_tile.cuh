// One tile of a resized picture in shared memory: its taps, and both passes from rows of the source to the tile.
#pragma once
#include "indexing.cuh"
#include "resize_readers.cuh"
#include "resize_rules.cuh"

namespace sg {

struct ResizePolicy {
    ResizeArithmetic arithmetic;
    bool columns_first;       // the horizontal pass is the first one
    bool pixels;              // the target's channels lie side by side: a store takes neighbouring elements of pixels
    int store_bytes;          // of one access
    Channels affines, order;
};

// Places in shared memory, in bytes from its beginning, where the spans of the columns lie.
struct ResizeMemory {
    uint32 row_spans, column_weights, row_weights, stage, between, sums, result;
    uint32 stage_bytes;                              // of all rows of a chunk
    uint32 between_rows;                             // of a chunk at most, with the horizontal pass first
    uint32 between_pitch, sums_pitch, result_pitch;  // bytes of a row
    uint32 most_row_taps;
};

template <typename Reader, typename Conversion, ResizePolicy policy> struct ResizeParameters {
    const uint8* records;  // samples, then their taps
    uint8* target;
    const uint8* source;   // that samples' places count from
    const typename Conversion::Source* fill;  // one element for each channel of the source
    ChannelAffines<typename Conversion::Compute, policy.affines> affines;
    ChannelOrder<uint32, policy.order> order;                        // from a channel of the target to the source's
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
    // Elements between the passes that a thread adds up at once: their sums are 16 or 32 bytes of registers.
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

    // The weights of neighbouring columns lie side by side, those of a row together.
    __device__ __forceinline__ void read_taps() const {
        read_axis(sample.columns, columns, 0, p.memory.column_weights, 1, int32(p.tile_width));
        read_axis(sample.rows, rows, p.memory.row_spans, p.memory.row_weights, int32(p.memory.most_row_taps), 1);
    }

    // Both passes, from the source to the tile. Taps are there, and the picture has a part in the tile.
    __device__ __forceinline__ void resize() const {
        const Reader reader(p.source, sample, p.order, channel, channels_end);
        const int32 reached = columns.reach_end - columns.reach;
        const int32 pitch = (reached * Reader::pixel_bytes + Reader::most_skew + 15) & -16;
        int32 most = int32(p.memory.stage_bytes) / pitch;
        if constexpr (policy.columns_first) most = smaller(most, int32(p.memory.between_rows));
        for (int32 row = rows.reach; row < rows.reach_end; row += most) {
            const int32 some = smaller(most, rows.reach_end - row);
            const auto staged = [&](int32 r) { return at<uint8>(p.memory.stage) + r * pitch; };
            const auto staged_pixels = [&](int32 r) {
                return reinterpret_cast<const Element*>(staged(r) + reader.skew(sample, row + r, columns.reach));
            };
            for (int32 r = warp; r < some; r += warps) {
                reader.stage(staged(r), sample, row + r, columns.reach, columns.reach_end, lane);
            }
            __syncthreads();
            if constexpr (policy.columns_first) {
                across<First>(some, staged_pixels, [&](int32 r) { return between(r); });
                __syncthreads();
                down<Second, elements_at_once>(row, row + some, slots_end(),
                                               [&](int32 r) { return between(r); }, [&](int32 y) { return result(y); });
            } else {
                down<First, 1>(row, row + some, reached * count, staged_pixels, [&](int32 y) { return between(y); });
                __syncthreads();
            }
        }
        if constexpr (!policy.columns_first) {
            across<Second>(rows.count, [&](int32 y) { return between(y); }, [&](int32 y) { return result(y); });
        }
    }

    // The tile's row, whose elements lie in the order of the target's.
    __device__ __forceinline__ Element* result(int32 y) const {
        return at<Element>(p.memory.result + uint32(y) * p.memory.result_pitch);
    }
    // Where an element of the tile's pixel `x` lies in its row; channels are those of the reader.
    __device__ __forceinline__ int32 slot(int32 x, int32 c) const {
        return policy.pixels ? x * count + c : c * int32(p.tile_width) + x;
    }

  private:
    template <typename T> __device__ __forceinline__ T* at(uint32 bytes) const {
        return reinterpret_cast<T*>(memory + bytes);
    }
    __device__ __forceinline__ Between* between(int32 row) const {
        return at<Between>(p.memory.between + uint32(row) * p.memory.between_pitch);
    }
    // Behind the last one that belongs to the picture.
    __device__ __forceinline__ int32 slots_end() const {
        return slot(columns.skipped + columns.count - 1, count - 1) + 1;
    }

    __device__ __forceinline__ void read_axis(const ResizeAxis& axis, const TileAxis& part, uint32 spans_at,
                                              uint32 weights_at, int32 pixel_step, int32 tap_step) const {
        const TapSpan* spans = reinterpret_cast<const TapSpan*>(p.records + axis.spans) + part.first;
        const Weight* weights =
            reinterpret_cast<const Weight*>(p.records + axis.weights) + int64(part.first) * axis.taps;
#pragma unroll 1
        for (int32 i = int32(threadIdx.x); i < part.count; i += threads) at<TapSpan>(spans_at)[i] = spans[i];
#pragma unroll 1
        for (int32 i = warp; i < part.count; i += warps) {
#pragma unroll 1
            for (int32 k = lane; k < axis.taps; k += 32) {
                at<Weight>(weights_at)[i * pixel_step + k * tap_step] = weights[int64(i) * axis.taps + k];
            }
        }
    }

    // The horizontal pass over some rows: a thread makes all channels of one column in a few rows, which share weights.
    template <typename Pass, typename Input, typename Output>
    __device__ __forceinline__ void across(int32 some, Input input, Output output) const {
        const int32 blocks = (columns.count + 31) / 32, items = (some + rows_at_once - 1) / rows_at_once * blocks;
        for (int32 item = warp; item < items; item += warps) {
            const int32 first = item / blocks * rows_at_once, x = item % blocks * 32 + lane;
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
            for (int32 k = 0; k < span.count; ++k) {
                const Weight weight = weights[k * int32(p.tile_width)];
#pragma unroll
                for (int i = 0; i < rows_at_once; ++i) {
#pragma unroll
                    for (int c = 0; c < count; ++c) sums[i][c] = Pass::add(sums[i][c], weight, from[i][k * count + c]);
                }
            }
#pragma unroll
            for (int i = 0; i < rows_at_once; ++i) {
                if (first + i >= some) break;
                auto* const to = output(first + i);
#pragma unroll
                for (int c = 0; c < count; ++c) {
                    typename Pass::To made = Pass::finish(sums[i][c], sample.factor);
                    if constexpr (Pass::keeps_copies) made = sample.columns.copies ? from[i][c] : made;
                    to[slot(x + columns.skipped, c)] = made;
                }
            }
        }
    }

    // The vertical pass over rows from `row` up to `row_end`: their share is added to the sums of each row of the tile.
    template <typename Pass, int N, typename Input, typename Output>
    __device__ __forceinline__ void down(int32 row, int32 row_end, int32 elements, Input input, Output output) const {
        using Sum = typename Pass::Sum;
        using From = Vector<typename Pass::From, N>;
        using To = Vector<typename Pass::To, N>;
        const bool is_first = row == rows.reach, is_last = row_end == rows.reach_end;
        for (int32 y = warp; y < rows.count; y += warps) {
            const TapSpan span = at<TapSpan>(p.memory.row_spans)[y];
            const int32 begin = larger(row - span.first, 0), end = smaller(row_end - span.first, span.count);
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
                for (int32 k = begin; k < end; ++k) {
                    const Weight weight = weights[k];
                    const From from = load<From>(input(span.first + k - row) + e);
#pragma unroll
                    for (int i = 0; i < N; ++i) sums[i] = Pass::add(sums[i], weight, from.get(i));
                }
                To made{};
#pragma unroll
                for (int i = 0; i < N; ++i) {
                    if (is_last) made.set(i, Pass::finish(sums[i], sample.factor));
                    else kept[i] = sums[i];
                }
                if (is_last) store(output(y) + e, made);
            }
        }
    }
};

}  // namespace sg
