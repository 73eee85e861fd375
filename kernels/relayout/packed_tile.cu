// Packed tile: the contiguous runs of both sides are short, so a tile spans several runs of each.
//
//     source chunks (memory as it is)          shared memory            target rows
//     r g b r g b r g b r g b ...  chunk 0     the chunks, as they      r g b r g b r g b ...  row 0
//     r g b r g b r g b r g b ...  chunk 1     lie in the source        r g b r g b r g b ...  row 1
//
// A tile is a box of the loops. The source's innermost loops form its chunks: stretches of source memory that are read
// in vectors of LoadBytes, gaps included. The target's innermost loops form its rows: stretches of target memory that
// are written in vectors of StoreBytes. Each element is read once and written once. A table gives, for every position
// of a row, the place of its element in a chunk: 4 bytes an entry, shared by all blocks and thus cached. Two more
// tables give the starts of chunks and rows. A tile at the edge of the tensor has fewer chunks and rows, and shorter
// ones.
//
// Shared memory is padded by a word (or an element, if larger) after every 128 bytes, so that threads whose elements
// lie 128, 64 or 32 bytes apart access different banks.
#include "channel_constants.cuh"
#include "tiles.cuh"

namespace sg {

// The loops that a tile may take a part of: the source's last one, the target's last one, and one in neither's runs.
constexpr int partial_loops = 3;

template <typename Index> struct PartialLoop {
    Index size, extent, source_step, target_step;  // the steps are from tile to tile
    Index channel_step;                            // the same in channels: extent if this is the channel axis, else 0
    Divisor<Index> tiles;
};

// The start of a chunk or row relative to the tile's, and its place along the partial loops that enumerate it.
template <typename Index> struct PackedRun {
    Index offset;
    uint32 position, channel;  // of a row: added to the table's
    uint32 place[partial_loops];
};

// Table entries of positions without an element: a gap that is not written, or a zero.
constexpr uint32 packed_gap = 0xffff, packed_zero = 0xfffe;

// Between a row's elements: gaps that must be kept, only gaps that may be overwritten, or zeros.
enum class Gaps { kept, ours, zeros };

struct PackedTilePolicy {
    int rank;                     // axes outside of the tile, the channels' left out
    int load_bytes, store_bytes;  // of one access
    Gaps gaps;
    int threads;                  // of a block
    Channels affines, order;
};

template <typename Conversion, typename Index, PackedTilePolicy policy> struct PackedTileParameters {
    const typename Conversion::Source* source;
    typename Conversion::Target* target;
    const PackedRun<Index>* chunks;
    const PackedRun<Index>* rows;
    const uint32* positions;
    Index source_start, target_start;  // of the first chunk's lowest element; of the first row
    Index blocks;
    PartialLoop<Index> partial[partial_loops];
    Divisor<Index> channels;
    Index target_channel_step;
    Divisor<uint32> chunk_vectors, row_vectors;
    uint32 chunk_count, row_count, chunk_pitch;  // pitch in elements of shared memory
    uint32 chunk_length, row_length;             // elements from the first to the last, gaps included
    // What a shorter tile subtracts for each missing place of a partial loop: from a chunk's length, from a row's
    // length, and from positions if the source runs backwards.
    uint32 chunk_shrinks[partial_loops], row_shrinks[partial_loops], position_shrinks[partial_loops];
    Axes<Index, policy.rank> outer;
    ChannelOrder<Index, policy.order> order;
    ChannelAffines<typename Conversion::Compute, policy.affines> affines;
};

template <typename T> struct PackedMemory {
    static constexpr int filling = sizeof(T) > 4 ? int(sizeof(T)) : 4;
    unsigned char* memory;

    static __device__ __forceinline__ int place(int byte) { return byte + byte / 128 * filling; }

    __device__ __forceinline__ T get(int position) const {
        return load<Vector<T, 1>>(memory + place(position * int(sizeof(T)))).get(0);
    }
    template <int N> __device__ __forceinline__ void put(int position, const Vector<T, N>& vector) const {
        using V = Vector<T, N>;
        constexpr int piece_bytes = V::bytes < filling ? V::bytes : filling;
        using Piece = Vector<typename V::Word, piece_bytes / int(sizeof(typename V::Word))>;
#pragma unroll
        for (int k = 0; k < V::bytes / piece_bytes; ++k) {
            Piece piece{};
#pragma unroll
            for (int w = 0; w < Piece::words; ++w) piece.word[w] = vector.word[k * Piece::words + w];
            store(memory + place(position * int(sizeof(T)) + k * piece_bytes), piece);
        }
    }
};

// The extent of the current tile along each partial loop.
struct PackedReach {
    int left[partial_loops];

    template <typename Index> __device__ __forceinline__ bool has(const PackedRun<Index>& run) const {
        bool inside = true;
#pragma unroll
        for (int i = 0; i < partial_loops; ++i) inside &= int(run.place[i]) < left[i];
        return inside;
    }
};

// __launch_bounds__ minBlocks is 2 to stop ptxas from targeting more on sm_120 and spilling; it is no occupancy goal.
template <typename Conversion, typename Index, PackedTilePolicy policy>
__global__ void __launch_bounds__(policy.threads, 2) packed_tile(
    __grid_constant__ const PackedTileParameters<Conversion, Index, policy> parameters) {
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    constexpr int load_length = policy.load_bytes / int(sizeof(Source));
    constexpr int store_length = policy.store_bytes / int(sizeof(Target));
    using LoadVector = Vector<Source, load_length>;
    using StoreVector = Vector<Target, store_length>;
    constexpr int loads_held = 4;

    const Index block = linear_block<Index>();
    if (block >= parameters.blocks) return;  // the whole block, before any barrier
    Index source_offset = parameters.source_start, target_offset = parameters.target_start;
    Index rest = block, first_channel = 0;
    PackedReach reach;
    int chunk_length = int(parameters.chunk_length), row_length = int(parameters.row_length), shift = 0;
#pragma unroll
    for (int i = 0; i < partial_loops; ++i) {
        const PartialLoop<Index>& loop = parameters.partial[i];
        const Quotient<Index> tile = divide(rest, loop.tiles);
        rest = tile.quotient;
        source_offset += tile.remainder * loop.source_step;
        target_offset += tile.remainder * loop.target_step;
        first_channel += tile.remainder * loop.channel_step;
        reach.left[i] = positions_left(loop.size, tile.remainder * loop.extent, int(loop.extent));
        const int missing = int(loop.extent) - reach.left[i];
        chunk_length -= missing * int(parameters.chunk_shrinks[i]);
        row_length -= missing * int(parameters.row_shrinks[i]);
        shift += missing * int(parameters.position_shrinks[i]);
    }
    const Quotient<Index> by_channel = divide(rest, parameters.channels);
    const Offsets<Index> outer = parameters.outer.unravel(by_channel.quotient);
    first_channel += by_channel.remainder;
    // A short chunk that runs backwards starts higher.
    source_offset += Index(outer.source) + Index(shift) + parameters.order.source_offset(by_channel.remainder);
    target_offset += Index(outer.target) + by_channel.remainder * parameters.target_channel_step;
    const Source* source = parameters.source + Signed<Index>(source_offset);
    Target* target = parameters.target + Signed<Index>(target_offset);
    const PackedMemory<Source> memory{dynamic_shared_memory()};

    const int loads = int(parameters.chunk_count * parameters.chunk_vectors.divisor);
    for (int first = int(threadIdx.x); first < loads; first += loads_held * policy.threads) {
        LoadVector held[loads_held];
        int places[loads_held];
#pragma unroll
        for (int i = 0; i < loads_held; ++i) {
            const int number = first + i * policy.threads;
            places[i] = -1;
            if (number >= loads) continue;
            const Quotient<uint32> at = divide(uint32(number), parameters.chunk_vectors);
            const PackedRun<Index> chunk = parameters.chunks[at.quotient];
            const int element = int(at.remainder) * load_length;
            if (!reach.has(chunk) || element >= chunk_length) continue;
            places[i] = int(at.quotient * parameters.chunk_pitch) + element;
            const Source* address = source + Signed<Index>(chunk.offset + Index(element));
            held[i] = load_first<LoadVector>(address, chunk_length - element);
        }
#pragma unroll
        for (int i = 0; i < loads_held; ++i) {
            if (places[i] >= 0) memory.put(places[i], held[i]);
        }
    }
    __syncthreads();

    const int stores = int(parameters.row_count * parameters.row_vectors.divisor);
    for (int number = int(threadIdx.x); number < stores; number += policy.threads) {
        const Quotient<uint32> at = divide(uint32(number), parameters.row_vectors);
        const PackedRun<Index> row = parameters.rows[at.quotient];
        const int element = int(at.remainder) * store_length;
        if (!reach.has(row) || element >= row_length) continue;
        Target* address = target + Signed<Index>(row.offset + Index(element));
        const int start = int(row.position) - shift;
        StoreVector vector{};
        uint32 there = 0;
        constexpr int together = store_length < 4 ? store_length : 4;
        Vector<uint32, together> entries{};
#pragma unroll
        for (int i = 0; i < store_length; ++i) {
            if (i % together == 0) entries = load<Vector<uint32, together>>(parameters.positions + element + i);
            const uint32 entry = entries.word[i % together];
            const bool is_written = (entry & 0xffff) != packed_gap && element + i < row_length;
            if (!is_written) continue;
            there |= 1u << i;
            if (policy.gaps == Gaps::zeros && (entry & 0xffff) == packed_zero) continue;
            const Index channel = first_channel + Index(row.channel) + Index(entry >> 16);
            vector.set(i, Conversion::apply(memory.get(start + int(entry & 0xffff)), parameters.affines.of(channel)));
        }
        constexpr uint32 all = store_length < 32 ? (1u << (store_length & 31)) - 1 : ~0u;
        if (policy.gaps == Gaps::ours ? element + store_length <= row_length : there == all) {
            store_global(address, vector);
        } else {
#pragma unroll
            for (int i = 0; i < store_length; ++i) {
                if (there >> i & 1) address[i] = vector.get(i);
            }
        }
    }
}

}  // namespace sg
