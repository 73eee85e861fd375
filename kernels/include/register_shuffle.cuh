// Shuffles within one thread's registers: small transposes, and (de)interleaving of channels.
//
// One byte permute (PRMT) picks any four bytes of two words. Selectors read from the low byte up: hexadecimal digit k
// from the right names the source of byte k, 0-3 in the first word and 4-7 in the second.
//
// Words of an image with 3 channels of 1 byte, 4 pixels:       r0 g0 b0 r1 | g1 b1 r2 g2 | b2 r3 g3 b3
// and with 3 channels of 2 bytes, 2 pixels:                    r0 g0 | b0 r1 | g1 b1
#pragma once
#include "element_types.cuh"

namespace sg {

// Rows are words, columns their bytes.
__device__ __forceinline__ void transpose_bytes_4x4(uint32 (&rows)[4]) {
    const uint32 low01 = __byte_perm(rows[0], rows[1], 0x5140), high01 = __byte_perm(rows[0], rows[1], 0x7362);
    const uint32 low23 = __byte_perm(rows[2], rows[3], 0x5140), high23 = __byte_perm(rows[2], rows[3], 0x7362);
    rows[0] = __byte_perm(low01, low23, 0x5410);
    rows[1] = __byte_perm(low01, low23, 0x7632);
    rows[2] = __byte_perm(high01, high23, 0x5410);
    rows[3] = __byte_perm(high01, high23, 0x7632);
}

__device__ __forceinline__ void transpose_halves_2x2(uint32& row0, uint32& row1) {
    const uint32 low = __byte_perm(row0, row1, 0x5410), high = __byte_perm(row0, row1, 0x7632);
    row0 = low;
    row1 = high;
}

// De-interleave `Channels` words to one word of each channel, and back. ElementBytes is 1, 2 or 4; Channels is 2, 3 or
// 4. One word of a channel is 4 / ElementBytes pixels.
template <int ElementBytes, int Channels> struct Interleave;

template <int Channels> struct Interleave<4, Channels> {
    static __device__ __forceinline__ void split(uint32 (&)[Channels]) {}
    static __device__ __forceinline__ void join(uint32 (&)[Channels]) {}
};

template <> struct Interleave<1, 2> {
    static __device__ __forceinline__ void split(uint32 (&words)[2]) {
        const uint32 first = __byte_perm(words[0], words[1], 0x6420);
        words[1] = __byte_perm(words[0], words[1], 0x7531);
        words[0] = first;
    }
    static __device__ __forceinline__ void join(uint32 (&words)[2]) {
        const uint32 first = __byte_perm(words[0], words[1], 0x5140);
        words[1] = __byte_perm(words[0], words[1], 0x7362);
        words[0] = first;
    }
};

template <> struct Interleave<1, 3> {
    static __device__ __forceinline__ void split(uint32 (&words)[3]) {
        const uint32 a = words[0], b = words[1], c = words[2];
        words[0] = __byte_perm(__byte_perm(a, b, 0x0630), c, 0x5210);
        words[1] = __byte_perm(__byte_perm(a, b, 0x0741), c, 0x6210);
        words[2] = __byte_perm(__byte_perm(a, b, 0x0052), c, 0x7410);
    }
    static __device__ __forceinline__ void join(uint32 (&words)[3]) {
        const uint32 r = words[0], g = words[1], b = words[2];
        words[0] = __byte_perm(__byte_perm(r, g, 0x1040), b, 0x3410);
        words[1] = __byte_perm(__byte_perm(r, g, 0x6205), b, 0x3250);
        words[2] = __byte_perm(__byte_perm(r, g, 0x0730), b, 0x7216);
    }
};

template <> struct Interleave<1, 4> {
    static __device__ __forceinline__ void split(uint32 (&words)[4]) { transpose_bytes_4x4(words); }
    static __device__ __forceinline__ void join(uint32 (&words)[4]) { transpose_bytes_4x4(words); }
};

template <> struct Interleave<2, 2> {
    static __device__ __forceinline__ void split(uint32 (&words)[2]) { transpose_halves_2x2(words[0], words[1]); }
    static __device__ __forceinline__ void join(uint32 (&words)[2]) { transpose_halves_2x2(words[0], words[1]); }
};

template <> struct Interleave<2, 3> {
    static __device__ __forceinline__ void split(uint32 (&words)[3]) {
        const uint32 a = words[0], b = words[1], c = words[2];
        words[0] = __byte_perm(a, b, 0x7610);
        words[1] = __byte_perm(a, c, 0x5432);
        words[2] = __byte_perm(b, c, 0x7610);
    }
    static __device__ __forceinline__ void join(uint32 (&words)[3]) {
        const uint32 r = words[0], g = words[1], b = words[2];
        words[0] = __byte_perm(r, g, 0x5410);
        words[1] = __byte_perm(b, r, 0x7610);
        words[2] = __byte_perm(g, b, 0x7632);
    }
};

// Four 16-bit elements a pixel, two pixels: r0 g0 | b0 a0 | r1 g1 | b1 a1.
template <> struct Interleave<2, 4> {
    static __device__ __forceinline__ void split(uint32 (&words)[4]) {
        transpose_halves_2x2(words[0], words[2]);
        transpose_halves_2x2(words[1], words[3]);
        const uint32 second = words[2];
        words[2] = words[1];
        words[1] = second;
    }
    static __device__ __forceinline__ void join(uint32 (&words)[4]) {
        const uint32 third = words[1];
        words[1] = words[2];
        words[2] = third;
        transpose_halves_2x2(words[0], words[2]);
        transpose_halves_2x2(words[1], words[3]);
    }
};

// De-interleave words of whole pixels to planes, vectors of whole words, and back.
template <int Channels, int Words, typename Plane>
__device__ __forceinline__ void take_apart(const uint32 (&words)[Words], Plane (&planes)[Channels]) {
#pragma unroll
    for (int first = 0; first < Words; first += Channels) {
        uint32 some[Channels];
#pragma unroll
        for (int w = 0; w < Channels; ++w) some[w] = words[first + w];
        Interleave<int(sizeof(typename Plane::Element)), Channels>::split(some);
#pragma unroll
        for (int p = 0; p < Channels; ++p) planes[p].word[first / Channels] = some[p];
    }
}
template <int Channels, int Words, typename Plane>
__device__ __forceinline__ void put_together(const Plane (&planes)[Channels], uint32 (&words)[Words]) {
#pragma unroll
    for (int first = 0; first < Words; first += Channels) {
        uint32 some[Channels];
#pragma unroll
        for (int p = 0; p < Channels; ++p) some[p] = planes[p].word[first / Channels];
        Interleave<int(sizeof(typename Plane::Element)), Channels>::join(some);
#pragma unroll
        for (int w = 0; w < Channels; ++w) words[first + w] = some[w];
    }
}

}  // namespace sg
