// Channels of pixels taken apart (NHWC to NCHW) or put together, for up to 8 channels with the pixel's padding.
//
//     interleaved side, one row        r0 g0 b0 r1 g1 b1 r2 g2 b2 ...     Pitch elements a pixel, Channels of them used
//                                      |---- group -----|---- group ...    a group: Length pixels
//     planar side                      r0 r1 r2 ... | g0 g1 g2 ... | b0 b1 b2 ...
//                                      one vector of PlanarBytes of each channel is one group
//
// A block moves some groups of some rows. Its interleaved bytes go through shared memory as they are, so that on that
// side neighbouring threads touch neighbouring vectors of PixelBytes, whatever the number of channels; a thread takes a
// whole group to its registers, splits (or joins) it by byte permutes, and stores (or loads) one vector a channel. Each
// element is read once and written once. Conversion is on the planar side, where a vector is of one channel.
//
// A thread reads its group in units of up to 16 bytes. Groups lie an odd number of units apart, if need be with one
// unit of filling between them: the same unit of neighbouring groups then lies in different banks.
#include "channel_constants.cuh"
#include "register_shuffle.cuh"
#include "tiles.cuh"

namespace sg {

template <typename Conversion, typename Index, int Rank, Channels AffineKind, Channels OrderKind>
struct ChannelsParameters {
    const typename Conversion::Source* source;
    typename Conversion::Target* target;
    Index source_start, target_start;
    Index blocks;
    Index pixels, rows;              // in all
    Index row_elements;              // of the interleaved side, to the end of the last pixel
    Index source_row_step, target_row_step;
    Index plane_step;                // of the planar side; a source's is in `order` where it has the channel axis
    Divisor<Index> pixel_tiles, row_tiles, channels;
    Index target_channel_step;       // along a channel axis that is fixed within a block
    Divisor<uint32> row_vectors, row_groups;  // of a tile
    uint32 tile_rows;
    Axes<Index, Rank> outer;
    ChannelOrder<Index, OrderKind> order;
    ChannelAffines<typename Conversion::Compute, AffineKind> affines;
};

// A group of pixels in registers: Pitch planes of Length elements, each in parts of up to 32 bytes.
template <typename T, int Pitch, int Length> struct PixelGroup {
    static constexpr int bytes = Pitch * Length * int(sizeof(T));
    static constexpr int unit_bytes = Length * int(sizeof(T)) < 16 ? Length * int(sizeof(T)) : 16;
    static constexpr int units = bytes / unit_bytes;
    static constexpr bool filled = unit_bytes >= 4 && units % 2 == 0;
    static constexpr int shared_bytes = bytes + (filled ? unit_bytes : 0);

    static constexpr int part_length = Length * int(sizeof(T)) > 32 ? 32 / int(sizeof(T)) : Length;
    struct Plane {
        using Part = Vector<T, part_length>;
        Part parts[Length / part_length];

        __device__ __forceinline__ void set(int i, T element) { parts[i / part_length].set(i % part_length, element); }
        __device__ __forceinline__ T get(int i) const { return parts[i / part_length].get(i % part_length); }
        __device__ __forceinline__ uint32& word(int w) { return parts[w / Part::words].word[w % Part::words]; }
        __device__ __forceinline__ uint32 word(int w) const { return parts[w / Part::words].word[w % Part::words]; }
    };

    Plane planes[Pitch];

    // Where byte `b` of a row of groups lies in shared memory.
    static __device__ __forceinline__ int place(int b) { return b + b / bytes * (shared_bytes - bytes); }

    // Words that hold whole pixels of every channel are permuted together; all else element by element.
    static constexpr bool by_words = unit_bytes >= 4 && sizeof(T) <= 2 && Pitch <= 4;
    static constexpr int words = unit_bytes >= 4 ? bytes / 4 : 1;

    __device__ __forceinline__ void read(const unsigned char* memory) {
        if constexpr (unit_bytes < 4) {
#pragma unroll
            for (int i = 0; i < Length * Pitch; ++i) {
                planes[i % Pitch].set(i / Pitch, load<Vector<T, 1>>(memory + i * int(sizeof(T))).get(0));
            }
        } else {
            using Unit = Vector<uint32, unit_bytes / 4>;
            uint32 all[words];
#pragma unroll
            for (int u = 0; u < units; ++u) {
                const Unit unit = load<Unit>(memory + u * unit_bytes);
#pragma unroll
                for (int w = 0; w < Unit::words; ++w) all[u * Unit::words + w] = unit.word[w];
            }
            if constexpr (by_words) {
#pragma unroll
                for (int first = 0; first < words; first += Pitch) {
                    uint32 some[Pitch];
#pragma unroll
                    for (int w = 0; w < Pitch; ++w) some[w] = all[first + w];
                    Interleave<sizeof(T), Pitch>::split(some);
#pragma unroll
                    for (int p = 0; p < Pitch; ++p) planes[p].word(first / Pitch) = some[p];
                }
            } else {
#pragma unroll
                for (int i = 0; i < Length * Pitch; ++i) planes[i % Pitch].set(i / Pitch, element(all, i));
            }
        }
    }

    __device__ __forceinline__ void write(unsigned char* memory) const {
        if constexpr (unit_bytes < 4) {
#pragma unroll
            for (int i = 0; i < Length * Pitch; ++i) {
                Vector<T, 1> one{};
                one.set(0, planes[i % Pitch].get(i / Pitch));
                store(memory + i * int(sizeof(T)), one);
            }
        } else {
            using Unit = Vector<uint32, unit_bytes / 4>;
            uint32 all[words] = {};
            if constexpr (by_words) {
#pragma unroll
                for (int first = 0; first < words; first += Pitch) {
                    uint32 some[Pitch];
#pragma unroll
                    for (int p = 0; p < Pitch; ++p) some[p] = planes[p].word(first / Pitch);
                    Interleave<sizeof(T), Pitch>::join(some);
#pragma unroll
                    for (int w = 0; w < Pitch; ++w) all[first + w] = some[w];
                }
            } else {
#pragma unroll
                for (int i = 0; i < Length * Pitch; ++i) set_element(all, i, planes[i % Pitch].get(i / Pitch));
            }
#pragma unroll
            for (int u = 0; u < units; ++u) {
                Unit unit{};
#pragma unroll
                for (int w = 0; w < Unit::words; ++w) unit.word[w] = all[u * Unit::words + w];
                store(memory + u * unit_bytes, unit);
            }
        }
    }

  private:
    static constexpr int vector_words = unit_bytes >= 4 ? unit_bytes / 4 : 1;
    static constexpr int vector_length = unit_bytes / int(sizeof(T));
    using Piece = Vector<T, vector_length>;

    static __device__ __forceinline__ T element(const uint32 (&all)[words], int i) {
        Piece piece{};
#pragma unroll
        for (int w = 0; w < vector_words; ++w) piece.word[w] = all[i / vector_length * vector_words + w];
        return piece.get(i % vector_length);
    }
    static __device__ __forceinline__ void set_element(uint32 (&all)[words], int i, T value) {
        Piece piece{};
#pragma unroll
        for (int w = 0; w < vector_words; ++w) piece.word[w] = all[i / vector_length * vector_words + w];
        piece.set(i % vector_length, value);
#pragma unroll
        for (int w = 0; w < vector_words; ++w) all[i / vector_length * vector_words + w] = piece.word[w];
    }
};

// A vector of a row of groups to and from shared memory, in pieces of 16 bytes, which is what shared memory is aligned
// to, or of a unit where a group's filling may cut it.
template <typename Group, typename V> struct Staged {
    static constexpr int most_bytes = Group::filled ? Group::unit_bytes : 16;
    static constexpr int piece_bytes = V::bytes < most_bytes ? V::bytes : most_bytes;
    static constexpr int pieces = V::bytes / piece_bytes;
    using Piece = Vector<typename V::Word, V::words / pieces>;

    static __device__ __forceinline__ void put(unsigned char* row, int b, const V& vector) {
#pragma unroll
        for (int k = 0; k < pieces; ++k) {
            Piece piece{};
#pragma unroll
            for (int w = 0; w < Piece::words; ++w) piece.word[w] = vector.word[k * Piece::words + w];
            store(row + Group::place(b + k * piece_bytes), piece);
        }
    }
    static __device__ __forceinline__ V get(const unsigned char* row, int b) {
        V vector{};
#pragma unroll
        for (int k = 0; k < pieces; ++k) {
            const Piece piece = load<Piece>(row + Group::place(b + k * piece_bytes));
#pragma unroll
            for (int w = 0; w < Piece::words; ++w) vector.word[k * Piece::words + w] = piece.word[w];
        }
        return vector;
    }
};

enum class Direction { split, join };

// The kernel's template arguments, and a tile's two steps. Backwards: the planar side runs against the other one; its
// rows are then whole vectors.
template <typename Conversion_, typename Index, Direction Way, int Channels_, int Pitch, int PixelBytes,
          int PlanarBytes, bool Backwards, ChannelAxis Axis>
struct ChannelTile {
    using Conversion = Conversion_;
    static constexpr bool splits = Way == Direction::split;
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    using Interleaved = select<splits, Source, Target>;
    using Planar = select<splits, Target, Source>;
    static constexpr int length = PlanarBytes / int(sizeof(Planar));
    static constexpr int pixel_length = PixelBytes / int(sizeof(Interleaved));
    using Group = PixelGroup<Interleaved, Pitch, length>;
    using PixelVector = Vector<Interleaved, pixel_length>;
    using PlanarVector = Vector<Planar, length>;
    using Stage = Staged<Group, PixelVector>;
    static constexpr int loads_held = 4;

    unsigned char* memory;
    int row_bytes;      // of shared memory
    int rows_left, pixels_left, elements_left;

    // Interleaved rows from global to shared memory.
    template <typename Parameters>
    __device__ __forceinline__ void read_pixels(const Parameters& parameters, const Source* source) const {
        const int vectors = int(parameters.row_vectors.divisor) * rows_left;
        for (int first = int(threadIdx.x); first < vectors; first += loads_held * int(blockDim.x)) {
            PixelVector held[loads_held];
#pragma unroll
            for (int i = 0; i < loads_held; ++i) {
                const int number = first + i * int(blockDim.x);
                const Quotient<uint32> at = divide(uint32(number), parameters.row_vectors);
                const int element = int(at.remainder) * pixel_length;
                const int left = number < vectors ? elements_left - element : 0;
                const Index offset = Index(at.quotient) * parameters.source_row_step + Index(element);
                held[i] = load_first<PixelVector>(source + Signed<Index>(offset), left);
            }
#pragma unroll
            for (int i = 0; i < loads_held; ++i) {
                const int number = first + i * int(blockDim.x);
                const Quotient<uint32> at = divide(uint32(number), parameters.row_vectors);
                if (number < vectors) {
                    Stage::put(memory + int(at.quotient) * row_bytes, int(at.remainder) * PixelBytes, held[i]);
                }
            }
        }
    }

    // Interleaved rows from shared to global memory. Vectors span gaps only where those are ours to write.
    template <int RowPitch, typename Parameters>
    __device__ __forceinline__ void write_pixels(const Parameters& parameters, Target* target) const {
        const int vectors = int(parameters.row_vectors.divisor) * rows_left;
#pragma unroll 4
        for (int number = int(threadIdx.x); number < vectors; number += int(blockDim.x)) {
            const Quotient<uint32> at = divide(uint32(number), parameters.row_vectors);
            const int element = int(at.remainder) * pixel_length, left = elements_left - element;
            if (left <= 0 || (pixel_length == 1 && element % Pitch >= RowPitch)) continue;
            const Index offset = Index(at.quotient) * parameters.target_row_step + Index(element);
            const PixelVector vector =
                Stage::get(memory + int(at.quotient) * row_bytes, int(at.remainder) * PixelBytes);
            store_first(target + Signed<Index>(offset), vector, left);
        }
    }

    // Groups from shared memory to the planes of the target.
    template <Channels OrderKind, typename Parameters>
    __device__ __forceinline__ void write_planes(const Parameters& parameters, Target* target, Index channel) const {
        const int groups = int(parameters.row_groups.divisor) * rows_left;
        for (int number = int(threadIdx.x); number < groups; number += int(blockDim.x)) {
            const Quotient<uint32> at = divide(uint32(number), parameters.row_groups);
            const int pixel = int(at.remainder) * length, left = pixels_left - pixel;
            if (left <= 0) continue;
            Group group{};
            group.read(memory + int(at.quotient) * row_bytes + int(at.remainder) * Group::shared_bytes);
            const Index offset = Index(at.quotient) * parameters.target_row_step + planar_offset(pixel);
            Target* address = target + Signed<Index>(offset);
            if constexpr (OrderKind == Channels::alike || Axis != ChannelAxis::source) {
#pragma unroll
                for (int c = 0; c < Channels_; ++c) {
                    write_plane(parameters, address + Signed<Index>(Index(c) * parameters.plane_step), group.planes[c],
                                Axis == ChannelAxis::source ? Index(c) : channel, left);
                }
            } else {
                // An output channel that is known only at run time takes its plane from the registers by comparison.
                for (int c = 0; c < int(parameters.channels.divisor); ++c) {
                    const Index from = parameters.order.source_offset(Index(c));
                    typename Group::Plane plane = group.planes[0];
#pragma unroll
                    for (int p = 1; p < Pitch; ++p) {
                        if (from == Index(p)) plane = group.planes[p];
                    }
                    write_plane(parameters, address + Signed<Index>(Index(c) * parameters.plane_step), plane, Index(c),
                                left);
                }
            }
        }
    }

    template <typename Parameters>
    __device__ __forceinline__ void write_plane(const Parameters& parameters, Target* address,
                                                const typename Group::Plane& plane, Index channel,
                                                int left) const {
        const auto affine = parameters.affines.of(channel);
        PlanarVector vector{};
        if constexpr (Group::part_length == length) {
            vector = Conversion::apply(plane.parts[0], affine);
        } else {
#pragma unroll
            for (int i = 0; i < length; ++i) vector.set(i, Conversion::apply(plane.get(i), affine));
        }
        if constexpr (Backwards) vector = reversed(vector);
        store_first(address, vector, left);
    }

    // The planes of the source to groups in shared memory.
    template <typename Parameters>
    __device__ __forceinline__ void read_planes(const Parameters& parameters, const Source* source,
                                                Index channel) const {
        const int groups = int(parameters.row_groups.divisor) * rows_left;
        for (int number = int(threadIdx.x); number < groups; number += int(blockDim.x)) {
            const Quotient<uint32> at = divide(uint32(number), parameters.row_groups);
            const int pixel = int(at.remainder) * length, left = pixels_left - pixel;
            if (left <= 0) continue;
            const Index offset = Index(at.quotient) * parameters.source_row_step + planar_offset(pixel);
            PlanarVector planes[Channels_];
#pragma unroll
            for (int c = 0; c < Channels_; ++c) {
                Index plane = offset;
                if constexpr (Axis == ChannelAxis::target) plane += parameters.order.source_offset(Index(c));
                else plane += Index(c) * parameters.plane_step;
                planes[c] = load_first<PlanarVector>(source + Signed<Index>(plane), left);
            }
            Group group{};
#pragma unroll
            for (int c = 0; c < Channels_; ++c) {
                if constexpr (Backwards) planes[c] = reversed(planes[c]);
                const auto affine = parameters.affines.of(Axis == ChannelAxis::target ? Index(c) : channel);
                if constexpr (Group::part_length == length) {
                    group.planes[c].parts[0] = Conversion::apply(planes[c], affine);
                } else {
#pragma unroll
                    for (int i = 0; i < length; ++i) {
                        group.planes[c].set(i, Conversion::apply(planes[c].get(i), affine));
                    }
                }
            }
            group.write(memory + int(at.quotient) * row_bytes + int(at.remainder) * Group::shared_bytes);
        }
    }

    static __device__ __forceinline__ Index planar_offset(int pixel) {
        return Backwards ? Index(0) - Index(pixel + length - 1) : Index(pixel);
    }
};

// One block a multiprocessor is no aim: without it, sm_80's compiler aims at more, and spills.
template <typename Conversion, typename Index, int Rank, Direction Way, int PixelChannels, int Pitch,
          bool FillsPixels, int PixelBytes, int PlanarBytes, bool Backwards, int Threads, ChannelAxis Axis,
          Channels AffineKind, Channels OrderKind>
__global__ void __launch_bounds__(Threads, 1)
    channels(__grid_constant__ const ChannelsParameters<Conversion, Index, Rank, AffineKind, OrderKind> parameters) {
    using Tile = ChannelTile<Conversion, Index, Way, PixelChannels, Pitch, PixelBytes, PlanarBytes, Backwards, Axis>;
    constexpr bool splits = Way == Direction::split;
    static_assert(splits || FillsPixels || PixelChannels == Pitch || Tile::pixel_length == 1,
                  "a vector would write gaps that are not ours");
    const Index block = linear_block<Index>();
    if (block >= parameters.blocks) return;  // the whole block, before any barrier
    const Quotient<Index> by_pixel = divide(block, parameters.pixel_tiles);
    const Quotient<Index> by_row = divide(by_pixel.quotient, parameters.row_tiles);
    Quotient<Index> by_channel = {by_row.quotient, 0};
    if constexpr (Axis == ChannelAxis::block) by_channel = divide(by_row.quotient, parameters.channels);
    const Offsets<Index> outer = parameters.outer.unravel(by_channel.quotient);
    const Index channel = by_channel.remainder;
    const int groups = int(parameters.row_groups.divisor);
    const Index pixel = by_pixel.remainder * Index(groups * Tile::length);
    const Index row = by_row.remainder * Index(parameters.tile_rows);

    const Index interleaved = pixel * Index(Pitch), planar = Backwards ? Index(0) - pixel : pixel;
    Index source_offset = parameters.source_start + Index(outer.source) + row * parameters.source_row_step;
    Index target_offset = parameters.target_start + Index(outer.target) + row * parameters.target_row_step;
    source_offset += splits ? interleaved : planar;
    target_offset += splits ? planar : interleaved;
    if constexpr (Axis == ChannelAxis::block) {
        source_offset += parameters.order.source_offset(channel);
        target_offset += channel * parameters.target_channel_step;
    }
    const auto* source = parameters.source + Signed<Index>(source_offset);
    auto* target = parameters.target + Signed<Index>(target_offset);

    const Tile tile{dynamic_shared_memory(), groups * Tile::Group::shared_bytes,
                    positions_left(parameters.rows, row, int(parameters.tile_rows)),
                    positions_left(parameters.pixels, pixel, groups * Tile::length),
                    positions_left(parameters.row_elements, interleaved, groups * Tile::length * Pitch)};
    if constexpr (splits) {
        tile.read_pixels(parameters, source);
        __syncthreads();
        tile.template write_planes<OrderKind>(parameters, target, channel);
    } else {
        tile.read_planes(parameters, source, channel);
        __syncthreads();
        tile.template write_pixels<FillsPixels ? Pitch : PixelChannels>(parameters, target);
    }
}

}  // namespace sg
