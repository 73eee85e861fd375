// Inner-axis gather: the same indices serve every outer row.
//
// A thread keeps the indices of `length` adjacent places in registers and applies them to `rows` outer rows: rows *
// length loads are in flight together, and each row's result is one vector. Adjacent threads have adjacent places, and
// the next row follows after the last one: stores are coalesced for rows of any length.
//
//     thread       0         1       …       | last of the row | first of the next …
//     row 0        vector 0  vector 1        | the row's end   | row 1: vector 0
//     row 0 + groups, row 0 + 2 groups, … `rows` of them
//
// Rows of the indexed side are read through the cache. Random accesses to a long row use little of each sector and
// fetch the row to several SMs, so blocks are larger for long rows.
//
// Bytes moved: each element once in and once out, and an index once for every `rows` rows.
#include "gather_indices.cuh"
#include "vectors.cuh"

namespace sg {

struct GatherInnerPolicy {
    int length;       // elements of a vector
    int index_bytes;  // of one load of indices
    OutOfRange mode;
    int rows;         // outer rows of a thread
    int threads;      // of a block
    int rank;         // axes over outer rows
};

// The axes are those of the outer rows; the inner one has a stride on each side and in the indices.
template <typename Index, GatherInnerPolicy policy> struct GatherInnerParameters {
    GatherParameters<Index, policy.rank, 1> common;  // items are the outer rows
    Index count, dense_stride, index_stride, position_stride;
    Index groups;            // of rows, one row of each for a thread
    Divisor<Index> vectors;  // of a row
};

template <typename Element, typename Number, typename Index, GatherInnerPolicy policy>
__global__ void __launch_bounds__(policy.threads)
    gather_inner(__grid_constant__ const GatherInnerParameters<Index, policy> p) {
    const Quotient<Index> number = divide(linear_block<Index>() * policy.threads + threadIdx.x, p.vectors);
    if (number.quotient >= p.groups) return;
    const bool refused = is_refused<policy.mode>(p.common.report);
    const Index place = number.remainder * policy.length;
    const int left = p.count - place < policy.length ? int(p.count - place) : policy.length;

    Numbers<Number, policy.length, 1, policy.index_bytes> numbers;
    numbers.read(reinterpret_cast<const Number*>(p.common.indices) +
                     Signed<Index>(p.common.index_offset + place * p.index_stride),
                 p.index_stride, p.common.indexed_axes, left);
    WrongIndex wrong;
    const Element* source = reinterpret_cast<const Element*>(p.common.source);
    Element* target = reinterpret_cast<Element*>(p.common.target) +
                      Signed<Index>(p.common.dense_offset + place * p.dense_stride);
    Signed<Index> indexed[policy.length];
#pragma unroll
    for (int i = 0; i < policy.length; ++i) {
        const Index at = place + Index(i < left ? i : left - 1);
        indexed[i] = indexed_offset<policy.mode>(p.common.indexed_axes, numbers.values[i], p.common.indexed_offset,
                                        p.common.position_offset + at * p.position_stride, wrong);
    }

    Element elements[policy.rows][policy.length];
    Signed<Index> to[policy.rows];
#pragma unroll
    for (int row = 0; row < policy.rows; ++row) {
        const Index outer = number.quotient + Index(row) * p.groups;
        if (outer >= p.common.items) continue;
        const Places<Index> places = p.common.axes.unravel(outer);
        to[row] = places.dense;
#pragma unroll
        for (int i = 0; i < policy.length; ++i) {
            elements[row][i] = load<Element>(source + (places.indexed + indexed[i]));
        }
    }
    if (refused) return;
#pragma unroll
    for (int row = 0; row < policy.rows; ++row) {
        if (number.quotient + Index(row) * p.groups >= p.common.items) continue;
        if (left == policy.length) {
            Vector<Element, policy.length> vector{};
#pragma unroll
            for (int i = 0; i < policy.length; ++i) vector.set(i, elements[row][i]);
            store_global(target + to[row], vector);
            continue;
        }
#pragma unroll
        for (int i = 0; i < policy.length; ++i) {
            if (i < left) store(target + to[row] + i, elements[row][i]);
        }
    }
    if constexpr (policy.mode == OutOfRange::deferred) {
        if (number.quotient == 0) record(p.common.report, p.common.launch, wrong);
    }
}

}  // namespace sg
