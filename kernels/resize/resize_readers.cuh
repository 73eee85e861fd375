// Readers stage rows of a source in shared memory: as runs of elements, element by element, or as colours of frames.
//
// A reader is a template argument. The 32 lanes of a warp call its `stage`, which writes up to `rows_at_once` rows of
// pixels, `count` elements each. Only pixels in `inside` are loaded. `place` is the offset of the first of them in its
// row's memory, a multiple of 16 bytes; a row begins `skew` bytes after it.
#pragma once
#include "channel_constants.cuh"
#include "frame_groups.cuh"
#include "resize_samples.cuh"
#include "vectors.cuh"

namespace sg {

// The rows of shared memory that a warp fills: every `step`-th of `count` rows, from `first` on.
struct StagedRows {
    uint8* memory;
    uint32 pitch;
    int32 first, step, count;
    int32 source;  // the source's row that row 0 is

    __device__ __forceinline__ uint8* row(int32 r) const { return memory + uint32(r) * pitch; }
};

// Interleaved pixels, or one plane: rows are runs. A run is loaded as the aligned vectors that contain it, and keeps
// its offset modulo 16 bytes, so it may begin at any address. A vector that reaches outside the image's memory is
// loaded element by element, which only a warp with such a row looks for. The loads of all rows of a warp are issued
// before the first is used.
template <typename Element_, int Count> struct RunReader {
    using Element = Element_;
    static constexpr int count = Count;
    static constexpr int pixel_bytes = Count * int(sizeof(Element));
    static constexpr int rows_at_once = 4;
    static constexpr bool has_runs = true;
    static constexpr bool whole = Count > 1;  // all channels of the source, in its order

    uint64 pixel;  // the address of channel 0 of pixel (0, 0)
    uint64 begin, end;
    int64 row_bytes;

    template <typename Order>
    __device__ __forceinline__ RunReader(const uint8* source, const uint8*, const ResizeSample& sample,
                                         const Order& order, uint32 channel, uint32)
        : pixel(uint64(source) + sample.pixel), begin(uint64(source) + sample.begin), end(uint64(source) + sample.end),
          row_bytes(sample.row_stride * int64(sizeof(Element))) {
        // Planes: one for each block. Pixels: all channels as stored.
        if constexpr (Count == 1) {
            pixel += uint64(int64(order.source_offset(channel)) * sample.channel_stride * int64(sizeof(Element)));
        }
    }

    __device__ __forceinline__ uint32 skew(const ResizeSample& sample, int32 row, const PixelRange& inside) const {
        const uint32 low = uint32(pixel) + uint32(inside.first) * pixel_bytes;
        return (low + uint32(clamped(row, sample.rows)) * uint32(row_bytes)) & 15u;
    }

    __device__ __forceinline__ void stage(const StagedRows& rows, const ResizeSample& sample, const PixelRange& inside,
                                          uint32 place, int32 lane) const {
        const uint32 run = uint32(inside.stop - inside.first) * pixel_bytes;
        // The rows lie in memory between the first one and the last.
        const int32 last = smaller(rows.first + (rows_at_once - 1) * rows.step, rows.count - 1);
        const uint64 one = start(rows, sample, inside, rows.first), other = start(rows, sample, inside, last);
        if (begin_of(one) < begin || end_of(one, run) > end || begin_of(other) < begin || end_of(other, run) > end) {
            stage_near_ends(rows, sample, inside, place, lane, run);
            return;
        }
        const uint8* from[rows_at_once];
        uint32 stop[rows_at_once];  // bytes from the first vector's begin to the run's end
#pragma unroll
        for (int i = 0; i < rows_at_once; ++i) {
            const int32 r = rows.first + i * rows.step;
            const uint64 first = start(rows, sample, inside, r);
            from[i] = reinterpret_cast<const uint8*>(begin_of(first));
            stop[i] = r < rows.count ? uint32(first & 15) + run : 0;
        }
        uint8* const to = rows.row(rows.first) + place;
#pragma unroll 1
        for (uint32 byte = uint32(lane) * 16; byte < run + 15; byte += 32 * 16) {
            Vector<uint32, 4> vectors[rows_at_once];
#pragma unroll
            for (int i = 0; i < rows_at_once; ++i) {
                if (byte < stop[i]) vectors[i] = load_global<Vector<uint32, 4>>(from[i] + byte);
            }
#pragma unroll
            for (int i = 0; i < rows_at_once; ++i) {
                if (byte < stop[i]) store(to + uint32(i * rows.step) * rows.pitch + byte, vectors[i]);
            }
        }
    }

  private:
    // The vectors that contain a run.
    static __device__ __forceinline__ uint64 begin_of(uint64 first) { return first & ~uint64(15); }
    static __device__ __forceinline__ uint64 end_of(uint64 first, uint32 run) {
        return (first + run + 15) & ~uint64(15);
    }

    // The same where some vectors may reach outside the image's memory, one row after another.
    __device__ __forceinline__ void stage_near_ends(const StagedRows& rows, const ResizeSample& sample,
                                                    const PixelRange& inside, uint32 place, int32 lane,
                                                    uint32 run) const {
        const int32 rows_end = smaller(rows.count, rows.first + rows_at_once * rows.step);
#pragma unroll 1
        for (int32 r = rows.first; r < rows_end; r += rows.step) {
            const uint64 first = start(rows, sample, inside, r);
#pragma unroll 1
            for (uint32 byte = uint32(lane) * 16; byte < uint32(first & 15) + run; byte += 32 * 16) {
                const uint64 address = begin_of(first) + byte;
                uint8* const to = rows.row(r) + place + byte;
                if (address >= begin && address + 16 <= end) {
                    store(to, load_global<Vector<uint32, 4>>(reinterpret_cast<const uint8*>(address)));
                    continue;
                }
#pragma unroll 1
                for (uint32 i = 0; i < 16; i += uint32(sizeof(Element))) {
                    if (address + i < begin || address + i + sizeof(Element) > end) continue;
                    store(to + i, load<Element>(reinterpret_cast<const uint8*>(address + i)));
                }
            }
        }
    }

    __device__ __forceinline__ uint64 start(const StagedRows& rows, const ResizeSample& sample,
                                            const PixelRange& inside, int32 r) const {
        return pixel + uint64(inside.first) * pixel_bytes + uint64(clamped(rows.source + r, sample.rows) * row_bytes);
    }
};

// Pixels of any strides: Count output channels from `channel` on, loaded element by element.
template <typename Element_, int Count> struct ElementReader {
    using Element = Element_;
    static constexpr int count = Count;
    static constexpr int rows_at_once = 1;
    static constexpr bool has_runs = false;
    static constexpr bool whole = false;

    const Element* channels[Count];

    template <typename Order>
    __device__ __forceinline__ ElementReader(const uint8* source, const uint8*, const ResizeSample& sample,
                                             const Order& order, uint32 channel, uint32 channels_end) {
#pragma unroll
        for (int c = 0; c < Count; ++c) {
            const uint32 chosen = channel + c < channels_end ? channel + c : channel;
            const int64 offset = int64(order.source_offset(chosen)) * sample.channel_stride * int64(sizeof(Element));
            channels[c] = reinterpret_cast<const Element*>(uint64(source) + sample.pixel + uint64(offset));
        }
    }

    __device__ __forceinline__ uint32 skew(const ResizeSample&, int32, const PixelRange&) const { return 0; }

    __device__ __forceinline__ void stage(const StagedRows& rows, const ResizeSample& sample, const PixelRange& inside,
                                          uint32 place, int32 lane) const {
        const int64 offset = clamped(rows.source + rows.first, sample.rows) * sample.row_stride;
        Element* const to = reinterpret_cast<Element*>(rows.row(rows.first) + place);
        for (int32 x = inside.first + lane; x < inside.stop; x += 32) {
            const int64 element = offset + x * sample.column_stride;
#pragma unroll
            for (int c = 0; c < Count; ++c) {
                store(to + (x - inside.first) * Count + c, load<Element>(channels[c] + element));
            }
        }
    }
};

// Frames: red, green and blue are staged as packed pixels, and are rounded and clamped as they would be in memory.
//
// A lane makes the eight pixels of a group, if their samples are aligned vectors. Of other frames, and of the last
// pixels of a row that are no whole group, it makes both pixels of a pair, which share chroma.
template <typename Element_> struct FrameReader {
    using Element = Element_;
    using Groups = FrameGroups<Element>;
    static constexpr int count = 3;
    static constexpr int rows_at_once = 8;
    static constexpr bool has_runs = false;
    static constexpr bool whole = true;

    FramePixels<Element> pixels;

    template <typename Order>
    __device__ __forceinline__ FrameReader(const uint8* source, const uint8* records, const ResizeSample& sample,
                                           const Order&, uint32, uint32)
        : pixels(source, *reinterpret_cast<const FrameRecord*>(records + sample.frame)) {}

    // Groups are stored as aligned vectors: a row begins within one.
    __device__ __forceinline__ uint32 skew(const ResizeSample&, int32, const PixelRange& inside) const {
        return uint32(inside.first) * Groups::pixel_bytes % Groups::Run::bytes;
    }

    __device__ __forceinline__ void stage(const StagedRows& rows, const ResizeSample& sample, const PixelRange& inside,
                                          uint32 place, int32 lane) const {
        const Groups groups(pixels);
        if (inside.first < groups.columns) stage_groups(groups, rows, sample, inside, place, lane);
        if (inside.stop > groups.columns) {
            stage_pairs(larger(inside.first, groups.columns), rows, sample, inside, place, lane);
        }
    }

  private:
    // All groups of the rows, one row after another.
    __device__ __forceinline__ void stage_groups(const Groups& groups, const StagedRows& rows,
                                                 const ResizeSample& sample, const PixelRange& inside, uint32 place,
                                                 int32 lane) const {
        constexpr int at_once = sizeof(Element) == 1 ? 4 : 1;  // sums of 64 bits leave no registers
        const int32 first = inside.first / Groups::length;
        const int32 stop = (smaller(inside.stop, groups.columns) + Groups::length - 1) / Groups::length;
        const uint32 across = uint32(stop - first);
        const int32 some = smaller(rows_at_once, (rows.count - rows.first + rows.step - 1) / rows.step);
        const uint32 items = uint32(some) * across;
        // Bytes of the frame's row of packed pixels. The vector with the byte `begin` is stored at `place`.
        const int32 begin = inside.first * Groups::pixel_bytes, end = inside.stop * Groups::pixel_bytes;
        uint8* const to = rows.row(rows.first) + place - begin / Groups::Run::bytes * Groups::Run::bytes;
#pragma unroll 1
        for (uint32 item = uint32(lane); item < items; item += 32 * at_once) {
            typename Groups::Group loaded[at_once];
            uint32 down[at_once];
            int32 number[at_once];
#pragma unroll
            for (int i = 0; i < at_once; ++i) {
                const uint32 own = item + 32 * i;
                down[i] = own / across * uint32(rows.step);
                number[i] = first + int32(own % across);
                if (own >= items) continue;
                const int32 row = rows.source + rows.first + int32(down[i]);
                loaded[i] = groups.load(clamped(row, sample.rows), number[i]);
            }
#pragma unroll
            for (int i = 0; i < at_once; ++i) {
                if (item + 32 * i >= items) continue;
                groups.store_colours(loaded[i], to + down[i] * rows.pitch, number[i] * Groups::bytes, begin, end);
            }
        }
    }

    // The pixels from column `begin` on, a pair a lane.
    __device__ __forceinline__ void stage_pairs(int32 begin, const StagedRows& rows, const ResizeSample& sample,
                                                const PixelRange& inside, uint32 place, int32 lane) const {
        const int32 rows_end = smaller(rows.count, rows.first + rows_at_once * rows.step);
#pragma unroll 1
        for (int32 r = rows.first; r < rows_end; r += rows.step) {
            const int32 row = clamped(rows.source + r, sample.rows);
            Element* const to = reinterpret_cast<Element*>(rows.row(r) + place + skew(sample, row, inside));
#pragma unroll 1
            for (int32 pair = (begin >> 1) + lane; 2 * pair < inside.stop; pair += 32) {
                pixels.pair(row, pair, begin, inside.stop, [&](int32 column, const FrameColour<Element>& colour) {
#pragma unroll
                    for (int c = 0; c < count; ++c) store(to + (column - inside.first) * count + c, colour.channel[c]);
                });
            }
        }
    }
};

}  // namespace sg
