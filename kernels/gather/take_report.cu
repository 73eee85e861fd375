// Takes what a report says and leaves it empty, while other kernels may write to it: a word is either taken or kept.
//
// Words that such a kernel writes while they are taken may be parted between this report and the next; the host sees by
// their precedences that they do not belong together.
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
