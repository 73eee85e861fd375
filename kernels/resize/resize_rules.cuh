// The arithmetic of a resize, bitwise equal to Pillow, OpenCV and torch: one pass along each axis.
//
// A pass starts a sum, adds its taps in order, and finishes it. The constants of each rule are those of
// values/interpolation.py, which gives their sources. Integer sums fit 32 bits for every supported filter. Float
// sums round each product and each addition, so the order matters and no multiply-add is fused, apart from torch's last
// taps: `add` is told whether a tap is behind `rounded_taps`. OpenCV's INTER_LINEAR of bytes has no pass here, but the
// steps of its own in resize_quads.cuh.
#pragma once
#include "conversion.cuh"

namespace sg {

enum class ResizeArithmetic {
    fixed_point, pillow_double, opencv_linear, opencv_exact, opencv_cubic, opencv_quarter, opencv_mean, opencv_float,
    torch_float
};

__device__ __forceinline__ uint8 clamped_byte(int32 x) { return uint8(x < 0 ? 0 : x > 255 ? 255 : x); }

// A weighted integer sum from Start on, shifted right by Shift.
template <typename From_, typename To_, int Start, int Shift> struct IntegerPass {
    using Weight = int32;
    using Sum = int32;
    using From = From_;
    using To = To_;
    static constexpr bool keeps_copies = false;  // a pass of copies is one of weights that change nothing
    static constexpr bool fuses = false;
    static __device__ __forceinline__ Sum start() { return Start; }
    // Sums of uninitialised memory may wrap; their results are not used.
    static __device__ __forceinline__ Sum add(Sum sum, Weight weight, int32 x, bool = false) {
        return int32(uint32(sum) + uint32(weight) * uint32(x));
    }
    // A sum is whole(sum), saturated.
    static constexpr bool saturates = is_same<To, uint8>;
    static __device__ __forceinline__ int32 whole(Sum sum) { return sum >> Shift; }
    static __device__ __forceinline__ To finish(Sum sum, float32) {
        if constexpr (saturates) return clamped_byte(whole(sum));
        else return To(whole(sum));
    }
};

// A weighted float sum with each product and addition rounded. Integers are converted to the float type.
template <typename From_, typename To_, typename Float> struct FloatPass {
    using Weight = Float;
    using Sum = Float;
    using From = From_;
    using To = To_;
    static constexpr bool saturates = false, fuses = false;
    // A copy keeps negative zero and NaN.
    static constexpr bool keeps_copies = is_same<From, To> && is_floating<To>;
    // Pillow's sums start with zero, those of OpenCV and torch with their first product; -0.0 + product is the product.
    static __device__ __forceinline__ Sum start() { return is_same<Float, float64> ? Float(0) : -Float(0); }
    static __device__ __forceinline__ Sum add(Sum sum, Weight weight, From x, bool = false) {
        return add_rn(sum, multiply_rn(weight, encode<Float, Rounding::nearest, Nan::ignore>(x)));
    }
    static __device__ __forceinline__ To finish(Sum sum, float32) {
        if constexpr (is_floating<To>) {
            return is_nan(sum) ? canonical_nan<To>() : encode<To, Rounding::nearest, Nan::ignore>(sum);
        } else {
            return encode<To, Rounding::nearest, Nan::ignore>(sum);
        }
    }
};

// Pillow's 16 bits: half up.
struct PillowShortPass : FloatPass<uint16, uint16, float64> {
    static __device__ __forceinline__ uint16 finish(float64 sum, float32) {
        return encode<uint16, Rounding::truncate, Nan::ignore>(add_rn(sum, 0.5));
    }
};

// torch's loops for AVX2: the first product and whole groups of four are rounded, and the last taps fused.
struct TorchPass : FloatPass<float32, float32, float32> {
    static constexpr bool fuses = true;
    static __device__ __forceinline__ float32 add(float32 sum, float32 weight, float32 x, bool fused) {
        return fused ? fused_rn(weight, x, sum) : add_rn(sum, multiply_rn(weight, x));
    }
};

// How many of a sum's taps have rounded products.
template <typename Pass> __device__ __forceinline__ int32 rounded_taps(int32 count) {
    return Pass::fuses ? ((count - 1) & ~3) + 1 : count;
}

// The second pass of a mean over whole pixels: the sum times one float32.
template <typename Element> struct OpencvMeanPass : IntegerPass<int32, Element, 0, 0> {
    static constexpr bool saturates = false;
    static __device__ __forceinline__ Element finish(int32 sum, float32 factor) {
        return encode<Element, Rounding::nearest, Nan::ignore>(multiply_rn(float32(sum), factor));
    }
};

// The two passes of a rule for pixels of a type.
template <ResizeArithmetic arithmetic, typename Element> struct ResizePasses;

template <> struct ResizePasses<ResizeArithmetic::fixed_point, uint8> {
    using First = IntegerPass<uint8, uint8, 1 << 21, 22>;
    using Second = First;
};
template <typename Element> struct ResizePasses<ResizeArithmetic::pillow_double, Element> {
    using First = select<is_same<Element, uint16>, PillowShortPass, FloatPass<Element, Element, float64>>;
    using Second = First;
};
template <> struct ResizePasses<ResizeArithmetic::opencv_exact, uint8> {
    using First = IntegerPass<uint8, uint16, 0, 0>;
    using Second = IntegerPass<uint16, uint8, 1 << 15, 16>;
};
template <> struct ResizePasses<ResizeArithmetic::opencv_cubic, uint8> {
    using First = IntegerPass<uint8, int32, 0, 0>;
    using Second = IntegerPass<int32, uint8, 1 << 21, 22>;
};
template <typename Element> struct ResizePasses<ResizeArithmetic::opencv_quarter, Element> {
    using First = IntegerPass<Element, int32, 0, 0>;
    using Second = IntegerPass<int32, Element, 2, 2>;
};
template <typename Element> struct ResizePasses<ResizeArithmetic::opencv_mean, Element> {
    using First = IntegerPass<Element, int32, 0, 0>;
    using Second = OpencvMeanPass<Element>;
};
template <typename Element> struct ResizePasses<ResizeArithmetic::opencv_float, Element> {
    using First = FloatPass<Element, float32, float32>;
    using Second = FloatPass<float32, Element, float32>;
};
template <> struct ResizePasses<ResizeArithmetic::torch_float, float32> {
    using First = TorchPass;
    using Second = First;
};

}  // namespace sg
