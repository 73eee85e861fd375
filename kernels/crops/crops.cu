// Batched crops: a window of each of several images, of any sizes and layouts, into one batch.
//
// A thread makes one vector of the target: adjacent columns of a channel, or, for interleaved channels, adjacent
// elements of adjacent pixels. A record for each sample gives its source:
//
//     planes   | sample n | channel c | row y | columns V g … V g + V - 1 |
//     pixels   | sample n | row y | elements V g … V g + V - 1 of (column, channel) |
//
// If the elements of a vector are adjacent in the source, too, the run is read as words. Other vectors, and those at an
// image's edge, are gathered element by element through the cache. Outside an image each channel has its fill value,
// which is converted like any other element.
//
// Bytes moved: each element once in and once out, and 80 bytes for each sample, which stay in the cache.
#include "crop_windows.cuh"

namespace sg {

struct CropsPolicy {
    int load_bytes;   // of one access; 0 where a vector's elements do not follow each other in the source
    int store_bytes;
    bool of_pixels;   // a vector is of neighbouring pixels' elements, not of one channel's columns
    Channels affines, order;
};

template <typename Conversion, typename Index, CropsPolicy policy> struct CropsAnyParameters {
    CropsParameters<Conversion, Index, policy.affines> common;
    ChannelOrder<Index, policy.order> order;    // to source channels, not to offsets
    Divisor<Index> planes;                   // that threads are shared out to: all of the target's, or 1
    Index channel_stride, column_stride;     // of the target, in elements
    Divisor<uint32> channels;
};

template <typename Conversion, typename Index, CropsPolicy policy>
__global__ void __launch_bounds__(256)
    crops(__grid_constant__ const CropsAnyParameters<Conversion, Index, policy> p) {
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    constexpr int length = policy.store_bytes / int(sizeof(Target));
    static_assert(policy.of_pixels || policy.load_bytes == 0, "runs of planes have a kernel of their own");

    const Index number = linear_block<Index>() * 256 + threadIdx.x;
    if (number >= p.common.items) return;
    const CropPlace<Index> place = p.common.template place<1, length>(number);
    const Quotient<Index> plane = policy.of_pixels ? Quotient<Index>{place.outer, 0} : divide(place.outer, p.planes);
    const CropSample sample = p.common.samples[plane.quotient];  // read once, whatever is stored later
    const uint32 first = place.first, width = p.common.width;
    const uint32 run = policy.of_pixels ? width * p.channels.divisor : width;
    Target* target = reinterpret_cast<Target*>(p.common.target) +
                     Signed<Index>(p.common.offset + plane.quotient * p.common.sample_stride +
                                   plane.remainder * p.channel_stride + place.row * p.common.row_stride +
                                   first * p.column_stride);

    const bool row_inside = place.row - sample.top < sample.bottom - sample.top;
    const Source* source = reinterpret_cast<const Source*>(sample.pixel) + int64(place.row) * sample.row_stride;
    const auto source_column = [&](uint32 column) { return sample.flip ? width - 1 - column : column; };
    const Quotient<uint32> pixel =
        policy.of_pixels ? divide(first, p.channels) : Quotient<uint32>{first, uint32(plane.remainder)};
    // Advance by one element: to the next channel of a pixel, the first of the next pixel, or the next column.
    const auto advance = [&](Quotient<uint32>& at) {
        if (policy.of_pixels && ++at.remainder < p.channels.divisor) return;
        if (policy.of_pixels) at.remainder = 0;
        ++at.quotient;
    };

    Vector<Source, length> elements{};
    bool whole = false;
    if constexpr (policy.load_bytes > 0) {
        // In mirrored pixels, only the channels of one pixel are adjacent.
        const uint32 last = divide(first + length - 1, p.channels).quotient;
        if (row_inside && !sample.flip && pixel.quotient >= sample.left && last < sample.right) {
            SourceRun<Source, length, policy.load_bytes> held;
            const Source* from = source + pixel.quotient * sample.column_stride +
                                 int64(p.order.source_offset(pixel.remainder)) * sample.channel_stride;
            whole = held.fits(from, sample);
            if (whole) {
                held.read(from);
                held.settle();
                PixelPlanes<Source, 1, length> together{};
                together.split(held);
                elements = together.planes[0];
            }
        }
    }
    if (!whole) {
        Quotient<uint32> at = pixel;
#pragma unroll
        for (int i = 0; i < length; ++i) {
            if (first + i < run) {
                const Index channel = p.order.source_offset(at.remainder);
                const uint32 column = source_column(at.quotient);
                const bool inside = row_inside && column - sample.left < sample.right - sample.left;
                const Source* from = inside ? source + column * sample.column_stride +
                                                  int64(channel) * sample.channel_stride
                                            : p.common.fill + channel;
                elements.set(i, load<Source>(from));
            }
            advance(at);
        }
    }
    Vector<Target, length> converted{};
    if constexpr (policy.of_pixels && policy.affines != Channels::alike) {
        Quotient<uint32> at = pixel;
#pragma unroll
        for (int i = 0; i < length; ++i) {
            converted.set(i, Conversion::apply(elements.get(i), p.common.affines.of(at.remainder)));
            advance(at);
        }
    } else {
        converted = Conversion::apply(elements, p.common.affines.of(pixel.remainder));
    }
    if (first + length <= run) {
        store_global(target, converted);
        return;
    }
#pragma unroll
    for (int i = 0; i < length; ++i) {
        if (first + i < run) store(target + i, converted.get(i));
    }
}

}  // namespace sg
