// Resize of a batch of images of any sizes by products of matrices (sm_80 and later): both passes and the conversion.
//
// A block computes `turns` tiles one after another, down a column of a window and then down the next one, of all
// channels of interleaved pixels, or of one plane. For each tile, columns first:
//
//     source      | a chunk's rows, all columns that the tile's taps reach |    while the tile before is written
//       across    | 32 rows of 8 elements |                                     a warp, for each 32 bytes: 6 products
//     between     | all rows that taps reach, the tile's elements |             one byte each
//       down      | 16 result rows of 32 elements |                             a warp, for each 32 rows: 12 products
//     target      | 2 rows of 8 elements |                                      a lane: converted in registers
//
// Rows first:
//
//     source      | all rows and columns that the tile's taps reach |           the same copies
//       down      | 16 result rows of 32 bytes |                                a warp, for each 32 rows: 12 products
//     between     | the tile's rows, all columns that taps reach |              one byte each
//       across    | 32 rows of 8 elements |                                     a warp, for each 32 bytes: 6 products
//     target      | 4 rows of 8 elements |                                      a lane: converted in registers
//
// These are products of three bytes a weight; two bytes have two thirds of them.
//
// Tiles, windows and offsets in shared memory are parameters of the launch: one instantiation serves batches of any
// scale. A lane describes each tile of the block beforehand. Weights are put into matrices by each block, of the same
// records and tables as those of resize_tiles.cu; those of the pass across serve a whole column of tiles.
//
// Bytes moved: each source pixel once for each tile whose taps reach it; each element of the target once; the record
// and the taps of each sample, which stay in the cache.
#include "resize_products.cuh"

namespace sg {

// Writes a tile whose rows are between the passes, or the fill value where the image has no pixels.
template <int Count, typename Conversion, ResizeProductsPolicy policy>
__device__ __forceinline__ void write_tile(const ProductsBlock<Count, Conversion, policy>& block,
                                           const ProductTile& tile) {
    using Target = typename Conversion::Target;
    // Elements that a lane has of a row, and that a store takes.
    constexpr uint32 length = 8, piece = policy.store_bytes / int(sizeof(Target));
    constexpr int parts = ProductsBlock<Count, Conversion, policy>::parts;
    const auto& p = block.p;

    Target* const target = reinterpret_cast<Target*>(p.target) + p.offset + int64(tile.window) * p.sample_stride +
                           tile.top * p.row_stride + tile.left * p.column_stride;
    const uint32 height = uint32(smaller(int32(p.tile_height), int32(p.height) - tile.top));
    const uint32 width = uint32(smaller(int32(p.tile_width), int32(p.width) - tile.left));
    const uint32 run = policy.pixels ? width * p.channels.divisor : width;
    const TileAxis rows = tile.rows, columns = tile.columns;
    const bool is_full = rows.count >= int32(height) && columns.count >= int32(width);  // nothing beside the image

    // 16 or 32 rows of 32 elements each: of pixels, or of every channel in its turn. How many are below each other and
    // beside each other are powers of two, and small: a tile has 16 or 32 rows, and up to 128 columns.
    const uint32 down = policy.columns_first ? p.tile_height / 32 : 0, beside = policy.pixels ? 0 : p.tile_width / 64;
    const uint32 runs = policy.pixels ? (run + 31) / 32 : (Count == 1 ? 1 : p.channels.divisor) << beside;
    for (uint32 item = block.warp; item < runs << down; item += block.warps) {
        const uint32 number = item >> down, row = (item - (number << down)) * 16;
        uint32 channel = Count == 1 ? tile.group : 0, first = number * 32;
        if (!policy.pixels && Count > 1) channel = number >> beside, first -= channel << (5 + beside);
        Vector<uint8, length> results[parts] = {};
        if (tile.bytes > 0) block.result(tile, row, first, channel, results);
        first += block.lane % 4 * length;
        if (first >= run) continue;
        const auto affine = p.affines.of(channel);
        Target* to = target + (row + block.lane / 4) * p.row_stride + int64(channel) * p.channel_stride +
                     int64(first) * (policy.pixels ? 1 : p.column_stride);
#pragma unroll
        for (int part = 0; part < parts; ++part, to += 8 * p.row_stride) {
            const uint32 y = row + block.lane / 4 + part * 8;
            if (y >= height) continue;
            Vector<uint8, length> elements = results[part];
            if (!is_full) {
                const bool row_inside = y - uint32(rows.skipped) < uint32(rows.count);
#pragma unroll
                for (uint32 i = 0; i < length; ++i) {
                    Quotient<uint32> at = {first + i, channel};
                    if constexpr (policy.pixels) at = divide(first + i, p.channels);
                    if (row_inside && at.quotient - uint32(columns.skipped) < uint32(columns.count)) continue;
                    elements.set(i, load<uint8>(p.fill + p.order.source_offset(at.remainder)));
                }
            }
            Vector<Target, length> converted;
            if constexpr (!policy.pixels || policy.affines == Channels::alike) {
                converted = Conversion::apply(elements, affine);
            } else {
                uint32 c = divide(first, p.channels).remainder;
#pragma unroll
                for (uint32 i = 0; i < length; ++i) {
                    converted.set(i, Conversion::apply(elements.get(i), p.affines.of(c)));
                    c = c + 1 == p.channels.divisor ? 0 : c + 1;
                }
            }
#pragma unroll
            for (uint32 i = 0; i < length; i += piece) {
                if (first + i + piece <= run) {
                    Vector<Target, piece> some{};
#pragma unroll
                    for (uint32 k = 0; k < piece; ++k) some.set(k, converted.get(i + k));
                    store_global(to + i * (piece == 1 && !policy.pixels ? p.column_stride : 1), some);
                } else {
#pragma unroll
                    for (uint32 k = 0; k < piece; ++k) {
                        if (first + i + k < run) {
                            store(to + int64(i + k) * (policy.pixels ? 1 : p.column_stride), converted.get(i + k));
                        }
                    }
                }
            }
        }
    }
}

template <int Count, typename Conversion, ResizeProductsPolicy policy>
__global__ void __launch_bounds__(product_threads, 5) resize_products(
    __grid_constant__ const ResizeProductsParameters<Count, Conversion, policy> p) {
    const ProductsBlock<Count, Conversion, policy> block(p);
    const uint32 first = linear_block<uint32>() * p.turns;
    block.describe(first, p.tiles - first < p.turns ? p.tiles : first + p.turns);
    // While a tile is written, the first rows of the next one are on their way.
#pragma unroll 1
    for (uint32 number = 0, row = 0;;) {
        const bool is_behind = number == p.turns || first + number == p.tiles;
        if (!is_behind) block.fetch(block.tiles()[number], row);
        if (number > 0 && row == 0) write_tile(block, block.tiles()[number - 1]);
        if (is_behind) break;
        block.resize(block.tiles()[number], row);
        __syncthreads();
        row += p.memory.chunk_rows;
        if (!policy.columns_first || row >= block.tiles()[number].staged_rows()) row = 0, ++number;
    }
}

}  // namespace sg
