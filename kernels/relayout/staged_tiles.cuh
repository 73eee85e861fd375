// Blocks that share all pixels evenly, as many as the GPU holds at once.
//
// Bulk copies bring pixels of a row to one stage of shared memory while threads move those of another one. No thread
// loads pixels, and one works out where they lie.
//
//     stages of shared memory          | moved | coming | coming |     a stage: up to stage_tiles tiles of one row
#pragma once
#include "bulk_copies.cuh"
#include "pixel_groups.cuh"
#include "pixel_tiles.cuh"

namespace sg {

// What there is in one stage of shared memory, and where it goes: one thread says so for all. No pixels: there are no
// more, in this stage or in another one.
template <typename Target, typename Index> struct Stage {
    CopyBarrier barrier;
    Target target;
    Index channel;
    int pixels;
};

// Bytes of shared memory of one stage.
template <typename Group, typename Parameters>
__device__ __forceinline__ int stage_bytes(const Parameters& parameters) {
    return int(parameters.stage_tiles) * int(parameters.row_groups.divisor) * Group::bytes;
}

// Moves a block's share: `block_tiles` tiles, each of `row_groups` groups of one row. `first_target(pixel)` is where a
// row's pixel begins in the target, and all threads call `move(stage, memory)`.
template <ChannelAxis Axis, int Stages, typename Group, typename Index, typename Parameters, typename FirstTarget,
          typename Move>
__device__ __forceinline__ void move_share(const Parameters& parameters, Index block, FirstTarget first_target,
                                           Move move) {
    using OneStage = Stage<decltype(parameters.target), Index>;
    constexpr int pixel_bytes = Group::bytes / Group::length;
    static_assert(!Group::filled, "pixels are the same in both memories");
    __shared__ OneStage stages[Stages];
    const int tile_pixels = int(parameters.row_groups.divisor) * Group::length;
    const int of_stage = stage_bytes<Group>(parameters);
    Index number = block * Index(parameters.block_tiles);
    const Index end = number + Index(positions_left(parameters.blocks, number, int(parameters.block_tiles)));

    const auto fill = [&](int to) {
        OneStage& stage = stages[to];
        const PixelTile<Index> tile = pixel_tile<Axis, Group::length>(parameters, number);
        const Index in_row = divide(number, parameters.pixel_tiles).remainder;
        const int tiles = positions_left(parameters.pixel_tiles.divisor, in_row,
                                         positions_left(end, number, int(parameters.stage_tiles)));
        const int pixels = positions_left(parameters.pixels, tile.pixel, tiles * tile_pixels);
        stage.target = parameters.target + Signed<Index>(tile.target_offset + first_target(tile.pixel));
        stage.channel = tile.channel;
        stage.pixels = pixels;
        const Index source_offset = tile.source_offset + tile.pixel * Index(Group::pitch);
        expect(stage.barrier, uint32(pixels * pixel_bytes));
        if (pixels > 0) {
            bulk_copy(dynamic_shared_memory() + to * of_stage, parameters.source + Signed<Index>(source_offset),
                      uint32(pixels * pixel_bytes), stage.barrier);
        }
        number += Index(tiles);
    };

    if (threadIdx.x == 0) {
#pragma unroll
        for (int i = 0; i < Stages; ++i) init(stages[i].barrier);
        show_barriers();
#pragma unroll 1
        for (int i = 0; i < Stages; ++i) fill(i);
    }
    __syncthreads();
    int from = 0;
    uint32 phase = 0;
#pragma unroll 1
    for (;;) {
        wait(stages[from].barrier, phase);
        const OneStage stage = stages[from];
        if (stage.pixels == 0) return;
        move(stage, dynamic_shared_memory() + from * of_stage);
        __syncthreads();  // every thread has read the stage
        if (threadIdx.x == 0) fill(from);
        if (++from == Stages) {
            from = 0;
            ++phase;
        }
    }
}

}  // namespace sg
