// Detects two indices, or tuples of them, that name the same element: each sets its element's bit and tests the old
// one.
//
// One bit an element: 1/32 of the size of a tensor of 4-byte elements. The bits follow the report and start cleared.
// The kernel does not report which indices collide; the host finds them afterwards.
//
// Bytes moved: each index once in, and a word of marks in and out for each tuple.
#include "gather_indices.cuh"

namespace sg {

constexpr int most_named_axes = 64;

struct DistinctPolicy {
    int rank;  // axes over the tuples
};

template <typename Index, DistinctPolicy policy> struct DistinctParameters {
    const uint8* indices;
    IndexReport* report;
    Axes<Index, policy.rank> axes;  // over the tuples; source strides in numbers, target strides in names
    Index offset, items;
    Index component;         // from one number of a tuple to the next
    uint32 components;
    uint64 sizes[most_named_axes], pitches[most_named_axes];  // of each number's axis; pitches in names
};

template <typename Number, typename Index, DistinctPolicy policy>
__global__ void __launch_bounds__(256) check_distinct(__grid_constant__ const DistinctParameters<Index, policy> p) {
    const Index linear = linear_block<Index>() * 256 + threadIdx.x;
    if (linear >= p.items) return;
    const Offsets<Index> offsets = p.axes.unravel(linear);
    const Number* tuple = reinterpret_cast<const Number*>(p.indices) + Signed<Index>(p.offset + Index(offsets.source));
    uint64 name = Index(offsets.target);
    for (uint32 k = 0; k < p.components; ++k) {
        const Number number = tuple[Signed<Index>(Index(k) * p.component)];
        name += place_of<OutOfRange::clamp>(number, p.sizes[k]) * p.pitches[k];
    }
    uint32* marks = reinterpret_cast<uint32*>(p.report + 1);
    const uint32 mark = 1u << (name % 32);
    if (atomicOr(marks + name / 32, mark) & mark) p.report->words[0] = 1;
}

}  // namespace sg
