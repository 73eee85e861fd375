// Batched crops of pixels into pixels: HWC images to HWC windows, mirrored, converted, with channels in any order.
//
// A thread makes V adjacent pixels of a few rows, and in each row as many vectors as a pixel has channels. The pixels
// are adjacent in the source and are read once, as words, at any address. In registers they are de-interleaved to a
// vector of each channel, and interleaved again:
//
//     source      | r0 g0 b0 r1 g1 b1 … r(V-1) g(V-1) b(V-1) |      bytes of `pitch` channels, some perhaps not wanted
//     registers   | r0 … r(V-1) |   | g0 … g(V-1) |   | b0 … b(V-1) |      mirrored, converted
//     target      | b0 g0 r0 … | vector 1 | … b(V-1) g(V-1) r(V-1) |
//
// Pixels across an image's edge, or at its very first or last bytes, are read element by element.
//
// Bytes moved: each element once in and once out, and 80 bytes for each sample, which stay in the cache.
#include "crop_windows.cuh"

namespace sg {

struct CropsPixelsPolicy {
    int pitch, count;             // elements of a source's pixel and of a target's
    uint32 places;                // digit c from the right, hexadecimal: the place in a source's pixel of channel c
    int load_bytes, store_bytes;  // of one access
    int rows, turns;              // of a thread: in flight, and how often
    bool exact;                   // rows are whole vectors
    Channels affines;
};

// __launch_bounds__: 2 blocks per SM for wide numbers, which ptxas would otherwise spill; no bound for others.
template <typename Conversion, typename Index, CropsPixelsPolicy policy>
__global__ void __launch_bounds__(256, Conversion::is_wide ? 2 : 0)
    crops_pixels(__grid_constant__ const CropsParameters<Conversion, Index, policy.affines> p) {
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    constexpr int length = policy.store_bytes / int(sizeof(Target));
    const auto place_of = [](int c) { return int(policy.places >> 4 * c & 15u); };

    const Index number = linear_block<Index>() * 256 + threadIdx.x;
    if (number >= p.items) return;
    const CropPlace<Index> place = p.template place<policy.rows * policy.turns, length>(number);
    WindowPart<Source, length> part(p.samples[place.outer], place.row, place.first, p.width, policy.pitch);
    Target* target = reinterpret_cast<Target*>(p.target) +
                     Signed<Index>(p.offset + place.outer * p.sample_stride + place.row * p.row_stride +
                                   Index(place.first) * policy.count);

    const uint32 left = p.width - place.first;  // columns of the window from the first on
    const auto is_wanted = [&](int at) {
        bool wanted = false;
#pragma unroll
        for (int c = 0; c < policy.count; ++c) wanted |= place_of(c) == at;
        return wanted;
    };
    using Run = SourceRun<Source, length * policy.pitch, policy.load_bytes>;
    constexpr int all_rows = policy.rows * policy.turns;
    const auto fits = [&](int r) { return Run::fits(part.row_source(r), part.sample); };
    // Rows between two that fit do, too.
    const bool all_fit = part.has_columns() && part.has_rows(all_rows) && fits(0) && fits(all_rows - 1);
#pragma unroll 1
    for (uint32 turn = 0; turn < uint32(policy.turns); ++turn) {
        Run runs[policy.rows];
        bool is_read[policy.rows];
#pragma unroll
        for (int r = 0; r < policy.rows; ++r) {
            is_read[r] = all_fit || (part.has_columns() && part.has_row(r) && fits(r));
            if (is_read[r]) runs[r].read(part.row_source(r));
        }
#pragma unroll
        for (int r = 0; r < policy.rows; ++r) {
            if (part.row + uint32(r) >= p.height) return;
            const auto pixels =
                pixels_of<Source, policy.pitch, length>(part, r, is_read[r], runs[r], p.fill, is_wanted);
            PixelPlanes<Target, policy.count, length> made{};
#pragma unroll
            for (int c = 0; c < policy.count; ++c) {
                made.planes[c] = Conversion::apply(pixels.planes[place_of(c)], p.affines.of(c));
            }
            Target* row = target + Signed<Index>(r * p.row_stride);
            if (policy.exact || left >= length) {
                made.store_joined(row);
                continue;
            }
#pragma unroll
            for (int i = 0; i < length; ++i) {
#pragma unroll
                for (int c = 0; c < policy.count; ++c) {
                    if (i < left) store(row + i * policy.count + c, made.planes[c].get(i));
                }
            }
        }
        target += Signed<Index>(Index(policy.rows) * p.row_stride);
        part.advance(policy.rows);
    }
}

}  // namespace sg
