// One tile of a resized image by products of matrices of bytes: banded weights, and both passes (sm_80 and later).
//
// Pixels stay interleaved. A pass multiplies bytes of the source by a matrix of weights, of which a few adjacent ones
// of each row are not zero. A weight of 24 bits is three bytes, w = w0 + 2^8 w1 + 2^16 w2, of which w2 is signed. Each
// byte has a product of its own; s0 + 2^8 s1 + 2^16 s2 is the sum of taps modulo 2^32, in which it lies.
//
//     across   (32 rows x 32k bytes of the source)  *  (32k bytes x 8 elements)   one warp, element e = x * Count + c
//     down     (16 result rows x 32k rows)          *  (32k rows x 32 elements)   one warp
//
// The elements of eight columns read a short part of a row, and 16 result rows a part of the rows between the passes:
// weights cover that window alone. The pass across saturates its sums to bytes, and stores four rows of an element as
// one word. Rows 0, 8, 16 and 24 of 32 are then adjacent, as are 1, 9, 17 and 25; `between_place` is that order, in
// which the weights of the pass down are written, too.
#pragma once
#include "channel_constants.cuh"
#include "indexing.cuh"
#include "matrix_products.cuh"
#include "resize_samples.cuh"

namespace sg {

inline constexpr int product_threads = 128;

struct ResizeProductsPolicy {
    bool pixels;      // the target is interleaved: a store takes adjacent elements of pixels
    int store_bytes;  // of one access
    Channels affines, order;
};

// Offsets in shared memory, in bytes; the weights of the pass across are at offset 0. Rows are `pitch` bytes apart, an
// odd number of 16 bytes, so that eight of them are in different banks.
struct ProductMemory {
    uint32 down, starts, stage, between;
    uint32 stage_pitch, between_pitch;
    uint32 chunk_rows;                // source rows in shared memory together, a multiple of 32
    uint32 across_steps, down_steps;  // products of 32 bytes that cover a window
};

template <int Count, typename Conversion, ResizeProductsPolicy policy> struct ResizeProductsParameters {
    const uint8* records;  // samples, then their taps
    uint8* target;
    const uint8* source;   // the base of the offsets in samples
    const uint8* fill;     // one element for each channel of the source
    ChannelAffines<typename Conversion::Compute, policy.affines> affines;
    ChannelOrder<uint32, policy.order> order;                        // from target channels to source channels
    int64 offset, sample_stride, channel_stride, row_stride, column_stride;  // of the target, in elements
    Divisor<uint32> columns, rows, groups;                           // tiles across and down a window; of channels
    Divisor<uint32> channels;                                        // of the target
    uint32 height, width;                                            // of a window
    uint32 tile_height, tile_width;                                  // 16 or 32 rows; 8, 16, or a multiple of 32
    ProductMemory memory;
};

// A row of weights for each column of a product: the lowest bytes of a window, then the middle, then the highest ones.
struct WeightRows {
    static constexpr uint32 pieces = 3;
    unsigned char* memory;
    uint32 window;  // bytes that a row covers

    __device__ __forceinline__ unsigned char* row(uint32 number) const {
        return memory + number * (pieces * window + 16);
    }
    __device__ __forceinline__ void put(uint32 number, uint32 place, int32 weight) const {
#pragma unroll
        for (uint32 piece = 0; piece < pieces; ++piece) {
            row(number)[piece * window + place] = uint8(weight >> 8 * piece);
        }
    }
};

// Sums of each byte of the weights.
struct PieceSums {
    int32 piece[WeightRows::pieces][4] = {{1 << 21, 1 << 21, 1 << 21, 1 << 21}};

    __device__ __forceinline__ int32 whole(int i) const {
        const uint32 upper = uint32(piece[1][i]) + (uint32(piece[2][i]) << 8);
        return int32(uint32(piece[0][i]) + (upper << 8)) >> 22;
    }
};

// Where a source row lies between the passes.
__device__ __forceinline__ uint32 between_place(uint32 row) {
    return (row & ~31u) + (row & 7u) * 4 + (row >> 3 & 3u);
}

template <int Count, typename Conversion, ResizeProductsPolicy policy> struct ProductsTile {
    using Parameters = ResizeProductsParameters<Count, Conversion, policy>;
    static constexpr int threads = product_threads;
    static constexpr uint32 warps = threads / 32;

    const Parameters& p;
    const ResizeSample& sample;
    const TileAxis rows, columns;
    const uint32 warp, lane;
    const WeightRows across_weights, down_weights;

    __device__ __forceinline__ ProductsTile(const Parameters& parameters, const ResizeSample& one, int32 top,
                                            int32 left)
        : p(parameters), sample(one),
          rows(p.records, sample.rows, top, int32(p.tile_height), sample.top, sample.height),
          columns(p.records, sample.columns, left, int32(p.tile_width), sample.left, sample.width),
          warp(threadIdx.x / 32), lane(threadIdx.x % 32),
          across_weights{at(0), 32 * p.memory.across_steps},
          down_weights{at(p.memory.down), 32 * p.memory.down_steps} {}

    __device__ __forceinline__ unsigned char* at(uint32 offset) const { return dynamic_shared_memory() + offset; }

    // The pass across, of an image that overlaps the tile. All that a block reads, but for its record and the reach of
    // its taps, is on its way at once.
    __device__ __forceinline__ void resize(uint32 channel) const {
        const Taps along(*this, sample.columns, columns), downwards(*this, sample.rows, rows);
        const Ends ends(*this);
        SourceRows source(*this, channel);
        source.fetch(0);
        keep_accesses_in_order();
        clear_weights();
        if (threadIdx.x < products() + p.tile_height / 16) starts()[threadIdx.x] = start(ends);
        __syncthreads();
        along.each([&](uint32 x, int32 pixel, int32 weight) { place_across(x, pixel, weight); });
        downwards.each([&](uint32 y, int32 row, int32 weight) {
            down_weights.put(y, between_place(uint32(row - rows.reach - row_starts()[y / 16])), weight);
        });
        for (uint32 row = 0; row < between_rows(); row += p.memory.chunk_rows) {
            if (row > 0) __syncthreads();
            const uint32 some = least(p.memory.chunk_rows, between_rows() - row);
            source.stage(row, least(some, uint32(rows.source_pixels()) - row));
            __syncthreads();
            across(row, some);
        }
    }

    // 16 result rows from `first_row` on, of 32 elements in the target's order. A lane has eight adjacent elements of
    // two rows: 8 * (lane % 4) on, of rows lane / 4 and lane / 4 + 8.
    __device__ __forceinline__ void down(uint32 first_row, uint32 first_element, uint32 channel,
                                         Vector<uint8, 8> (&results)[2]) const {
        const uint32 start = row_starts()[first_row / 16];
        const unsigned char* weights = down_weights.row(first_row + lane % 16) + lane / 16 * 16;
        const unsigned char* elements[2];  // of two products each, whose columns are two elements apart
#pragma unroll
        for (uint32 pair = 0; pair < 2; ++pair) {
            const uint32 column = lane % 8, product = 2 * pair + lane / 16;
            const uint32 element = first_element + column / 2 * 8 + product * 2 + column % 2;
            elements[pair] = column_between(element_of_target(element, channel)) + start + lane / 8 % 2 * 16;
        }
        PieceSums sums[4];
        const auto multiply = [&](uint32 k) {
            uint32 weight[WeightRows::pieces][4], column[4][2];
#pragma unroll
            for (uint32 piece = 0; piece < WeightRows::pieces; ++piece) {
                load_matrix_x4(weight[piece], weights + piece * down_weights.window + k);
            }
#pragma unroll
            for (uint32 pair = 0; pair < 2; ++pair) {
                load_two(column[2 * pair], column[2 * pair + 1], elements[pair] + k);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                multiply_add_u8_u8(sums[i].piece[0], weight[0], column[i]);
                multiply_add_u8_u8(sums[i].piece[1], weight[1], column[i]);
                multiply_add_s8_u8(sums[i].piece[2], weight[2], column[i]);
            }
        };
        multiply(0);  // of sums that are constants
#pragma unroll 1
        for (uint32 k = 32; k < down_weights.window; k += 32) multiply(k);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int word = 0; word < 2; ++word) {
                int32 whole[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) whole[i] = sums[2 * word + i / 2].whole(2 * half + i % 2);
                results[half].word[word] = saturated_word<uint8>(whole);
            }
        }
    }

  private:
    static __device__ __forceinline__ uint32 least(uint32 a, uint32 b) { return a < b ? a : b; }

    // The matrices b of two products, of eight columns 16 bytes at a time.
    static __device__ __forceinline__ void load_two(uint32 (&one)[2], uint32 (&other)[2], const unsigned char* row) {
        uint32 both[4];
        load_matrix_x4(both, row);
        one[0] = both[0], one[1] = both[1], other[0] = both[2], other[1] = both[3];
    }

    __device__ __forceinline__ uint32 products() const { return p.tile_width * Count / 8; }  // across a tile
    __device__ __forceinline__ int32* starts() const { return reinterpret_cast<int32*>(at(p.memory.starts)); }
    __device__ __forceinline__ int32* row_starts() const { return starts() + products(); }
    __device__ __forceinline__ uint32 between_rows() const { return (uint32(rows.source_pixels()) + 31u) & ~31u; }
    // The byte of a source row at which rows of shared memory begin.
    __device__ __forceinline__ int32 first_byte() const { return columns.reach * Count & ~15; }

    // The bytes of an element between the passes. After eight pixels' elements come 32 bytes, for the columns of a
    // product of the pass down to be in different banks.
    __device__ __forceinline__ unsigned char* column_between(uint32 element) const {
        constexpr uint32 shift = policy.pixels || Count % 2 ? 3 : Count == 2 ? 4 : 5;
        return at(p.memory.between) + element * p.memory.between_pitch + (element >> shift) * 32;
    }
    // The element of the source's pixels for an element of the target's row: of interleaved pixels, or of one channel.
    __device__ __forceinline__ uint32 element_of_target(uint32 element, uint32 channel) const {
        uint32 x = element, source = Count == 1 ? 0 : channel;
        if constexpr (policy.pixels) {
            const Quotient<uint32> at = divide(element, p.channels);
            x = at.quotient, source = at.remainder;
        }
        return least(x, p.tile_width - 1) * Count + (Count == 1 ? 0 : p.order.source_offset(source));
    }

    __device__ __forceinline__ void clear_weights() const {
        for (uint32 byte = threadIdx.x * 16; byte < p.memory.starts; byte += threads * 16) {
            store(at(byte), Vector<uint32, 4>{});
        }
    }

    // The taps of the first pixel and the last, inside the image, of this thread's product: of the pass across in the
    // first threads, of 16 result rows in those that follow.
    struct Ends {
        bool is_across, is_inside;
        int32 one, other;  // their first source pixels

        __device__ __forceinline__ Ends(const ProductsTile& tile) {
            const int32 i = int32(threadIdx.x), row = (i - int32(tile.products())) * 16;
            is_across = row < 0;
            const int32 skipped = is_across ? tile.columns.skipped : tile.rows.skipped;
            const int32 end = (is_across ? tile.columns.count : tile.rows.count) - 1;
            const int32 low = larger((is_across ? i * 8 / Count : row) - skipped, 0);
            const int32 high = smaller((is_across ? (i * 8 + 7) / Count : row + 15) - skipped, end);
            const TapSpan* const spans =
                reinterpret_cast<const TapSpan*>(
                    tile.p.records + (is_across ? tile.sample.columns.spans : tile.sample.rows.spans)) +
                (is_across ? tile.columns.first : tile.rows.first);
            is_inside = low <= high;
            one = spans[smaller(low, end)].first;
            other = spans[larger(high, 0)].first;
        }
    };

    // Where the window of this thread's product begins: bytes from the start of a row, or rows; -1 if no pixel of a
    // product of the pass across is inside.
    __device__ __forceinline__ int32 start(const Ends& ends) const {
        const int32 pixel = smaller(ends.one, ends.other);
        if (ends.is_across) {
            const int32 byte = (pixel * Count - first_byte()) & ~15;
            return ends.is_inside ? smaller(byte, int32(p.memory.stage_pitch - across_weights.window)) : -1;
        }
        const int32 row = ends.is_inside ? (pixel - rows.reach) & ~31 : 0;
        return larger(smaller(row, int32(between_rows()) - int32(down_weights.window)), 0);
    }

    __device__ __forceinline__ void place_across(uint32 x, int32 pixel, int32 weight) const {
#pragma unroll
        for (uint32 c = 0; c < Count; ++c) {
            const uint32 element = x * Count + c;
            const int32 byte = pixel * Count + int32(c) - first_byte();
            across_weights.put(element, uint32(byte - starts()[element / 8]), weight);
        }
    }

    // The taps of a tile's pixels along one axis. Two threads share a pixel, and load eight weights at once.
    struct Taps {
        static constexpr int32 lanes = 2, pixels = threads / lanes, loads = 8 / lanes;
        const TapSpan* spans;
        const int32* weights;
        const int32 taps, count, skipped, lane;
        TapSpan span;
        int32 loaded[loads];

        __device__ __forceinline__ Taps(const ProductsTile& tile, const ResizeAxis& axis, const TileAxis& along)
            : spans(reinterpret_cast<const TapSpan*>(tile.p.records + axis.spans) + along.first),
              weights(reinterpret_cast<const int32*>(tile.p.records + axis.weights) + int64(along.first) * axis.taps),
              taps(axis.taps), count(along.count), skipped(along.skipped), lane(int32(threadIdx.x) % lanes), span{} {
            const int32 i = int32(threadIdx.x) / lanes;
            if (i >= count) return;
            span = spans[i];
#pragma unroll
            for (int32 k = 0; k < loads; ++k) {
                if (lane + k * lanes < taps) loaded[k] = weights[i * taps + lane + k * lanes];
            }
        }

        // Calls `take` with pixel of the tile, source pixel and weight of every tap.
        template <typename Take> __device__ __forceinline__ void each(Take take) const {
            int32 i = int32(threadIdx.x) / lanes;
            if (i >= count) return;
#pragma unroll
            for (int32 k = 0; k < loads; ++k) {
                const int32 tap = lane + k * lanes;
                if (tap < span.count) take(uint32(skipped + i), span.first + tap, loaded[k]);
            }
            if (taps <= loads * lanes && count <= pixels) return;
#pragma unroll 1
            for (int32 tap = lane + loads * lanes; i < count; i += pixels, tap = lane) {
                const TapSpan one = spans[i];
                const int32* const row = weights + int64(i) * taps;
#pragma unroll 1
                for (; tap < taps; tap += 8 * lanes) {
                    int32 more[8];
#pragma unroll
                    for (int32 k = 0; k < 8; ++k) {
                        if (tap + k * lanes < taps) more[k] = row[tap + k * lanes];
                    }
#pragma unroll
                    for (int32 k = 0; k < 8; ++k) {
                        const int32 at = tap + k * lanes;
                        if (at < one.count) take(uint32(skipped + i), one.first + at, more[k]);
                    }
                }
            }
        }
    };

    // The source rows of a tile, from aligned memory or not, in vectors of 16 bytes. A vector that begins anywhere is
    // read as five words, and shifted. The threads of a group have a row.
    struct SourceRows {
        static constexpr uint32 at_once = 8;  // rows of a thread: 64 of a block, if 16 threads have one

        const ProductsTile& tile;
        uint64 first, begin, end;
        int64 step;              // bytes from a row to the next
        uint32 vectors, bits, vector;
        bool is_inside, is_aligned;
        uint32 words[at_once][5];

        __device__ __forceinline__ SourceRows(const ProductsTile& one, uint32 channel)
            : tile(one), first(uint64(one.p.source) + one.sample.pixel + uint64(int64(one.first_byte()))),
              begin(uint64(one.p.source) + one.sample.begin), end(uint64(one.p.source) + one.sample.end),
              step(one.sample.row_stride),
              vectors(uint32(one.columns.reach_end * Count - one.first_byte() + 15) / 16) {
            if constexpr (Count == 1) {
                first += uint64(int64(one.p.order.source_offset(channel)) * one.sample.channel_stride);
            }
            first += uint64(int64(one.rows.reach) * step);
            // The rows lie in memory between the first one and the last.
            const uint64 last = first + uint64(int64(one.rows.source_pixels() - 1) * step);
            const uint64 low = step < 0 ? last : first, high = step < 0 ? first : last;
            is_inside = (low & ~uint64(3)) >= begin && high + vectors * 16 + 4 <= end;
            is_aligned = ((uint32(first) | uint32(step)) & 15u) == 0;  // a vector is one load
            bits = vectors > 16 ? 5 : vectors > 8 ? 4 : 3;
            vector = threadIdx.x & ((1u << bits) - 1);
        }

        __device__ __forceinline__ uint32 own_row() const { return threadIdx.x >> bits; }
        __device__ __forceinline__ uint64 address(uint32 row) const {
            return first + uint64(int64(row) * step) + vector * 16;
        }

        // Rows from `row` on, of all that the tile's taps reach.
        __device__ __forceinline__ void fetch(uint32 row) {
            if (!is_inside || vector >= vectors) return;
#pragma unroll
            for (uint32 i = 0; i < at_once; ++i) {
                const uint32 number = row + own_row() + i * (threads >> bits);
                if (number >= uint32(tile.rows.source_pixels())) continue;
                if (is_aligned) {
                    const auto loaded =
                        load_global<Vector<uint32, 4>>(reinterpret_cast<const uint8*>(address(number)));
#pragma unroll
                    for (int w = 0; w < 4; ++w) words[i][w] = loaded.word[w];
                } else {
                    const auto* from = reinterpret_cast<const uint8*>(address(number) & ~uint64(3));
#pragma unroll
                    for (int w = 0; w < 5; ++w) words[i][w] = load<uint32>(from + 4 * w);
                }
            }
        }

        __device__ __forceinline__ void keep(uint32 row, uint32 loaded, uint32 some) const {
#pragma unroll
            for (uint32 i = 0; i < at_once; ++i) {
                const uint32 number = loaded + own_row() + i * (threads >> bits);
                if (number >= some || vector >= vectors) continue;
                const uint32 shift = uint32(address(row + number)) % 4 * 8;
                Vector<uint32, 4> shifted;
#pragma unroll
                for (int w = 0; w < 4; ++w) shifted.word[w] = __funnelshift_r(words[i][w], words[i][w + 1], shift);
                store(place(number), shifted);
            }
        }

        __device__ __forceinline__ unsigned char* place(uint32 row) const {
            return tile.at(tile.p.memory.stage) + row * tile.p.memory.stage_pitch + vector * 16;
        }

        // Puts `some` rows from `row` on into shared memory; the first rows of the tile are loaded.
        __device__ __forceinline__ void stage(uint32 row, uint32 some) {
            if (!is_inside) {
                stage_near_ends(row, some);
                return;
            }
#pragma unroll 1
            for (; vector < vectors; vector += 1u << bits) {
#pragma unroll 1
                for (uint32 loaded = 0; loaded < some; loaded += at_once * (threads >> bits)) {
                    if (row + loaded > 0 || vector >= 1u << bits) fetch(row + loaded);
                    keep(row, loaded, some);
                }
            }
            vector = threadIdx.x & ((1u << bits) - 1);
        }

        // Byte by byte, those inside the image's memory.
        __device__ __forceinline__ void stage_near_ends(uint32 row, uint32 some) const {
#pragma unroll 1
            for (uint32 number = threadIdx.x / 32; number < some; number += warps) {
                const uint64 from = first + uint64(int64(row + number) * step);
                unsigned char* const to = tile.at(tile.p.memory.stage) + number * tile.p.memory.stage_pitch;
#pragma unroll 1
                for (uint32 byte = threadIdx.x % 32; byte < vectors * 16; byte += 32) {
                    if (from + byte >= begin && from + byte < end) {
                        to[byte] = load<uint8>(reinterpret_cast<const uint8*>(from + byte));
                    }
                }
            }
        }
    };

    // The horizontal pass over `some` staged rows, whose first one is row `row` of the tile.
    __device__ __forceinline__ void across(uint32 row, uint32 some) const {
        const uint32 pitch = p.memory.stage_pitch, window = across_weights.window;
        for (uint32 number = warp; number < products(); number += warps) {
            const int32 start = starts()[number];
            if (start < 0) continue;
            const unsigned char* const weights = across_weights.row(number * 8 + lane % 8) + lane / 8 % 2 * 16;
            const unsigned char* pixels = at(p.memory.stage) + lane % 16 * pitch + uint32(start) + lane / 16 * 16;
            unsigned char* to = column_between(number * 8) + lane % 4 * 2 * p.memory.between_pitch + row + lane / 4 * 4;
#pragma unroll 1
            for (uint32 r = 0; r < some; r += 32, pixels += 32 * pitch, to += 32) {
                PieceSums sums[2];  // of rows 0 to 15, and of rows 16 to 31
                const auto multiply = [&](uint32 k) {
                    uint32 weight[WeightRows::pieces][2];
                    load_two(weight[0], weight[1], weights + lane / 16 * window + k);
                    load_matrix_x2(weight[2], weights + 2 * window + k);
#pragma unroll
                    for (uint32 half = 0; half < 2; ++half) {
                        uint32 pixel[4];
                        load_matrix_x4(pixel, pixels + half * 16 * pitch + k);
                        multiply_add_u8_u8(sums[half].piece[0], pixel, weight[0]);
                        multiply_add_u8_u8(sums[half].piece[1], pixel, weight[1]);
                        multiply_add_u8_s8(sums[half].piece[2], pixel, weight[2]);
                    }
                };
                multiply(0);
#pragma unroll 1
                for (uint32 k = 32; k < window; k += 32) multiply(k);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const int32 whole[4] = {sums[0].whole(i), sums[0].whole(2 + i), sums[1].whole(i),
                                            sums[1].whole(2 + i)};
                    store(to + i * p.memory.between_pitch, Vector<uint32, 1>{{saturated_word<uint8>(whole)}});
                }
            }
        }
    }
};

}  // namespace sg
