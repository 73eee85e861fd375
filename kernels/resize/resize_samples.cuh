// The record of each sample of a resize: the memory of its image on both sides, and its taps along both axes.
//
//     records   | sample 0 | sample 1 | … | spans and weights of an axis | of another axis | … |
//
// Records and tables are one array. Samples of one geometry share their tables. If images are frames, of luma and
// chroma or of colours, the record of each frame is behind the tables; the bounds and strides of samples are then 0.
#pragma once
#include "element_types.cuh"

namespace sg {

// The taps of one result pixel along one axis: `count` source pixels from `first` on.
struct alignas(8) TapSpan { int32 first, count; };

// One axis of one sample. Source pixels below `first` and from `stop` on repeat the edge. Along adjacent pixels the
// first taps ascend, and so do the last ones; of a mirrored image both descend.
struct ResizeAxis {
    uint32 spans, weights;  // bytes from the start of the records to a TapSpan, and to `taps` weights, for each pixel
    int32 taps;
    int32 first, stop;
    uint32 copies;          // the axis has no pass: pixels are copied
};

struct alignas(16) ResizeSample {
    uint64 pixel, begin, end;                         // bytes from the source's address to channel 0 of pixel (0, 0),
                                                      // and to the bounds of the image's memory
    int64 channel_stride, row_stride, column_stride;  // in elements
    ResizeAxis rows, columns;
    int32 top, left, height, width;                   // of the resized image in the window
    uint32 number;                                    // of the window in the target
    float32 factor;                                   // of a mean
    uint32 frame;                                     // bytes from the start of the records to its FrameRecord
    uint16 row_zeros, column_zeros;                   // lowest bits of integer weights that are zeros in all of an axis
};

__device__ __forceinline__ int32 smaller(int32 a, int32 b) { return a < b ? a : b; }
__device__ __forceinline__ int32 larger(int32 a, int32 b) { return a < b ? b : a; }

// The source pixel that a tap reads.
__device__ __forceinline__ int32 clamped(int32 pixel, const ResizeAxis& axis) {
    return smaller(larger(pixel, axis.first), axis.stop - 1);
}

// Source pixels along one axis.
struct PixelRange { int32 first, stop; };

// The pixels of an image inside a tile, along one axis, and the source pixels that their taps reach.
struct TileAxis {
    int32 first, count;      // of the image
    int32 skipped;           // the tile's pixels before them
    int32 reach, reach_end;  // of the source, pixels beyond its edges included

    TileAxis() = default;
    // The tile has `size` pixels of the window from `place` on, the image `extent` from `image` on.
    __device__ __forceinline__ TileAxis(const uint8* records, const ResizeAxis& axis, int32 place, int32 size,
                                        int32 image, int32 extent)
        : first(larger(place - image, 0)), skipped(larger(image - place, 0)), reach(0), reach_end(0) {
        count = larger(smaller(place + size - image, extent) - first, 0);
        const TapSpan* spans = reinterpret_cast<const TapSpan*>(records + axis.spans) + first;
        // Without a branch: the loads of both axes are issued before the first is used.
        TapSpan low{}, high{};
        if (count > 0) low = spans[0];
        if (count > 0) high = spans[count - 1];
        reach = smaller(low.first, high.first);
        reach_end = larger(low.first + low.count, high.first + high.count);
    }

    __device__ __forceinline__ int32 source_pixels() const { return reach_end - reach; }
};

}  // namespace sg
