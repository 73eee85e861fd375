// Inner-axis gather: the same indices serve every outer row.
//
// A thread keeps one place of its index in a register and walks Rows outer rows with it, whose loads are under way
// together; a block of 256 threads covers 256 neighbouring places, so that its stores are side by side:
//
//     indices  | 256 places |            row 0    | gathered | stored side by side |
//                                        …
//                                        row Rows - 1
//
// Bytes moved: each element once in and once out, and an index once for every Rows rows.
#include "gather_indices.cuh"
#include "vectors.cuh"

namespace sg {

// The axes are those of the outer rows; the inner one has a stride on each side and in the indices.
template <typename Index, int Rank> struct GatherInnerParameters {
    GatherParameters<Index, Rank, 1> common;  // items are the outer rows
    Index count, plain_stride, index_stride, position_stride;
    Divisor<Index> blocks_per_row;
};

template <typename Element, typename Number, typename Index, OutOfRange Mode, int Rows, int Rank>
__global__ void __launch_bounds__(256)
    gather_inner(__grid_constant__ const GatherInnerParameters<Index, Rank> p) {
    const Quotient<Index> block = divide(linear_block<Index>(), p.blocks_per_row);
    const Index place = block.remainder * 256 + threadIdx.x;
    if (place >= p.count) return;
    Places<Index> index{};
    index.index = Signed<Index>(place * p.index_stride);
    index.position = place * p.position_stride;
    WrongIndex wrong;
    const Signed<Index> picked = picked_offset<Number, Mode>(p.common, index, wrong);
    const Element* source = reinterpret_cast<const Element*>(p.common.source) + picked;
    Element* target = reinterpret_cast<Element*>(p.common.target) +
                      Signed<Index>(p.common.plain_offset + place * p.plain_stride);
    Element elements[Rows];
    Signed<Index> to[Rows];
#pragma unroll
    for (int row = 0; row < Rows; ++row) {
        const Index number = block.quotient * Rows + row;
        if (number >= p.common.items) continue;
        const Places<Index> places = p.common.axes.unravel(number);
        to[row] = places.plain;
        elements[row] = load<Element>(source + places.picked);
    }
#pragma unroll
    for (int row = 0; row < Rows; ++row) {
        if (block.quotient * Rows + row < p.common.items) store(target + to[row], elements[row]);
    }
    if constexpr (Mode == OutOfRange::deferred) {
        if (block.quotient == 0) record(p.common.report, p.common.launch, wrong);
    }
}

}  // namespace sg
