// Channels of pixels taken apart (NHWC to NCHW) or put together, for up to 8 channels with the pixel's padding.
//
//     interleaved side, one row        r0 g0 b0 r1 g1 b1 r2 g2 b2 ...     Pitch elements a pixel, Channels of them used
//                                      |---- group -----|---- group ...    a group: Length pixels
//     planar side                      r0 r1 r2 ... | g0 g1 g2 ... | b0 b1 b2 ...
//                                      one vector of PlanarBytes of each channel is one group
//
// A block moves some groups of some rows. Its interleaved bytes go through shared memory as they are, so that on that
// side neighbouring threads touch neighbouring vectors of PixelBytes, whatever the number of channels; a thread takes a
// whole group to its registers, splits (or joins) it by byte permutes, and stores (or loads) one vector a channel. Each
// element is read once and written once. Conversion is on the planar side, where a vector is of one channel.
#include "channel_constants.cuh"
#include "pixel_groups.cuh"

namespace sg {

template <typename Conversion, typename Index, int Rank, Channels AffineKind, Channels OrderKind>
struct ChannelsParameters {
    const typename Conversion::Source* source;
    typename Conversion::Target* target;
    Index source_start, target_start;
    Index blocks;
    Index pixels, rows;              // in all
    Index row_elements;              // of the interleaved side, to the end of the last pixel
    Index source_row_step, target_row_step;
    Divisor<Index> pixel_tiles, row_tiles, channels;
    Index target_channel_step;       // along a channel axis that is fixed within a block
    Index plane_step;                // of the planar side; a source's is in `order` where it has the channel axis
    Divisor<uint32> row_vectors, row_groups;  // of a tile
    uint32 tile_rows;
    Axes<Index, Rank> outer;
    ChannelOrder<Index, OrderKind> order;
    ChannelAffines<typename Conversion::Compute, AffineKind> affines;
};

enum class Direction { split, join };

// The kernel's template arguments, and a tile's two steps. Backwards: the planar side runs against the other one; its
// rows are then whole vectors.
template <typename Conversion_, typename Index, Direction Way, int Channels_, int Pitch, int PixelBytes,
          int PlanarBytes, bool Backwards, int Threads, ChannelAxis Axis>
struct ChannelTile {
    using Conversion = Conversion_;
    static constexpr bool splits = Way == Direction::split;
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    using Interleaved = select<splits, Source, Target>;
    using Planar = select<splits, Target, Source>;
    static constexpr int length = PlanarBytes / int(sizeof(Planar));
    static constexpr int pixel_length = PixelBytes / int(sizeof(Interleaved));
    using Group = PixelGroup<Interleaved, Pitch, length>;
    using PixelVector = Vector<Interleaved, pixel_length>;
    using PlanarVector = Vector<Planar, length>;

    PixelRows<Group, PixelVector, Threads> interleaved;
    int pixels_left;

    // Groups from shared memory to the planes of the target.
    template <Channels OrderKind, typename Parameters>
    __device__ __forceinline__ void write_planes(const Parameters& parameters, Target* target, Index channel) const {
        const int groups = int(parameters.row_groups.divisor) * interleaved.rows_left;
        for (int number = int(threadIdx.x); number < groups; number += Threads) {
            const Quotient<uint32> at = divide(uint32(number), parameters.row_groups);
            const int pixel = int(at.remainder) * length, left = pixels_left - pixel;
            if (left <= 0) continue;
            Group group{};
            group.read(shared_group(at));
            const Index offset = Index(at.quotient) * parameters.target_row_step + planar_offset(pixel);
            Target* address = target + Signed<Index>(offset);
            if constexpr (OrderKind == Channels::alike || Axis != ChannelAxis::source) {
#pragma unroll
                for (int c = 0; c < Channels_; ++c) {
                    write_plane(parameters, address + Signed<Index>(Index(c) * parameters.plane_step), group.planes[c],
                                Axis == ChannelAxis::source ? Index(c) : channel, left);
                }
            } else {
                // An output channel that is known only at run time takes its plane from the registers by comparison.
                for (int c = 0; c < int(parameters.channels.divisor); ++c) {
                    const Index from = parameters.order.source_offset(Index(c));
                    typename Group::Plane plane = group.planes[0];
#pragma unroll
                    for (int p = 1; p < Pitch; ++p) {
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
        if constexpr (Backwards) vector = reversed(vector);
        store_first(address, vector, left);
    }

    // The planes of the source to groups in shared memory.
    template <typename Parameters>
    __device__ __forceinline__ void read_planes(const Parameters& parameters, const Source* source,
                                                Index channel) const {
        const int groups = int(parameters.row_groups.divisor) * interleaved.rows_left;
        for (int number = int(threadIdx.x); number < groups; number += Threads) {
            const Quotient<uint32> at = divide(uint32(number), parameters.row_groups);
            const int pixel = int(at.remainder) * length, left = pixels_left - pixel;
            if (left <= 0) continue;
            const Index offset = Index(at.quotient) * parameters.source_row_step + planar_offset(pixel);
            PlanarVector planes[Channels_];
#pragma unroll
            for (int c = 0; c < Channels_; ++c) {
                Index plane = offset;
                if constexpr (Axis == ChannelAxis::target) plane += parameters.order.source_offset(Index(c));
                else plane += Index(c) * parameters.plane_step;
                planes[c] = load_first<PlanarVector>(source + Signed<Index>(plane), left);
            }
            Group group{};
#pragma unroll
            for (int c = 0; c < Channels_; ++c) {
                if constexpr (Backwards) planes[c] = reversed(planes[c]);
                const auto affine = parameters.affines.of(Axis == ChannelAxis::target ? Index(c) : channel);
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
    static __device__ __forceinline__ Index planar_offset(int pixel) {
        return Backwards ? Index(0) - Index(pixel + length - 1) : Index(pixel);
    }
};

// One block a multiprocessor is no aim: without it, sm_80's compiler aims at more, and spills.
template <typename Conversion, typename Index, int Rank, Direction Way, int PixelChannels, int Pitch,
          bool FillsPixels, int PixelBytes, int PlanarBytes, bool Backwards, int Threads, ChannelAxis Axis,
          Channels AffineKind, Channels OrderKind>
__global__ void __launch_bounds__(Threads, 1)
    channels(__grid_constant__ const ChannelsParameters<Conversion, Index, Rank, AffineKind, OrderKind> parameters) {
    using Tile =
        ChannelTile<Conversion, Index, Way, PixelChannels, Pitch, PixelBytes, PlanarBytes, Backwards, Threads, Axis>;
    constexpr bool splits = Way == Direction::split;
    static_assert(splits || FillsPixels || PixelChannels == Pitch || Tile::pixel_length == 1,
                  "a vector would write gaps that are not ours");
    const Index block = linear_block<Index>();
    if (block >= parameters.blocks) return;  // the whole block, before any barrier
    const Quotient<Index> by_pixel = divide(block, parameters.pixel_tiles);
    const Quotient<Index> by_row = divide(by_pixel.quotient, parameters.row_tiles);
    Quotient<Index> by_channel = {by_row.quotient, 0};
    if constexpr (Axis == ChannelAxis::block) by_channel = divide(by_row.quotient, parameters.channels);
    const Offsets<Index> outer = parameters.outer.unravel(by_channel.quotient);
    const Index channel = by_channel.remainder;
    const int groups = int(parameters.row_groups.divisor);
    const Index pixel = by_pixel.remainder * Index(groups * Tile::length);
    const Index row = by_row.remainder * Index(parameters.tile_rows);

    const Index interleaved = pixel * Index(Pitch), planar = Backwards ? Index(0) - pixel : pixel;
    Index source_offset = parameters.source_start + Index(outer.source) + row * parameters.source_row_step;
    Index target_offset = parameters.target_start + Index(outer.target) + row * parameters.target_row_step;
    source_offset += splits ? interleaved : planar;
    target_offset += splits ? planar : interleaved;
    if constexpr (Axis == ChannelAxis::block) {
        source_offset += parameters.order.source_offset(channel);
        target_offset += channel * parameters.target_channel_step;
    }
    const auto* source = parameters.source + Signed<Index>(source_offset);
    auto* target = parameters.target + Signed<Index>(target_offset);

    const Tile tile{{dynamic_shared_memory(), groups * Tile::Group::shared_bytes,
                     positions_left(parameters.rows, row, int(parameters.tile_rows)),
                     positions_left(parameters.row_elements, interleaved, groups * Tile::length * Pitch)},
                    positions_left(parameters.pixels, pixel, groups * Tile::length)};
    if constexpr (splits) {
        tile.interleaved.read(source, parameters.source_row_step, parameters.row_vectors);
        __syncthreads();
        tile.template write_planes<OrderKind>(parameters, target, channel);
    } else {
        tile.read_planes(parameters, source, channel);
        __syncthreads();
        constexpr int written = FillsPixels ? Pitch : PixelChannels;
        tile.interleaved.template write<written>(target, parameters.target_row_step, parameters.row_vectors);
    }
}

}  // namespace sg
