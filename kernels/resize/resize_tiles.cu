// Resize of a batch of images of any sizes: both passes and the conversion in one kernel.
//
// A block computes one tile of one window. It loads the source rows of the tile once, a chunk at a time, into shared
// memory, resizes them there, and writes the converted tile.
//
//     source      | a chunk's rows, all columns that the tile's taps reach |    16 bytes a load, or element by element
//       across    | a chunk's rows, the tile's columns |                        the horizontal pass
//       down      | the tile's rows, the tile's columns |                       the vertical pass, sums of all chunks
//     target      | the tile's rows and columns, fill around the image |        store_bytes a store
//
// If the vertical pass is first, sums are those of the tile's rows and all columns that taps reach; the horizontal pass
// runs once at the end. Tiles, chunks and offsets in shared memory are parameters of the launch: one instantiation
// serves batches of any scale.
//
// Bytes moved: each source pixel once for each tile whose taps reach it; each element of the target once; 128 bytes and
// the taps of each sample, which stay in the cache.
#include "resize_tile.cuh"

namespace sg {

// Blocks per multiprocessor for __launch_bounds__: three, or two if sums or numbers are wide or each channel has an
// address. Without it ptxas targets more blocks for some instantiations, and spills.
template <typename Reader, typename Conversion, ResizePolicy policy>
constexpr int resize_blocks =
    Reader::has_runs && !Conversion::is_wide &&
            !is_floating<typename ResizePasses<policy.arithmetic, typename Reader::Element>::First::Sum> ? 3 : 2;

template <typename Reader, typename Conversion, ResizePolicy policy>
__global__ void __launch_bounds__(256, resize_blocks<Reader, Conversion, policy>) resize_tiles(
    __grid_constant__ const ResizeParameters<Reader, Conversion, policy> p) {
    using Target = typename Conversion::Target;
    using Source = typename Conversion::Source;
    using Tile = ResizeTile<Reader, Conversion, policy>;
    constexpr int length = policy.store_bytes / int(sizeof(Target));

    const Quotient<uint32> across = divide(linear_block<uint32>(), p.columns);
    const Quotient<uint32> down = divide(across.quotient, p.rows);
    const Quotient<uint32> group = divide(down.quotient, p.groups);
    const int32 left = int32(across.remainder * p.tile_width), top = int32(down.remainder * p.tile_height);
    const ResizeSample sample = reinterpret_cast<const ResizeSample*>(p.records)[group.quotient];
    const Tile tile(p, sample, group.remainder, top, left);
    if (tile.rows.count > 0 && tile.columns.count > 0) {
        tile.read_taps();
        tile.resize();
        if constexpr (policy.premultiplies) tile.divide();
    }
    __syncthreads();

    Target* const target = reinterpret_cast<Target*>(p.target) + p.offset + int64(sample.number) * p.sample_stride +
                           top * p.row_stride + left * p.column_stride;
    const uint32 height = uint32(smaller(int32(p.tile_height), int32(p.height) - top));
    const uint32 width = uint32(smaller(int32(p.tile_width), int32(p.width) - left));
    const uint32 items = height * p.vectors.divisor;
    // The position of a target channel in interleaved pixels, or among the channels that the block has read.
    const auto slot_of = [&](uint32 x, uint32 channel) {
        return tile.slot(int32(x), int32(Reader::whole ? p.order.source_offset(channel) : channel - tile.channel));
    };
    const auto element = [&](uint32 x, uint32 y, uint32 channel) {
        const bool inside = x - uint32(tile.columns.skipped) < uint32(tile.columns.count) &&
                            y - uint32(tile.rows.skipped) < uint32(tile.rows.count);
        return inside ? load<Source>(tile.result(int32(y) - tile.rows.skipped) + slot_of(x, channel))
                      : load<Source>(p.fill + p.order.source_offset(channel));
    };
    const auto put = [&](Target* to, const Vector<Target, length>& converted, uint32 some) {
        if (some >= length) {
            store_global(to, converted);
            return;
        }
#pragma unroll
        for (int i = 0; i < length; ++i) {
            if (uint32(i) < some) store(to + i, converted.get(i));
        }
    };

    if constexpr (policy.pixels) {
        const uint32 run = width * p.channels.divisor;
        for (uint32 item = threadIdx.x; item < items; item += Tile::threads) {
            const Quotient<uint32> vector = divide(item, p.vectors);
            const uint32 first = vector.remainder * length;
            if (first >= run) continue;
            Quotient<uint32> at = divide(first, p.channels);
            Vector<Target, length> converted{};
#pragma unroll
            for (int i = 0; i < length; ++i) {
                if (first + i < run) {
                    converted.set(i, Conversion::apply(element(at.quotient, vector.quotient, at.remainder),
                                                       p.affines.of(at.remainder)));
                }
                if (++at.remainder == p.channels.divisor) at = {at.quotient + 1, 0};
            }
            put(target + vector.quotient * p.row_stride + first, converted, run - first);
        }
    } else {
        for (uint32 channel = tile.channel; channel < tile.channels_end; ++channel) {
            const auto affine = p.affines.of(channel);
            for (uint32 item = threadIdx.x; item < items; item += Tile::threads) {
                const Quotient<uint32> vector = divide(item, p.vectors);
                const uint32 first = vector.remainder * length, y = vector.quotient;
                if (first >= width) continue;
                Vector<Source, length> elements{};
                const bool whole = y - uint32(tile.rows.skipped) < uint32(tile.rows.count) &&
                                   first >= uint32(tile.columns.skipped) &&
                                   first + length <= uint32(tile.columns.skipped + tile.columns.count);
                if (whole) {
                    elements = load<Vector<Source, length>>(tile.result(int32(y) - tile.rows.skipped) +
                                                            slot_of(first, channel));
                } else {
#pragma unroll
                    for (int i = 0; i < length; ++i) elements.set(i, element(first + i, y, channel));
                }
                put(target + int64(channel) * p.channel_stride + y * p.row_stride + first * p.column_stride,
                    Conversion::apply(elements, affine), width - first);
            }
        }
    }
}

}  // namespace sg
