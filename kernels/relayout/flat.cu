// Family A, flat: one run, contiguous on both sides.
//
// A block of 256 threads moves Steps consecutive strips; a strip is 8 warps side by side, and in it a warp moves
// 32 * length elements, length being those of the longer of the two sides' vectors:
//
//     block   | strip 0                             | strip 1                             | …
//             | warp 0 | warp 1 | …        | warp 7 | warp 0 | warp 1 | …        | warp 7 |
//
// A lane issues its loads of all strips, 64 bytes or more, before it uses the first. Only the last block checks bounds;
// the others take a path without comparisons.
//
// Bytes moved: each element once in and once out.
#include "channel_constants.cuh"
#include "indexing.cuh"
#include "run_steps.cuh"

namespace sg {

struct FlatPolicy {
    int load_bytes, store_bytes;  // of one access
    int steps;                    // strips of a block
};

template <typename Conversion, typename Index> struct FlatParameters {
    const uint8* source;
    uint8* target;
    ChannelAffines<typename Conversion::Compute, Channels::alike> affine;
    Index source_offset;  // elements
    Index count;          // elements
    Index load_count;     // elements that whole vectors are loaded of: more than count where more may be read
    Index store_count;    // and stored to; from here to count, element by element
};

// __launch_bounds__ minBlocks: 4 blocks keep memory busy, 2 for numbers that take two registers. Without it compilers
// target more and spill.
template <typename Conversion, typename Index, FlatPolicy policy>
__global__ void __launch_bounds__(256, Conversion::is_wide ? 2 : 4)
    copy_flat(__grid_constant__ const FlatParameters<Conversion, Index> p) {
    using Step = RunStep<Conversion, policy.load_bytes, policy.store_bytes>;
    using Source = typename Step::Source;
    using Target = typename Step::Target;
    using Loaded = typename Step::Loaded;
    using Stored = typename Step::Stored;
    constexpr int warps = 8;
    constexpr uint32 warp_elements = 32 * Step::length;
    constexpr uint32 strip_elements = warps * warp_elements;
    constexpr uint32 block_elements = policy.steps * strip_elements;

    const uint32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Index block_start = linear_block<Index>() * block_elements;
    const Index warp_start = block_start + warp * warp_elements;
    const Source* source = reinterpret_cast<const Source*>(p.source) + p.source_offset;
    Target* target = reinterpret_cast<Target*>(p.target);
    const Source* from = source + warp_start + lane * Step::load_length;
    Target* to = target + warp_start + lane * Step::store_length;

    alignas(32) __shared__ uint8 exchange[Step::exchanges ? policy.steps * 256 * Step::exchange_bytes : 1];
    uint8* warp_exchange = Step::exchanges ? exchange + warp * 32 * Step::exchange_bytes : exchange;
    // The distance of a vector from the lane's first; a constant after unrolling.
    const auto load_distance = [](int step, int piece) {
        return step * int(strip_elements) + piece * 32 * Step::load_length;
    };
    const auto store_distance = [](int step, int piece) {
        return step * int(strip_elements) + piece * 32 * Step::store_length;
    };
    const auto convert = [&](int, uint32, const auto& vector) { return Conversion::apply(vector, p.affine.value); };

    if (block_start + block_elements <= p.store_count) {
        Step::template move<policy.steps>(
            lane, 32, warp_exchange, 256 * Step::exchange_bytes,
            [&](int step, int piece) { return load_global<Loaded>(from + load_distance(step, piece)); }, convert,
            [&](int step, int piece, const Stored& vector) { store_global(to + store_distance(step, piece), vector); });
        return;
    }
    const Index load_end = warp_start + (lane + 1) * Step::load_length;
    const Index store_end = warp_start + (lane + 1) * Step::store_length;
    Step::template move<policy.steps>(
        lane, 32, warp_exchange, 256 * Step::exchange_bytes,
        [&](int step, int piece) {
            const int distance = load_distance(step, piece);
            return load_end + distance <= p.load_count ? load_global<Loaded>(from + distance) : Loaded{};
        },
        convert,
        [&](int step, int piece, const Stored& vector) {
            const int distance = store_distance(step, piece);
            if (store_end + distance <= p.store_count) store_global(to + distance, vector);
        });
    // Fewer elements remain than a vector has.
    const Index left = p.store_count + threadIdx.x;
    if (left < p.count) store(target + left, Conversion::apply(load<Source>(source + left), p.affine.value));
}

}  // namespace sg
