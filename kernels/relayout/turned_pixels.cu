// Turned pixels: whole pixels of few elements on both sides, along two different long axes. An image rotated by a
// quarter turn or transposed (NHWC to NWHC), mirrored or not.
//
//     source rows             r g b r g b r g b ...   ->  pixels along the source's run
//       | of a tile           r g b r g b r g b ...
//       v                     r g b r g b r g b ...   staged unchanged: vectors of LoadBytes
//     a thread's group        Length x Length pixels, in words; byte permutes turn them
//     target rows             r g b r g b r g b ...   ->  pixels along the target's run
//                             r g b r g b r g b ...   staged unchanged: vectors of StoreBytes
//
// Length pixels are whole words for any number of elements: 4 of 3 bytes are 3 words. A group therefore turns in
// registers, each word of its target from 2 to 4 words of its source, and no access of shared memory is narrower than a
// word. Conversions run on the turned group, where the channel of each element is known to the compiler.
//
// A warp has groups of 4 places along the source's run and of 8 along the target's. Gaps between groups of rows in
// shared memory take its lanes to different banks where a group has an odd number of words: those of the source's
// groups begin 4 banks apart, those of the target's 8.
//
// Bytes moved: each element once in and once out.
#include "channel_constants.cuh"
#include "tiles.cuh"

namespace sg {

struct TurnedPixelsPolicy {
    int rank;                     // axes outside of the tile
    int channels;                 // elements of a pixel
    int length;                   // pixels of a group along either side's run
    int load_bytes, store_bytes;  // of one access
    bool turned;                  // the source's channels run against the target's
    int threads;                  // of a block
    Channels affines;
};

template <typename Conversion, typename Index, TurnedPixelsPolicy policy> struct TurnedPixelsParameters {
    const typename Conversion::Source* source;
    typename Conversion::Target* target;
    Index source_start, target_start;        // of the first row's lowest element
    Index blocks;
    Index source_pixels, target_pixels;      // of a row; rows of the other side
    Index source_row_step, target_row_step;
    Divisor<Index> source_tiles, target_tiles;       // along the source's run and along the target's
    Divisor<uint32> source_columns, target_columns;  // of vectors that threads take at once
    Divisor<uint32> source_warps;                    // of a tile, along the source's run
    uint32 groups;                                   // of a tile's warps
    uint32 tile_source_pixels, tile_target_pixels;   // of a tile's row
    uint32 source_gap, target_gap;                   // bytes of shared memory after each group of rows
    uint32 source_shared;                            // bytes of shared memory of the source's rows
    Axes<Index, policy.rank> outer;
    ChannelAffines<typename Conversion::Compute, policy.affines> affines;
};

// Rows of a tile in shared memory, as they are in memory, `gap` bytes after each Band of them. A thread's vectors lie
// in one column, `columns` vectors from the next: the place in a row is worked out once. The elements after a row's
// last whole vector move one by one.
template <typename V, int Threads, int Band> struct PlainRows {
    using Element = typename V::Element;
    using One = Vector<Element, 1>;
    static constexpr uint32 held_at_once = 4;
    static constexpr int piece_bytes = V::bytes < 16 ? V::bytes : 16;
    using Piece = Vector<typename V::Word, piece_bytes / int(sizeof(typename V::Word))>;

    unsigned char* memory;
    uint32 row_bytes, gap;
    uint32 rows_left, elements_left;  // of the tile; of each row

    __device__ __forceinline__ unsigned char* row(uint32 number) const {
        return memory + (number * row_bytes + number / uint32(Band) * gap);
    }

    template <typename Index>
    __device__ __forceinline__ void read(const Element* source, Index row_step, const Divisor<uint32>& columns) const {
        for_each_vector(columns, [&](uint32 vector, uint32 first, uint32 step) {
            const Element* address = source + Signed<Index>(Index(first) * row_step + Index(vector * V::length));
            const Signed<Index> next = Signed<Index>(Index(step) * row_step);
#pragma unroll 1
            for (uint32 number = first; number < rows_left; number += held_at_once * step) {
                V held[held_at_once];
#pragma unroll
                for (uint32 i = 0; i < held_at_once; ++i) {
                    if (number + i * step < rows_left) held[i] = load_global<V>(address);
                    address += next;
                }
#pragma unroll
                for (uint32 i = 0; i < held_at_once; ++i) {
                    if (number + i * step >= rows_left) continue;
                    unsigned char* place = row(number + i * step) + vector * V::bytes;
#pragma unroll
                    for (int k = 0; k < V::bytes / piece_bytes; ++k) {
                        Piece piece{};
#pragma unroll
                        for (int w = 0; w < Piece::words; ++w) piece.word[w] = held[i].word[k * Piece::words + w];
                        store(place + k * piece_bytes, piece);
                    }
                }
            }
        });
        for_each_end([&](uint32 number, uint32 element) {
            const Index offset = Index(number) * row_step + Index(element);
            store(row(number) + element * uint32(sizeof(Element)), load<One>(source + Signed<Index>(offset)));
        });
    }

    template <typename Index>
    __device__ __forceinline__ void write(Element* target, Index row_step, const Divisor<uint32>& columns) const {
        for_each_vector(columns, [&](uint32 vector, uint32 first, uint32 step) {
            Element* address = target + Signed<Index>(Index(first) * row_step + Index(vector * V::length));
            const Signed<Index> next = Signed<Index>(Index(step) * row_step);
#pragma unroll 4
            for (uint32 number = first; number < rows_left; number += step) {
                const unsigned char* place = row(number) + vector * V::bytes;
                V held{};
#pragma unroll
                for (int k = 0; k < V::bytes / piece_bytes; ++k) {
                    const Piece piece = load<Piece>(place + k * piece_bytes);
#pragma unroll
                    for (int w = 0; w < Piece::words; ++w) held.word[k * Piece::words + w] = piece.word[w];
                }
                store_global(address, held);
                address += next;
            }
        });
        for_each_end([&](uint32 number, uint32 element) {
            const Index offset = Index(number) * row_step + Index(element);
            store(target + Signed<Index>(offset), load<One>(row(number) + element * uint32(sizeof(Element))));
        });
    }

  private:
    // Call `move(vector, first, step)` with the thread's vectors of a row, and its rows: from `first` on, `step` apart.
    template <typename Move>
    __device__ __forceinline__ void for_each_vector(const Divisor<uint32>& columns, Move move) const {
        const Quotient<uint32> at = divide(uint32(threadIdx.x), columns);
        const uint32 rows_at_once = columns.divide(Threads);
        if (at.quotient >= rows_at_once) return;
#pragma unroll 1
        for (uint32 vector = at.remainder; vector < elements_left / V::length; vector += columns.divisor) {
            move(vector, at.quotient, rows_at_once);
        }
    }
    template <typename Move> __device__ __forceinline__ void for_each_end(Move move) const {
        if constexpr (V::length > 1) {
            const uint32 whole = elements_left / V::length * V::length;
            if (whole == elements_left) return;
#pragma unroll 1
            for (uint32 i = threadIdx.x; i < rows_left * V::length; i += Threads) {
                const uint32 element = whole + i % V::length;
                if (element < elements_left) move(i / V::length, element);
            }
        }
    }
};

// Word `Word` of target row `Row` of a group of Length x Length pixels: which words of the group's source rows its
// bytes come from, and the selector of each byte permute. The first takes two words, each further one what there is so
// far and another word.
template <int Length, int Channels, int ElementBytes, bool Turned> struct TurnedGroup {
    static constexpr int pixel_bytes = Channels * ElementBytes;
    static constexpr int words = Length * pixel_bytes / 4;

    struct Picked {
        int count, row[4], word[4];
        uint32 selector[4];  // those of permute k at k; 0 is not used
    };
    static constexpr Picked picked(int target_row, int target_word) {
        Picked found{};
        int entries[4] = {}, bytes[4] = {};
        for (int b = 0; b < 4; ++b) {
            const int at = 4 * target_word + b, pixel = at / pixel_bytes, rest = at % pixel_bytes;
            const int channel = Turned ? Channels - 1 - rest / ElementBytes : rest / ElementBytes;
            const int from = target_row * pixel_bytes + channel * ElementBytes + rest % ElementBytes;
            int entry = 0;
            while (entry < found.count && (found.row[entry] != pixel || found.word[entry] != from / 4)) ++entry;
            if (entry == found.count) {
                found.row[entry] = pixel;
                found.word[entry] = from / 4;
                ++found.count;
            }
            entries[b] = entry;
            bytes[b] = from % 4;
        }
        for (int permute = 1; permute < 4; ++permute) {
            for (int b = 0; b < 4; ++b) {
                const bool is_new = entries[b] == permute, is_first = permute == 1 && entries[b] == 0;
                const int digit = is_new ? 4 + bytes[b] : is_first ? bytes[b] : b;
                found.selector[permute] |= uint32(digit) << 4 * b;
            }
        }
        return found;
    }

    template <int Row, int Word> static __device__ __forceinline__ uint32 turned(const uint32 (&rows)[Length][words]) {
        constexpr Picked from = picked(Row, Word);
        const uint32 first = rows[from.row[0]][from.word[0]];
        if constexpr (from.count == 1) {
            return from.selector[1] == 0x3210 ? first : __byte_perm(first, 0, from.selector[1]);
        } else {
            uint32 word = __byte_perm(first, rows[from.row[1]][from.word[1]], from.selector[1]);
            if constexpr (from.count > 2) word = __byte_perm(word, rows[from.row[2]][from.word[2]], from.selector[2]);
            if constexpr (from.count > 3) word = __byte_perm(word, rows[from.row[3]][from.word[3]], from.selector[3]);
            return word;
        }
    }

    // Call `take(row, words)` with each target row.
    template <int Row = 0, typename Take>
    static __device__ __forceinline__ void for_each_row(const uint32 (&rows)[Length][words], Take take) {
        if constexpr (Row < Length) {
            uint32 row[words];
            fill<Row, 0>(rows, row);
            take(Row, row);
            for_each_row<Row + 1>(rows, take);
        }
    }

  private:
    template <int Row, int Word>
    static __device__ __forceinline__ void fill(const uint32 (&rows)[Length][words], uint32 (&row)[words]) {
        if constexpr (Word < words) {
            row[Word] = turned<Row, Word>(rows);
            fill<Row, Word + 1>(rows, row);
        }
    }
};

// Elements in words; positions are compile-time constants after unrolling.
template <typename T, int Words> __device__ __forceinline__ T element_of(const uint32 (&words)[Words], int i) {
    constexpr int per_word = 4 / int(sizeof(T));
    return Vector<T, per_word>{{words[i / per_word]}}.get(i % per_word);
}
template <typename T, int Words> __device__ __forceinline__ void set_element(uint32 (&words)[Words], int i, T value) {
    constexpr int per_word = 4 / int(sizeof(T));
    Vector<T, per_word> word{{words[i / per_word]}};
    word.set(i % per_word, value);
    words[i / per_word] = word.word[0];
}

// __launch_bounds__ minBlocks is 2 to stop ptxas from targeting more and spilling; it is no occupancy goal.
template <typename Conversion, typename Index, TurnedPixelsPolicy policy>
__global__ void __launch_bounds__(policy.threads, 2)
    turned_pixels(__grid_constant__ const TurnedPixelsParameters<Conversion, Index, policy> parameters) {
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    using Group = TurnedGroup<policy.length, policy.channels, int(sizeof(Source)), policy.turned>;
    using LoadVector = Vector<Source, policy.load_bytes / int(sizeof(Source))>;
    using StoreVector = Vector<Target, policy.store_bytes / int(sizeof(Target))>;
    constexpr int length = policy.length;
    constexpr int source_group = length * policy.channels * int(sizeof(Source));
    constexpr int target_group = length * policy.channels * int(sizeof(Target));
    static_assert(source_group % 4 == 0 && target_group % 4 == 0, "a group is whole words on both sides");

    const Index block = linear_block<Index>();
    if (block >= parameters.blocks) return;  // the whole block, before any barrier
    // Adjacent blocks write adjacent memory.
    const Quotient<Index> by_target = divide(block, parameters.target_tiles);
    const Quotient<Index> by_source = divide(by_target.quotient, parameters.source_tiles);
    const Offsets<Index> outer = parameters.outer.unravel(by_source.quotient);
    const Index source_pixel = by_source.remainder * Index(parameters.tile_source_pixels);
    const Index target_pixel = by_target.remainder * Index(parameters.tile_target_pixels);
    const uint32 source_left = positions_left(parameters.source_pixels, source_pixel,
                                              int(parameters.tile_source_pixels));
    const uint32 target_left = positions_left(parameters.target_pixels, target_pixel,
                                              int(parameters.tile_target_pixels));
    const Index source_offset = parameters.source_start + Index(outer.source) + source_pixel * Index(policy.channels) +
                                target_pixel * parameters.source_row_step;
    const Index target_offset = parameters.target_start + Index(outer.target) + target_pixel * Index(policy.channels) +
                                source_pixel * parameters.target_row_step;

    const uint32 source_bytes = parameters.tile_source_pixels * uint32(policy.channels * sizeof(Source));
    const uint32 target_bytes = parameters.tile_target_pixels * uint32(policy.channels * sizeof(Target));
    const PlainRows<LoadVector, policy.threads, length> from{dynamic_shared_memory(), source_bytes,
                                                             parameters.source_gap, target_left,
                                                             source_left * uint32(policy.channels)};
    const PlainRows<StoreVector, policy.threads, length> to{from.memory + parameters.source_shared, target_bytes,
                                                            parameters.target_gap, source_left,
                                                            target_left * uint32(policy.channels)};

    from.read(parameters.source + Signed<Index>(source_offset), parameters.source_row_step, parameters.source_columns);
    __syncthreads();
#pragma unroll 1
    for (uint32 number = threadIdx.x; number < parameters.groups; number += policy.threads) {
        const Quotient<uint32> warp = divide(number / 32, parameters.source_warps);
        const uint32 along = warp.remainder * 4 + number % 32 / 8, across = warp.quotient * 8 + number % 8;
        if (along * length >= source_left || across * length >= target_left) continue;
        const unsigned char* read = from.row(across * length) + along * source_group;
        unsigned char* written = to.row(along * length) + across * target_group;
        uint32 rows[length][Group::words];
#pragma unroll
        for (int row = 0; row < length; ++row) {
#pragma unroll
            for (int w = 0; w < Group::words; ++w) {
                rows[row][w] = load<Vector<uint32, 1>>(read + row * source_bytes + 4 * w).word[0];
            }
        }
        Group::for_each_row(rows, [&](int row, const uint32 (&words)[Group::words]) {
            uint32 converted[target_group / 4] = {};
            if constexpr (Conversion::is_move) {
#pragma unroll
                for (int w = 0; w < Group::words; ++w) converted[w] = words[w];
            } else {
#pragma unroll
                for (int i = 0; i < length * policy.channels; ++i) {
                    const auto affine = parameters.affines.of(Index(i % policy.channels));
                    set_element(converted, i, Conversion::apply(element_of<Source>(words, i), affine));
                }
            }
#pragma unroll
            for (int w = 0; w < target_group / 4; ++w) {
                store(written + row * target_bytes + 4 * w, Vector<uint32, 1>{{converted[w]}});
            }
        });
    }
    __syncthreads();
    to.write(parameters.target + Signed<Index>(target_offset), parameters.target_row_step, parameters.target_columns);
}

}  // namespace sg
