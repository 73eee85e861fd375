// Samples of a frame's pixels, wherever they are, and the integer arithmetic from samples to red, green and blue.
#pragma once
#include "indexing.cuh"
#include "vectors.cuh"

namespace sg {

// Fixed-point constants of `bits` fractional bits, and the offsets that are subtracted from samples; luma counts as at
// least `luma_least`. With `floors` each product is rounded down by itself, else their sum is rounded.
struct FrameMatrix {
    int32 luma_least, luma_floor, chroma_centre, luma, red_v, green_u, green_v, blue_u, bits, floors;
};

// Sums of 8-bit samples times 21-bit constants fit 32 bits, and wrap round with more; those of 16 bits need 64.
template <typename Sample> using FrameSum = select<sizeof(Sample) == 1, uint32, int64>;

// One pixel's red, green and blue before they are clamped; `blue` and `red` are differences less the centre. `floors`
// is the matrix's; as a constant it saves the masks. Products of bytes alone may be rounded down.
template <typename Sample>
__device__ __forceinline__ void unclamped_colour(int32 luma, int32 blue, int32 red, const FrameMatrix& m, bool floors,
                                                 int32 (&whole)[3]) {
    using Sum = FrameSum<Sample>;
    // Deep samples have no least luma: only OpenCV's matrix has one, of 8 bits.
    const Sum counted = sizeof(Sample) == 1 && luma < m.luma_least ? m.luma_least : luma, u = blue, v = red;
    // Constants of deep samples have 20 bits. Luma's product is rounded down with the sum.
    const int32 bits = sizeof(Sample) == 1 ? m.bits : 20;
    const bool cuts = sizeof(Sample) == 1 && floors;
    const Sum kept = cuts ? ~Sum(0) << bits : ~Sum(0), half = cuts ? 0 : Sum(1) << (bits - 1);
    const Sum y = counted * m.luma + (half - Sum(m.luma_floor) * m.luma);
    whole[0] = int32(Signed<Sum>(y + (v * m.red_v & kept)) >> bits);
    whole[1] = int32(Signed<Sum>(y + (v * m.green_v & kept) + (u * m.green_u & kept)) >> bits);
    whole[2] = int32(Signed<Sum>(y + (u * m.blue_u & kept)) >> bits);
}

// One pixel's red, green and blue.
template <typename Sample> struct FrameColour {
    Sample channel[3];

    FrameColour() = default;
    __device__ __forceinline__ FrameColour(Sample luma, Sample blue, Sample red, const FrameMatrix& m) {
        constexpr int32 most = Sample(~Sample(0));
        int32 whole[3];
        const int32 u = int32(blue) - m.chroma_centre, v = int32(red) - m.chroma_centre;
        unclamped_colour<Sample>(luma, u, v, m, m.floors != 0, whole);
#pragma unroll
        for (int c = 0; c < 3; ++c) channel[c] = Sample(whole[c] < 0 ? 0 : whole[c] > most ? most : whole[c]);
    }
};

// A colour times a factor of 20 fraction bits, which of bytes is 1.
template <typename Sample> __device__ __forceinline__ Sample scaled_colour(Sample colour, int32 factor) {
    if constexpr (sizeof(Sample) == 1) return colour;
    constexpr int64 most = Sample(~Sample(0));
    const int64 whole = (int64(colour) * factor + (1 << 19)) >> 20;
    return Sample(whole > most ? most : whole);
}

// The samples of a pixel: luma, and repeated or linear chroma of two columns, or chroma of its own; or its colours,
// which the matrix's `luma` multiplies.
enum class FrameKind : int32 { repeated, linear, whole, colours };

// Strides of the three kinds of samples (luma, blue and red difference; or red, green and blue), in samples.
struct FrameShape {
    int64 row_strides[3], column_strides[3];
    int32 row_shift;                    // 1 if two rows of pixels share one of chroma
    int32 chroma_height, chroma_width;
    int32 width;                        // in pixels
    FrameKind kind;
    FrameMatrix matrix;
};

// A frame of a batch: the addresses of its first sample of each kind, or bytes from the source's address to them.
struct FrameRecord {
    uint64 samples[3];
    FrameShape shape;
};

// The pixels of a frame of any format, whose samples are loaded one by one.
template <typename Sample> struct FramePixels {
    uint64 samples[3];
    const FrameShape& shape;

    __device__ __forceinline__ FramePixels(const uint64 (&addresses)[3], const FrameShape& frame)
        : samples{addresses[0], addresses[1], addresses[2]}, shape(frame) {}
    __device__ __forceinline__ FramePixels(const uint8* base, const FrameRecord& frame)
        : samples{uint64(base) + frame.samples[0], uint64(base) + frame.samples[1], uint64(base) + frame.samples[2]},
          shape(frame.shape) {}

    // Calls use(column, colour) for those of two neighbouring columns that are from `first` to before `stop`.
    template <typename Use>
    __device__ __forceinline__ void pair(int32 row, int32 number, int32 first, int32 stop, const Use& use) const {
        if (shape.kind == FrameKind::colours) {
#pragma unroll
            for (int32 i = 0; i < 2; ++i) {
                const int32 column = 2 * number + i;
                if (column < first || column >= stop) continue;
                FrameColour<Sample> colour;
#pragma unroll
                for (int c = 0; c < 3; ++c) {
                    colour.channel[c] = scaled_colour(sample(c, row, column), shape.matrix.luma);
                }
                use(column, colour);
            }
            return;
        }
        Sample blue[2], red[2];
        chroma(1, row, number, blue);
        chroma(2, row, number, red);
#pragma unroll
        for (int32 i = 0; i < 2; ++i) {
            const int32 column = 2 * number + i;
            if (column < first || column >= stop) continue;
            use(column, FrameColour<Sample>(sample(0, row, column), blue[i], red[i], shape.matrix));
        }
    }

    __device__ __forceinline__ FrameColour<Sample> at(int32 row, int32 column) const {
        FrameColour<Sample> found;
        pair(row, column >> 1, column, column + 1, [&](int32, const FrameColour<Sample>& colour) { found = colour; });
        return found;
    }

  private:
    __device__ __forceinline__ Sample sample(int kind, int32 row, int32 column) const {
        return load<Sample>(reinterpret_cast<const Sample*>(samples[kind]) + row * shape.row_strides[kind] +
                            column * shape.column_strides[kind]);
    }

    // Blue or red difference of two neighbouring pixels, the first of an even column. Linear chroma is sited left and
    // half-way between two rows: three quarters are those of the nearer row, and the odd column is the mean with the
    // next sample.
    __device__ __forceinline__ void chroma(int kind, int32 row, int32 number, Sample (&made)[2]) const {
        const int32 own = row >> shape.row_shift;
        if (shape.kind != FrameKind::linear) {
            const bool is_whole = shape.kind == FrameKind::whole;
            const int32 first = number << is_whole;
            made[0] = made[1] = sample(kind, own, first);
            if (is_whole && first + 1 < shape.chroma_width) made[1] = sample(kind, own, first + 1);
            return;
        }
        const int32 other = own + ((row & 1) != 0 ? 1 : -1), last = shape.chroma_height - 1;
        const int32 beside = other < 0 ? 0 : other > last ? last : other;
        const auto sum = [&](int32 column) {
            const int32 near = int32(sample(kind, own, column));
            return shape.row_shift != 0 ? 3 * near + int32(sample(kind, beside, column)) : 4 * near;
        };
        const int32 left = sum(number), right = sum(number + 1 < shape.chroma_width ? number + 1 : number);
        made[0] = Sample((left + 2) >> 2);
        made[1] = Sample((left + right + 4) >> 3);
    }
};

}  // namespace sg
