// Batched crops of pixels into planes: HWC images to CHW windows, the crop-mirror-normalise step of training.
//
// A thread makes one vector of each plane, V neighbouring columns of a row: their pixels follow each other in the
// source and are read once, as words, whatever address they start at. Mirrored, the same pixels are turned round.
//
//     source   | r0 g0 b0 r1 g1 b1 … r(V-1) g(V-1) b(V-1) |      bytes of Pitch channels, some perhaps not wanted
//     target   | r0 … r(V-1) |   | g0 … g(V-1) |   | b0 … b(V-1) |
//
// Vectors that lie over an image's edge, or at its very first or last bytes, are put together element by element.
//
// Bytes moved: each element once in and once out, and 96 bytes for each sample, which stay in the cache.
#include "crop_windows.cuh"

namespace sg {

template <typename Conversion, typename Index, Channels AffineKind, Channels OrderKind> struct CropsSplitParameters {
    const CropSample* samples;
    uint8* target;
    const typename Conversion::Source* fill;  // one element for each source channel
    ChannelAffines<typename Conversion::Compute, AffineKind> affines;
    ChannelOrder<Index, OrderKind> order;     // from each place in a pixel to its plane of the target, or to none: ~0
    Divisor<Index> vectors, height;           // vectors of a row
    Index sample_stride, channel_stride, row_stride, offset;  // of the target, in elements
    Index items;                              // vectors of a plane of every sample
    uint32 width;                             // columns of a window
};

template <typename Conversion, typename Index, int Pitch, int LoadBytes, int StoreBytes, Channels AffineKind,
          Channels OrderKind>
__global__ void __launch_bounds__(256)
    crops_split(__grid_constant__ const CropsSplitParameters<Conversion, Index, AffineKind, OrderKind> p) {
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    constexpr int length = StoreBytes / int(sizeof(Target));

    const Index number = linear_block<Index>() * 256 + threadIdx.x;
    if (number >= p.items) return;
    const Quotient<Index> vector = divide(number, p.vectors);
    const Quotient<Index> row = divide(vector.quotient, p.height);
    const uint32 first = uint32(vector.remainder) * length;
    const CropSample sample = p.samples[row.quotient];  // read once, whatever is stored later
    Target* target = reinterpret_cast<Target*>(p.target) +
                     Signed<Index>(p.offset + row.quotient * p.sample_stride + row.remainder * p.row_stride + first);

    // The source's columns from left to right, whichever way the window shows them; the last vector of a row may have
    // some on one side that the window has not.
    const int64 source_row = sample.top + int64(row.remainder);
    const bool row_inside = uint64(source_row) < uint64(sample.height);
    const int64 column = sample.left + (sample.flip ? int64(p.width) - length - int64(first) : int64(first));
    const Source* from = reinterpret_cast<const Source*>(sample.source) + source_row * sample.row_stride +
                         column * Pitch;
    const uint32 left = p.width - first;  // columns of the window from the first on

    SourceRun<Source, length * Pitch, LoadBytes> run;
    if (row_inside && column >= 0 && column + length <= sample.width && left >= length && run.read(from, sample)) {
#pragma unroll
        for (int c = 0; c < Pitch; ++c) {
            const Index plane = p.order.source_offset(c);
            if (OrderKind != Channels::alike && plane == ~Index(0)) continue;
            const auto affine = p.affines.of(plane);
            Vector<Target, length> converted{};
#pragma unroll
            for (int i = 0; i < length; ++i) converted.set(i, Conversion::apply(run.get(i * Pitch + c), affine));
            if (sample.flip) converted = reversed(converted);
            store_global(target + Signed<Index>(plane * p.channel_stride), converted);
        }
        return;
    }
#pragma unroll 1
    for (int c = 0; c < Pitch; ++c) {
        const Index plane = p.order.source_offset(c);
        if (OrderKind != Channels::alike && plane == ~Index(0)) continue;
        const auto affine = p.affines.of(plane);
        Vector<Target, length> converted{};
#pragma unroll
        for (int i = 0; i < length; ++i) {
            const int place = sample.flip ? length - 1 - i : i;
            const bool inside = row_inside && uint64(column + place) < uint64(sample.width);
            const Source element = load<Source>(inside ? from + place * Pitch + c : p.fill + c);
            converted.set(i, Conversion::apply(element, affine));
        }
        Target* to = target + Signed<Index>(plane * p.channel_stride);
        if (left >= length) {
            store_global(to, converted);
            continue;
        }
#pragma unroll
        for (int i = 0; i < length; ++i) {
            if (i < left) store(to + i, converted.get(i));
        }
    }
}

}  // namespace sg
