// Elements by index, each with an index or a tuple of indices of its own; scattered, the other way round.
//
// A thread makes Items vectors of Length elements that are neighbours on the plain side, a block's width apart, so that
// a warp's accesses to the plain side and to the indices are side by side. The picked side is read, or written, element
// by element, and all Items * Length loads through indices are under way together:
//
//     row      | vector 0: Length elements | vector 1 | …    | the last: what is left of the row, element by element |
//     block    thread 0: vectors 0, 256, …    thread 1: vectors 1, 257, …    …
//
// Bytes moved: each element once in and once out, and its indices once.
#include "gather_indices.cuh"
#include "vectors.cuh"

namespace sg {

template <typename Index, int Rank, int Components> struct GatherElementsParameters {
    GatherParameters<Index, Rank, Components> common;  // the last axis runs over the vectors of a row
    Index count;                                       // elements of a row
    Index picked_step, index_step, position_step;      // from one element of a row to the next
};

template <typename Element, int Length, typename Number, int IndexBytes, typename Index, OutOfRange Mode, bool Scatters,
          int Items, int Rank, int Components>
__global__ void __launch_bounds__(256)
    gather_elements(__grid_constant__ const GatherElementsParameters<Index, Rank, Components> p) {
    using Piece = Vector<Element, Length>;
    const Index first = linear_block<Index>() * (256 * Items) + threadIdx.x;
    const Element* source = reinterpret_cast<const Element*>(p.common.source);
    Element* target = reinterpret_cast<Element*>(p.common.target);

    // All indices are on their way before the first is looked at; a thread past the last vector reads that one's again.
    Numbers<Number, Length, Components, IndexBytes> numbers[Items];
    Places<Index> places[Items];
    int left[Items];  // elements from the vector's first to the row's end, up to Length
#pragma unroll
    for (int item = 0; item < Items; ++item) {
        const Index number = first + Index(item) * 256;
        const Index known = number < p.common.items ? number : p.common.items - 1;
        places[item] = p.common.axes.unravel(known);
        left[item] = Length;
        if constexpr (Length > 1) {
            const Index begin = divide(known, p.common.axes.sizes[Rank - 1]).remainder * Length;
            if (p.count - begin < Length) left[item] = int(p.count - begin);
        }
        numbers[item].read(reinterpret_cast<const Number*>(p.common.indices) +
                               Signed<Index>(p.common.index_offset + Index(places[item].index)),
                           p.index_step, p.common.indexed, left[item]);
    }

    WrongIndex wrong;
    Signed<Index> picked[Items][Length], plain[Items];
#pragma unroll
    for (int item = 0; item < Items; ++item) {
        plain[item] = Signed<Index>(p.common.plain_offset + Index(places[item].plain));
#pragma unroll
        for (int i = 0; i < Length; ++i) {
            const Index place = Index(i < left[item] ? i : left[item] - 1);
            picked[item][i] = picked_offset<Mode>(
                p.common.indexed, numbers[item].values[i],
                p.common.picked_offset + Index(places[item].picked) + place * p.picked_step,
                p.common.position_offset + places[item].position + place * p.position_step, wrong);
        }
    }

    Element elements[Items][Length];
#pragma unroll
    for (int item = 0; item < Items; ++item) {
        if (Scatters && left[item] == Length) {
            const Piece piece = load_global<Piece>(source + plain[item]);
#pragma unroll
            for (int i = 0; i < Length; ++i) elements[item][i] = piece.get(i);
            continue;
        }
#pragma unroll
        for (int i = 0; i < Length; ++i) {
            const Signed<Index> place = Signed<Index>(i < left[item] ? i : left[item] - 1);
            elements[item][i] = load<Element>(source + (Scatters ? plain[item] + place : picked[item][i]));
        }
    }
#pragma unroll
    for (int item = 0; item < Items; ++item) {
        if (first + Index(item) * 256 >= p.common.items) continue;
        if (!Scatters && left[item] == Length) {
            Piece piece{};
#pragma unroll
            for (int i = 0; i < Length; ++i) piece.set(i, elements[item][i]);
            store_global(target + plain[item], piece);
            continue;
        }
#pragma unroll
        for (int i = 0; i < Length; ++i) {
            if (i < left[item]) store(target + (Scatters ? picked[item][i] : plain[item] + i), elements[item][i]);
        }
    }
    if constexpr (Mode == OutOfRange::deferred) record(p.common.report, p.common.launch, wrong);
}

}  // namespace sg
