// Indices: loaded, resolved to positions inside their axis, and recorded if a wrong one is to be reported.
//
// The resolved position is inside the axis for any index value. No kernel that uses these functions accesses memory
// outside the indexed tensor, and no index traps.
#pragma once
#include "indexing.cuh"
#include "vectors.cuh"

namespace sg {

// clamp: checked before, but memory may change afterwards, so still clamped; deferred: clamped and recorded.
enum class OutOfRange { clamp, clip, wrap, deferred };

// The first wrong index of the first launch that had one since the host last read the report. Lock-free: each word has
// a precedence above one byte of the message, and an atomic maximum keeps the word with the highest precedence.
//
//     word 0      | precedence: 56 bits | rule, low byte  |
//     word 1      | the same            | rule, high byte |
//     words 2-9   | the same            | byte k of the index, as two's complement of 64 bits |
//
// Precedence is the complement of a 16-bit launch count and the 40-bit row-major number of an index in its launch. An
// index has one precedence and one value, so after the kernels finish all words have bytes of the same index. All zero
// means no wrong index. Only wrong indices are recorded, and most return early because an earlier one is there.
struct IndexReport {
    static constexpr int rule_bytes = 2, value_bytes = 8;
    uint64 words[rule_bytes + value_bytes];
};

// A thread's first wrong index, kept in registers until all its loads are issued.
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

// `launch`: the launch count in the upper 16 bits, the rule's number in the lower 16 bits.
__device__ __forceinline__ void record(IndexReport* report, uint32 launch, const WrongIndex& wrong) {
    if (!wrong.found) return;
    constexpr uint64 last = (uint64(1) << 40) - 2;  // numbers behind it are taken for it; the next one would be no mark
    const uint64 number = wrong.number < last ? wrong.number : last;
    const uint64 precedence = ~(uint64(launch >> 16) << 40 | number) << 8;
    if (*const_cast<const volatile uint64*>(report->words) >= precedence) return;
    // A loop, to keep these instructions out of the hot path.
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

// Resolve an index to a position along an axis of `size`, which is at least 1.
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

// An indexed axis: its stride in elements on the indexed side, and the offset of its index in the tuple, in numbers.
// `size` is 64 bits wide, because an axis of stride 0 may be long.
template <typename Index> struct IndexedAxis {
    uint64 size;
    Index stride, component;
};

template <typename Index> struct Places { Signed<Index> dense, indexed, index; Index position; };

// The common loops of the dense side, the indexed side and the indices, outermost first; strides in elements. Position
// strides give the row-major number of an index, for reports.
template <typename Index, int Rank> struct GatherAxes {
    static_assert(Rank >= 1 && Rank <= 64, "1 to 64 axes");
    Divisor<Index> sizes[Rank];
    Index dense[Rank], indexed[Rank], index[Rank], position[Rank];

    __device__ __forceinline__ Places<Index> unravel(Index linear) const {
        Index dense_offset = 0, indexed_offset = 0, index_offset = 0;
        Index number = 0;
#pragma unroll
        for (int axis = Rank - 1; axis >= 0; --axis) {
            const Quotient<Index> q = axis > 0 ? divide(linear, sizes[axis]) : Quotient<Index>{0, linear};
            dense_offset += q.remainder * dense[axis];
            indexed_offset += q.remainder * indexed[axis];
            index_offset += q.remainder * index[axis];
            number += q.remainder * position[axis];
            linear = q.quotient;
        }
        return {Signed<Index>(dense_offset), Signed<Index>(indexed_offset), Signed<Index>(index_offset), number};
    }
};

// Parameters of all gathers and scatters: the source, the target and the indices.
template <typename Index, int Rank, int Components> struct GatherParameters {
    const uint8* source;
    uint8* target;
    const uint8* indices;
    IndexReport* report;                  // of a check before, in mode clamp; to record in, where errors are deferred
    uint32 launch;                        // its number, for reports
    IndexedAxis<Index> indexed_axes[Components];
    GatherAxes<Index, Rank> axes;
    Index dense_offset, indexed_offset, index_offset;  // of the first element, in elements from the lowest
    Index position_offset;
    Index items;                          // runs or elements in all
};

// Whether a check before this launch, in the same stream, reported a wrong index: nothing is stored then.
//
// It is read first and used before the first store: its latency is hidden behind that of the indices. Only indices of
// mode clamp are checked.
template <OutOfRange Mode> __device__ __forceinline__ bool is_refused(const IndexReport* report) {
    if constexpr (Mode == OutOfRange::clamp) return report && report->words[0];
    else return false;
}

// The indices of Length adjacent places, tuple by tuple, in registers.
//
// Each load is of Bytes: one number, or several if the plan found the numbers of a vector's places adjacent. Places
// past the end (`left` is less than Length) repeat the last place's numbers.
template <typename Number, int Length, int Components, int Bytes> struct Numbers {
    static constexpr int per_load = Bytes / int(sizeof(Number));
    static_assert(per_load == 1 || Length * Components % per_load == 0, "whole loads");
    Number values[Length][Components];

    template <typename Index>
    __device__ __forceinline__ void read(const Number* first, Index step, const IndexedAxis<Index>* indexed_axes,
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
                values[place][k] = first[Signed<Index>(at + indexed_axes[k].component)];
            }
        }
    }
};

// The offset on the indexed side that a tuple of indices selects, added to `offset`; `position` numbers the tuple.
template <OutOfRange Mode, typename Number, typename Index, int Components>
__device__ __forceinline__ Signed<Index> indexed_offset(const IndexedAxis<Index> (&indexed_axes)[Components],
                                                       const Number (&tuple)[Components], Index offset,
                                                       Index position, WrongIndex& wrong) {
#pragma unroll
    for (int k = 0; k < Components; ++k) {
        if constexpr (Mode == OutOfRange::deferred) {
            const uint64 number = uint64(position) * Components + k;
            if (!is_within(tuple[k], indexed_axes[k].size)) wrong.note(number, uint64(int64(tuple[k])));
        }
        offset += Index(place_of<Mode>(tuple[k], indexed_axes[k].size)) * indexed_axes[k].stride;
    }
    return Signed<Index>(offset);
}

}  // namespace sg
