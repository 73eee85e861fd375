// Gather short rows: runs of a few bytes, not a whole vector, such as the colours of a palette, packed on the target.
//
// A thread makes four adjacent rows of the target. Each row is loaded in pieces from the place that its index selects;
// the four rows together are whole words, which are stored:
//
//     images of 3-byte colours    | r g b r | g b r g | b r g b |      four indices in one or two loads
//
// Bytes moved: each row once in and once out, and its index once.
#include "gather_indices.cuh"
#include "vectors.cuh"

namespace sg {

struct GatherShortRowsPolicy {
    int piece_bytes;  // of one load of elements
    int count;        // pieces of a row
    int store_bytes;  // of one store
    int index_bytes;  // of one load of indices
    OutOfRange mode;
    int rank;         // axes over fours of rows
};

template <typename Index, GatherShortRowsPolicy policy> struct GatherShortRowsParameters {
    GatherParameters<Index, policy.rank, 1> common;       // the last axis runs over fours of rows
    Index count;                                   // rows that follow each other on the target
    Index indexed_step, index_step, position_step;  // from one of them to the next
};

template <typename Element, typename Number, typename Index, GatherShortRowsPolicy policy>
__global__ void __launch_bounds__(256)
    gather_short_rows(__grid_constant__ const GatherShortRowsParameters<Index, policy> p) {
    constexpr int rows = 4, length = policy.piece_bytes / int(sizeof(Element)), row = policy.count * length;
    constexpr int stored = policy.store_bytes / int(sizeof(Element));
    static_assert(rows * row % stored == 0, "whole stores");
    const Index number = linear_block<Index>() * 256 + threadIdx.x;
    if (number >= p.common.items) return;
    const bool refused = is_refused<policy.mode>(p.common.report);
    const Places<Index> places = p.common.axes.unravel(number);
    const Index begin = divide(number, p.common.axes.sizes[policy.rank - 1]).remainder * rows;
    const int left = p.count - begin < rows ? int(p.count - begin) : rows;
    Numbers<Number, rows, 1, policy.index_bytes> numbers;
    numbers.read(reinterpret_cast<const Number*>(p.common.indices) +
                     Signed<Index>(p.common.index_offset + Index(places.index)),
                 p.index_step, p.common.indexed_axes, left);

    WrongIndex wrong;
    const Element* source = reinterpret_cast<const Element*>(p.common.source);
    Vector<Element, length> pieces[rows][policy.count];
#pragma unroll
    for (int r = 0; r < rows; ++r) {
        const Index place = Index(r < left ? r : left - 1);
        const Signed<Index> indexed = indexed_offset<policy.mode>(
            p.common.indexed_axes, numbers.values[r],
            p.common.indexed_offset + Index(places.indexed) + place * p.indexed_step,
            p.common.position_offset + places.position + place * p.position_step, wrong);
#pragma unroll
        for (int i = 0; i < policy.count; ++i) {
            pieces[r][i] = load_global<Vector<Element, length>>(source + indexed + i * length);
        }
    }
    if (refused) return;
    Element* target = reinterpret_cast<Element*>(p.common.target) +
                      Signed<Index>(p.common.dense_offset + Index(places.dense));
    if (left == rows) {
#pragma unroll
        for (int vector = 0; vector < rows * row / stored; ++vector) {
            Vector<Element, stored> together{};
#pragma unroll
            for (int i = 0; i < stored; ++i) {
                const int element = vector * stored + i;
                together.set(i, pieces[element / row][element % row / length].get(element % length));
            }
            store_global(target + vector * stored, together);
        }
    } else {
#pragma unroll
        for (int element = 0; element < rows * row; ++element) {
            if (element / row < left) {
                store(target + element, pieces[element / row][element % row / length].get(element % length));
            }
        }
    }
    if constexpr (policy.mode == OutOfRange::deferred) record(p.common.report, p.common.launch, wrong);
}

}  // namespace sg
