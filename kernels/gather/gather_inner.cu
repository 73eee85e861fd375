// Inner-axis gather: the same indices serve every outer row.
//
// A thread keeps the indices of Length neighbouring places in registers and walks Rows outer rows with them, whose
// Rows * Length loads are under way together; what it makes of a row is one vector. Neighbouring threads have
// neighbouring places, and behind the last of them the next row's: stores are side by side however short rows are.
//
//     thread       0         1       …       | last of the row | first of the next …
//     row 0        vector 0  vector 1        | the row's end   | row 1: vector 0
//     row 0 + groups, row 0 + 2 groups, … Rows of them
//
// Rows of the picked side are read through the cache. Of a long row at random places, few threads would use little of
// each of its sectors and bring the row to several multiprocessors: blocks are larger then.
//
// Bytes moved: each element once in and once out, and an index once for every Rows rows.
#include "gather_indices.cuh"
#include "vectors.cuh"

namespace sg {

// The axes are those of the outer rows; the inner one has a stride on each side and in the indices.
template <typename Index, int Rank> struct GatherInnerParameters {
    GatherParameters<Index, Rank, 1> common;  // items are the outer rows
    Index count, plain_stride, index_stride, position_stride;
    Index groups;            // of rows, one row of each for a thread
    Divisor<Index> vectors;  // of a row
};

template <typename Element, int Length, typename Number, int IndexBytes, typename Index, OutOfRange Mode, int Rows,
          int Threads, int Rank>
__global__ void __launch_bounds__(Threads)
    gather_inner(__grid_constant__ const GatherInnerParameters<Index, Rank> p) {
    const Quotient<Index> number = divide(linear_block<Index>() * Threads + threadIdx.x, p.vectors);
    if (number.quotient >= p.groups) return;
    const Index place = number.remainder * Length;
    const int left = p.count - place < Length ? int(p.count - place) : Length;

    Numbers<Number, Length, 1, IndexBytes> numbers;
    numbers.read(reinterpret_cast<const Number*>(p.common.indices) +
                     Signed<Index>(p.common.index_offset + place * p.index_stride),
                 p.index_stride, p.common.indexed, left);
    WrongIndex wrong;
    const Element* source = reinterpret_cast<const Element*>(p.common.source);
    Element* target = reinterpret_cast<Element*>(p.common.target) +
                      Signed<Index>(p.common.plain_offset + place * p.plain_stride);
    Signed<Index> picked[Length];
#pragma unroll
    for (int i = 0; i < Length; ++i) {
        const Index at = place + Index(i < left ? i : left - 1);
        picked[i] = picked_offset<Mode>(p.common.indexed, numbers.values[i], p.common.picked_offset,
                                        p.common.position_offset + at * p.position_stride, wrong);
    }

    Element elements[Rows][Length];
    Signed<Index> to[Rows];
#pragma unroll
    for (int row = 0; row < Rows; ++row) {
        const Index outer = number.quotient + Index(row) * p.groups;
        if (outer >= p.common.items) continue;
        const Places<Index> places = p.common.axes.unravel(outer);
        to[row] = places.plain;
#pragma unroll
        for (int i = 0; i < Length; ++i) elements[row][i] = load<Element>(source + (places.picked + picked[i]));
    }
#pragma unroll
    for (int row = 0; row < Rows; ++row) {
        if (number.quotient + Index(row) * p.groups >= p.common.items) continue;
        if (left == Length) {
            Vector<Element, Length> vector{};
#pragma unroll
            for (int i = 0; i < Length; ++i) vector.set(i, elements[row][i]);
            store_global(target + to[row], vector);
            continue;
        }
#pragma unroll
        for (int i = 0; i < Length; ++i) {
            if (i < left) store(target + to[row] + i, elements[row][i]);
        }
    }
    if constexpr (Mode == OutOfRange::deferred) {
        if (number.quotient == 0) record(p.common.report, p.common.launch, wrong);
    }
}

}  // namespace sg
