// One tile of a resized image by products of matrices of bytes: banded weights, and both passes (sm_80 and later).
//
// Pixels stay interleaved. A pass multiplies bytes of the source by a matrix of weights, of which a few adjacent ones
// of each row are not zero. A weight of 24 bits is three bytes, w = w0 + 2^8 w1 + 2^16 w2, of which w2 is signed. Each
// byte has a product of its own; s0 + 2^8 s1 + 2^16 s2 is the sum of taps modulo 2^32, in which it lies. Two bytes are
// enough for torch's weights, whose lowest bits are zeros. Where no weight is negative, no sum needs to saturate:
// weights have 24 bits of fraction instead of 22, and the highest byte of a sum is the result.
//
//     across   (32 rows x 32k bytes)        *  (32k bytes x 8 elements)   one warp, element e = x * Count + c
//     down     (16 result rows x 32k rows)  *  (32k rows x 32 columns)    one warp
//
// Eight elements read a short part of a row, and 16 result rows a part of all rows: weights cover that window alone.
// Either pass is the first, and saturates its sums to bytes. The pass across stores four rows of an element as one
// word: rows 0, 8, 16 and 24 of 32 are then adjacent, as are 1, 9, 17 and 25. Rows first, the pass down loads the
// source's rows transposed, as matrices of 16 bits, and permutes make words of four rows of them. `row_place` is the
// order of the rows in a product, in which the weights of the pass down are written.
#pragma once
#include "async_copies.cuh"
#include "channel_constants.cuh"
#include "indexing.cuh"
#include "matrix_products.cuh"
#include "resize_samples.cuh"

namespace sg {

inline constexpr int product_threads = 128;

struct ResizeProductsPolicy {
    bool columns_first;  // the pass across is the first one
    bool pixels;         // the target is interleaved: a store takes adjacent elements of pixels
    int pieces;          // bytes of a weight
    bool saturates;      // weights are signed, and sums may be no bytes
    int store_bytes;     // of one access
    Channels affines, order;
};

// Offsets in shared memory, in bytes; the weights of the pass across are at offset 0. Taps are spans, and weights
// behind them. Rows are `pitch` bytes apart, an odd number of 16 bytes, so that eight of them are in different banks.
// Rows first, the result takes the place of the weights of the pass down.
struct ProductMemory {
    uint32 down, tiles, row_taps, column_taps, starts, stage, between;
    uint32 stage_pitch, between_pitch;
    uint32 chunk_rows;                // source rows in shared memory together: a multiple of 32; rows first, all
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
    Divisor<uint32> rows, columns, groups;                           // tiles down and across a window; of channels
    Divisor<uint32> channels;                                        // of the target
    uint32 tiles, turns;                                             // of the launch, and of a block
    uint32 height, width;                                            // of a window
    uint32 tile_height, tile_width;                                  // 16 or 32 rows; 8, 16, or a multiple of 32
    ProductMemory memory;
};

// A row of weights for each column of a product: the lowest bytes of a window, then higher ones.
template <int pieces> struct WeightRows {
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

// Weights and sums of an axis: `bits` of fraction, 22 in the records.
template <ResizeProductsPolicy policy> struct FixedPoint {
    uint32 bits;

    // Of weights whose lowest bits are so many zeros.
    __device__ __forceinline__ explicit FixedPoint(uint32 zeros)
        : bits(policy.pieces == 2 ? 22 - zeros : policy.saturates ? 22 : 24) {}

    // A weight of the records. One of 1, beside which all others are next to nothing, gives the same byte if it is less
    // by its last place.
    __device__ __forceinline__ int32 weight(int32 recorded) const {
        if constexpr (policy.pieces == 2) return recorded >> (22 - bits);
        else if constexpr (policy.saturates) return recorded;
        else return smaller(recorded, (1 << 22) - 1) << 2;
    }
    // The bytes of four sums.
    __device__ __forceinline__ uint32 bytes(const uint32 (&sums)[4]) const {
        if constexpr (policy.saturates) {
            const int32 whole[4] = {int32(sums[0]) >> bits, int32(sums[1]) >> bits, int32(sums[2]) >> bits,
                                    int32(sums[3]) >> bits};
            return saturated_word<uint8>(whole);
        } else {
            return __byte_perm(__byte_perm(sums[0], sums[1], 0x73), __byte_perm(sums[2], sums[3], 0x73), 0x5410);
        }
    }
};

// Sums of each byte of the weights, of which the lowest ones start at a half.
template <ResizeProductsPolicy policy> struct PieceSums {
    static constexpr int pieces = policy.pieces;
    int32 piece[pieces][4];

    __device__ __forceinline__ PieceSums(FixedPoint<policy> fixed) : piece{} {
#pragma unroll
        for (int i = 0; i < 4; ++i) piece[0][i] = 1 << (fixed.bits - 1);
    }
    __device__ __forceinline__ uint32 whole(int i) const {
        uint32 sum = uint32(piece[pieces - 1][i]);
#pragma unroll
        for (int lower = pieces - 2; lower >= 0; --lower) sum = uint32(piece[lower][i]) + (sum << 8);
        return sum;
    }
};

// Where a source row is in products of the pass down.
template <bool columns_first> __device__ __forceinline__ uint32 row_place(uint32 row) {
    if constexpr (columns_first) return (row & ~31u) + (row & 7u) * 4 + (row >> 3 & 3u);
    return (row & ~15u) + (row >> 1 & 3u) * 4 + (row >> 3 & 1u) * 2 + (row & 1u);
}

// Four bytes of each of four columns become those of each of four rows.
__device__ __forceinline__ void transpose_bytes(uint32 (&words)[4]) {
    const uint32 low[2] = {__byte_perm(words[0], words[1], 0x5140), __byte_perm(words[2], words[3], 0x5140)};
    const uint32 high[2] = {__byte_perm(words[0], words[1], 0x7362), __byte_perm(words[2], words[3], 0x7362)};
    words[0] = __byte_perm(low[0], low[1], 0x5410), words[1] = __byte_perm(low[0], low[1], 0x7632);
    words[2] = __byte_perm(high[0], high[1], 0x5410), words[3] = __byte_perm(high[0], high[1], 0x7632);
}

// All that a block has to know of one of its tiles. The tap of the first pixel inside is first of those in the records.
struct alignas(16) ProductTile {
    uint64 first;        // the address of the first source row's first byte
    int64 step;          // bytes from a row to the next
    uint64 low, high;    // the bounds of the image's memory
    uint32 bytes;        // of a row; 0 if the image has no pixels in the tile
    uint32 begin, end;   // source rows whose vectors lie in the image's memory
    uint32 row_spans, row_weights, column_spans, column_weights;
    uint16 row_taps, column_taps, row_zeros, column_zeros;
    TileAxis rows, columns;
    int32 top, left;     // in the window
    uint32 window, group;
    uint32 begins_column;  // the weights of the pass across are not those of the tile before

    __device__ __forceinline__ uint32 source_rows() const { return uint32(rows.source_pixels()); }
    __device__ __forceinline__ uint32 staged_rows() const { return (source_rows() + 31u) & ~31u; }
    // Of which multiples the addresses of all rows are: 16, 4, or 1.
    __device__ __forceinline__ uint32 alignment() const {
        const uint32 ends = uint32(first) | uint32(step);
        return (ends & 15u) == 0 ? 16 : (ends & 3u) == 0 ? 4 : 1;
    }
    // The byte of an image's row at which rows in shared memory begin.
    template <int Count> __device__ __forceinline__ int32 first_byte() const {
        return columns.reach_end * Count - int32(bytes);
    }
};

template <int Count, typename Conversion, ResizeProductsPolicy policy> struct ProductsBlock {
    using Parameters = ResizeProductsParameters<Count, Conversion, policy>;
    using Weights = WeightRows<policy.pieces>;
    using Fixed = FixedPoint<policy>;
    using Sums = PieceSums<policy>;
    static constexpr int pieces = policy.pieces;
    static constexpr uint32 threads = product_threads, warps = threads / 32;
    static constexpr uint32 result_pitch = 48;  // bytes from an element to the next, rows first
    static constexpr int32 window_begins = policy.columns_first ? ~31 : ~0;  // of rows: a whole product, or any row
    static constexpr int parts = policy.columns_first ? 2 : 4;  // rows that a lane writes together

    const Parameters& p;
    const uint32 warp, lane;
    const Weights across_weights, down_weights;

    __device__ __forceinline__ explicit ProductsBlock(const Parameters& parameters)
        : p(parameters), warp(threadIdx.x / 32), lane(threadIdx.x % 32),
          across_weights{at(0), 32 * p.memory.across_steps},
          down_weights{at(p.memory.down), 32 * p.memory.down_steps} {}

    __device__ __forceinline__ unsigned char* at(uint32 offset) const { return dynamic_shared_memory() + offset; }
    __device__ __forceinline__ ProductTile* tiles() const {
        return reinterpret_cast<ProductTile*>(at(p.memory.tiles));
    }

    // Describes tiles from `first` to `stop`, at most 32, a lane of the first warp each.
    __device__ __forceinline__ void describe(uint32 first, uint32 stop) const {
        if (threadIdx.x < stop - first) tiles()[threadIdx.x] = described(first + threadIdx.x, threadIdx.x == 0);
        __syncthreads();
    }

    // Asks for what the pass across reads of a tile: a chunk's rows from `row` on, and first of all taps.
    __device__ __forceinline__ void fetch(const ProductTile& tile, uint32 row) const {
        if (tile.bytes == 0) return;
        if (row == 0) {
            fetch_taps(p.memory.row_taps, p.tile_height, tile.rows.count, tile.row_spans, tile.row_weights,
                       tile.row_taps);
            if (tile.begins_column) {
                fetch_taps(p.memory.column_taps, p.tile_width, tile.columns.count, tile.column_spans,
                           tile.column_weights, tile.column_taps);
            }
        }
        fetch_rows(tile, row);
    }

    // The passes up to that across of a chunk that was asked for. Weights of both are put into matrices before.
    __device__ __forceinline__ void resize(const ProductTile& tile, uint32 row) const {
        wait_for_copies();
        if (tile.bytes > 0 && tile.alignment() == 1) shift_rows(tile, row);
        __syncthreads();
        if (tile.bytes == 0) return;
        if (row == 0 && tile.begins_column) place_across(tile);
        if (row == 0) place_down(tile);
        if constexpr (policy.columns_first) {
            across(tile, row, least(p.memory.chunk_rows, tile.staged_rows() - row));
        } else {
            __syncthreads();
            down_staged(tile);
            __syncthreads();
            across(tile, 0, p.tile_height);
        }
    }

    // Rows of 32 elements in the target's order, after both passes. A lane has eight adjacent elements of `parts` rows:
    // 8 * (lane % 4) on, of row first_row + lane / 4 and of every eighth row behind it.
    __device__ __forceinline__ void result(const ProductTile& tile, uint32 first_row, uint32 first_element,
                                           uint32 channel, Vector<uint8, 8> (&results)[parts]) const {
        if constexpr (policy.columns_first) {
            const unsigned char* elements[2];  // of two products each, whose columns are two elements apart
#pragma unroll
            for (uint32 pair = 0; pair < 2; ++pair) {
                const uint32 column = lane % 8, product = 2 * pair + lane / 16;
                const uint32 element = first_element + column / 2 * 8 + product * 2 + column % 2;
                elements[pair] = element_rows(element_of_target(element, channel)) + starts()[first_row / 16] +
                                 lane / 8 % 2 * 16;
            }
            const Fixed fixed(tile.row_zeros);
            Sums sums[4] = {fixed, fixed, fixed, fixed};
            down(first_row, sums, [&](uint32 k, uint32 (&bytes)[4][2]) {
#pragma unroll
                for (uint32 pair = 0; pair < 2; ++pair) {
                    load_two(bytes[2 * pair], bytes[2 * pair + 1], elements[pair] + k);
                }
            });
#pragma unroll
            for (int part = 0; part < parts; ++part) {
#pragma unroll
                for (int word = 0; word < 2; ++word) {
                    const Sums &one = sums[2 * word], &other = sums[2 * word + 1];
                    results[part].word[word] = fixed.bytes({one.whole(2 * part), one.whole(2 * part + 1),
                                                            other.whole(2 * part), other.whole(2 * part + 1)});
                }
            }
        } else {
            const uint32 first = first_element + lane % 4 * 8;
#pragma unroll
            for (uint32 word = 0; word < 2; ++word) {
                uint32 words[4];
#pragma unroll
                for (uint32 i = 0; i < 4; ++i) {
                    const uint32 element = element_of_target(first + word * 4 + i, channel);
                    words[i] = load<uint32>(element_rows(element) + lane / 4 * 4);
                }
                transpose_bytes(words);
#pragma unroll
                for (int part = 0; part < parts; ++part) results[part].word[word] = words[part];
            }
        }
    }

  private:
    // The vertical pass for 16 result rows from `first_row` on: sums of 32 columns, of which `load_columns` loads 32
    // rows as matrices b.
    template <typename Load>
    __device__ __forceinline__ void down(uint32 first_row, Sums (&sums)[4], Load load_columns) const {
        const unsigned char* weights = down_weights.row(first_row + lane % 16) + lane / 16 * 16;
        const auto multiply = [&](uint32 k) {
            uint32 weight[pieces][4], bytes[4][2];
#pragma unroll
            for (uint32 piece = 0; piece < pieces; ++piece) {
                load_matrix_x4(weight[piece], weights + piece * down_weights.window + k);
            }
            load_columns(k, bytes);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int piece = 0; piece < pieces; ++piece) {
                    if (policy.saturates && piece == pieces - 1) {
                        multiply_add_s8_u8(sums[i].piece[piece], weight[piece], bytes[i]);
                    } else {
                        multiply_add_u8_u8(sums[i].piece[piece], weight[piece], bytes[i]);
                    }
                }
            }
        };
        multiply(0);  // of sums that are constants
#pragma unroll 1
        for (uint32 k = 32; k < down_weights.window; k += 32) multiply(k);
    }

    // The vertical pass over a tile's staged rows. A lane has two words of two rows.
    __device__ __forceinline__ void down_staged(const ProductTile& tile) const {
        const Fixed fixed(tile.row_zeros);
        const uint32 pitch = p.memory.stage_pitch, between_pitch = p.memory.between_pitch;
        const uint32 below = p.tile_height / 32;  // 16 rows or 32
#pragma unroll 1
        for (uint32 item = warp; item < (tile.bytes + 31) / 32 << below; item += warps) {
            const uint32 row = (item & below) * 16, first = (item >> below) * 32;
            // Behind a row's last 16 bytes these are loaded once more, and not stored.
            const unsigned char* const staged = at(p.memory.stage) + (starts()[row / 16] + lane) * pitch + first;
            const uint32 other = first + 16 < pitch ? 16 : 0;
            Sums sums[4] = {fixed, fixed, fixed, fixed};
            down(row, sums, [&](uint32 k, uint32 (&columns)[4][2]) {
#pragma unroll
                for (uint32 pair = 0; pair < 2; ++pair) {
                    uint32 rows_of_two[4];
                    load_matrix_x4_transposed(rows_of_two, staged + k * pitch + pair * other);
#pragma unroll
                    for (uint32 half = 0; half < 2; ++half) {
                        const uint32 one = rows_of_two[2 * half], two = rows_of_two[2 * half + 1];
                        columns[2 * pair][half] = __byte_perm(one, two, 0x6420);
                        columns[2 * pair + 1][half] = __byte_perm(one, two, 0x7531);
                    }
                }
            });
            unsigned char* const to = at(p.memory.between) + (row + lane / 4) * between_pitch + first + lane % 4 * 4;
#pragma unroll
            for (int word = 0; word < 2; ++word) {
                if (word == 1 && other == 0) break;
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const Sums &even = sums[2 * word], &odd = sums[2 * word + 1];
                    store(to + half * 8 * int32(between_pitch) + word * 16,
                          fixed.bytes({even.whole(2 * half), odd.whole(2 * half), even.whole(2 * half + 1),
                                       odd.whole(2 * half + 1)}));
                }
            }
        }
    }

    static __device__ __forceinline__ uint32 least(uint32 a, uint32 b) { return a < b ? a : b; }

    // The matrices b of two products, of eight columns 16 bytes at a time.
    static __device__ __forceinline__ void load_two(uint32 (&one)[2], uint32 (&other)[2], const unsigned char* row) {
        uint32 both[4];
        load_matrix_x4(both, row);
        one[0] = both[0], one[1] = both[1], other[0] = both[2], other[1] = both[3];
    }

    __device__ __forceinline__ uint32 products() const { return p.tile_width * Count / 8; }  // across a tile
    __device__ __forceinline__ uint32 row_windows() const { return p.tile_height / 16; }
    // Where windows of rows begin, and behind them those of products.
    __device__ __forceinline__ int32* starts() const { return reinterpret_cast<int32*>(at(p.memory.starts)); }
    __device__ __forceinline__ int32* product_starts() const { return starts() + row_windows(); }
    static constexpr uint32 element_shift = policy.pixels || Count % 2 ? 3 : Count == 2 ? 4 : 5;
    // The rows of an element behind the pass across. After eight pixels' elements come 32 bytes, for the elements that
    // lanes load together to be in different banks.
    __device__ __forceinline__ unsigned char* element_rows(uint32 element) const {
        return at(policy.columns_first ? p.memory.between : p.memory.down) + element * element_pitch() +
               (element >> element_shift) * 32;
    }
    __device__ __forceinline__ uint32 element_pitch() const {
        return policy.columns_first ? p.memory.between_pitch : result_pitch;
    }
    // Bytes of the rows that the pass across reads.
    __device__ __forceinline__ uint32 row_pitch() const {
        return policy.columns_first ? p.memory.stage_pitch : p.memory.between_pitch;
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

    __device__ __forceinline__ ProductTile described(uint32 number, bool is_first) const {
        const Quotient<uint32> down = divide(number, p.rows);
        const Quotient<uint32> across = divide(down.quotient, p.columns);
        const Quotient<uint32> group = divide(across.quotient, p.groups);
        const ResizeSample& sample = reinterpret_cast<const ResizeSample*>(p.records)[group.quotient];
        const ResizeAxis down_axis = sample.rows, along_axis = sample.columns;
        const uint64 source = uint64(p.source), pixel = sample.pixel;
        const int64 channel_stride = sample.channel_stride;
        const uint16 row_zeros = sample.row_zeros, column_zeros = sample.column_zeros;
        ProductTile tile{};
        tile.step = sample.row_stride;
        tile.low = source + sample.begin, tile.high = source + sample.end;
        tile.window = sample.number, tile.group = group.remainder;
        tile.left = int32(across.remainder * p.tile_width), tile.top = int32(down.remainder * p.tile_height);
        tile.columns = TileAxis(p.records, along_axis, tile.left, int32(p.tile_width), sample.left, sample.width);
        tile.rows = TileAxis(p.records, down_axis, tile.top, int32(p.tile_height), sample.top, sample.height);
        tile.begins_column = is_first || tile.rows.first <= 0;
        if (tile.rows.count <= 0 || tile.columns.count <= 0 || tile.low >= tile.high) return tile;

        tile.row_spans = down_axis.spans + tile.rows.first * uint32(sizeof(TapSpan));
        tile.row_weights = down_axis.weights + tile.rows.first * down_axis.taps * 4;
        tile.column_spans = along_axis.spans + tile.columns.first * uint32(sizeof(TapSpan));
        tile.column_weights = along_axis.weights + tile.columns.first * along_axis.taps * 4;
        tile.row_taps = uint16(down_axis.taps), tile.column_taps = uint16(along_axis.taps);
        tile.row_zeros = row_zeros, tile.column_zeros = column_zeros;
        tile.first = source + pixel + uint64(int64(tile.rows.reach) * tile.step);
        if constexpr (Count == 1) {
            tile.first += uint64(int64(p.order.source_offset(tile.group)) * channel_stride);
        }
        // Where rows begin at multiples of 16 bytes, the tile's parts of them do.
        const int32 first_byte = tile.columns.reach * Count & (tile.alignment() == 16 ? ~15 : ~3);
        tile.first += uint64(int64(first_byte));
        tile.bytes = uint32(tile.columns.reach_end * Count - first_byte);
        // The rows lie in memory between the first one and the last. Near the ends of most images one row's vectors
        // reach beyond them. Rows 2 GB apart are none that are fetched by vectors.
        const auto is_inside = [&](uint64 one, uint64 other) {
            return (one & ~uint64(3)) >= tile.low && other + ((tile.bytes + 15) & ~15u) + 4 <= tile.high;
        };
        tile.end = tile.source_rows();
        const uint64 last = tile.first + uint64(int64(tile.end - 1) * tile.step);
        const uint64 low = tile.step < 0 ? last : tile.first, high = tile.step < 0 ? tile.first : last;
        const bool is_near = int32(tile.step) == tile.step;
        if (!is_inside(low, high) || !is_near) {
            const uint64 inset = uint64(tile.step < 0 ? -tile.step : tile.step);
            ++tile.begin, --tile.end;
            if (int32(tile.end) <= 1 || !is_inside(low + inset, high - inset) || !is_near) tile.end = tile.begin;
        }
        return tile;
    }

    // Taps of a tile's pixels along one axis.
    struct Taps {
        const TapSpan* spans;
        const int32* weights;
        int32 count;

        // Taps of the pixel at this place of the tile; none of pixels beside the image.
        __device__ __forceinline__ TapSpan span(int32 i) const {
            return i >= 0 && i < count ? spans[i] : TapSpan{};
        }
        // The first source pixel that pixels from one to another inside the image read.
        __device__ __forceinline__ int32 reach(int32 low, int32 high) const {
            return smaller(spans[low].first, spans[high].first);
        }
    };
    __device__ __forceinline__ Taps taps(uint32 place, uint32 size, int32 count) const {
        return {reinterpret_cast<const TapSpan*>(at(place)),
                reinterpret_cast<const int32*>(at(place + size * uint32(sizeof(TapSpan)))), count};
    }
    __device__ __forceinline__ void fetch_taps(uint32 place, uint32 size, int32 count, uint32 spans, uint32 weights,
                                               uint32 each) const {
        unsigned char* to = at(place);
        if (threadIdx.x < uint32(count)) {
            copy_async<8>(to + threadIdx.x * 8, p.records + spans + threadIdx.x * 8);
        }
        to += size * uint32(sizeof(TapSpan));
#pragma unroll 1
        for (uint32 word = threadIdx.x; word < uint32(count) * each; word += threads) {
            copy_async<4>(to + word * 4, p.records + weights + word * 4);
        }
    }

    static __device__ __forceinline__ void clear(const Weights& rows, uint32 number, uint32 part) {
        unsigned char* const row = rows.row(number) + part * 16;
#pragma unroll 1
        for (uint32 byte = 0; byte < pieces * rows.window; byte += pieces * 32) {
            store(row + byte, Vector<uint32, 4>{});
            if (pieces == 3 && part < 2) store(row + byte + 4 * 16, Vector<uint32, 4>{});
        }
        __syncwarp();
    }

    // Puts weights of the pass down into matrices, and the places where windows of 16 result rows begin. Four threads
    // share a row.
    __device__ __forceinline__ void place_down(const ProductTile& tile) const {
        const uint32 y = threadIdx.x / 4, part = threadIdx.x % 4;
        if (y >= p.tile_height) return;
        clear(down_weights, y, part);
        const Taps found = taps(p.memory.row_taps, p.tile_height, tile.rows.count);
        const Fixed fixed(tile.row_zeros);
        const int32 low = larger(int32(y & ~15u) - tile.rows.skipped, 0);
        const int32 high = smaller(int32(y | 15u) - tile.rows.skipped, found.count - 1);
        int32 start = low <= high ? (found.reach(low, high) - tile.rows.reach) & window_begins : 0;
        const uint32 all = policy.columns_first ? tile.staged_rows() : tile.source_rows();
        start = larger(smaller(start, int32(all - down_weights.window)), 0);
        if (y % 16 == 0) starts()[y / 16] = start;
        const int32 i = int32(y) - tile.rows.skipped;
        const TapSpan span = found.span(i);
#pragma unroll 1
        for (int32 tap = int32(part); tap < span.count; tap += 4) {
            down_weights.put(y, row_place<policy.columns_first>(uint32(span.first + tap - tile.rows.reach - start)),
                             fixed.weight(found.weights[i * int32(tile.row_taps) + tap]));
        }
    }

    // The same for the pass across: each warp those of the products that it makes, four threads an element. A window
    // begins at a byte of a row, or at -1 if no pixel of a product is inside.
    __device__ __forceinline__ void place_across(const ProductTile& tile) const {
        const Taps found = taps(p.memory.column_taps, p.tile_width, tile.columns.count);
        const Fixed fixed(tile.column_zeros);
        const int32 first_byte = tile.template first_byte<Count>();
#pragma unroll 1
        for (uint32 product = warp; product < products(); product += warps) {
            const uint32 element = product * 8 + lane / 4, x = element / Count;
            clear(across_weights, element, lane % 4);
            const int32 low = larger(int32(product * 8 / Count) - tile.columns.skipped, 0);
            const int32 high = smaller(int32((product * 8 + 7) / Count) - tile.columns.skipped, found.count - 1);
            int32 start = -1;
            if (low <= high) {
                start = smaller((found.reach(low, high) * Count - first_byte) & ~15,
                                int32(row_pitch() - across_weights.window));
            }
            if (lane == 0) product_starts()[product] = start;
            const int32 i = int32(x) - tile.columns.skipped;
            const TapSpan span = found.span(i);
#pragma unroll 1
            for (int32 tap = int32(lane % 4); tap < span.count; tap += 4) {
                const int32 byte = (span.first + tap) * Count + int32(element - x * Count) - first_byte;
                across_weights.put(element, uint32(byte - start),
                                   fixed.weight(found.weights[i * int32(tile.column_taps) + tap]));
            }
        }
        __syncwarp();
    }

    // Asks for a vector of each of `count` rows, and for the one 128 bytes behind it.
    template <int bytes>
    __device__ __forceinline__ static void fetch_columns(uint64 from, int64 step, unsigned char* to, uint32 pitch,
                                                         uint32 count, bool has_other) {
#pragma unroll 4
        for (uint32 i = 0; i < count; ++i, from += uint64(step), to += pitch) {
            copy_async<bytes>(to, reinterpret_cast<const void*>(from));
            if (has_other) copy_async<bytes>(to + 128, reinterpret_cast<const void*>(from + 128));
        }
    }

    // Asks for a chunk's rows from `row` on. Rows that begin at multiples of 16 bytes come as vectors, a row by a group
    // of threads; others by words, a row by a warp. A row that begins between words comes from the word before.
    __device__ __forceinline__ void fetch_rows(const ProductTile& tile, uint32 row) const {
        const uint32 pitch = p.memory.stage_pitch, stop = least(row + p.memory.chunk_rows, tile.source_rows());
        const uint32 begin = row < tile.begin ? tile.begin : row, end = least(stop, tile.end), bytes = tile.bytes;
        const int32 step = int32(tile.step);
        const uint64 address = tile.first;
        unsigned char* const stage = at(p.memory.stage) - row * pitch;
        if (tile.alignment() == 16) {
            const uint32 bits = bytes > 256 ? 5 : bytes > 128 ? 4 : 3, apart = threads >> bits;
            const uint32 own = begin + (threadIdx.x >> bits), byte = (threadIdx.x & ((1u << bits) - 1)) * 16;
            const uint64 from = address + byte + uint64(int64(own) * step);
            if (own < end) {
#pragma unroll 1
                for (uint32 more = 0; byte + more < bytes; more += 16u << bits) {
                    fetch_columns<16>(from + more, int64(step) * apart, stage + own * pitch + byte + more,
                                      apart * pitch, (end - own + apart - 1) >> (7 - bits), false);
                }
            }
        } else {
            const uint32 own = row + warp < begin ? row + warp + warps : row + warp;
            const uint64 from = address + uint64(int64(own) * step);
            const uint32 limit = bytes + uint32(from) % 4;
            if (own < end) {
#pragma unroll 1
                for (uint32 byte = lane * 4; byte < limit; byte += 256) {
                    fetch_columns<4>((from & ~uint64(3)) + byte, int64(step) * int32(warps),
                                     stage + own * pitch + byte, warps * pitch, (end - own + warps - 1) / warps,
                                     byte + 128 < limit);
                }
            }
        }
        if (begin == row && end == stop) return;
#pragma unroll 1
        for (uint32 number = row + warp; number < stop; number += warps) {
            if (number >= begin && number < end) number += (end - number + warps - 1) / warps * warps;
            if (number < stop) fetch_row(tile, number, stage + number * pitch);
        }
    }

    // A row near the ends of the image's memory: words inside, and of others the bytes inside.
    __device__ __forceinline__ void fetch_row(const ProductTile& tile, uint32 row, unsigned char* to) const {
        const uint64 first = tile.first + uint64(int64(row) * tile.step);
        const uint32 limit = tile.bytes + uint32(first) % 4;
#pragma unroll 1
        for (uint32 byte = lane * 4; byte < limit; byte += 128) {
            const uint64 from = (first & ~uint64(3)) + byte;
            if (from >= tile.low && from + 4 <= tile.high) {
                copy_async<4>(to + byte, reinterpret_cast<const void*>(from));
                continue;
            }
#pragma unroll 1
            for (uint32 i = 0; i < 4; ++i) {
                if (from + i < tile.low || from + i >= tile.high) continue;
                to[byte + i] = load<uint8>(reinterpret_cast<const uint8*>(from + i));
            }
        }
    }

    // Rows that begin between words to the places of words: each warp its own ones.
    __device__ __forceinline__ void shift_rows(const ProductTile& tile, uint32 row) const {
        const uint32 pitch = p.memory.stage_pitch, stop = least(row + p.memory.chunk_rows, tile.source_rows());
        // The rows of a warp are four apart: they begin alike.
        const uint32 shift = (uint32(tile.first) + (row + warp) * uint32(tile.step)) % 4 * 8;
        __syncwarp();
        if (shift == 0) return;
#pragma unroll 1
        for (uint32 number = warp; number < stop - row; number += warps) {
#pragma unroll 1
            for (uint32 first = 0; first < tile.bytes; first += 256) {
                uint32 words[2];
                const uint32 byte = first + lane * 4;
                unsigned char* const to = at(p.memory.stage) + number * pitch + byte;
                const bool has[2] = {byte < tile.bytes, byte + 128 < tile.bytes};
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    if (!has[i]) continue;
                    words[i] = __funnelshift_r(load<uint32>(to + i * 128), load<uint32>(to + i * 128 + 4), shift);
                }
                __syncwarp();
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    if (has[i]) store(to + i * 128, words[i]);
                }
            }
        }
    }

    // The horizontal pass over `some` rows, whose first one is row `row` of the tile.
    __device__ __forceinline__ void across(const ProductTile& tile, uint32 row, uint32 some) const {
        const Fixed fixed(tile.column_zeros);
        const uint32 pitch = row_pitch(), to_pitch = element_pitch();
        const uint32 from = policy.columns_first ? p.memory.stage : p.memory.between;
        const uint32 window = across_weights.window;
        constexpr uint32 apart = warps * 8;  // elements of a warp's products
        const uint32 staged = from + lane % 16 * pitch + lane / 16 * 16;
        const uint32 upper = lane / 16 * window, halves = 16 * pitch;
        const unsigned char* weights = across_weights.row(warp * 8 + lane % 8) + lane / 8 % 2 * 16;
        unsigned char* column = element_rows(warp * 8) + lane % 4 * 2 * to_pitch + row + lane / 4 * 4;
        const int32* start = product_starts() + warp;
        for (const int32* const stop = product_starts() + products(); start < stop; start += warps,
            weights += across_weights.row(apart) - across_weights.row(0),
            column += apart * to_pitch + (apart >> element_shift) * 32) {
            if (*start < 0) continue;
            const unsigned char* pixels = at(staged + uint32(*start));
            unsigned char* to = column;
            uint32 weight[pieces][2], other[pieces][2];  // of the window's first two products
            const auto load_weights = [&](uint32 (&of)[pieces][2], uint32 k) {
                load_two(of[0], of[1], weights + upper + k);
                if constexpr (pieces == 3) load_matrix_x2(of[2], weights + 2 * window + k);
            };
            load_weights(weight, 0);
            load_weights(other, window > 32 ? 32 : 0);
            const auto multiply = [&](Sums (&sums)[2], const uint32 (&of)[pieces][2], uint32 k) {
#pragma unroll
                for (uint32 half = 0; half < 2; ++half) {
                    if (!policy.columns_first && half * 16 >= some) break;
                    uint32 pixel[4];
                    load_matrix_x4(pixel, pixels + half * halves + k);
#pragma unroll
                    for (int piece = 0; piece < pieces; ++piece) {
                        if (policy.saturates && piece == pieces - 1) {
                            multiply_add_u8_s8(sums[half].piece[piece], pixel, of[piece]);
                        } else {
                            multiply_add_u8_u8(sums[half].piece[piece], pixel, of[piece]);
                        }
                    }
                }
            };
            const auto multiply_rows = [&](const auto& multiply_others) {
#pragma unroll 1
                for (uint32 r = 0; r < some; r += 32, pixels += 2 * halves, to += 32) {
                    Sums sums[2] = {fixed, fixed};  // of rows 0 to 15, and of rows 16 to 31
                    multiply(sums, weight, 0);
                    multiply_others(sums);
#pragma unroll
                    for (int i = 0; i < 2; ++i) {
                        store(to + i * to_pitch, fixed.bytes({sums[0].whole(i), sums[0].whole(2 + i), sums[1].whole(i),
                                                              sums[1].whole(2 + i)}));
                    }
                }
            };
            if (window == 64) {
                multiply_rows([&](Sums (&sums)[2]) { multiply(sums, other, 32); });
            } else {
                multiply_rows([&](Sums (&sums)[2]) {
#pragma unroll 1
                    for (uint32 k = 32; k < window; k += 32) {
                        uint32 more[pieces][2];
                        load_weights(more, k);
                        multiply(sums, more, k);
                    }
                });
            }
        }
    }
};

}  // namespace sg
