// How rows of a source get into shared memory: by runs of elements as they lie, or element by element.
//
// A reader is a type, so that other sources, such as planes of luma and chroma, can be read as pixels, too. The 32
// lanes of a warp call its `stage`, which leaves the pixels from `first` up to `stop` of one row, `count` elements
// each, `skew(…)` bytes behind `row_memory`. Pixels beyond the source's edges are repetitions of those at the edge.
#pragma once
#include "channel_constants.cuh"
#include "resize_samples.cuh"
#include "vectors.cuh"

namespace sg {

// Pixels whose elements follow each other, or one plane: rows are runs. The run's bytes keep their place in 16 bytes,
// so that whatever address a row begins at, all but its ends moves as aligned vectors, and nothing beyond it is read.
template <typename Element_, int Count> struct RunReader {
    using Element = Element_;
    static constexpr int count = Count;
    static constexpr int pixel_bytes = Count * int(sizeof(Element));
    static constexpr int most_skew = 16;
    static constexpr bool whole = Count > 1;  // all channels of the source, in its order

    uint64 pixel;  // the address of channel 0 of pixel (0, 0)
    int64 row_bytes;

    template <typename Order>
    __device__ __forceinline__ RunReader(const uint8* source, const ResizeSample& sample, const Order& order,
                                         uint32 channel, uint32)
        : pixel(uint64(source) + sample.pixel), row_bytes(sample.row_stride * int64(sizeof(Element))) {
        // Of planes, each block has one; of pixels, all channels as they lie.
        if constexpr (Count == 1) {
            pixel += uint64(int64(order.source_offset(channel)) * sample.channel_stride * int64(sizeof(Element)));
        }
    }

    __device__ __forceinline__ int32 skew(const ResizeSample& sample, int32 row, int32 first) const {
        return int32(address(sample, row, first) & (most_skew - 1));
    }

    __device__ __forceinline__ void stage(uint8* row_memory, const ResizeSample& sample, int32 row, int32 first,
                                          int32 stop, int32 lane) const {
        // All places in bytes from pixel `first`, which may lie beyond the edge.
        const uint64 start = address(sample, row, first);
        const uint8* const from = reinterpret_cast<const uint8*>(start);
        uint8* const to = row_memory + int32(start & (most_skew - 1));
        const int32 inside = clamped(first, sample.columns), inside_end = clamped(stop - 1, sample.columns) + 1;
        const int32 begin = (inside - first) * pixel_bytes, end = (inside_end - first) * pixel_bytes;
        const int32 vectors = begin + int32(-(start + begin) & (most_skew - 1));
        const int32 vectors_end = end - int32((start + end) & (most_skew - 1));
#pragma unroll 1
        for (int32 byte = vectors + 16 * lane; byte < vectors_end; byte += 16 * 32) {
            store(to + byte, load_global<Vector<uint32, 4>>(from + byte));
        }
        // The ends, or all of a run that no aligned vector lies in.
        const bool has_vectors = vectors < vectors_end;
        const int32 head = has_vectors ? vectors : end, tail = has_vectors ? vectors_end : end;
        const int32 head_bytes = head - begin, ends = head_bytes + end - tail;
        constexpr int32 step = int32(sizeof(Element));
#pragma unroll 1
        for (int32 i = lane * step; i < ends; i += 32 * step) {
            const int32 byte = i < head_bytes ? begin + i : tail + i - head_bytes;
            store(to + byte, load<Element>(from + byte));
        }
        // Beyond the edges.
        const int32 beyond = begin + (stop - inside_end) * pixel_bytes;
#pragma unroll 1
        for (int32 i = lane * step; i < beyond; i += 32 * step) {
            const bool is_left = i < begin;
            const int32 place = is_left ? i : i - begin, edge = is_left ? begin : end - pixel_bytes;
            store(to + (is_left ? place : end + place), load<Element>(from + edge + place % pixel_bytes));
        }
    }

  private:
    __device__ __forceinline__ uint64 address(const ResizeSample& sample, int32 row, int32 first) const {
        return pixel + uint64(clamped(row, sample.rows) * row_bytes) + uint64(int64(first) * pixel_bytes);
    }
};

// Pixels of any strides: Count of the output's channels, from `channel` on, each element by itself.
template <typename Element_, int Count> struct ElementReader {
    using Element = Element_;
    static constexpr int count = Count;
    static constexpr int pixel_bytes = Count * int(sizeof(Element));
    static constexpr int most_skew = 0;
    static constexpr bool whole = false;

    const Element* channels[Count];

    template <typename Order>
    __device__ __forceinline__ ElementReader(const uint8* source, const ResizeSample& sample, const Order& order,
                                             uint32 channel, uint32 channels_end) {
#pragma unroll
        for (int c = 0; c < Count; ++c) {
            const uint32 chosen = channel + c < channels_end ? channel + c : channel;
            const int64 offset = int64(order.source_offset(chosen)) * sample.channel_stride * int64(sizeof(Element));
            channels[c] = reinterpret_cast<const Element*>(uint64(source) + sample.pixel + uint64(offset));
        }
    }

    __device__ __forceinline__ int32 skew(const ResizeSample&, int32, int32) const { return 0; }

    __device__ __forceinline__ void stage(uint8* row_memory, const ResizeSample& sample, int32 row, int32 first,
                                          int32 stop, int32 lane) const {
        const int64 offset = clamped(row, sample.rows) * sample.row_stride;
        for (int32 x = first + lane; x < stop; x += 32) {
            const int64 element = offset + clamped(x, sample.columns) * sample.column_stride;
#pragma unroll
            for (int c = 0; c < Count; ++c) {
                uint8* const to = row_memory + (x - first) * pixel_bytes + c * int32(sizeof(Element));
                store(to, load<Element>(channels[c] + element));
            }
        }
    }
};

}  // namespace sg
