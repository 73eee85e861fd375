// Shared parts of the kernels that move pixels of few channels: their parameters, and the tile of a block.
#pragma once
#include "channel_constants.cuh"
#include "tiles.cuh"

namespace sg {

// `policy` is that of the kernel.
template <typename Conversion, typename Index, auto policy> struct PixelsParameters {
    const typename Conversion::Source* source;
    typename Conversion::Target* target;
    Index source_start, target_start;
    Index blocks;
    Index pixels, rows;                      // in all
    Index source_elements, target_elements;  // of a row, to the end of what is moved of the last pixel
    Index source_row_step, target_row_step;
    Divisor<Index> pixel_tiles, row_tiles, channels;
    Index target_channel_step;  // along a channel axis that is fixed within a block
    Index plane_step;           // of the planar side; a source's is in `order` where it has the channel axis
    Divisor<uint32> source_vectors, target_vectors, row_groups;  // of a row of a tile, at most
    uint32 tile_rows;
    uint32 stage_tiles, block_tiles;  // where bulk copies fill stages: tiles of a stage, in one row, and of a block
    Axes<Index, policy.rank> outer;
    ChannelOrder<Index, policy.order> order;
    ChannelAffines<typename Conversion::Compute, policy.affines> affines;
};

// Some groups of pixels of some rows. The offsets are those of the first row and of the channel, without any pixel.
template <typename Index> struct PixelTile {
    Index pixel, channel;
    int groups;        // in a row of a whole tile
    int pixels, rows;  // that there are in this one
    Index source_offset, target_offset;
};

template <ChannelAxis Axis, int GroupLength, typename Index, typename Parameters>
__device__ __forceinline__ PixelTile<Index> pixel_tile(const Parameters& parameters, Index block) {
    const Quotient<Index> by_pixel = divide(block, parameters.pixel_tiles);
    const Quotient<Index> by_row = divide(by_pixel.quotient, parameters.row_tiles);
    Quotient<Index> by_channel = {by_row.quotient, 0};
    if constexpr (Axis == ChannelAxis::block) by_channel = divide(by_row.quotient, parameters.channels);
    const Offsets<Index> outer = parameters.outer.unravel(by_channel.quotient);
    const Index channel = by_channel.remainder;
    const int groups = int(parameters.row_groups.divisor);
    const Index pixel = by_pixel.remainder * Index(groups * GroupLength);
    const Index row = by_row.remainder * Index(parameters.tile_rows);
    Index source_offset = parameters.source_start + Index(outer.source) + row * parameters.source_row_step;
    Index target_offset = parameters.target_start + Index(outer.target) + row * parameters.target_row_step;
    if constexpr (Axis == ChannelAxis::block) {
        source_offset += parameters.order.source_offset(channel);
        target_offset += channel * parameters.target_channel_step;
    }
    return {pixel,
            channel,
            groups,
            positions_left(parameters.pixels, pixel, groups * GroupLength),
            positions_left(parameters.rows, row, int(parameters.tile_rows)),
            source_offset,
            target_offset};
}

}  // namespace sg
