// Shared parts of kernels that move rows: rows are cut into chunks, and a group of 1 to 32 lanes moves a chunk.
#pragma once
#include "channel_constants.cuh"
#include "indexing.cuh"
#include "run_steps.cuh"

namespace sg {

// `policy` is that of the kernel.
template <typename Conversion, typename Index, auto policy> struct RowChunks {
    const uint8* source;
    uint8* target;
    ChannelAffines<typename Conversion::Compute, policy.affines> affines;
    ChannelOrder<Index, policy.order> order;
    Axes<Index, policy.rank> axes;  // over rows and chunks; strides in elements
    Index source_offset;     // elements
    Index items;             // chunks in all
    Index count;             // elements of a row
    int channel_axis;        // in axes, or -1
    int chunk_axis;          // in axes
    int lanes_log2;          // lanes of a group
};

// The place of a thread among the groups of a block of 256.
struct LaneOfGroup {
    uint32 lanes, lane, groups, group;

    explicit __device__ __forceinline__ LaneOfGroup(uint32 lanes_log2)
        : lanes(1u << lanes_log2),
          lane(threadIdx.x & (lanes - 1)),
          groups(256u >> lanes_log2),
          group(threadIdx.x >> lanes_log2) {}
};

}  // namespace sg
