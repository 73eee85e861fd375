// Vectors of elements, 1 to 32 bytes, that move between memory and registers in one instruction.
//
// A Vector is an array of 32-bit words (or one byte, or one 16-bit word), never of small elements: the compiler then
// does not split the access or place the array in local memory. An aligned struct of 16 bytes is one LDG.E.128 on every
// GPU; one of 32 bytes is a 256-bit access on sm_100 and later, two 128-bit ones before. Element positions must be
// compile-time constants after unrolling.
#pragma once
#include "element_types.cuh"
#include "primitives.cuh"

namespace sg {

template <typename T, int N> struct alignas(sizeof(T) * N) Vector {
    static constexpr int bytes = int(sizeof(T)) * N;
    static_assert(bytes <= 32 && (bytes & (bytes - 1)) == 0, "a vector is 1, 2, 4, 8, 16 or 32 bytes");
    using Element = T;
    using Word = select<bytes >= 4, uint32, select<bytes == 2, uint16, uint8>>;
    static constexpr int length = N;
    static constexpr int words = bytes / int(sizeof(Word));

    Word word[words];

    __device__ __forceinline__ T get(int i) const {
        if constexpr (sizeof(T) >= sizeof(Word)) {
            T element;
            memcpy(&element, &word[i * int(sizeof(T) / sizeof(Word))], sizeof(T));
            return element;
        } else {
            using Bits = select<sizeof(T) == 1, uint8, uint16>;
            constexpr int per_word = int(sizeof(Word) / sizeof(T));
            return bit_cast<T>(Bits(word[i / per_word] >> (i % per_word * 8 * int(sizeof(T)))));
        }
    }

    __device__ __forceinline__ void set(int i, T element) {
        if constexpr (sizeof(T) >= sizeof(Word)) {
            memcpy(&word[i * int(sizeof(T) / sizeof(Word))], &element, sizeof(T));
        } else {
            using Bits = select<sizeof(T) == 1, uint8, uint16>;
            constexpr int per_word = int(sizeof(Word) / sizeof(T));
            const int shift = i % per_word * 8 * int(sizeof(T));
            const Word cleared = Word(word[i / per_word] & ~(Word(Bits(~Bits(0))) << shift));
            word[i / per_word] = Word(cleared | Word(bit_cast<Bits>(element)) << shift);
        }
    }
};

// Reverse the elements of a vector.
template <typename T, int Length> __device__ __forceinline__ Vector<T, Length> reversed(const Vector<T, Length>& v) {
    using V = Vector<T, Length>;
    V turned{};
    if constexpr (V::bytes >= 4 && sizeof(T) < 4) {
#pragma unroll
        for (int w = 0; w < V::words; ++w) {
            turned.word[w] = __byte_perm(v.word[V::words - 1 - w], 0, sizeof(T) == 1 ? 0x0123 : 0x1032);
        }
    } else {
#pragma unroll
        for (int i = 0; i < Length; ++i) turned.set(i, v.get(Length - 1 - i));
    }
    return turned;
}

// The address must be aligned to the whole vector, in global or shared memory.
template <typename V> __device__ __forceinline__ V load(const void* address) {
    return *static_cast<const V*>(address);
}
template <typename V> __device__ __forceinline__ void store(void* address, const V& vector) {
    *static_cast<V*>(address) = vector;
}

// Global memory only: always one instruction.
template <typename V> __device__ __forceinline__ V load_global(const void* address) {
    if constexpr (V::words == 1) {
        return load<V>(address);
    } else {
        V vector;
        load_words(address, vector.word);
        return vector;
    }
}
template <typename V> __device__ __forceinline__ void store_global(void* address, const V& vector) {
    if constexpr (V::words == 1) store(address, vector);
    else store_words(address, vector.word);
}

}  // namespace sg
