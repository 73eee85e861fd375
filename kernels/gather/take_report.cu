// Moves a report's words to another place and clears them, by atomic exchange: concurrent kernels may keep reporting.
//
// The words of one wrong index may then be split between this report and the next. The host detects the split by their
// different precedences.
#include "gather_indices.cuh"

namespace sg {

struct TakeParameters {
    IndexReport* report;
    IndexReport* taken;
};

__global__ void __launch_bounds__(32) take_report(__grid_constant__ const TakeParameters p) {
    constexpr uint32 count = sizeof(IndexReport) / sizeof(uint64);
    if (threadIdx.x < count) p.taken->words[threadIdx.x] = atomicExch(p.report->words + threadIdx.x, uint64(0));
}

}  // namespace sg
