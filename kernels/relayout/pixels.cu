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
//
// With stages, bulk copies bring the source's pixels, and a block moves its share of all (staged_tiles.cuh). Each warp
// has its own part of shared memory for pixels of the target, so that it waits for no other warp there.
#include "pixel_groups.cuh"
#include "pixel_tiles.cuh"
#include "staged_tiles.cuh"

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
    int stages;                      // of shared memory, which bulk copies fill; 0: threads load pixels, a tile a block
    int resident;                    // blocks of a multiprocessor that registers are left for
    ChannelAxis axis;
    Channels affines, order;
};

template <typename Conversion, typename Index, PixelsPolicy policy> struct WholePixels {
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    using SourceGroup = PixelGroup<Source, policy.source_pitch, policy.length>;
    using TargetGroup = PixelGroup<Target, policy.target_pitch, policy.length>;
    using LoadVector = Vector<Source, policy.load_bytes / int(sizeof(Source))>;
    using StoreVector = Vector<Target, policy.store_bytes / int(sizeof(Target))>;
    static_assert(policy.fills_pixels || policy.channels == policy.target_pitch || StoreVector::length == 1,
                  "a vector would write gaps that are not ours");
    static constexpr bool chooses = policy.axis == ChannelAxis::target && policy.order != Channels::alike;
    static_assert(SourceGroup::part_length == policy.length && TargetGroup::part_length == policy.length,
                  "a plane is one vector");

    // From a group of the source to the one of the target, both in shared memory.
    template <typename Parameters>
    static __device__ __forceinline__ void move_group(const Parameters& parameters, const unsigned char* from,
                                                      unsigned char* to, Index channel) {
        SourceGroup read{};
        read.read(from);
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
            const auto affine = parameters.affines.of(policy.axis == ChannelAxis::target ? Index(c) : channel);
            auto vector = Conversion::apply(plane.parts[0], affine);
            if constexpr (policy.backwards) vector = reversed(vector);
            written.planes[c].parts[0] = vector;
        }
        written.write(to);
    }

    // The groups of a stage, a warp's next to each other: to its own part of shared memory, and from there in vectors.
    template <typename Parameters>
    static __device__ __forceinline__ void move_stage(const Parameters& parameters, const unsigned char* memory,
                                                      int pixels, Target* target, Index channel) {
        constexpr int lanes = 32, group_elements = policy.length * policy.target_pitch;
        const int groups = pixels / policy.length, lane = int(threadIdx.x) % lanes;
        unsigned char* own = dynamic_shared_memory() + policy.stages * stage_bytes<SourceGroup>(parameters) +
                             (int(threadIdx.x) - lane) * TargetGroup::shared_bytes;
#pragma unroll 1
        for (int first = int(threadIdx.x) - lane; first < groups; first += policy.threads) {
            if (first + lane < groups) {
                move_group(parameters, memory + (first + lane) * SourceGroup::bytes,
                           own + lane * TargetGroup::shared_bytes, channel);
            }
            __syncwarp();
            const int vectors = positions_left(groups, first, lanes) * group_elements / StoreVector::length;
            Target* address = target + first * group_elements;
#pragma unroll 4
            for (int number = lane; number < vectors; number += lanes) {
                store_global(address + number * StoreVector::length,
                             Staged<TargetGroup, StoreVector>::get(own, number * StoreVector::bytes));
            }
            __syncwarp();  // every lane has stored: the next groups take the same memory
        }
    }
};

// __launch_bounds__ minBlocks is 1 without stages to stop ptxas from targeting more on sm_80 and spilling; it is no
// occupancy goal.
template <typename Conversion, typename Index, PixelsPolicy policy>
__global__ void __launch_bounds__(policy.threads, policy.resident)
    pixels(__grid_constant__ const PixelsParameters<Conversion, Index, policy> parameters) {
    using Pixels = WholePixels<Conversion, Index, policy>;
    using SourceGroup = typename Pixels::SourceGroup;
    using TargetGroup = typename Pixels::TargetGroup;
    const Index block = linear_block<Index>();
    if (block >= parameters.blocks) return;  // the whole block, before any barrier
    if constexpr (policy.stages > 0) {
        static_assert(!policy.backwards, "a stage's pixels follow each other on both sides");
        move_share<policy.axis, policy.stages, SourceGroup>(
            parameters, block, [](Index pixel) { return pixel * Index(policy.target_pitch); },
            [&](const auto& stage, const unsigned char* memory) {
                Pixels::move_stage(parameters, memory, stage.pixels, stage.target, stage.channel);
            });
        return;
    }
    const PixelTile<Index> tile = pixel_tile<policy.axis, policy.length>(parameters, block);
    // If the source runs backwards, the end of a tile in the target is the start of the tile before.
    const Index target_pixel = policy.backwards ? parameters.pixels - tile.pixel - Index(tile.pixels) : tile.pixel;
    const Index first_target_pixel = policy.backwards ? Index(0) - (tile.pixel + Index(tile.pixels - 1)) : tile.pixel;
    const Index source_offset = tile.source_offset + tile.pixel * Index(policy.source_pitch);
    const Index target_offset = tile.target_offset + first_target_pixel * Index(policy.target_pitch);

    const int source_bytes = tile.groups * SourceGroup::shared_bytes;
    const int target_bytes = tile.groups * TargetGroup::shared_bytes;
    unsigned char* memory = dynamic_shared_memory();
    const PixelRows<SourceGroup, typename Pixels::LoadVector, policy.threads> from{
        memory, source_bytes, tile.rows,
        positions_left(parameters.source_elements, tile.pixel * Index(policy.source_pitch),
                       tile.pixels * policy.source_pitch)};
    const PixelRows<TargetGroup, typename Pixels::StoreVector, policy.threads> to{
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
        const int place = policy.backwards ? groups_left - 1 - group : group;
        Pixels::move_group(parameters,
                           from.memory + int(at.quotient) * source_bytes + group * SourceGroup::shared_bytes,
                           to.memory + int(at.quotient) * target_bytes + place * TargetGroup::shared_bytes,
                           tile.channel);
    }
    __syncthreads();
    constexpr int writes = policy.fills_pixels ? policy.target_pitch : policy.channels;
    to.template write<writes>(parameters.target + Signed<Index>(target_offset), parameters.target_row_step,
                              parameters.target_vectors);
}

}  // namespace sg
