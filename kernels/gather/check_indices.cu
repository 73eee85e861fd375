// Checks every index and reports the first one, in row-major order, that is outside its axis.
//
// Bytes moved: each index once in.
#include "gather_indices.cuh"

namespace sg {

inline constexpr int most_components = 64;

struct CheckPolicy {
    int items;  // indices of a thread
    int rank;   // axes over the indices
};

template <typename Index, CheckPolicy policy> struct CheckParameters {
    const uint8* indices;
    IndexReport* report;
    Axes<Index, policy.rank> axes;  // over the numbers, in row-major order; source strides in elements
    Index offset, items;
    int tuple_axis;          // the axis that runs over the components of a tuple, or -1
    uint64 sizes[most_components];
};

template <typename Number, typename Index, CheckPolicy policy>
__global__ void __launch_bounds__(256) check_indices(__grid_constant__ const CheckParameters<Index, policy> p) {
    const Index first = linear_block<Index>() * (256 * policy.items) + threadIdx.x;
    Number numbers[policy.items];
    Index components[policy.items];
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
        const Index linear = first + Index(item) * 256;
        components[item] = 0;
        if (linear >= p.items) continue;
        Index component[1] = {0};
        const Offsets<Index> offsets = p.axes.template unravel<1>(linear, {p.tuple_axis}, component);
        components[item] = component[0];
        numbers[item] = reinterpret_cast<const Number*>(p.indices)[Signed<Index>(p.offset + Index(offsets.source))];
    }
    WrongIndex wrong;
#pragma unroll
    for (int item = 0; item < policy.items; ++item) {
        const Index linear = first + Index(item) * 256;
        if (linear >= p.items || is_within(numbers[item], p.sizes[components[item]])) continue;
        wrong.note(linear, uint64(int64(numbers[item])));
    }
    record(p.report, 0, wrong);
}

}  // namespace sg
