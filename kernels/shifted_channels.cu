// Channels of pixels taken apart or put together, as in channels.cu, where rows or planes begin anywhere in their
// vectors: images of odd widths, whose planes follow each other.
//
//     pixels in global memory    | . . r0 g0 | b0 r1 g1 b1 | r2 g2 b2 r3 | g3 b3 . .      whole vectors, and ends
//     pixels in shared memory    | . . r0 g0 | b0 r1 g1 b1 | r2 g2 b2 r3 | g3 b3
//     a thread's group           r0 g0 b0 r1   g1 b1 r2 g2   b2 r3 g3 b3                  words, shifted into place
//     planes in shared memory    r0 r1 r2 r3 ...                g0 g1 g2 g3 ...           from a word on
//     planes in global memory    | . . . r0 | r1 r2 r3 ...    | . g0 g1 g2 | g3 ...       whole vectors, and ends
//
// A block moves some pixels of some rows. Each side goes through shared memory in aligned vectors of 16 bytes, wherever
// its runs begin (shifted_runs.cuh); what lies between is shifted twice, from the pixels' places to a thread's words,
// and from the words' places to those of the planes. The other way round in the same steps. Each element is read once
// and written once; the vectors that two tiles share are written element by element by both.
#include "channel_constants.cuh"
#include "register_shuffle.cuh"
#include "shifted_runs.cuh"
#include "tiles.cuh"

namespace sg {

template <typename Conversion, typename Index, int Rank, Channels AffineKind, Channels OrderKind>
struct ShiftedChannelsParameters {
    const typename Conversion::Source* source;
    typename Conversion::Target* target;
    Index source_start, target_start;
    Index blocks;
    Index pixels, rows;              // in all
    Index row_elements;              // of the interleaved side, to the end of the last pixel
    Index source_row_step, target_row_step;
    Index plane_step;                // of the planar side; a source's is in `order` where it has the channel axis
    Divisor<Index> pixel_tiles, row_tiles, channels;
    Index target_channel_step;       // along a channel axis that is fixed within a block
    Divisor<uint32> source_vectors, target_vectors, row_groups;  // of a run of a tile, at most
    uint32 tile_rows;
    Axes<Index, Rank> outer;
    ChannelOrder<Index, OrderKind> order;
    ChannelAffines<typename Conversion::Compute, AffineKind> affines;
};

enum class Direction { split, join };

// Whether a tile is of one row.
template <bool Value> struct OneRow { static constexpr bool value = Value; };

template <typename Conversion, typename Index, int Rank, Direction Way, int PixelChannels, int Pitch, int Length,
          int Threads, ChannelAxis Axis, Channels AffineKind, Channels OrderKind>
__global__ void __launch_bounds__(Threads, 1) shifted_channels(
    __grid_constant__ const ShiftedChannelsParameters<Conversion, Index, Rank, AffineKind, OrderKind> parameters) {
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    constexpr bool splits = Way == Direction::split;
    using Interleaved = select<splits, Source, Target>;
    constexpr int words = Pitch * Length * int(sizeof(Interleaved)) / 4;
    static_assert(Length * int(sizeof(Source)) % 4 == 0 && Length * int(sizeof(Target)) % 4 == 0,
                  "a plane of a group is whole words, before conversion and after");

    const Index block = linear_block<Index>();
    if (block >= parameters.blocks) return;  // the whole block, before any barrier
    const Quotient<Index> by_pixel = divide(block, parameters.pixel_tiles);
    const Quotient<Index> by_row = divide(by_pixel.quotient, parameters.row_tiles);
    Quotient<Index> by_channel = {by_row.quotient, 0};
    if constexpr (Axis == ChannelAxis::block) by_channel = divide(by_row.quotient, parameters.channels);
    const Offsets<Index> outer = parameters.outer.unravel(by_channel.quotient);
    const Index channel = by_channel.remainder;
    const int groups = int(parameters.row_groups.divisor), tile_pixels = groups * Length;
    const Index pixel = by_pixel.remainder * Index(tile_pixels), interleaved = pixel * Index(Pitch);
    const Index row = by_row.remainder * Index(parameters.tile_rows);
    const int rows = positions_left(parameters.rows, row, int(parameters.tile_rows));
    const int pixels = positions_left(parameters.pixels, pixel, tile_pixels);
    const int elements = positions_left(parameters.row_elements, interleaved, tile_pixels * Pitch);

    Index source_offset = parameters.source_start + Index(outer.source) + row * parameters.source_row_step;
    Index target_offset = parameters.target_start + Index(outer.target) + row * parameters.target_row_step;
    source_offset += splits ? interleaved : pixel;
    target_offset += splits ? pixel : interleaved;
    if constexpr (Axis == ChannelAxis::block) {
        source_offset += parameters.order.source_offset(channel);
        target_offset += channel * parameters.target_channel_step;
    }
    const Source* source = parameters.source + Signed<Index>(source_offset);
    Target* target = parameters.target + Signed<Index>(target_offset);
    const auto plane_offset = [&](int c) {
        if constexpr (Axis == ChannelAxis::target) return Signed<Index>(parameters.order.source_offset(Index(c)));
        else return Signed<Index>(Index(c) * parameters.plane_step);
    };

    // Runs have room for a last group and a last word that reach past their end.
    constexpr int read_planes = splits ? 1 : PixelChannels, written_planes = splits ? PixelChannels : 1;
    constexpr int read_group = Length * (splits ? Pitch : 1) * int(sizeof(Source));
    constexpr int written_group = Length * (splits ? 1 : Pitch) * int(sizeof(Target));
    const int read_bytes = int(parameters.source_vectors.divisor) * 16 + (read_group + 31) / 16 * 16;
    const int written_bytes = int(parameters.target_vectors.divisor) * 16 + (written_group + 31) / 16 * 16;
    uint8* memory = dynamic_shared_memory();
    uint8* written_memory = memory + int(parameters.tile_rows) * read_planes * read_bytes;

    const auto move = [&](auto one_row) {
        constexpr bool is_one_row = decltype(one_row)::value;
        using Offset = decltype(plane_offset);
        const ShiftedRuns<Source, Index, Threads, read_planes, is_one_row, Offset> read{
            memory, read_bytes, rows, splits ? elements : pixels, parameters.source_row_step, plane_offset};
        const ShiftedRuns<Target, Index, Threads, written_planes, is_one_row, Offset> written{
            written_memory, written_bytes, rows, splits ? pixels : elements, parameters.target_row_step, plane_offset};

        read.read(source, parameters.source_vectors);
        __syncthreads();
        for (int number = int(threadIdx.x); number < groups * rows; number += Threads) {
            const Quotient<uint32> at =
                is_one_row ? Quotient<uint32>{0, uint32(number)} : divide(uint32(number), parameters.row_groups);
            const int first_pixel = int(at.remainder) * Length;
            if (first_pixel >= pixels) continue;
            const int read_run = int(at.quotient) * read_planes, written_run = int(at.quotient) * written_planes;
            const int read_place = int(at.remainder) * read_group, written_place = int(at.remainder) * written_group;
            uint32 all[words];
            Vector<Interleaved, Length> planes[Pitch] = {};
            const auto affine_of = [&](int c) {
                constexpr bool differ = Axis == ChannelAxis::source || Axis == ChannelAxis::target;
                return parameters.affines.of(differ ? Index(c) : channel);
            };
            if constexpr (splits) {
                load_shifted(read.read_place(source, read_run) + read_place, all);
                take_apart<sizeof(Interleaved)>(all, planes);
#pragma unroll
                for (int c = 0; c < PixelChannels; ++c) {
                    const auto plane = Conversion::apply(planes[c], affine_of(c));
                    store_words_apart(written.written_place(target, written_run + c) + written_place, plane.word);
                }
            } else {
#pragma unroll
                for (int c = 0; c < PixelChannels; ++c) {
                    Vector<Source, Length> plane{};
                    load_shifted(read.read_place(source, read_run + c) + read_place, plane.word);
                    planes[c] = Conversion::apply(plane, affine_of(c));
                }
                put_together<sizeof(Interleaved)>(planes, all);
                store_words_apart(written.written_place(target, written_run) + written_place, all);
            }
        }
        __syncthreads();
        written.write(target, parameters.target_vectors);
    };
    if (rows == 1) move(OneRow<true>{});
    else move(OneRow<false>{});
}

}  // namespace sg
