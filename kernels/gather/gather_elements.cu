// Gather elements, each by an index or a tuple of indices of its own; the scatter swaps source and target.
//
// A thread makes `items` vectors of `length` elements that are adjacent on the dense side. Its vectors are a block's
// width apart, so a warp's accesses to the dense side and to the indices are coalesced. The indexed side is accessed
// element by element. All items * length loads through indices are in flight together:
//
//     row      | vector 0: length elements | vector 1 | …    | the last: what is left of the row, element by element |
//     block    thread 0: vectors 0, 256, …    thread 1: vectors 1, 257, …    …
//
// Bytes moved: each element once in and once out, and its indices once.
#include "gather_indices.cuh"
#include "vectors.cuh"

namespace sg {

struct GatherElementsPolicy {
    int length;       // elements of a vector
    int index_bytes;  // of one load of indices
    OutOfRange mode;
    bool scatters;
    int items;        // vectors of a thread
    int rank;         // axes over vectors
    int components;   // indices of a tuple
};

template <typename Index, GatherElementsPolicy policy> struct GatherElementsParameters {
    GatherParameters<Index, policy.rank, policy.components> common;  // the last axis runs over the vectors of a row
    Index count;                                       // elements of a row
    Index indexed_step, index_step, position_step;      // from one element of a row to the next
};

template <typename Element, typename Number, typename Index, GatherElementsPolicy policy>
__global__ void __launch_bounds__(256)
    gather_elements(__grid_constant__ const GatherElementsParameters<Index, policy> p) {
    using Piece = Vector<Element, policy.length>;
    const bool refused = is_refused<policy.mode>(p.common.report);
    const Index first = linear_block<Index>() * (256 * policy.items) + threadIdx.x;
    const Element* source = reinterpret_cast<const Element*>(p.common.source);
    Element* target = reinterpret_cast<Element*>(p.common.target);

    // All index loads are issued before the first is used; a thread past the last vector repeats that vector's loads.
    Numbers<Number, policy.length, policy.components, policy.index_bytes> numbers[policy.items];
    Places<Index> places[policy.items];
    int left[policy.items];  // elements from the vector's first to the row's end, up to a vector's
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
        const Index number = first + Index(item) * 256;
        const Index known = number < p.common.items ? number : p.common.items - 1;
        places[item] = p.common.axes.unravel(known);
        left[item] = policy.length;
        if constexpr (policy.length > 1) {
            const Index begin = divide(known, p.common.axes.sizes[policy.rank - 1]).remainder * policy.length;
            if (p.count - begin < policy.length) left[item] = int(p.count - begin);
        }
        numbers[item].read(reinterpret_cast<const Number*>(p.common.indices) +
                               Signed<Index>(p.common.index_offset + Index(places[item].index)),
                           p.index_step, p.common.indexed_axes, left[item]);
    }

    WrongIndex wrong;
    Signed<Index> indexed[policy.items][policy.length], dense[policy.items];
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
        dense[item] = Signed<Index>(p.common.dense_offset + Index(places[item].dense));
#pragma unroll
        for (int i = 0; i < policy.length; ++i) {
            const Index place = Index(i < left[item] ? i : left[item] - 1);
            indexed[item][i] = indexed_offset<policy.mode>(
                p.common.indexed_axes, numbers[item].values[i],
                p.common.indexed_offset + Index(places[item].indexed) + place * p.indexed_step,
                p.common.position_offset + places[item].position + place * p.position_step, wrong);
        }
    }

    Element elements[policy.items][policy.length];
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
        if (policy.scatters && left[item] == policy.length) {
            const Piece piece = load_global<Piece>(source + dense[item]);
#pragma unroll
            for (int i = 0; i < policy.length; ++i) elements[item][i] = piece.get(i);
            continue;
        }
#pragma unroll
        for (int i = 0; i < policy.length; ++i) {
            const Signed<Index> place = Signed<Index>(i < left[item] ? i : left[item] - 1);
            elements[item][i] = load<Element>(source + (policy.scatters ? dense[item] + place : indexed[item][i]));
        }
    }
    if (refused) return;
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
        if (first + Index(item) * 256 >= p.common.items) continue;
        if (!policy.scatters && left[item] == policy.length) {
            Piece piece{};
#pragma unroll
            for (int i = 0; i < policy.length; ++i) piece.set(i, elements[item][i]);
            store_global(target + dense[item], piece);
            continue;
        }
#pragma unroll
        for (int i = 0; i < policy.length; ++i) {
            if (i >= left[item]) continue;
            store(target + (policy.scatters ? indexed[item][i] : dense[item] + i), elements[item][i]);
        }
    }
    if constexpr (policy.mode == OutOfRange::deferred) record(p.common.report, p.common.launch, wrong);
}

}  // namespace sg
