// From a linear index to source and target offsets, in 32- or 64-bit arithmetic.
//
// Index is uint32 while every linear index is below 2^31 and every offset fits in 31 bits and a sign; else uint64.
// Strides may be negative or zero: they travel as two's complement, products and sums wrap, and the result is signed.
#pragma once
#include "element_types.cuh"

namespace sg {

template <typename Index> using Signed = select<sizeof(Index) == 4, int32, int64>;

// Division by a number known at launch. For 32 bits, multiply-high and shift (Granlund and Montgomery 1994):
//   shift = ceil(log2(divisor)),  magic = 2^32 * (2^shift - divisor) / divisor + 1
// which is exact for every dividend below 2^31 and every divisor from 1 to 2^31 - 1.
template <typename Index> struct Divisor;

template <> struct Divisor<uint32> {
    uint32 divisor, magic, shift;
    __device__ __forceinline__ uint32 divide(uint32 n) const { return (__umulhi(n, magic) + n) >> shift; }
};

template <> struct Divisor<uint64> {
    uint64 divisor;
    __device__ __forceinline__ uint64 divide(uint64 n) const { return n / divisor; }
};

template <typename Index> struct Quotient { Index quotient, remainder; };

template <typename Index>
__device__ __forceinline__ Quotient<Index> divide(Index n, const Divisor<Index>& by) {
    const Index quotient = by.divide(n);
    return {quotient, n - quotient * by.divisor};
}

template <typename Index> struct Offsets { Signed<Index> source, target; };

// The outermost axis first, up to the 64 that a NumPy array may have; strides in whatever unit the kernel counts in.
template <typename Index, int Rank> struct Axes {
    static_assert(Rank >= 1 && Rank <= 64, "1 to 64 axes");
    Divisor<Index> sizes[Rank];
    Index source_strides[Rank];
    Index target_strides[Rank];

    // The last axis varies fastest. The first needs no division: the remaining quotient is its coordinate.
    __device__ __forceinline__ Offsets<Index> unravel(Index linear) const {
        Index none[1];
        return unravel<0>(linear, {}, none);
    }

    // The same, plus the coordinates along the `Wanted` axes, which may be run-time values. For an absent axis (-1) the
    // coordinate is left unchanged.
    template <int Wanted>
    __device__ __forceinline__ Offsets<Index> unravel(Index linear, const int (&wanted)[Wanted ? Wanted : 1],
                                                      Index (&coordinates)[Wanted ? Wanted : 1]) const {
        Index source = 0, target = 0;
#pragma unroll
        for (int axis = Rank - 1; axis >= 0; --axis) {
            const Quotient<Index> q = axis > 0 ? divide(linear, sizes[axis]) : Quotient<Index>{0, linear};
#pragma unroll
            for (int i = 0; i < Wanted; ++i) {
                if (axis == wanted[i]) coordinates[i] = q.remainder;
            }
            source += q.remainder * source_strides[axis];
            target += q.remainder * target_strides[axis];
            linear = q.quotient;
        }
        return {Signed<Index>(source), Signed<Index>(target)};
    }
};

// The linear number of a block in a grid that continues along y after 2^31 - 1 blocks along x.
template <typename Index> __device__ __forceinline__ Index linear_block() {
    if constexpr (sizeof(Index) == 4) return blockIdx.x;
    else return blockIdx.x + Index(blockIdx.y) * gridDim.x;
}

}  // namespace sg
