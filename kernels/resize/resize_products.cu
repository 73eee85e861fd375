// Resize of a batch of images of any sizes by products of matrices (sm_80 and later): both passes and the conversion.
//
// A block computes one tile of one window, of all channels of interleaved pixels, or of one plane.
//
//     source      | a chunk's rows, all columns that the tile's taps reach |    16 bytes a load, shifted into place
//       across    | 32 rows of 8 elements |                                     a warp, for each 32 bytes: 6 products
//     between     | all rows that taps reach, the tile's elements |             one byte each
//       down      | 16 result rows of 32 elements |                             a warp, for each 32 rows: 12 products
//     target      | 2 rows of 8 elements |                                      a lane: converted in registers
//
// Tiles, windows and offsets in shared memory are parameters of the launch: one instantiation serves batches of any
// scale. Weights are put into matrices by each block, of the same records and tables as those of resize_tiles.cu.
//
// Bytes moved: each source pixel once for each tile whose taps reach it; each element of the target once; 128 bytes and
// the taps of each sample, which stay in the cache.
#include "resize_products.cuh"

namespace sg {

template <int Count, typename Conversion, ResizeProductsPolicy policy>
__global__ void __launch_bounds__(product_threads, 4) resize_products(
    __grid_constant__ const ResizeProductsParameters<Count, Conversion, policy> p) {
    using Target = typename Conversion::Target;
    using Tile = ProductsTile<Count, Conversion, policy>;
    // Elements that a lane has of a row, and that a store takes.
    constexpr uint32 length = 8, piece = policy.store_bytes / int(sizeof(Target));

    const Quotient<uint32> across = divide(linear_block<uint32>(), p.columns);
    const Quotient<uint32> downwards = divide(across.quotient, p.rows);
    const Quotient<uint32> group = divide(downwards.quotient, p.groups);
    const int32 left = int32(across.remainder * p.tile_width), top = int32(downwards.remainder * p.tile_height);
    const ResizeSample sample = reinterpret_cast<const ResizeSample*>(p.records)[group.quotient];
    const Tile tile(p, sample, top, left);
    // An image has memory. Its bounds are looked at here for all of the record to be on its way together.
    const bool has_pixels = tile.rows.count > 0 && tile.columns.count > 0 && sample.begin < sample.end;
    if (has_pixels) tile.resize(group.remainder);
    __syncthreads();

    Target* const target = reinterpret_cast<Target*>(p.target) + p.offset + int64(sample.number) * p.sample_stride +
                           top * p.row_stride + left * p.column_stride;
    const uint32 height = uint32(smaller(int32(p.tile_height), int32(p.height) - top));
    const uint32 width = uint32(smaller(int32(p.tile_width), int32(p.width) - left));
    const uint32 run = policy.pixels ? width * p.channels.divisor : width;
    const auto is_inside = [](const TileAxis& axis, uint32 pixel) {
        return pixel - uint32(axis.skipped) < uint32(axis.count);
    };

    // 16 rows of 32 elements each: of pixels, or of every channel in its turn. How many are below each other and beside
    // each other are powers of two, and small: a tile has 16 or 32 rows, and up to 128 columns.
    const uint32 down = p.tile_height / 32, beside = policy.pixels ? 0 : p.tile_width / 64;
    const uint32 runs = policy.pixels ? (run + 31) / 32 : (Count == 1 ? 1 : p.channels.divisor) << beside;
    for (uint32 item = tile.warp; item < runs << down; item += Tile::warps) {
        const uint32 number = item >> down, row = (item - (number << down)) * 16;
        uint32 channel = Count == 1 ? group.remainder : 0, first = number * 32;
        if (!policy.pixels && Count > 1) channel = number >> beside, first -= channel << (5 + beside);
        Vector<uint8, length> results[2] = {};
        if (has_pixels) tile.down(row, first, channel, results);
        first += tile.lane % 4 * length;
        if (first >= run) continue;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint32 y = row + tile.lane / 4 + half * 8;
            if (y >= height) continue;
            Vector<uint8, length> elements = results[half];
            const bool row_inside = is_inside(tile.rows, y);
            if (!row_inside || uint32(tile.columns.count) < p.tile_width) {
#pragma unroll
                for (uint32 i = 0; i < length; ++i) {
                    Quotient<uint32> at = {first + i, channel};
                    if constexpr (policy.pixels) at = divide(first + i, p.channels);
                    if (row_inside && is_inside(tile.columns, at.quotient)) continue;
                    elements.set(i, load<uint8>(p.fill + p.order.source_offset(at.remainder)));
                }
            }
            Vector<Target, length> converted;
            if constexpr (!policy.pixels || policy.affines == Channels::alike) {
                converted = Conversion::apply(elements, p.affines.of(channel));
            } else {
                uint32 c = divide(first, p.channels).remainder;
#pragma unroll
                for (uint32 i = 0; i < length; ++i) {
                    converted.set(i, Conversion::apply(elements.get(i), p.affines.of(c)));
                    c = c + 1 == p.channels.divisor ? 0 : c + 1;
                }
            }
            Target* const to = target + y * p.row_stride + int64(channel) * p.channel_stride +
                               int64(first) * (policy.pixels ? 1 : p.column_stride);
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

}  // namespace sg
