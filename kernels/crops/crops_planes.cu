// Batched crops into planes: HWC images to CHW windows, the crop-mirror-normalise step of training, or CHW to CHW.
//
// A thread makes one vector of each plane: V adjacent columns of a few rows. Their pixels are adjacent in the source
// and are read once, as words, at any address; a mirrored window reverses them in registers. If the source is planar,
// too, a pixel is one element (`pitch` 1) and a thread makes vectors of one plane.
//
//     source   | r0 g0 b0 r1 g1 b1 … r(V-1) g(V-1) b(V-1) |      bytes of `pitch` channels, some perhaps not wanted
//     target   | r0 … r(V-1) |   | g0 … g(V-1) |   | b0 … b(V-1) |
//
// Vectors across an image's edge, or at its very first or last bytes, are gathered element by element.
//
// Bytes moved: each element once in and once out, and 80 bytes for each sample, which stay in the cache.
#include "crop_windows.cuh"

namespace sg {

struct CropsPlanesPolicy {
    int pitch;                    // elements of a source's pixel; 1 where the source has planes
    int load_bytes, store_bytes;  // of one access
    int rows, turns;              // of a thread: in flight, and how often
    bool exact;                   // rows are whole vectors
    Channels affines, order;
};

template <typename Conversion, typename Index, CropsPlanesPolicy policy> struct CropsPlanesParameters {
    CropsParameters<Conversion, Index, policy.affines> common;
    ChannelOrder<Index, policy.order> order;  // from a place in a pixel to its plane of the target, or to none: ~0;
                                           // of planes, from the target's to the source's
    Divisor<Index> planes;                 // that threads are shared out to: all of the target's, or 1
    Index channel_stride;                  // of the target, in elements
};

// __launch_bounds__ minBlocks: 3, or 2 if the numbers are wide or the elements become narrower, which takes more
// registers, or 4 for few bytes of interleaved pixels that become halves; 2 on sm_120. Without it ptxas spills some
// instantiations.
template <typename Conversion, CropsPlanesPolicy policy> constexpr int planes_blocks() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
    return 2;
#endif
    constexpr int source_bytes = int(sizeof(typename Conversion::Source));
    constexpr int target_bytes = int(sizeof(typename Conversion::Target));
    constexpr int held = policy.rows * policy.pitch * source_bytes * policy.store_bytes / target_bytes;
    if (Conversion::is_wide || target_bytes < source_bytes) return 2;
    return source_bytes == 1 && target_bytes == 2 && policy.pitch > 1 && held <= 64 ? 4 : 3;
}

template <typename Conversion, typename Index, CropsPlanesPolicy policy>
__global__ void __launch_bounds__(256, planes_blocks<Conversion, policy>())
    crops_planes(__grid_constant__ const CropsPlanesParameters<Conversion, Index, policy> p) {
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    constexpr int length = policy.store_bytes / int(sizeof(Target));
    constexpr bool from_planes = policy.pitch == 1;

    const Index number = linear_block<Index>() * 256 + threadIdx.x;
    if (number >= p.common.items) return;
    const CropPlace<Index> place = p.common.template place<policy.rows * policy.turns, length>(number);
    Quotient<Index> plane = {place.outer, 0};
    if constexpr (from_planes) plane = divide(place.outer, p.planes);
    WindowPart<Source, length> part(p.common.samples[plane.quotient], place.row, place.first, p.common.width,
                                    policy.pitch);
    const Source* fill = p.common.fill;
    if constexpr (from_planes) {
        const Index channel = p.order.source_offset(plane.remainder);
        part.source += int64(channel) * part.sample.channel_stride;
        fill += channel;
    }
    Target* target = reinterpret_cast<Target*>(p.common.target) +
                     Signed<Index>(p.common.offset + plane.quotient * p.common.sample_stride +
                                   place.row * p.common.row_stride + place.first);

    const uint32 left = p.common.width - place.first;  // columns of the window from the first on
    const auto plane_of = [&](int c) { return from_planes ? plane.remainder : p.order.source_offset(c); };
    const auto is_wanted = [&](int c) {
        return from_planes || policy.order == Channels::alike || plane_of(c) != ~Index(0);
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
            if (part.row + uint32(r) >= p.common.height) return;
            const auto pixels = pixels_of<Source, policy.pitch, length>(part, r, is_read[r], runs[r], fill, is_wanted);
#pragma unroll
            for (int c = 0; c < policy.pitch; ++c) {
                if (!is_wanted(c)) continue;
                const Index to = plane_of(c);
                const Vector<Target, length> converted = Conversion::apply(pixels.planes[c], p.common.affines.of(to));
                Target* vector = target + Signed<Index>(to * p.channel_stride + r * p.common.row_stride);
                if (policy.exact || left >= length) {
                    store_global(vector, converted);
                    continue;
                }
#pragma unroll
                for (int i = 0; i < length; ++i) {
                    if (i < left) store(vector + i, converted.get(i));
                }
            }
        }
        target += Signed<Index>(Index(policy.rows) * p.common.row_stride);
        part.advance(policy.rows);
    }
}

}  // namespace sg
