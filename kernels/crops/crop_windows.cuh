// Windows of images: the parameters shared by all crop kernels, a sample's record, and reads of source pixels.
#pragma once
#include "channel_constants.cuh"
#include "indexing.cuh"
#include "register_shuffle.cuh"
#include "vectors.cuh"

namespace sg {

// One sample; strides in elements. `pixel` is the address of channel 0 of the window's first pixel, extrapolated if
// that pixel is outside the image. `first` and `end` bound the image's bytes. `top`, `left`, `bottom` and `right` bound
// the rows and columns of the window that are inside the image, before mirroring.
struct alignas(16) CropSample {
    const uint8* pixel;
    const uint8* first;
    const uint8* end;
    int64 channel_stride, row_stride, column_stride;
    uint32 top, bottom, left, right;
    uint64 flip;
};

// The vectors of one thread: their sample or plane, their first row `row`, and their first element `first`.
template <typename Index> struct CropPlace {
    Index outer;
    uint32 row, first;
};

// Parameters of all crop kernels. A thread makes one vector, or one of each plane, in each of a few rows.
template <typename Conversion, typename Index, Channels AffineKind> struct CropsParameters {
    const CropSample* samples;
    uint8* target;
    const typename Conversion::Source* fill;  // one element for each source channel
    ChannelAffines<typename Conversion::Compute, AffineKind> affines;
    Divisor<Index> vectors, row_groups;       // vectors of a row; groups of rows that a thread has one of
    Index sample_stride, row_stride, offset;  // of the target, in elements
    Index items;                              // threads
    uint32 height, width;                     // of a window, whose rows have less than 2^31 elements

    template <int Rows, int Length> __device__ __forceinline__ CropPlace<Index> place(Index number) const {
        const Quotient<Index> vector = divide(number, vectors);
        const Quotient<Index> group = divide(vector.quotient, row_groups);
        return {group.quotient, uint32(group.remainder) * Rows, uint32(vector.remainder) * Length};
    }
};

// The columns of a window that one thread makes, in rows from `row` on: Length columns, numbered left to right in the
// source even if the window is mirrored. The last ones of a row may be outside the window.
template <typename Source, int Length> struct WindowPart {
    CropSample sample;  // read once, whatever is stored later
    uint32 row;
    int column;
    const Source* source;

    __device__ __forceinline__ WindowPart(const CropSample& read, uint32 first_row, uint32 first, uint32 width,
                                          int64 column_stride)
        : sample(read), row(first_row),
          column(read.flip ? int(width) - Length - int(first) : int(first)),
          source(reinterpret_cast<const Source*>(read.pixel) + int64(first_row) * read.row_stride +
                 column * column_stride) {}

    __device__ __forceinline__ void advance(int rows) {
        row += uint32(rows);
        source += rows * sample.row_stride;
    }
    __device__ __forceinline__ const Source* row_source(int r) const { return source + r * sample.row_stride; }
    __device__ __forceinline__ bool has_row(int r) const {
        return row + uint32(r) - sample.top < sample.bottom - sample.top;
    }
    // Whether `count` rows from the first on are all inside the image.
    __device__ __forceinline__ bool has_rows(uint32 count) const {
        return row >= sample.top && row + count <= sample.bottom;
    }
    __device__ __forceinline__ bool has_columns() const {
        return column >= int(sample.left) && column + Length <= int(sample.right);
    }
    __device__ __forceinline__ bool has_column(int i) const {
        return uint32(column + i) - sample.left < sample.right - sample.left;
    }
};

// Consecutive source elements, loaded to registers.
//
// Windows begin anywhere. An aligned run is loaded as vectors of LoadBytes. Any other run is loaded as the aligned
// pairs of words that contain it (single words if it has an odd number of them), combined by funnel shifts, unless one
// of them reaches past the image's end. All loads are issued before the first result is used.
template <typename Element, int Count, int LoadBytes> struct SourceRun {
    static constexpr int bytes = Count * int(sizeof(Element));
    static constexpr int unit = sizeof(Element) > 4 ? int(sizeof(Element)) : 4;
    static constexpr bool shifts = sizeof(Element) < 4;
    static constexpr int words = bytes / 4;
    static constexpr int piece_words = bytes % 8 == 0 ? 2 : 1, piece_bytes = 4 * piece_words;
    static_assert(bytes % unit == 0 && bytes % LoadBytes == 0 && LoadBytes >= unit, "whole words");

    // Whether the words that contain a run of the image lie inside its memory.
    static __device__ __forceinline__ bool fits(const Element* run, const CropSample& sample) {
        if constexpr (!shifts) return true;
        const uint64 from = uint64(run), beyond = from % piece_bytes;
        if (LoadBytes > piece_bytes && from % LoadBytes == 0) return true;
        const uint64 end = from - beyond + bytes + (beyond ? piece_bytes : 0);
        return from - beyond >= uint64(sample.first) && end <= uint64(sample.end);
    }

    // Load a run that fits.
    __device__ __forceinline__ void read(const Element* run) {
        const uint8* from = reinterpret_cast<const uint8*>(run);
        first = shift = 0;
        if constexpr (LoadBytes > (shifts ? piece_bytes : unit)) {
            if (uint64(from) % LoadBytes == 0) {
                read_pieces<LoadBytes>(from);
                return;
            }
        }
        if constexpr (!shifts) {
            read_pieces<unit>(from);
        } else {
            const uint32 beyond = uint32(uint64(from) % piece_bytes);
            const uint8* aligned = from - beyond;
            read_pieces<piece_bytes>(aligned);
            if (beyond) read_piece<piece_words>(aligned + bytes, words);
            first = beyond / 4;
            shift = 8 * (beyond % 4);
        }
    }

    // Put the run's first word first: after all loads are issued.
    __device__ __forceinline__ void settle() {
        if constexpr (shifts && piece_words == 2) {
            if (first == 0) return;
#pragma unroll
            for (int w = 0; w <= words; ++w) held[w] = held[w + 1];
        }
    }

    __device__ __forceinline__ uint32 word(int w) const {
        if constexpr (shifts) return __funnelshift_r(held[w], held[w + 1], shift);
        else return held[w];
    }

  private:
    uint32 held[words + piece_words];
    uint32 first, shift;  // word of the run's first byte; bits

    template <int Piece> __device__ __forceinline__ void read_pieces(const uint8* from) {
#pragma unroll
        for (int piece = 0; piece < bytes / Piece; ++piece) {
            read_piece<Piece / 4>(from + piece * Piece, piece * (Piece / 4));
        }
    }
    template <int Words> __device__ __forceinline__ void read_piece(const uint8* from, int place) {
        const auto loaded = load_global<Vector<uint32, Words>>(from);
#pragma unroll
        for (int w = 0; w < Words; ++w) held[place + w] = loaded.word[w];
    }
};

// Length pixels of Count channels in registers, a vector of each channel.
template <typename Element, int Count, int Length> struct PixelPlanes {
    using Plane = Vector<Element, Length>;
    Plane planes[Count];

    // Whole words per channel convert between pixels and planes by permutes; other sizes go element by element.
    static constexpr bool by_words = Plane::bytes >= 4 && sizeof(Element) <= 4 && Count >= 2;
    static constexpr int words = Count * Plane::bytes / 4;

    template <typename Words> __device__ __forceinline__ void split(const Words& pixels) {
        if constexpr (by_words) {
#pragma unroll
            for (int first = 0; first < words; first += Count) {
                uint32 some[Count];
#pragma unroll
                for (int w = 0; w < Count; ++w) some[w] = pixels.word(first + w);
                Interleave<sizeof(Element), Count>::split(some);
#pragma unroll
                for (int c = 0; c < Count; ++c) planes[c].word[first / Count] = some[c];
            }
        } else {
#pragma unroll
            for (int i = 0; i < Length * Count; ++i) planes[i % Count].set(i / Count, element(pixels, i));
        }
    }

    __device__ __forceinline__ void store_joined(Element* target) const {
        if constexpr (by_words) {
            uint32 all[words];
#pragma unroll
            for (int first = 0; first < words; first += Count) {
                uint32 some[Count];
#pragma unroll
                for (int c = 0; c < Count; ++c) some[c] = planes[c].word[first / Count];
                Interleave<sizeof(Element), Count>::join(some);
#pragma unroll
                for (int w = 0; w < Count; ++w) all[first + w] = some[w];
            }
#pragma unroll
            for (int vector = 0; vector < Count; ++vector) {
                Plane joined{};
#pragma unroll
                for (int w = 0; w < Plane::words; ++w) joined.word[w] = all[vector * Plane::words + w];
                store_global(target + vector * Length, joined);
            }
        } else {
#pragma unroll
            for (int vector = 0; vector < Count; ++vector) {
                Plane joined{};
#pragma unroll
                for (int i = 0; i < Length; ++i) {
                    joined.set(i, planes[(vector * Length + i) % Count].get((vector * Length + i) / Count));
                }
                store_global(target + vector * Length, joined);
            }
        }
    }

    // Reverse the order of the pixels.
    __device__ __forceinline__ void turn() {
#pragma unroll
        for (int c = 0; c < Count; ++c) planes[c] = reversed(planes[c]);
    }

  private:
    template <typename Words> static __device__ __forceinline__ Element element(const Words& pixels, int i) {
        using Unit = Vector<Element, sizeof(Element) < 4 ? 4 / int(sizeof(Element)) : 1>;
        Unit unit{};
#pragma unroll
        for (int w = 0; w < Unit::words; ++w) unit.word[w] = pixels.word(i / Unit::length * Unit::words + w);
        return unit.get(i % Unit::length);
    }
};

// The pixels of a window part in one row, mirrored if the window is. They come from words if these could be loaded;
// at an image's edges they are read one by one, with the fill value outside. Unwanted channels are not read: they may
// lack memory in the source's last pixel, and they have no fill value.
template <typename Source, int Pitch, int Length, typename Run, typename Wanted>
__device__ __forceinline__ PixelPlanes<Source, Pitch, Length> pixels_of(const WindowPart<Source, Length>& part, int r,
                                                                       bool is_read, Run& run,
                                                                       const Source* fill, Wanted is_wanted) {
    PixelPlanes<Source, Pitch, Length> pixels{};
    if (is_read) {
        run.settle();
        pixels.split(run);
    } else {
        const bool row_inside = part.has_row(r);
        const Source* from = part.row_source(r);
#pragma unroll
        for (int c = 0; c < Pitch; ++c) {
            if (!is_wanted(c)) continue;
#pragma unroll
            for (int i = 0; i < Length; ++i) {
                const bool inside = row_inside && part.has_column(i);
                pixels.planes[c].set(i, load<Source>(inside ? from + i * Pitch + c : fill + c));
            }
        }
    }
    if (part.sample.flip) pixels.turn();
    return pixels;
}

}  // namespace sg
