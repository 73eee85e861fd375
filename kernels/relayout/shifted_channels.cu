// Unaligned pixels: channels are de-interleaved, interleaved or both, as in channels.cu and pixels.cu, but rows or
// planes begin anywhere in their vectors: images of odd widths, and windows of images.
//
//     pixels in global memory    | . . r0 g0 | b0 r1 g1 b1 | r2 g2 b2 r3 | g3 b3 . .      whole vectors, and ends
//     pixels in shared memory    | . . r0 g0 | b0 r1 g1 b1 | r2 g2 b2 r3 | g3 b3
//     a thread's group           r0 g0 b0 r1   g1 b1 r2 g2   b2 r3 g3 b3                  words, shifted into place
//     planes in shared memory    r0 r1 r2 r3 ...                g0 g1 g2 g3 ...           from a word on
//     planes in global memory    | . . . r0 | r1 r2 r3 ...    | . g0 g1 g2 | g3 ...       whole vectors, and ends
//
// A block moves some pixels of some rows. Each side is staged in shared memory in aligned vectors of 16 bytes, wherever
// its runs begin (shifted_runs.cuh). Data is funnel-shifted twice: from the pixels' places to a thread's words, and
// from these to the places of the planes. Planes to pixels, and pixels to pixels, take the same steps; a side with
// pitch 1 is planar. Each element is read once and written once. Both of two tiles that share a vector write their own
// elements one by one.
#include "pixel_tiles.cuh"
#include "register_shuffle.cuh"
#include "shifted_runs.cuh"

namespace sg {

// Whether a tile has one row.
template <bool Value> struct OneRow { static constexpr bool value = Value; };

struct ShiftedChannelsPolicy {
    int rank;                        // axes outside of rows and channels
    int channels;                    // elements of a pixel that move
    int source_pitch, target_pitch;  // elements of a pixel, padding included; 1 where that side has planes
    bool turned;                     // the source's channels run against the target's
    bool backwards;                  // the source's pixels do, or the planes against the pixels that come of them
    int length;                      // pixels of a group
    int threads;                     // of a block
    ChannelAxis axis;
    Channels affines, order;
};

template <typename Conversion, typename Index, ShiftedChannelsPolicy policy>
__global__ void __launch_bounds__(policy.threads, 1) shifted_channels(
    __grid_constant__ const PixelsParameters<Conversion, Index, policy> parameters) {
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    constexpr int read_planes = policy.source_pitch == 1 ? policy.channels : 1;
    constexpr int written_planes = policy.target_pitch == 1 ? policy.channels : 1;
    constexpr int found_planes = policy.source_pitch == 1 ? policy.channels : policy.source_pitch;
    constexpr int made_planes = policy.target_pitch == 1 ? policy.channels : policy.target_pitch;
    constexpr bool source_turns = policy.backwards && policy.source_pitch == 1;
    constexpr bool target_turns = policy.backwards && !source_turns;
    static_assert(policy.length * int(sizeof(Source)) % 4 == 0 && policy.length * int(sizeof(Target)) % 4 == 0,
                  "a plane of a group is whole words, before conversion and after");

    const Index block = linear_block<Index>();
    if (block >= parameters.blocks) return;  // the whole block, before any barrier
    const PixelTile<Index> tile = pixel_tile<policy.axis, policy.length>(parameters, block);

    // The tile's lowest pixel in memory, counted from the row's first pixel and from its lowest one.
    const Index end = tile.pixel + Index(tile.pixels);
    const auto first_pixel = [&](bool turns) { return turns ? Index(1) - end : tile.pixel; };
    const auto lowest_pixel = [&](bool turns) { return turns ? parameters.pixels - end : tile.pixel; };
    const auto elements = [&](Index all, bool turns, int pitch) {
        return positions_left(all, lowest_pixel(turns) * Index(pitch), tile.pixels * pitch);
    };
    const Index source_offset = tile.source_offset + first_pixel(source_turns) * Index(policy.source_pitch);
    const Index target_offset = tile.target_offset + first_pixel(target_turns) * Index(policy.target_pitch);
    const Source* source = parameters.source + Signed<Index>(source_offset);
    Target* target = parameters.target + Signed<Index>(target_offset);
    const auto plane_offset = [&](int c) {
        if constexpr (policy.axis == ChannelAxis::target) {
            return Signed<Index>(parameters.order.source_offset(Index(c)));
        } else {
            return Signed<Index>(Index(c) * parameters.plane_step);
        }
    };

    // Runs have room for a last group and a last word that reach past their end, or before their beginning.
    constexpr int read_group = policy.length * policy.source_pitch * int(sizeof(Source));
    constexpr int written_group = policy.length * policy.target_pitch * int(sizeof(Target));
    constexpr int read_words = read_group / 4, written_words = written_group / 4;
    constexpr int read_room = (read_group + 31) / 16 * 16, written_room = (written_group + 31) / 16 * 16;
    const int read_bytes = int(parameters.source_vectors.divisor) * 16 + read_room;
    const int written_bytes = int(parameters.target_vectors.divisor) * 16 + written_room;
    uint8* read_memory = dynamic_shared_memory();
    uint8* written_memory = read_memory + int(parameters.tile_rows) * read_planes * read_bytes;
    if (source_turns) read_memory += read_room - 16;
    if (target_turns) written_memory += written_room - 16;

    const auto move = [&](auto one_row) {
        constexpr bool is_one_row = decltype(one_row)::value;
        using Offset = decltype(plane_offset);
        const ShiftedRuns<Source, Index, policy.threads, read_planes, is_one_row, Offset> read{
            read_memory, read_bytes, tile.rows,
            elements(parameters.source_elements, source_turns, policy.source_pitch), 0,
            parameters.source_row_step, plane_offset};
        const ShiftedRuns<Target, Index, policy.threads, written_planes, is_one_row, Offset> written{
            written_memory, written_bytes, tile.rows,
            elements(parameters.target_elements, target_turns, policy.target_pitch),
            target_turns ? tile.pixels * policy.target_pitch : 0, parameters.target_row_step, plane_offset};

        read.read(source, parameters.source_vectors);
        __syncthreads();
        for (int number = int(threadIdx.x); number < tile.groups * tile.rows; number += policy.threads) {
            const Quotient<uint32> at =
                is_one_row ? Quotient<uint32>{0, uint32(number)} : divide(uint32(number), parameters.row_groups);
            const int first = int(at.remainder) * policy.length;
            if (first >= tile.pixels) continue;
            const int read_run = int(at.quotient) * read_planes, written_run = int(at.quotient) * written_planes;
            const int turned = tile.pixels - first - policy.length;  // where a group's pixels lie that are counted back
            const int read_place = (source_turns ? turned : first) * policy.source_pitch * int(sizeof(Source));
            const int written_place = (target_turns ? turned : first) * policy.target_pitch * int(sizeof(Target));

            Vector<Source, policy.length> found[found_planes] = {};
            if constexpr (policy.source_pitch == 1) {
#pragma unroll
                for (int c = 0; c < policy.channels; ++c) {
                    load_shifted(read.read_place(source, read_run + c) + read_place, found[c].word);
                }
            } else {
                uint32 words[read_words];
                load_shifted(read.read_place(source, read_run) + read_place, words);
                take_apart(words, found);
            }
            Vector<Target, policy.length> made[made_planes] = {};
#pragma unroll
            for (int c = 0; c < policy.channels; ++c) {
                constexpr bool differ = policy.axis == ChannelAxis::source || policy.axis == ChannelAxis::target;
                const auto plane = Conversion::apply(found[policy.turned ? policy.channels - 1 - c : c],
                                                     parameters.affines.of(differ ? Index(c) : tile.channel));
                if constexpr (policy.backwards) made[c] = reversed(plane);
                else made[c] = plane;
            }
            if constexpr (policy.target_pitch == 1) {
#pragma unroll
                for (int c = 0; c < policy.channels; ++c) {
                    store_words_apart(written.written_place(target, written_run + c) + written_place, made[c].word);
                }
            } else {
                uint32 words[written_words];
                put_together(made, words);
                store_words_apart(written.written_place(target, written_run) + written_place, words);
            }
        }
        __syncthreads();
        written.write(target, parameters.target_vectors);
    };
    if (tile.rows == 1) move(OneRow<true>{});
    else move(OneRow<false>{});
}

}  // namespace sg
