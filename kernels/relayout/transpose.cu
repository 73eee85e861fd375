// Batched transpose: the source is contiguous along one axis, the target along another, both long.
//
//                 source                      shared memory                      target
//          s ->   (contiguous)                t -> (swizzled)               t ->   (contiguous)
//        t +-----------------+           s +-------------------+         s +-----------------+
//        | | ====> vectors   |  Height   | | units of Height   |         | | ====> vectors   |
//        v | ====>           |  rows     v | rows, one column  |  rows   v | ====>           |
//          +-----------------+           +---------------------+           +-----------------+
//
// A block moves a tile of SourceExtent x TargetExtent elements: each is read once and written once, in vectors of
// LoadBytes and StoreBytes. A thread loads a vector of each of Height rows, transposes the block in registers, and
// stores each column as one unit of shared memory: 4 bytes for elements of up to 4 bytes, else an element. Shared
// memory has the narrower of the two types: narrowing conversions run before it, others after it.
//
// Unit u of row s is at u ^ swizzle(s). Among the rows that a warp writes at once, swizzle(s) differs by the number of
// units of adjacent columns. Every bank is then accessed once when the warp writes (32 lanes of 4 bytes, 16 of 8, 8 of
// 16) and once when it reads (8 lanes of 16 bytes in one row; halves of 32 bytes access it twice). Registers restore
// the order of a vector's units after the swizzle.
#include "channel_constants.cuh"
#include "register_shuffle.cuh"
#include "tiles.cuh"

namespace sg {

struct TransposePolicy {
    int rank;                          // axes outside of the tile, the channels' left out
    int source_extent, target_extent;  // elements of a tile along the axis that is contiguous on that side
    int load_bytes, store_bytes;       // of one access
    bool fills;                        // zeros fill up the target's rows
    int threads;                       // of a block
    ChannelAxis axis;
    Channels affines, order;
};

template <typename Conversion, typename Index, TransposePolicy policy> struct TransposeParameters {
    const typename Conversion::Source* source;
    typename Conversion::Target* target;
    Index source_start, target_start;  // of the first element visited, from the lowest of each side
    Index blocks;
    Index source_size, target_size;    // of the axes along which source and target are contiguous
    Index filled_size;                 // the target's, with the zeros that fill it up
    Index source_step, target_step;    // the source's stride along the target's axis, and the reverse
    Divisor<Index> source_tiles, target_tiles, channels;
    Index target_channel_step;
    Axes<Index, policy.rank> outer;
    ChannelOrder<Index, policy.order> order;
    ChannelAffines<typename Conversion::Compute, policy.affines> affines;
};

// Elements in a tile's shared memory, and the arithmetic of its swizzle.
//
// A place is the exclusive-or of shifted bits of row and unit. Bits that a thread's own row and unit leave free are
// compile-time constants, which cost at most one XOR and usually an immediate.
template <typename T, int SourceExtent, int TargetExtent, int LoadLength> struct TransposeTile {
    static constexpr uint32 height = sizeof(T) >= 4 ? 1 : 4 / sizeof(T);
    using Unit = Vector<T, height>;
    static constexpr uint32 units = TargetExtent / height;  // of a row
    static constexpr uint32 row_bytes = units * Unit::bytes;
    static constexpr uint32 bank_units = 128 / Unit::bytes < units ? 128 / Unit::bytes : units;
    static constexpr uint32 vectors = SourceExtent / LoadLength;
    static constexpr uint32 swizzle_step = bank_units > vectors ? bank_units / vectors : 1;
    static_assert((SourceExtent & (SourceExtent - 1)) == 0 && (TargetExtent & (TargetExtent - 1)) == 0, "bits");

    unsigned char* memory;

    static __device__ __forceinline__ uint32 swizzle(uint32 s) {
        return s / LoadLength * swizzle_step & (bank_units - 1);
    }

    // The byte offset of a unit of row s.
    static __device__ __forceinline__ uint32 place(uint32 s, uint32 unit) {
        return s * row_bytes + (unit ^ swizzle(s)) * Unit::bytes;
    }

    // The offset `rows` and `more_units` further, in bits that are free.
    static __device__ __forceinline__ uint32 further(uint32 from, uint32 rows, uint32 more_units) {
        const uint32 by = place(rows, more_units);
        return (from ^ by % row_bytes) + by / row_bytes * row_bytes;
    }

    __device__ __forceinline__ void put(uint32 at, const Unit& elements) const { store(memory + at, elements); }

    // Load Length elements of a row; the first one is element `inside` of the unit at a place.
    template <int Length> __device__ __forceinline__ Vector<T, Length> get(uint32 at, uint32 inside) const {
        constexpr uint32 bytes = Length * sizeof(T);
        Vector<T, Length> elements{};
        if constexpr (bytes <= Unit::bytes) {
            elements = load<Vector<T, Length>>(memory + at + inside * uint32(sizeof(T)));
        } else {
            constexpr uint32 piece_units = (bytes < 16 ? bytes : 16) / Unit::bytes;
            constexpr uint32 unit_words = Unit::words;
            using Piece = Vector<uint32, piece_units * unit_words>;
#pragma unroll
            for (uint32 piece = 0; piece < bytes / Piece::bytes; ++piece) {
                const uint32 first = further(at, 0, piece * piece_units);
                Piece words = load<Piece>(memory + (first & ~uint32(Piece::bytes - 1)));
#pragma unroll
                for (uint32 bit = swizzle_step; bit < piece_units; bit *= 2) {
                    const bool turned = first & bit * Unit::bytes;
                    Piece exchanged{};
#pragma unroll
                    for (uint32 w = 0; w < Piece::words; ++w) {
                        exchanged.word[w] = turned ? words.word[w ^ bit * unit_words] : words.word[w];
                    }
                    words = exchanged;
                }
#pragma unroll
                for (uint32 w = 0; w < Piece::words; ++w) elements.word[piece * Piece::words + w] = words.word[w];
            }
        }
        return elements;
    }
};

// Transpose Height rows of a vector to one unit for each of its columns.
template <typename T, int Length, int Height>
__device__ __forceinline__ void transpose_rows(const Vector<T, Length> (&rows)[Height],
                                               Vector<T, Height> (&columns)[Length]) {
    if constexpr (Height == 4 && Length >= 4) {
#pragma unroll
        for (int w = 0; w < Length / 4; ++w) {
            uint32 words[4] = {rows[0].word[w], rows[1].word[w], rows[2].word[w], rows[3].word[w]};
            transpose_bytes_4x4(words);
#pragma unroll
            for (int i = 0; i < 4; ++i) columns[4 * w + i].word[0] = words[i];
        }
    } else if constexpr (Height == 2 && Length >= 2) {
#pragma unroll
        for (int w = 0; w < Length / 2; ++w) {
            uint32 even = rows[0].word[w], odd = rows[1].word[w];
            transpose_halves_2x2(even, odd);
            columns[2 * w].word[0] = even;
            columns[2 * w + 1].word[0] = odd;
        }
    } else {
#pragma unroll
        for (int i = 0; i < Length; ++i) {
            columns[i] = {};
#pragma unroll
            for (int h = 0; h < Height; ++h) columns[i].set(h, rows[h].get(i));
        }
    }
}

template <typename Conversion, typename Index, TransposePolicy policy> struct Transpose {
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    static constexpr bool converts_first = sizeof(Target) < sizeof(Source);
    using Stored = select<converts_first, Target, Source>;
    static constexpr int load_length = policy.load_bytes / int(sizeof(Source));
    static constexpr int store_length = policy.store_bytes / int(sizeof(Target));
    using Tile = TransposeTile<Stored, policy.source_extent, policy.target_extent, load_length>;
    using Parameters = TransposeParameters<Conversion, Index, policy>;
    static constexpr int height = int(Tile::height);
    static constexpr int loads = int(Tile::vectors * Tile::units);
    static constexpr int row_vectors = policy.target_extent / store_length;
    static constexpr int loads_a_thread = loads > policy.threads ? loads / policy.threads : 1;
    // Loads in flight of one thread: 16, or 128 bytes of registers, or the rows of one unit.
    static constexpr int most_vectors = policy.load_bytes < 8 ? 16 : 128 / policy.load_bytes;
    static constexpr int vectors_held = most_vectors < height ? height : most_vectors;
    static constexpr int held = vectors_held / height < loads_a_thread ? vectors_held / height : loads_a_thread;
    static_assert(loads_a_thread % held == 0, "whole rounds");

    const Parameters& parameters;
    Tile tile;
    Index source_first, target_first;  // elements: where the tile starts along either axis
    Index channel;
    int source_left, target_left;      // elements of the tile that exist along either axis
    int filled_left;                   // along the target's, with zeros

    // A vector with its first element at (s, t) of the tile; converted if this is the side (Here) of conversion.
    template <bool Here, int Length, ChannelAxis Along, typename T>
    __device__ __forceinline__ auto converted(const Vector<T, Length>& elements, int s, int t) const {
        if constexpr (!Here) {
            return elements;
        } else if constexpr (!Conversion::is_affine || policy.axis == ChannelAxis::none ||
                             policy.axis == ChannelAxis::block) {
            return Conversion::apply(elements, parameters.affines.of(channel));
        } else if constexpr (policy.axis != Along) {
            return Conversion::apply(elements, parameters.affines.of(
                policy.axis == ChannelAxis::target ? target_first + Index(t) : source_first + Index(s)));
        } else {
            const Index first = policy.axis == ChannelAxis::target ? target_first + Index(t) : source_first + Index(s);
            const int left = policy.axis == ChannelAxis::target ? target_left - t : source_left - s;
            Vector<Target, Length> results{};
#pragma unroll
            for (int i = 0; i < Length; ++i) {
                // There are no constants after the last channel.
                const Index place = first + Index(i < left ? i : 0);
                results.set(i, Conversion::apply(elements.get(i), parameters.affines.of(place)));
            }
            return results;
        }
    }

    template <bool Whole> __device__ __forceinline__ void read(const Source* source) const {
        constexpr uint32 vectors = Tile::vectors;
        constexpr uint32 unit_step = policy.threads / vectors;  // from one of a thread's units to its next
        const uint32 s = threadIdx.x % vectors * load_length;
        // In a small tile the last threads have no vectors, and no entries in the table of channels.
        const bool inside = loads >= policy.threads || threadIdx.x < loads;
        const int64 row_step = Signed<Index>(parameters.source_step);
        // Unrolling would put the loads of all rounds in flight and exceed the registers.
#pragma unroll 1
        for (int round = 0; round < loads_a_thread / held; ++round) {
            const uint32 unit = threadIdx.x / vectors + round * held * unit_step;
            const uint32 place = Tile::place(s, unit);
            const Source* first = source + s;
            if constexpr (policy.axis != ChannelAxis::target) {
                first += Signed<Index>(Index(unit * height) * parameters.source_step);
            }
            Vector<Source, load_length> rows[held][height];
#pragma unroll
            for (int i = 0; i < held; ++i) {
#pragma unroll
                for (int h = 0; h < height; ++h) {
                    const int further = int(i * unit_step) * height + h, t = int(unit) * height + further;
                    const Source* address = first;
                    if constexpr (policy.axis == ChannelAxis::target) {
                        const bool has_channel = Whole ? inside : t < target_left;
                        if (has_channel) {
                            address += Signed<Index>(parameters.order.source_offset(target_first + Index(t)));
                        }
                    } else {
                        address += further * row_step;
                    }
                    if constexpr (Whole) {
                        if (inside) rows[i][h] = load_global<Vector<Source, load_length>>(address);
                    } else {
                        const int left = t < target_left && inside ? source_left - int(s) : 0;
                        rows[i][h] = load_first<Vector<Source, load_length>>(address, left);
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < held; ++i) {
                const int first_t = int(unit + i * unit_step) * height;
                if (!inside) continue;
                if (!Whole && (int(s) >= source_left || first_t >= target_left)) continue;
                Vector<Stored, load_length> stored[height];
#pragma unroll
                for (int h = 0; h < height; ++h) {
                    const int t = first_t + h, there = Whole || t < target_left ? t : 0;
                    stored[h] = converted<converts_first, load_length, ChannelAxis::source>(rows[i][h], int(s), there);
                }
                typename Tile::Unit columns[load_length];
                transpose_rows(stored, columns);
#pragma unroll
                for (int c = 0; c < load_length; ++c) tile.put(Tile::further(place, c, i * unit_step), columns[c]);
            }
        }
    }

    template <bool Whole> __device__ __forceinline__ void write(Target* target) const {
        static_assert(row_vectors <= policy.threads, "a round of stores is whole rows");
        constexpr int rows = policy.threads / row_vectors;  // of a round
        constexpr int rounds = rows < policy.source_extent ? policy.source_extent / rows : 1;
        constexpr int together = rounds < 4 ? rounds : 4;
        const int t = int(threadIdx.x % row_vectors) * store_length;
        const int64 row_step = Signed<Index>(parameters.target_step);
        if (!Whole && t >= filled_left) return;
#pragma unroll 1
        for (int round = 0; round < rounds; round += together) {
            const int first_s = int(threadIdx.x / row_vectors) + round * rows;
            const uint32 place = Tile::place(uint32(first_s), uint32(t) / height);
            Target* first = target + t + Signed<Index>(Index(first_s) * parameters.target_step);
#pragma unroll
            for (int i = 0; i < together; ++i) {
                const int s = first_s + i * rows;
                if (Whole ? rows > policy.source_extent && s >= policy.source_extent : s >= source_left) continue;
                Vector<Target, store_length> elements{};
                if (Whole || !policy.fills || t < target_left) {
                    const auto row = tile.template get<store_length>(Tile::further(place, i * rows, 0), t % height);
                    elements = converted<!converts_first, store_length, ChannelAxis::target>(row, s, t);
                }
                Target* address = first + i * rows * row_step;
                if constexpr (Whole) {
                    store_global(address, elements);
                } else {
#pragma unroll
                    for (int e = 0; policy.fills && e < store_length; ++e) {
                        if (t + e >= target_left) elements.set(e, Target{});
                    }
                    store_first(address, elements, filled_left - t);
                }
            }
        }
    }

    __device__ __forceinline__ bool is_whole() const {
        return source_left == policy.source_extent && target_left == policy.target_extent;
    }
};

// __launch_bounds__: without it compilers target more blocks than registers allow for scalar loads, and spill.
template <typename Conversion, typename Index, TransposePolicy policy>
__global__ void __launch_bounds__(policy.threads, 2)
    transpose(__grid_constant__ const TransposeParameters<Conversion, Index, policy> parameters) {
    using Job = Transpose<Conversion, Index, policy>;
    const Index block = linear_block<Index>();
    if (block >= parameters.blocks) return;  // the whole block, before any barrier
    // Adjacent blocks write adjacent memory.
    const Quotient<Index> by_target = divide(block, parameters.target_tiles);
    const Quotient<Index> by_source = divide(by_target.quotient, parameters.source_tiles);
    const Quotient<Index> by_channel = divide(by_source.quotient, parameters.channels);
    const Offsets<Index> outer = parameters.outer.unravel(by_channel.quotient);
    const Index target_first = by_target.remainder * Index(policy.target_extent);
    const Index source_first = by_source.remainder * Index(policy.source_extent);
    const Index channel = by_channel.remainder;

    Index source_offset = parameters.source_start + Index(outer.source) + source_first;
    if constexpr (policy.axis == ChannelAxis::block) source_offset += parameters.order.source_offset(channel);
    if constexpr (policy.axis != ChannelAxis::target) source_offset += target_first * parameters.source_step;
    const Index target_offset = parameters.target_start + Index(outer.target) + target_first +
                                source_first * parameters.target_step + channel * parameters.target_channel_step;
    const auto* source = parameters.source + Signed<Index>(source_offset);
    auto* target = parameters.target + Signed<Index>(target_offset);

    const Job job{parameters, {dynamic_shared_memory()}, source_first, target_first, channel,
                  positions_left(parameters.source_size, source_first, policy.source_extent),
                  positions_left(parameters.target_size, target_first, policy.target_extent),
                  positions_left(policy.fills ? parameters.filled_size : parameters.target_size, target_first,
                                 policy.target_extent)};
    const bool whole = job.is_whole();
    if (whole) job.template read<true>(source);
    else job.template read<false>(source);
    __syncthreads();
    if (whole) job.template write<true>(target);
    else job.template write<false>(target);
}

}  // namespace sg
