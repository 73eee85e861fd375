// Nearest-neighbour resize of a batch of images of any sizes: pixels are copied and converted.
//
// A thread computes one vector of the target: adjacent columns of a channel, or, for interleaved channels, adjacent
// elements of pixels. Each element comes from the pixel that the taps of its row and column select, or is the fill
// value of its channel.
//
//     target     | sample n | channel c | row y | columns V g … V g + V - 1 |     or elements of (column, channel)
//     source     | row rows[y] | column columns[x] | channel c |
//
// Bytes moved: each element once in, with the rest of its 32-byte sector, and once out; 128 bytes and the taps of each
// sample, which stay in the cache.
#include "channel_constants.cuh"
#include "frame_samples.cuh"
#include "indexing.cuh"
#include "resize_samples.cuh"

namespace sg {

struct ResizeNearestPolicy {
    bool pixels;              // a store takes adjacent elements of interleaved pixels
    bool frames;              // the images are frames, whose pixels are converted one by one
    int store_bytes;          // of one access
    Channels affines, order;
};

template <typename Conversion, typename Index, ResizeNearestPolicy policy> struct ResizeNearestParameters {
    const uint8* records;  // samples, then their taps
    uint8* target;
    const uint8* source;   // the base of the offsets in samples
    const typename Conversion::Source* fill;  // one element for each channel of the source
    ChannelAffines<typename Conversion::Compute, policy.affines> affines;
    ChannelOrder<uint32, policy.order> order;                                // from target channels to source channels
    int64 offset, sample_stride, channel_stride, row_stride, column_stride;  // of the target, in elements
    uint64 items;                                                            // threads
    Divisor<Index> vectors, rows, planes;                                    // of a row; of a window; of a sample
    Divisor<uint32> channels;
    uint32 width;                                                            // of a window
};

template <typename Conversion, typename Index, ResizeNearestPolicy policy>
__global__ void __launch_bounds__(256) resize_nearest(
    __grid_constant__ const ResizeNearestParameters<Conversion, Index, policy> p) {
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    constexpr int length = policy.store_bytes / int(sizeof(Target));

    const Index number = linear_block<Index>() * 256 + threadIdx.x;
    if (number >= p.items) return;
    const Quotient<Index> vector = divide(number, p.vectors);
    const Quotient<Index> row = divide(vector.quotient, p.rows);
    const Quotient<Index> plane = divide(row.quotient, p.planes);
    const ResizeSample& sample = reinterpret_cast<const ResizeSample*>(p.records)[plane.quotient];
    const uint32 first = uint32(vector.remainder) * length;
    const uint32 run = policy.pixels ? p.width * p.channels.divisor : p.width;

    const TapSpan* const columns = reinterpret_cast<const TapSpan*>(p.records + sample.columns.spans);
    const int32 y = int32(row.remainder) - sample.top;
    const bool row_inside = uint32(y) < uint32(sample.height);
    int32 source_row = 0;
    if (row_inside) {
        const TapSpan* const rows = reinterpret_cast<const TapSpan*>(p.records + sample.rows.spans);
        source_row = clamped(rows[y].first, sample.rows);
    }
    const auto element = [&](uint32 column, uint32 channel) {
        const int32 x = int32(column) - sample.left;
        if (!row_inside || uint32(x) >= uint32(sample.width)) return load<Source>(p.fill + channel);
        const int32 source_column = clamped(columns[x].first, sample.columns);
        if constexpr (policy.frames) {
            const FrameRecord& frame = *reinterpret_cast<const FrameRecord*>(p.records + sample.frame);
            const FrameColour<Source> colour = FramePixels<Source>(p.source, frame).at(source_row, source_column);
            return channel == 0 ? colour.channel[0] : channel == 1 ? colour.channel[1] : colour.channel[2];
        } else {
            const int64 offset = source_row * sample.row_stride + source_column * sample.column_stride +
                                 int64(channel) * sample.channel_stride;
            return load<Source>(reinterpret_cast<const Source*>(uint64(p.source) + sample.pixel) + offset);
        }
    };

    Quotient<uint32> at = {first, uint32(plane.remainder)};
    if constexpr (policy.pixels) at = divide(first, p.channels);
    Vector<Target, length> converted{};
#pragma unroll
    for (int i = 0; i < length; ++i) {
        if (first + i >= run) break;
        converted.set(i, Conversion::apply(element(at.quotient, p.order.source_offset(at.remainder)),
                                           p.affines.of(at.remainder)));
        if (!policy.pixels) ++at.quotient;
        else if (++at.remainder == p.channels.divisor) at = {at.quotient + 1, 0};
    }
    Target* const target = reinterpret_cast<Target*>(p.target) + p.offset + int64(sample.number) * p.sample_stride +
                           int64(plane.remainder) * p.channel_stride + int64(row.remainder) * p.row_stride +
                           int64(first) * (policy.pixels ? 1 : p.column_stride);
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
