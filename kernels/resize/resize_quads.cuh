// Quads: the four pixels that two taps along either axis read. Readers fetch them, and a rule makes one pixel of each.
//
//     upper row    | … | tap 0 | tap 1 | … |        of each channel one vector: upper 0, upper 1, lower 0, lower 1
//     lower row    | … | tap 0 | tap 1 | … |
//
// A reader is a template argument. It fetches no pixel that no tap reads. Of frames it converts those pixels alone.
#pragma once
#include "channel_constants.cuh"
#include "frame_samples.cuh"
#include "matrix_products.cuh"
#include "resize_rules.cuh"
#include "resize_samples.cuh"

namespace sg {

template <typename Element> using Quad = Vector<Element, 4>;

// The pixels along an axis that both taps of a result pixel read.
struct TapPair {
    int32 place[2];

    TapPair() = default;
    __device__ __forceinline__ TapPair(int32 first, const ResizeAxis& axis)
        : place{clamped(first, axis), clamped(first + 1, axis)} {}
};

// Images: Count channels from `channel` on. With a Step, pixels are Step adjacent elements, which are all channels, or
// one of a plane; without, strides are any.
template <typename Element_, int Count, int Step> struct QuadReader {
    using Element = Element_;
    static constexpr int count = Count;
    static constexpr bool whole = Step == Count && Count > 1;  // all channels of the source, in its order

    struct Rows { const Element* row[2]; };

    const Element* channels[whole ? 1 : Count];
    int64 row_stride, column_stride;

    template <typename Order>
    __device__ __forceinline__ QuadReader(const uint8* source, const uint8*, const ResizeSample& sample,
                                          const Order& order, uint32 channel, uint32 channels_end)
        : row_stride(sample.row_stride), column_stride(Step > 0 ? Step : sample.column_stride) {
        const Element* const pixel = reinterpret_cast<const Element*>(uint64(source) + sample.pixel);
        channels[0] = pixel;
        if constexpr (!whole) {
#pragma unroll
            for (int c = 0; c < Count; ++c) {
                const uint32 chosen = channel + c < channels_end ? channel + c : channel;
                channels[c] = pixel + int64(order.source_offset(chosen)) * sample.channel_stride;
            }
        }
    }

    // Whether `read` takes less than `read_any`.
    __device__ __forceinline__ bool is_quick() const { return true; }

    __device__ __forceinline__ Rows rows(const TapPair& down) const {
        return {{channels[0] + down.place[0] * row_stride, channels[0] + down.place[1] * row_stride}};
    }

    __device__ __forceinline__ void read(const Rows& rows, const TapPair& along, Quad<Element> (&quads)[Count]) const {
#pragma unroll
        for (int tap = 0; tap < 4; ++tap) {
            const int32 column = along.place[tap % 2];
            const Element* const pixel = rows.row[tap / 2] + (Step > 0 ? int64(column) * Step : column * column_stride);
#pragma unroll
            for (int c = 0; c < Count; ++c) {
                const int64 across = whole ? c : channels[whole ? 0 : c] - channels[0];
                quads[c].set(tap, load<Element>(pixel + across));
            }
        }
    }

    __device__ __forceinline__ void read_any(const TapPair& down, const TapPair& along,
                                             Quad<Element> (&quads)[Count]) const {
        read(rows(down), along, quads);
    }
};

// Frames. Samples of those with repeated chroma are fetched at steps of 32 bits; of all others each pixel by itself.
//
// What rows begin with is read from the frame's record for each row: a thread has no registers for it.
template <typename Element_> struct FrameQuadReader {
    using Element = Element_;
    static constexpr int count = 3;
    static constexpr bool whole = true;

    // Of luma and of both kinds of chroma.
    struct Rows { const Element* row[3][2]; };

    const uint8* const base;
    const FrameRecord& frame;
    int32 steps[2];  // of luma and of chroma
    bool quick;
    FrameMatrix matrix;

    template <typename Order>
    __device__ __forceinline__ FrameQuadReader(const uint8* source, const uint8* records, const ResizeSample& sample,
                                               const Order&, uint32, uint32)
        : base(source), frame(*reinterpret_cast<const FrameRecord*>(records + sample.frame)),
          matrix(frame.shape.matrix) {
        const FrameShape& shape = frame.shape;
        // Without branches: all of the record is on its way together.
        quick = (shape.kind == FrameKind::repeated) & (shape.matrix.floors == 0) &
                (shape.row_strides[1] == shape.row_strides[2]) &
                (shape.column_strides[1] == shape.column_strides[2]);
#pragma unroll
        for (int kind = 0; kind < 2; ++kind) {
            steps[kind] = int32(shape.column_strides[kind]);
            quick = quick & fits(shape.row_strides[kind]) & fits(shape.column_strides[kind]);
        }
    }

    __device__ __forceinline__ bool is_quick() const { return quick; }

    __device__ __forceinline__ Rows rows(const TapPair& down) const {
        Rows made;
#pragma unroll
        for (int kind = 0; kind < 3; ++kind) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int32 row = down.place[i] >> (kind > 0 ? frame.shape.row_shift : 0);
                const Element* const first = reinterpret_cast<const Element*>(base + frame.samples[kind]);
                made.row[kind][i] = stepped(first, row, int32(frame.shape.row_strides[kind > 0]));
            }
        }
        return made;
    }

    __device__ __forceinline__ void read(const Rows& rows, const TapPair& along, Quad<Element> (&quads)[3]) const {
        Element samples[4][3];
#pragma unroll
        for (int tap = 0; tap < 4; ++tap) {
#pragma unroll
            for (int kind = 0; kind < 3; ++kind) {
                const int32 column = along.place[tap % 2] >> (kind > 0 ? 1 : 0);
                samples[tap][kind] = load<Element>(stepped(rows.row[kind][tap / 2], column, steps[kind > 0]));
            }
        }
        int32 whole[3][4];
#pragma unroll
        for (int tap = 0; tap < 4; ++tap) {
            const int32 u = samples[tap][1] - matrix.chroma_centre, v = samples[tap][2] - matrix.chroma_centre;
            int32 colour[3];
            unclamped_colour<Element>(samples[tap][0], u, v, matrix, false, colour);
#pragma unroll
            for (int c = 0; c < 3; ++c) whole[c][tap] = colour[c];
        }
        constexpr int per_word = 4 / int(sizeof(Element));
#pragma unroll
        for (int c = 0; c < 3; ++c) {
#pragma unroll
            for (int w = 0; w < Quad<Element>::words; ++w) {
                int32 some[per_word];
#pragma unroll
                for (int i = 0; i < per_word; ++i) some[i] = whole[c][w * per_word + i];
                quads[c].word[w] = saturated_word<Element>(some);
            }
        }
    }

    __device__ __forceinline__ void read_any(const TapPair& down, const TapPair& along,
                                             Quad<Element> (&quads)[3]) const {
        const FramePixels<Element> pixels(base, frame);
#pragma unroll 1
        for (int tap = 0; tap < 4; ++tap) {
            const int32 row = tap < 2 ? down.place[0] : down.place[1];
            const FrameColour<Element> colour = pixels.at(row, (tap & 1) == 0 ? along.place[0] : along.place[1]);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int c = 0; c < 3; ++c) quads[c].set(i, tap == i ? colour.channel[c] : quads[c].get(i));
            }
        }
    }

  private:
    // Whether a stride in samples is one of 32 bits in bytes.
    static __device__ __forceinline__ bool fits(int64 stride) {
        return int32(stride) * int32(sizeof(Element)) == stride * int32(sizeof(Element));
    }
};

// One pixel of a quad: both passes of a rule. `Across` and `Down` are the weights of both taps as the passes use them.
template <ResizeArithmetic arithmetic, typename Element> struct QuadRule {
    using First = typename ResizePasses<arithmetic, Element>::First;
    using Second = typename ResizePasses<arithmetic, Element>::Second;
    using Weights = Vector<typename First::Weight, 2>;
    using Across = Weights;
    using Down = Weights;

    static __device__ __forceinline__ Element apply(const Quad<Element>& quad, const Across& across, const Down& down,
                                                    float32 factor) {
        typename Second::Sum sum = Second::start();
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            typename First::Sum along = First::start();
#pragma unroll
            for (int tap = 0; tap < 2; ++tap) along = First::add(along, across.get(tap), quad.get(2 * row + tap));
            sum = Second::add(sum, down.get(row), First::finish(along, factor));
        }
        return Second::finish(sum, factor);
    }
};

// OpenCV's INTER_LINEAR of bytes: x = sum >> 4 along a row, then ((w0 x0 >> 16) + (w1 x1 >> 16) + 2) >> 2.
//
// Numbers are those above 2^23 of a float32, whose last place is 1: rounding toward zero is the shift. The sum along a
// row begins with the bits of 2^23. The product of 2^23 and a weight is whole; `behind` takes both off again. Weights
// have 11 bits and add up to about 2^11: sums stay below 2^24.
template <> struct QuadRule<ResizeArithmetic::opencv_linear, uint8> {
    using Weights = Vector<int32, 2>;
    static constexpr uint32 bits_of_two_to_23 = 0x4b000000u;

    struct Across {
        uint32 pair;
        Across() = default;
        __device__ __forceinline__ Across(const Weights& weights)
            : pair(uint32(weights.word[0]) | uint32(weights.word[1]) << 16) {}
    };
    struct Down {
        float32 weights[2], behind;
        __device__ __forceinline__ Down(const Weights& both) {
            const int32 first = both.get(0), second = both.get(1);
            weights[0] = multiply_rn(float32(first), 0x1p-16f);
            weights[1] = multiply_rn(float32(second), 0x1p-16f);
            behind = add_rn(two_to_23 - 0x1p21f, float32(-32 * (first + second)));
        }
    };

    static __device__ __forceinline__ uint8 apply(const Quad<uint8>& quad, const Across& across, const Down& down,
                                                  float32) {
        const uint32 sums[2] = {dot_2a_low(across.pair, quad.word[0], bits_of_two_to_23),
                                dot_2a_high(across.pair, quad.word[0], bits_of_two_to_23)};
        float32 total = two_to_23 + 2.0f;
#pragma unroll
        for (int row = 0; row < 2; ++row) {
            const float32 x = fma_toward_zero(bit_cast<float32>(sums[row]), 0x1p-4f, two_to_23 - 0x1p19f);
            total = fma_toward_zero(x, down.weights[row], total);
        }
        return uint8(bit_cast<uint32>(fma_toward_zero(total, 0.25f, down.behind)));
    }
};

}  // namespace sg
