// Batched crops of pixels into pixels: HWC images to HWC windows, mirrored, converted and with their colours swapped.
//
// A thread makes V neighbouring pixels, as many vectors as a pixel has channels. They follow each other in the source
// and are read once, as words, whatever address they start at; mirrored, the same pixels are turned round in registers.
//
//     source   | r0 g0 b0 r1 g1 b1 … r(V-1) g(V-1) b(V-1) |      bytes of Pitch channels, some perhaps not wanted
//     target   | r0 g0 b0 … | vector 1 | … r(V-1) g(V-1) b(V-1) |
//
// Pixels that lie over an image's edge, or at its very first or last bytes, are put together element by element.
//
// Bytes moved: each element once in and once out, and 96 bytes for each sample, which stay in the cache.
#include "crop_windows.cuh"

namespace sg {

template <typename Conversion, typename Index, Channels AffineKind> struct CropsPixelsParameters {
    const CropSample* samples;
    uint8* target;
    const typename Conversion::Source* fill;  // one element for each source channel
    ChannelAffines<typename Conversion::Compute, AffineKind> affines;
    Divisor<Index> vectors, height;           // groups of V pixels in a row
    Index sample_stride, row_stride, offset;  // of the target, in elements
    Index items;                              // groups in all
    uint32 width;                             // columns of a window
};

// Where an element of V pixels is in the source: element after element of the target, its channel and its pixel.
template <int Length, int Count, bool Reversed> struct PixelElement {
    int pixel, channel, place;
    __device__ __forceinline__ PixelElement(int element, bool mirrored)
        : pixel(mirrored ? Length - 1 - element / Count : element / Count), channel(element % Count),
          place(Reversed ? Count - 1 - channel : channel) {}
};

template <typename Conversion, int Length, int Pitch, int Count, bool Reversed, bool Mirrored, typename Run,
          typename Affines>
__device__ __forceinline__ void store_pixels(typename Conversion::Target* target, const Run& run,
                                             const Affines& affines) {
#pragma unroll
    for (int vector = 0; vector < Count; ++vector) {
        Vector<typename Conversion::Target, Length> converted{};
#pragma unroll
        for (int i = 0; i < Length; ++i) {
            const PixelElement<Length, Count, Reversed> at(vector * Length + i, Mirrored);
            converted.set(i, Conversion::apply(run.get(at.pixel * Pitch + at.place), affines.of(at.channel)));
        }
        store_global(target + vector * Length, converted);
    }
}

// Reversed: the target's channels are the source's in the other order.
template <typename Conversion, typename Index, int Pitch, int Count, bool Reversed, int LoadBytes, int StoreBytes,
          Channels AffineKind>
__global__ void __launch_bounds__(256)
    crops_pixels(__grid_constant__ const CropsPixelsParameters<Conversion, Index, AffineKind> p) {
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
                     Signed<Index>(p.offset + row.quotient * p.sample_stride + row.remainder * p.row_stride +
                                   Index(first) * Count);

    // The source's columns from left to right, whichever way the window shows them.
    const int64 source_row = sample.top + int64(row.remainder);
    const bool row_inside = uint64(source_row) < uint64(sample.height);
    const int64 column = sample.left + (sample.flip ? int64(p.width) - length - int64(first) : int64(first));
    const Source* from = reinterpret_cast<const Source*>(sample.source) + source_row * sample.row_stride +
                         column * Pitch;
    const uint32 left = p.width - first;  // columns of the window from the first on

    SourceRun<Source, length * Pitch, LoadBytes> run;
    if (row_inside && column >= 0 && column + length <= sample.width && left >= length && run.read(from, sample)) {
        if (sample.flip) store_pixels<Conversion, length, Pitch, Count, Reversed, true>(target, run, p.affines);
        else store_pixels<Conversion, length, Pitch, Count, Reversed, false>(target, run, p.affines);
        return;
    }
#pragma unroll 1
    for (int element = 0; element < length * Count; ++element) {
        const PixelElement<length, Count, Reversed> at(element, sample.flip != 0);
        if (uint32(element / Count) >= left) return;
        const bool inside = row_inside && uint64(column + at.pixel) < uint64(sample.width);
        const Source found = load<Source>(inside ? from + at.pixel * Pitch + at.place : p.fill + at.place);
        store(target + element, Conversion::apply(found, p.affines.of(at.channel)));
    }
}

}  // namespace sg
