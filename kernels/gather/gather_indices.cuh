// Indices: read, brought inside their axis, and, where a wrong one is to be reported, recorded.
//
// Whatever the indices hold, what comes out is a place inside the axis: no kernel that goes through here can leave the
// picked tensor, and nothing stops the device.
#pragma once
#include "indexing.cuh"
#include "vectors.cuh"

namespace sg {

// clamp: checked before, and clamped all the same, since the memory may have changed; deferred: clamped and recorded.
enum class OutOfRange { clamp, clip, wrap, deferred };

// The first wrong index of the first launch that had one since the host looked last, without a lock: each word is the
// precedence of an index above a byte of what is to be said of it, and the largest wins by itself.
//
//     word 0      | precedence: 56 bits | rule, low byte  |
//     word 1      | the same            | rule, high byte |
//     words 2-9   | the same            | byte k of the index, as two's complement of 64 bits |
//
// Precedence is the complement of 16 bits that count launches and 40 that number the indices of a launch, in row-major
// order. An index has one precedence and one value, so that all words hold bytes of the same one once kernels are done.
// All zero is no wrong index. Only wrong indices come here, and most see at once that an earlier one is there.
struct IndexReport {
    static constexpr int rule_bytes = 2, value_bytes = 8;
    uint64 words[rule_bytes + value_bytes];
};

// The first of a thread's own wrong indices, kept in registers until all its loads are under way.
struct WrongIndex {
    bool found = false;
    uint64 number = 0, value = 0;  // its number among the indices of the launch

    __device__ __forceinline__ void note(uint64 at, uint64 index) {
        if (found && number <= at) return;
        found = true;
        number = at;
        value = index;
    }
};

// `launch` has the launch's count in its upper and the number of its rule in its lower 16 bits.
__device__ __forceinline__ void record(IndexReport* report, uint32 launch, const WrongIndex& wrong) {
    if (!wrong.found) return;
    constexpr uint64 last = (uint64(1) << 40) - 2;  // numbers behind it are taken for it; the next one would be no mark
    const uint64 number = wrong.number < last ? wrong.number : last;
    const uint64 precedence = ~(uint64(launch >> 16) << 40 | number) << 8;
    if (*const_cast<const volatile uint64*>(report->words) >= precedence) return;
    // A loop: these instructions are to stay out of the way of those that move elements.
#pragma unroll 1
    for (int k = 0; k < IndexReport::rule_bytes + IndexReport::value_bytes; ++k) {
        const uint64 said = k < IndexReport::rule_bytes ? uint64(launch) >> 8 * k
                                                        : wrong.value >> 8 * (k - IndexReport::rule_bytes);
        atomicMax(report->words + k, precedence | (said & 0xff));
    }
}

template <typename Number> __device__ __forceinline__ bool is_within(Number number, uint64 size) {
    if constexpr (is_signed_integer<Number>) {
        const int64 value = number;
        return value < 0 ? uint64(-(value + 1)) < size : uint64(value) < size;
    } else {
        return uint64(number) < size;
    }
}

// The place along an axis of `size`, which is at least 1, that an index stands for.
template <OutOfRange Mode, typename Number>
__device__ __forceinline__ uint64 place_of(Number number, uint64 size) {
    if constexpr (is_unsigned_integer<Number>) {
        if (uint64(number) < size) return uint64(number);
        return Mode == OutOfRange::wrap ? uint64(number) % size : size - 1;
    } else {
        const int64 value = number;
        if (value >= 0) {
            if (uint64(value) < size) return uint64(value);
            return Mode == OutOfRange::wrap ? uint64(value) % size : size - 1;
        }
        if (Mode == OutOfRange::clip) return 0;
        const uint64 before_end = uint64(-(value + 1));  // -1 is 0 before the last
        if (before_end < size) return size - 1 - before_end;
        return Mode == OutOfRange::wrap ? size - 1 - before_end % size : 0;
    }
}

// An axis whose coordinate is read from the indices: its stride in elements of the picked side, and how far the number
// for it lies behind the first of its tuple, in numbers. `size` is 64 bits wide, as an axis of stride 0 may be long.
template <typename Index> struct IndexedAxis {
    uint64 size;
    Index stride, component;
};

template <typename Index> struct Places { Signed<Index> plain, picked, index; Index position; };

// Loops over the plain side, the picked side and the indices together, the outermost first, strides in elements.
// Position strides number the indices in row-major order, for reports.
template <typename Index, int Rank> struct GatherAxes {
    static_assert(Rank >= 1 && Rank <= 64, "1 to 64 axes");
    Divisor<Index> sizes[Rank];
    Index plain[Rank], picked[Rank], index[Rank], position[Rank];

    __device__ __forceinline__ Places<Index> unravel(Index linear) const {
        Index plain_offset = 0, picked_offset = 0, index_offset = 0;
        Index number = 0;
#pragma unroll
        for (int axis = Rank - 1; axis >= 0; --axis) {
            const Quotient<Index> q = axis > 0 ? divide(linear, sizes[axis]) : Quotient<Index>{0, linear};
            plain_offset += q.remainder * plain[axis];
            picked_offset += q.remainder * picked[axis];
            index_offset += q.remainder * index[axis];
            number += q.remainder * position[axis];
            linear = q.quotient;
        }
        return {Signed<Index>(plain_offset), Signed<Index>(picked_offset), Signed<Index>(index_offset), number};
    }
};

// What all gathers and scatters are given: the side that is read, the side that is written, the indices.
template <typename Index, int Rank, int Components> struct GatherParameters {
    const uint8* source;
    uint8* target;
    const uint8* indices;
    IndexReport* report;                  // not looked at unless errors are deferred
    uint32 launch;                        // its number, for reports
    IndexedAxis<Index> indexed[Components];
    GatherAxes<Index, Rank> axes;
    Index plain_offset, picked_offset, index_offset;  // of the first element, in elements from the lowest
    Index position_offset;
    Index items;                          // runs or elements in all
};

// The numbers of Length neighbouring places, tuple by tuple, in registers.
//
// Loads are of Bytes each: of one number, or, where the plan says that the numbers of a vector's places follow each
// other, of several. Of places that are not there (`left` is less than Length) the last one's numbers stand in.
template <typename Number, int Length, int Components, int Bytes> struct Numbers {
    static constexpr int per_load = Bytes / int(sizeof(Number));
    static_assert(per_load == 1 || Length * Components % per_load == 0, "whole loads");
    Number values[Length][Components];

    template <typename Index>
    __device__ __forceinline__ void read(const Number* first, Index step, const IndexedAxis<Index>* indexed,
                                         int left) {
        if constexpr (per_load > 1) {
            if (left >= Length) {
#pragma unroll
                for (int piece = 0; piece < Length * Components / per_load; ++piece) {
                    const auto loaded = load_global<Vector<Number, per_load>>(first + piece * per_load);
#pragma unroll
                    for (int i = 0; i < per_load; ++i) {
                        const int at = piece * per_load + i;
                        values[at / Components][at % Components] = loaded.get(i);
                    }
                }
                return;
            }
        }
#pragma unroll
        for (int place = 0; place < Length; ++place) {
            const Index at = Index(place < left ? place : left - 1) * step;
#pragma unroll
            for (int k = 0; k < Components; ++k) {
                values[place][k] = first[Signed<Index>(at + indexed[k].component)];
            }
        }
    }
};

// Where on the picked side a tuple of numbers leads, from `offset` on; `position` is the tuple's number, for reports.
template <OutOfRange Mode, typename Number, typename Index, int Components>
__device__ __forceinline__ Signed<Index> picked_offset(const IndexedAxis<Index> (&indexed)[Components],
                                                       const Number (&tuple)[Components], Index offset,
                                                       Index position, WrongIndex& wrong) {
#pragma unroll
    for (int k = 0; k < Components; ++k) {
        if constexpr (Mode == OutOfRange::deferred) {
            const uint64 number = uint64(position) * Components + k;
            if (!is_within(tuple[k], indexed[k].size)) wrong.note(number, uint64(int64(tuple[k])));
        }
        offset += Index(place_of<Mode>(tuple[k], indexed[k].size)) * indexed[k].stride;
    }
    return Signed<Index>(offset);
}

}  // namespace sg
