// Batched crops: a window of each of several images, of any sizes and layouts, into one batch.
//
// A thread makes one vector of the target: neighbouring columns of a channel, or, where a pixel's channels lie side by
// side, neighbouring elements of neighbouring pixels. Where it comes from, a record says for each sample:
//
//     planes   | sample n | channel c | row y | columns V g … V g + V - 1 |
//     pixels   | sample n | row y | elements V g … V g + V - 1 of (column, channel) |
//
// Where these elements follow each other in the source, too, mirrored or not, a run of the source is read as words;
// the others, and those at an image's edge, element by element through the cache. What lies outside an image is the
// fill value of its channel, converted like any other element.
//
// Bytes moved: each element once in and once out, and 96 bytes for each sample, which stay in the cache.
#include "crop_windows.cuh"

namespace sg {

template <typename Conversion, typename Index, Channels AffineKind, Channels OrderKind> struct CropsParameters {
    const CropSample* samples;
    uint8* target;
    const typename Conversion::Source* fill;  // one element for each source channel
    ChannelAffines<typename Conversion::Compute, AffineKind> affines;
    ChannelOrder<Index, OrderKind> order;     // to source channels, not to offsets
    Divisor<Index> vectors, height, planes;   // vectors of a row
    Index sample_stride, channel_stride, row_stride, column_stride, offset;  // of the target, in elements
    Index items;                              // vectors in all
    Divisor<uint32> channels;
    uint32 width;                             // columns of a window, whose rows have less than 2^31 elements
};

// LoadBytes is 0 where a vector's elements do not follow each other in the source.
template <typename Conversion, typename Index, int LoadBytes, int StoreBytes, bool Pixels, Channels AffineKind,
          Channels OrderKind>
__global__ void __launch_bounds__(256)
    crops(__grid_constant__ const CropsParameters<Conversion, Index, AffineKind, OrderKind> p) {
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    constexpr int length = StoreBytes / int(sizeof(Target));

    const Index number = linear_block<Index>() * 256 + threadIdx.x;
    if (number >= p.items) return;
    const Quotient<Index> vector = divide(number, p.vectors);
    const Quotient<Index> row = divide(vector.quotient, p.height);
    const Quotient<Index> plane = Pixels ? Quotient<Index>{row.quotient, 0} : divide(row.quotient, p.planes);
    const uint32 first = uint32(vector.remainder) * length;
    const uint32 run = Pixels ? p.width * p.channels.divisor : p.width;
    const CropSample sample = p.samples[plane.quotient];  // read once, whatever is stored later
    Target* target = reinterpret_cast<Target*>(p.target) +
                     Signed<Index>(p.offset + plane.quotient * p.sample_stride + plane.remainder * p.channel_stride +
                                   row.remainder * p.row_stride + first * p.column_stride);

    const int64 source_row = sample.top + int64(row.remainder);
    const bool row_inside = uint64(source_row) < uint64(sample.height);
    const Source* source = reinterpret_cast<const Source*>(sample.source) + source_row * sample.row_stride;
    const Quotient<uint32> pixel =
        Pixels ? divide(first, p.channels) : Quotient<uint32>{first, uint32(plane.remainder)};
    const auto source_column = [&](uint32 column) {
        return sample.left + int64(sample.flip ? p.width - 1 - column : column);
    };
    // The element after one: the next channel of a pixel, the first of the next pixel, or the next column.
    const auto advance = [&](Quotient<uint32>& at) {
        if (Pixels && ++at.remainder < p.channels.divisor) return;
        if (Pixels) at.remainder = 0;
        ++at.quotient;
    };

    Vector<Source, length> elements{};
    bool whole = false;
    if constexpr (LoadBytes > 0) {
        Quotient<uint32> last = pixel;
        if (Pixels) last = divide(first + length - 1, p.channels);
        else last.quotient += length - 1;
        // Mirrored, a plane's run lies the other way round; of mirrored pixels, only the channels follow each other.
        const bool backwards = !Pixels && sample.flip;
        const int64 left = source_column(backwards ? last.quotient : pixel.quotient);
        const int64 right = source_column(backwards ? pixel.quotient : last.quotient);
        whole = row_inside && (!Pixels || !sample.flip) && left >= 0 && right < sample.width && first + length <= run;
        if (whole) {
            SourceRun<Source, length, LoadBytes> held;
            whole = held.read(source + left * sample.column_stride +
                                  int64(p.order.source_offset(pixel.remainder)) * sample.channel_stride, sample);
            if (whole) {
#pragma unroll
                for (int i = 0; i < length; ++i) elements.set(i, held.get(i));
                if (backwards) elements = reversed(elements);
            }
        }
    }
    if (!whole) {
        Quotient<uint32> at = pixel;
#pragma unroll
        for (int i = 0; i < length; ++i) {
            if (first + i < run) {
                const Index channel = p.order.source_offset(at.remainder);
                const int64 column = source_column(at.quotient);
                const bool inside = row_inside && uint64(column) < uint64(sample.width);
                const Source* from = inside ? source + column * sample.column_stride +
                                                  int64(channel) * sample.channel_stride
                                            : p.fill + channel;
                elements.set(i, load<Source>(from));
            }
            advance(at);
        }
    }
    Vector<Target, length> converted{};
    Quotient<uint32> at = pixel;
#pragma unroll
    for (int i = 0; i < length; ++i) {
        converted.set(i, Conversion::apply(elements.get(i), p.affines.of(at.remainder)));
        advance(at);
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
