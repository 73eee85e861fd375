// Channels of pixels taken apart (NHWC to NCHW) or put together, for up to 8 channels with the pixel's padding.
//
//     interleaved side, one row        r0 g0 b0 r1 g1 b1 r2 g2 b2 ...     Pitch elements a pixel, Channels of them used
//                                      |---- group -----|---- group ...    a group: Length pixels
//     planar side                      r0 r1 r2 ... | g0 g1 g2 ... | b0 b1 b2 ...
//                                      one vector of PlanarBytes of each channel is one group
//
// A block moves some groups of some rows. The interleaved bytes are staged unchanged in shared memory, so adjacent
// threads access adjacent vectors of PixelBytes for any number of channels. A thread loads a whole group to registers,
// splits (or joins) it by byte permutes, and stores (or loads) one vector a channel. Each element is read once and
// written once. Elements are converted on the planar side, where a vector has one channel.
//
// With stages, a block splits its share of all pixels, and is one of as many as the GPU holds at once. Bulk copies
// bring pixels of a row to one stage of shared memory while threads split another one; no thread loads pixels.
//
//     stages of shared memory          | splitting | coming | coming |     a stage: up to stage_tiles tiles of one row
#include "pixel_groups.cuh"
#include "pixel_tiles.cuh"
#include "staged_tiles.cuh"

namespace sg {

enum class Direction { split, join };

struct ChannelsPolicy {
    int rank;                       // axes outside of rows and channels
    Direction direction;
    int channels, pitch;            // of a pixel: its elements that have planes, and all, padding included
    bool fills_pixels;              // a pixel's padding is written, with zeros
    int pixel_bytes, planar_bytes;  // of one access to the interleaved and to the planar side
    bool backwards;                 // the planar side runs against the other one; its rows are then whole vectors
    bool whole;                     // the target's rows are whole groups: no vector of a plane is cut
    int threads;                    // of a block
    int stages;                     // of shared memory, which bulk copies fill; 0: threads load pixels, a tile a block
    int resident;                   // blocks of a multiprocessor that registers are left for
    ChannelAxis axis;
    Channels affines, order;
};

// A tile's two steps.
template <typename Conversion_, typename Index, ChannelsPolicy policy> struct ChannelTile {
    using Conversion = Conversion_;
    static constexpr bool splits = policy.direction == Direction::split;
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    using Interleaved = select<splits, Source, Target>;
    using Planar = select<splits, Target, Source>;
    static constexpr int length = policy.planar_bytes / int(sizeof(Planar));
    static constexpr int pixel_length = policy.pixel_bytes / int(sizeof(Interleaved));
    using Group = PixelGroup<Interleaved, policy.pitch, length>;
    using PixelVector = Vector<Interleaved, pixel_length>;
    using PlanarVector = Vector<Planar, length>;

    PixelRows<Group, PixelVector, policy.threads> interleaved;
    int pixels_left;

    // Stores groups from shared memory to the planes of the target: of some rows, or `pixels_left` pixels of one.
    template <bool OneRow, typename Parameters>
    __device__ __forceinline__ void write_planes(const Parameters& parameters, Target* target, Index channel) const {
        const int groups = OneRow ? pixels_left / length : int(parameters.row_groups.divisor) * interleaved.rows_left;
#pragma unroll 1
        for (int number = int(threadIdx.x); number < groups; number += policy.threads) {
            const Quotient<uint32> at =
                OneRow ? Quotient<uint32>{0, uint32(number)} : divide(uint32(number), parameters.row_groups);
            const int pixel = int(at.remainder) * length, left = pixels_left - pixel;
            if (!OneRow && left <= 0) continue;
            Group group{};
            group.read(shared_group(at));
            const Index offset = Index(at.quotient) * parameters.target_row_step + planar_offset(pixel);
            Target* address = target + Signed<Index>(offset);
            if constexpr (policy.order == Channels::alike || policy.axis != ChannelAxis::source) {
#pragma unroll
                for (int c = 0; c < policy.channels; ++c) {
                    write_plane(parameters, address + Signed<Index>(Index(c) * parameters.plane_step), group.planes[c],
                                policy.axis == ChannelAxis::source ? Index(c) : channel, left);
                }
            } else {
                // An output channel known only at run time selects its plane from the registers by comparisons.
                for (int c = 0; c < int(parameters.channels.divisor); ++c) {
                    const Index from = parameters.order.source_offset(Index(c));
                    typename Group::Plane plane = group.planes[0];
#pragma unroll
                    for (int p = 1; p < policy.pitch; ++p) {
                        if (from == Index(p)) plane = group.planes[p];
                    }
                    write_plane(parameters, address + Signed<Index>(Index(c) * parameters.plane_step), plane, Index(c),
                                left);
                }
            }
        }
    }

    template <typename Parameters>
    __device__ __forceinline__ void write_plane(const Parameters& parameters, Target* address,
                                                const typename Group::Plane& plane, Index channel,
                                                int left) const {
        const auto affine = parameters.affines.of(channel);
        PlanarVector vector{};
        if constexpr (Group::part_length == length) {
            vector = Conversion::apply(plane.parts[0], affine);
        } else {
#pragma unroll
            for (int i = 0; i < length; ++i) vector.set(i, Conversion::apply(plane.get(i), affine));
        }
        if constexpr (policy.backwards) vector = reversed(vector);
        if constexpr (policy.whole) store_global(address, vector);
        else store_first(address, vector, left);
    }

    // Loads the planes of the source into groups in shared memory.
    template <typename Parameters>
    __device__ __forceinline__ void read_planes(const Parameters& parameters, const Source* source,
                                                Index channel) const {
        const int groups = int(parameters.row_groups.divisor) * interleaved.rows_left;
        for (int number = int(threadIdx.x); number < groups; number += policy.threads) {
            const Quotient<uint32> at = divide(uint32(number), parameters.row_groups);
            const int pixel = int(at.remainder) * length, left = pixels_left - pixel;
            if (left <= 0) continue;
            const Index offset = Index(at.quotient) * parameters.source_row_step + planar_offset(pixel);
            PlanarVector planes[policy.channels];
#pragma unroll
            for (int c = 0; c < policy.channels; ++c) {
                Index plane = offset;
                if constexpr (policy.axis == ChannelAxis::target) plane += parameters.order.source_offset(Index(c));
                else plane += Index(c) * parameters.plane_step;
                planes[c] = load_first<PlanarVector>(source + Signed<Index>(plane), left);
            }
            Group group{};
#pragma unroll
            for (int c = 0; c < policy.channels; ++c) {
                if constexpr (policy.backwards) planes[c] = reversed(planes[c]);
                const auto affine = parameters.affines.of(policy.axis == ChannelAxis::target ? Index(c) : channel);
                if constexpr (Group::part_length == length) {
                    group.planes[c].parts[0] = Conversion::apply(planes[c], affine);
                } else {
#pragma unroll
                    for (int i = 0; i < length; ++i) {
                        group.planes[c].set(i, Conversion::apply(planes[c].get(i), affine));
                    }
                }
            }
            group.write(shared_group(at));
        }
    }

    __device__ __forceinline__ unsigned char* shared_group(const Quotient<uint32>& at) const {
        return interleaved.memory + int(at.quotient) * interleaved.row_bytes + int(at.remainder) * Group::shared_bytes;
    }
    // Where the planes of a tile's first pixel begin, and those of a group in the tile.
    static __device__ __forceinline__ Index first_planar(Index pixel) {
        return policy.backwards ? Index(0) - pixel : pixel;
    }
    static __device__ __forceinline__ Index planar_offset(int pixel) {
        return policy.backwards ? Index(0) - Index(pixel + length - 1) : Index(pixel);
    }
};

// __launch_bounds__ minBlocks is 1 without stages to stop ptxas from targeting more on sm_80 and spilling; it is no
// occupancy goal.
template <typename Conversion, typename Index, ChannelsPolicy policy>
__global__ void __launch_bounds__(policy.threads, policy.resident)
    channels(__grid_constant__ const PixelsParameters<Conversion, Index, policy> parameters) {
    using Tile = ChannelTile<Conversion, Index, policy>;
    constexpr bool splits = policy.direction == Direction::split;
    static_assert(splits || policy.fills_pixels || policy.channels == policy.pitch || Tile::pixel_length == 1,
                  "a vector would write gaps that are not ours");
    const Index block = linear_block<Index>();
    if (block >= parameters.blocks) return;  // the whole block, before any barrier
    if constexpr (policy.stages > 0) {
        static_assert(policy.whole, "a stage is whole groups");
        move_share<policy.axis, policy.stages, typename Tile::Group>(
            parameters, block, [](Index pixel) { return Tile::first_planar(pixel); },
            [&](const auto& stage, unsigned char* memory) {
                const Tile tile{{memory, 0, 1, 0}, stage.pixels};
                tile.template write_planes<true>(parameters, stage.target, stage.channel);
            });
        return;
    }
    const PixelTile<Index> place = pixel_tile<policy.axis, Tile::length>(parameters, block);
    const Index interleaved = place.pixel * Index(policy.pitch);
    const Index planar = Tile::first_planar(place.pixel);
    const auto* source = parameters.source + Signed<Index>(place.source_offset + (splits ? interleaved : planar));
    auto* target = parameters.target + Signed<Index>(place.target_offset + (splits ? planar : interleaved));
    const Index row_elements = splits ? parameters.source_elements : parameters.target_elements;
    const Tile tile{{dynamic_shared_memory(), place.groups * Tile::Group::shared_bytes, place.rows,
                     positions_left(row_elements, interleaved, place.groups * Tile::length * policy.pitch)},
                    place.pixels};
    if constexpr (splits) {
        tile.interleaved.read(source, parameters.source_row_step, parameters.source_vectors);
        __syncthreads();
        tile.template write_planes<false>(parameters, target, place.channel);
    } else {
        tile.read_planes(parameters, source, place.channel);
        __syncthreads();
        constexpr int written = policy.fills_pixels ? policy.pitch : policy.channels;
        tile.interleaved.template write<written>(target, parameters.target_row_step, parameters.target_vectors);
    }
}

}  // namespace sg
