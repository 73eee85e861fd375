// Batched crops: a window of each of several images, of any sizes and layouts, into one batch.
//
// A thread makes one vector of the target: neighbouring columns of a channel, or, where a pixel's channels lie side by
// side, neighbouring elements of neighbouring pixels. Where it comes from, a record says for each sample:
//
//     planes   | sample n | channel c | row y | columns V g … V g + V - 1 |
//     pixels   | sample n | row y | elements V g … V g + V - 1 of (column, channel) |
//
// Windows begin anywhere, so that the source's vectors seldom lie at whole multiples of their size; each thread finds
// out, and loads element by element through the cache where they do not. What lies outside an image is the fill value
// of its channel, converted like any other element.
//
// Bytes moved: each element once in and once out, and 80 bytes for each sample, which stay in the cache.
#include "channel_constants.cuh"
#include "indexing.cuh"
#include "vectors.cuh"

namespace sg {

// One sample; strides in elements. `source` is the element of channel 0 in row 0 and column 0. The origin is brought
// within one window of the image by the host, so that no sum overflows.
struct CropSample {
    const uint8* source;
    int64 channel_stride, row_stride, column_stride;
    int64 height, width;
    int64 top, left;
    uint64 flip;
};

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

template <typename Conversion, typename Index, int LoadBytes, int StoreBytes, bool Pixels, Channels AffineKind,
          Channels OrderKind>
__global__ void __launch_bounds__(256)
    crops(__grid_constant__ const CropsParameters<Conversion, Index, AffineKind, OrderKind> p) {
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    constexpr int length = StoreBytes / int(sizeof(Target));
    constexpr int load_length = LoadBytes / int(sizeof(Source));
    static_assert(load_length <= length, "a load is at most what one store takes");

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
    if constexpr (load_length > 1) {
        // The elements follow each other in the source, too: unless mirrored, they start at the first one's place.
        Quotient<uint32> last = pixel;
        if (Pixels) last = divide(first + length - 1, p.channels);
        else last.quotient += length - 1;
        const int64 left = source_column(pixel.quotient), right = source_column(last.quotient);
        const Source* from = source + left * sample.column_stride +
                             int64(p.order.source_offset(pixel.remainder)) * sample.channel_stride;
        whole = row_inside && !sample.flip && left >= 0 && right < sample.width && first + length <= run &&
                reinterpret_cast<uint64>(from) % LoadBytes == 0;
        if (whole) {
#pragma unroll
            for (int piece = 0; piece < length / load_length; ++piece) {
                const auto loaded = load<Vector<Source, load_length>>(from + piece * load_length);
#pragma unroll
                for (int i = 0; i < load_length; ++i) elements.set(piece * load_length + i, loaded.get(i));
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
        store(target, converted);
        return;
    }
#pragma unroll
    for (int i = 0; i < length; ++i) {
        if (first + i < run) store(target + i, converted.get(i));
    }
}

}  // namespace sg
