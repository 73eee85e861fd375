// Resize of a batch of images or frames of any sizes by two taps along either axis: a thread fetches the pixels that
// its taps read, and no others.
//
// A row of a window has `vectors` threads. Each computes `length` pixels, `vectors` columns apart, of up to four
// channels, in some rows one after another. Neighbouring lanes have neighbouring pixels: one access of a warp is to few
// cache lines on both sides. The taps of a thread's columns stay in registers.
//
//     target     | row y | columns g, g + vectors, … |
//     source     | rows y0, y1 | columns x0, x1 of each of them | all channels |      `resize_quads.cuh`
//
// Where one of a thread's pixels is outside its image or beyond its row, and of frames that are not quick to read,
// pixels are computed one by one.
//
// Bytes moved: each pixel that a tap reads, with the rest of its 32-byte sector, and each element of the target once;
// 128 bytes and the taps of each sample, which stay in the cache.
#include "indexing.cuh"
#include "resize_quads.cuh"

namespace sg {

struct ResizePairsPolicy {
    ResizeArithmetic arithmetic;
    int length;  // pixels of a thread in a row
    Channels affines, order;
};

template <typename Reader, typename Conversion, typename Index, ResizePairsPolicy policy> struct ResizePairsParameters {
    const uint8* records;  // samples, then their taps
    uint8* target;
    const uint8* source;   // the base of the offsets in samples
    const typename Conversion::Source* fill;  // one element for each channel of the source
    ChannelAffines<typename Conversion::Compute, policy.affines> affines;
    ChannelOrder<uint32, policy.order> order;                                // from target channels to source channels
    int64 offset, sample_stride, channel_stride, row_stride, column_stride;  // of the target, in elements
    uint64 items;                                                            // threads
    Divisor<Index> vectors, runs, groups;                                    // of a row; of a window; of channels
    Divisor<uint32> channels;                                                // of the target
    uint32 height, width, rows;                                              // of a window; of a thread
};

// Sums of floats and of 64 bits of four channels take more registers than three blocks leave them.
template <typename Reader, ResizeArithmetic arithmetic>
constexpr int resize_pairs_blocks = Reader::count > 3 && arithmetic != ResizeArithmetic::opencv_linear ? 2 : 3;

template <typename Reader, typename Conversion, typename Index, ResizePairsPolicy policy>
__global__ void __launch_bounds__(256, resize_pairs_blocks<Reader, policy.arithmetic>) resize_pairs(
    __grid_constant__ const ResizePairsParameters<Reader, Conversion, Index, policy> p) {
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    using Element = typename Reader::Element;
    using Rule = QuadRule<policy.arithmetic, Element>;
    constexpr int length = policy.length, count = Reader::count;

    const Index number = linear_block<Index>() * 256 + threadIdx.x;
    if (number >= p.items) return;
    const Quotient<Index> vector = divide(number, p.vectors);
    const Quotient<Index> run = divide(vector.quotient, p.runs);
    const Quotient<Index> group = divide(run.quotient, p.groups);
    const ResizeSample& sample = reinterpret_cast<const ResizeSample*>(p.records)[group.quotient];
    const uint32 step = uint32(p.vectors.divisor);
    const uint32 first = uint32(vector.remainder), channel = uint32(group.remainder) * count;
    const uint32 channels_end = Reader::whole ? p.channels.divisor
                                              : uint32(smaller(int32(channel) + count, int32(p.channels.divisor)));
    const Reader reader(p.source, p.records, sample, p.order, channel, channels_end);
    const auto taps_of = [&](const ResizeAxis& axis, int32 pixel, typename Rule::Weights& weights) {
        weights = load<typename Rule::Weights>(p.records + axis.weights + uint32(pixel) * uint32(sizeof(weights)));
        return TapPair(load<TapSpan>(p.records + axis.spans + uint32(pixel) * uint32(sizeof(TapSpan))).first, axis);
    };
    Target* const target = reinterpret_cast<Target*>(p.target) + p.offset + int64(sample.number) * p.sample_stride +
                           int64(first) * p.column_stride;

    const int32 left = int32(first) - sample.left, top = int32(uint32(run.remainder) * p.rows);
    const int32 bottom = top + smaller(int32(p.rows), int32(p.height) - top);
    const bool is_quick = reader.is_quick() & (left >= 0) & (left + int32((length - 1) * step) < sample.width);
    const int32 begin = larger(top, sample.top), end = smaller(bottom, sample.top + sample.height);
#pragma unroll 1
    for (int32 y = top; y < bottom; ++y) {
        const bool row_inside = y >= begin && y < end;
        if (is_quick && row_inside) continue;
#pragma unroll 1
        for (uint32 column = first, i = 0; i < length && column < p.width; column += step, ++i) {
            const int32 x = int32(column) - sample.left;
            Quad<Element> quads[count] = {};
            typename Rule::Weights across{}, down{};
            const bool inside = row_inside && uint32(x) < uint32(sample.width);
            if (inside) {
                const TapPair rows = taps_of(sample.rows, y - sample.top, down);
                reader.read_any(rows, taps_of(sample.columns, x, across), quads);
            }
#pragma unroll 1
            for (uint32 c = channel; c < channels_end; ++c) {
                const uint32 from = p.order.source_offset(c), chosen = Reader::whole ? from : c - channel;
                Element element = load<Element>(p.fill + from);
#pragma unroll
                for (int k = 0; k < count; ++k) {
                    if (inside && chosen == k) element = Rule::apply(quads[k], across, down, sample.factor);
                }
                store(target + y * p.row_stride + int64(c) * p.channel_stride + int64(column - first) * p.column_stride,
                      Conversion::apply(bit_cast<Source>(element), p.affines.of(c)));
            }
        }
    }
    if (!is_quick || begin >= end) return;

    TapPair along[length];
    typename Rule::Across across[length];
#pragma unroll
    for (int i = 0; i < length; ++i) {
        typename Rule::Weights weights;
        along[i] = taps_of(sample.columns, left + int32(i * step), weights);
        across[i] = weights;
    }
    const ResizeAxis axis = sample.rows;
    Target* to = target + begin * p.row_stride + int64(channel) * p.channel_stride;
#pragma unroll 1
    for (int32 y = begin - sample.top; y < end - sample.top; ++y, to += p.row_stride) {
        typename Rule::Weights weights;
        const typename Reader::Rows rows = reader.rows(taps_of(axis, y, weights));
        const typename Rule::Down down = weights;
        Vector<Element, length> pixels[count] = {};
#pragma unroll
        for (int i = 0; i < length; ++i) {
            Quad<Element> quads[count];
            reader.read(rows, along[i], quads);
#pragma unroll
            for (int c = 0; c < count; ++c) {
                pixels[c].set(i, Rule::apply(quads[c], across[i], down, sample.factor));
            }
        }
        Target* plane = to;
#pragma unroll 1
        for (uint32 c = channel; c < channels_end; ++c, plane += p.channel_stride) {
            const uint32 chosen = Reader::whole ? p.order.source_offset(c) : c - channel;
            auto elements = pixels[0];
#pragma unroll
            for (int k = 1; k < count; ++k) {
                if (chosen == k) elements = pixels[k];
            }
            const auto converted = Conversion::apply(bit_cast<Vector<Source, length>>(elements), p.affines.of(c));
#pragma unroll
            for (int i = 0; i < length; ++i) store(plane + int64(i * step) * p.column_stride, converted.get(i));
        }
    }
}

}  // namespace sg
