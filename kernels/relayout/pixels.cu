// Pixels of few channels on both sides: padded (NHWC to NHWC4), reduced, or with as many channels in another order,
// with constants of their own, or of another type.
//
//     source, one row    r0 g0 b0 r1 g1 b1 r2 g2 b2 ...            SourcePitch elements a pixel
//                        |---- group -----|---- group ...          a group: Length pixels
//     registers          r0 r1 r2 ... | g0 g1 g2 ... | b0 b1 b2 ...
//     target, one row    r0 g0 b0 0 r1 g1 b1 0 r2 g2 b2 0 ...      TargetPitch elements a pixel
//
// A block moves some groups of some rows. Both sides are staged unchanged in shared memory, so adjacent threads access
// adjacent vectors of LoadBytes and of StoreBytes for any number of channels. A thread splits a whole group of the
// source, converts each channel's plane, and joins the planes to a group of the target. Each element is read once and
// written once.
#include "pixel_groups.cuh"
#include "pixel_tiles.cuh"

namespace sg {

struct PixelsPolicy {
    int rank;                        // axes outside of rows and channels
    int channels;                    // elements of a pixel that move
    int source_pitch, target_pitch;  // elements of a pixel, padding included
    bool fills_pixels;               // a pixel's padding is written, with zeros
    bool turned;                     // the source's channels run against the target's
    bool backwards;                  // the source's pixels do; rows are then whole groups
    int length;                      // pixels of a group
    int load_bytes, store_bytes;     // of one access
    int threads;                     // of a block
    ChannelAxis axis;
    Channels affines, order;
};

// __launch_bounds__ minBlocks is 1 to stop ptxas from targeting more on sm_80 and spilling; it is no occupancy goal.
template <typename Conversion, typename Index, PixelsPolicy policy>
__global__ void __launch_bounds__(policy.threads, 1)
    pixels(__grid_constant__ const PixelsParameters<Conversion, Index, policy> parameters) {
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    using SourceGroup = PixelGroup<Source, policy.source_pitch, policy.length>;
    using TargetGroup = PixelGroup<Target, policy.target_pitch, policy.length>;
    using LoadVector = Vector<Source, policy.load_bytes / int(sizeof(Source))>;
    using StoreVector = Vector<Target, policy.store_bytes / int(sizeof(Target))>;
    static_assert(policy.fills_pixels || policy.channels == policy.target_pitch || StoreVector::length == 1,
                  "a vector would write gaps that are not ours");
    constexpr bool chooses = policy.axis == ChannelAxis::target && policy.order != Channels::alike;
    static_assert(SourceGroup::part_length == policy.length && TargetGroup::part_length == policy.length,
                  "a plane is one vector");

    const Index block = linear_block<Index>();
    if (block >= parameters.blocks) return;  // the whole block, before any barrier
    const PixelTile<Index> tile = pixel_tile<policy.axis, policy.length>(parameters, block);
    // If the source runs backwards, the end of a tile in the target is the start of the tile before.
    const Index target_pixel = policy.backwards ? parameters.pixels - tile.pixel - Index(tile.pixels) : tile.pixel;
    const Index first_target_pixel = policy.backwards ? Index(0) - (tile.pixel + Index(tile.pixels - 1)) : tile.pixel;
    const Index source_offset = tile.source_offset + tile.pixel * Index(policy.source_pitch);
    const Index target_offset = tile.target_offset + first_target_pixel * Index(policy.target_pitch);

    const int source_bytes = tile.groups * SourceGroup::shared_bytes;
    const int target_bytes = tile.groups * TargetGroup::shared_bytes;
    unsigned char* memory = dynamic_shared_memory();
    const PixelRows<SourceGroup, LoadVector, policy.threads> from{
        memory, source_bytes, tile.rows,
        positions_left(parameters.source_elements, tile.pixel * Index(policy.source_pitch),
                       tile.pixels * policy.source_pitch)};
    const PixelRows<TargetGroup, StoreVector, policy.threads> to{
        memory + (int(parameters.tile_rows) * source_bytes + 15) / 16 * 16, target_bytes, tile.rows,
        positions_left(parameters.target_elements, target_pixel * Index(policy.target_pitch),
                       tile.pixels * policy.target_pitch)};

    from.read(parameters.source + Signed<Index>(source_offset), parameters.source_row_step, parameters.source_vectors);
    __syncthreads();
    const int groups_left = (tile.pixels + policy.length - 1) / policy.length;
    for (int number = int(threadIdx.x); number < tile.groups * tile.rows; number += policy.threads) {
        const Quotient<uint32> at = divide(uint32(number), parameters.row_groups);
        const int group = int(at.remainder);
        if (group >= groups_left) continue;
        SourceGroup read{};
        read.read(from.memory + int(at.quotient) * source_bytes + group * SourceGroup::shared_bytes);
        TargetGroup written{};
#pragma unroll
        for (int c = 0; c < policy.channels; ++c) {
            auto plane = read.planes[chooses ? 0 : policy.turned ? policy.channels - 1 - c : c];
            if constexpr (chooses) {
                // A channel known only at run time selects its plane from the registers by comparisons.
                const Index chosen = parameters.order.source_offset(Index(c));
#pragma unroll
                for (int p = 1; p < policy.source_pitch; ++p) {
                    if (chosen == Index(p)) plane = read.planes[p];
                }
            }
            const auto affine = parameters.affines.of(policy.axis == ChannelAxis::target ? Index(c) : tile.channel);
            auto vector = Conversion::apply(plane.parts[0], affine);
            if constexpr (policy.backwards) vector = reversed(vector);
            written.planes[c].parts[0] = vector;
        }
        const int place = policy.backwards ? groups_left - 1 - group : group;
        written.write(to.memory + int(at.quotient) * target_bytes + place * TargetGroup::shared_bytes);
    }
    __syncthreads();
    constexpr int writes = policy.fills_pixels ? policy.target_pitch : policy.channels;
    to.template write<writes>(parameters.target + Signed<Index>(target_offset), parameters.target_row_step,
                              parameters.target_vectors);
}

}  // namespace sg
