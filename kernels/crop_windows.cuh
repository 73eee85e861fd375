// Windows of images: one sample's record, and its source's elements as they lie, from any address on.
#pragma once
#include "channel_constants.cuh"
#include "indexing.cuh"
#include "vectors.cuh"

namespace sg {

// One sample; strides in elements. `source` is the element of channel 0 in row 0 and column 0, `first` and `end` are
// the bounds of the image's bytes. The origin is brought within one window of the image by the host, so that no sum
// overflows.
struct alignas(16) CropSample {
    const uint8* source;
    const uint8* first;
    const uint8* end;
    int64 channel_stride, row_stride, column_stride;
    int64 height, width;
    int64 top, left;
    uint64 flip;
};

// Elements of a source that follow each other, in registers.
//
// Windows begin anywhere. Where the address allows it, a run is loaded as vectors of LoadBytes; elsewhere as the
// aligned words that its bytes lie in, put together by a shift, unless one of these reaches over the image's end.
template <typename Element, int Count, int LoadBytes> struct SourceRun {
    static constexpr int bytes = Count * int(sizeof(Element));
    static constexpr int unit = sizeof(Element) > 4 ? int(sizeof(Element)) : 4;
    static_assert(bytes % unit == 0 && bytes % LoadBytes == 0 && LoadBytes >= unit, "whole words");
    uint32 word[bytes / 4];

    // Whether the run could be read: else nothing was.
    __device__ __forceinline__ bool read(const Element* run, const CropSample& sample) {
        const uint8* from = reinterpret_cast<const uint8*>(run);
        if (LoadBytes > unit && uint64(from) % LoadBytes == 0) {
            read_pieces<LoadBytes>(from, word);
            return true;
        }
        if constexpr (sizeof(Element) >= 4) {
            read_pieces<unit>(from, word);
            return true;
        } else {
            const uint32 beyond = uint32(uint64(from) % 4);
            const uint8* aligned = from - beyond;
            const uint8* end = aligned + bytes + (beyond ? 4 : 0);
            if (uint64(aligned) < uint64(sample.first) || uint64(end) > uint64(sample.end)) return false;
            uint32 held[bytes / 4 + 1];
            read_pieces<4>(aligned, held);
            held[bytes / 4] = beyond ? load<uint32>(aligned + bytes) : 0u;
#pragma unroll
            for (int w = 0; w < bytes / 4; ++w) word[w] = __funnelshift_r(held[w], held[w + 1], 8 * beyond);
            return true;
        }
    }

    __device__ __forceinline__ Element get(int i) const {
        if constexpr (sizeof(Element) >= 4) {
            Element element;
            memcpy(&element, &word[i * int(sizeof(Element) / 4)], sizeof(Element));
            return element;
        } else {
            using Bits = select<sizeof(Element) == 1, uint8, uint16>;
            constexpr int per_word = 4 / int(sizeof(Element));
            return bit_cast<Element>(Bits(word[i / per_word] >> (i % per_word * 8 * int(sizeof(Element)))));
        }
    }

private:
    template <int Piece> static __device__ __forceinline__ void read_pieces(const uint8* from, uint32* to) {
#pragma unroll
        for (int piece = 0; piece < bytes / Piece; ++piece) {
            const auto loaded = load_global<Vector<uint32, Piece / 4>>(from + piece * Piece);
#pragma unroll
            for (int w = 0; w < Piece / 4; ++w) to[piece * (Piece / 4) + w] = loaded.word[w];
        }
    }
};

}  // namespace sg
