// Elements by index, each with an index or a tuple of indices of its own; scattered, the other way round.
//
// A thread moves Items elements that lie a block's width apart, so that a warp's accesses to the plain side and to the
// indices are side by side, and Items loads through indices are under way together:
//
//     block    thread 0: 0, 256, 512, 768    thread 1: 1, 257, 513, 769    …
//
// Bytes moved: each element once in and once out, and its indices once.
#include "gather_indices.cuh"
#include "vectors.cuh"

namespace sg {

template <typename Element, typename Number, typename Index, OutOfRange Mode, bool Scatters, int Items, int Rank,
          int Components>
__global__ void __launch_bounds__(256)
    gather_elements(__grid_constant__ const GatherParameters<Index, Rank, Components> p) {
    const Index first = linear_block<Index>() * (256 * Items) + threadIdx.x;
    const Element* source = reinterpret_cast<const Element*>(p.source);
    Element* target = reinterpret_cast<Element*>(p.target);
    WrongIndex wrong;
    Signed<Index> from[Items], to[Items];
#pragma unroll
    for (int item = 0; item < Items; ++item) {
        const Index number = first + Index(item) * 256;
        if (number >= p.items) continue;
        const Places<Index> places = p.axes.unravel(number);
        const Signed<Index> plain = Signed<Index>(p.plain_offset + Index(places.plain));
        const Signed<Index> picked = picked_offset<Number, Mode>(p, places, wrong);
        from[item] = Scatters ? plain : picked;
        to[item] = Scatters ? picked : plain;
    }
    Element elements[Items];
#pragma unroll
    for (int item = 0; item < Items; ++item) {
        if (first + Index(item) * 256 < p.items) elements[item] = load<Element>(source + from[item]);
    }
#pragma unroll
    for (int item = 0; item < Items; ++item) {
        if (first + Index(item) * 256 < p.items) store(target + to[item], elements[item]);
    }
    if constexpr (Mode == OutOfRange::deferred) record(p.report, p.launch, wrong);
}

}  // namespace sg
