// Rows of interleaved pixels, staged between global memory and registers, for kernels that move whole pixels.
//
// Rows are staged unchanged in shared memory, in vectors for any number of channels. A thread loads a group of pixels
// from there to registers as one plane a channel, or stores it back.
//
// A thread reads its group in units of up to 16 bytes. The pitch of groups is an odd number of units, padded by one
// unit if necessary, so the same unit of adjacent groups is in different banks.
#pragma once
#include "register_shuffle.cuh"
#include "tiles.cuh"

namespace sg {

// A group of pixels in registers: Pitch planes of Length elements, each plane in parts of up to 32 bytes.
template <typename T, int Pitch, int Length> struct PixelGroup {
    static constexpr int pitch = Pitch, length = Length;
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

    // The offset in shared memory of byte `b` of a row of groups.
    static __device__ __forceinline__ int place(int b) { return b + b / bytes * (shared_bytes - bytes); }

    // Permutes need words with whole pixels of every channel; otherwise elements move one by one.
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

// A vector of a row of groups, to or from shared memory: in pieces of 16 bytes, the alignment of shared memory, or of a
// unit if a group's padding may split the vector.
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

// Rows of a tile, with the groups of each row consecutive in shared memory. Rows move in whole vectors, and the rest at
// their ends element by element. A tile of one row needs no division.
template <typename Group, typename V, int Threads> struct PixelRows {
    using Element = typename V::Element;
    using Stage = Staged<Group, V>;
    static constexpr int loads_held = 4;

    unsigned char* memory;
    int row_bytes;      // of shared memory
    int rows_left;      // of the tile
    int elements_left;  // of each row

    // From global to shared memory; `row_vectors` is how many vectors a row has.
    template <typename Index>
    __device__ __forceinline__ void read(const Element* source, Index row_step,
                                         const Divisor<uint32>& row_vectors) const {
        if (rows_left == 1) read_row(source);
        else read_rows(source, row_step, row_vectors);
        for_each_end([&](int row, int element) {
            const Index offset = Index(row) * row_step + Index(element);
            store(shared(row, element), load<One>(source + Signed<Index>(offset)));
        });
    }

    // From shared to global memory. Vectors cover gaps only if the target owns its padding.
    template <int Written, typename Index>
    __device__ __forceinline__ void write(Element* target, Index row_step, const Divisor<uint32>& row_vectors) const {
        if (rows_left == 1) write_row<Written>(target);
        else write_rows<Written>(target, row_step, row_vectors);
        for_each_end([&](int row, int element) {
            const Index offset = Index(row) * row_step + Index(element);
            if (!is_gap<Written>(element)) store(target + Signed<Index>(offset), load<One>(shared(row, element)));
        });
    }

  private:
    using One = Vector<Element, 1>;

    __device__ __forceinline__ void read_row(const Element* source) const {
        const int vectors = elements_left / V::length;
        for (int first = int(threadIdx.x); first < vectors; first += loads_held * Threads) {
            const Element* address = source + first * V::length;
            V held[loads_held];
#pragma unroll
            for (int i = 0; i < loads_held; ++i) {
                if (first + i * Threads < vectors) held[i] = load_global<V>(address + i * Threads * V::length);
            }
#pragma unroll
            for (int i = 0; i < loads_held; ++i) {
                const int number = first + i * Threads;
                if (number < vectors) Stage::put(memory, number * V::bytes, held[i]);
            }
        }
    }

    template <typename Index>
    __device__ __forceinline__ void read_rows(const Element* source, Index row_step,
                                              const Divisor<uint32>& row_vectors) const {
        const int vectors = int(row_vectors.divisor) * rows_left, whole = elements_left / V::length;
        for (int first = int(threadIdx.x); first < vectors; first += loads_held * Threads) {
            V held[loads_held];
            int places[loads_held];  // in shared memory, of the row and within it; -1 where there is nothing to move
            int rows[loads_held];
#pragma unroll
            for (int i = 0; i < loads_held; ++i) {
                const int number = first + i * Threads;
                const Quotient<uint32> at = divide(uint32(number), row_vectors);
                const bool there = number < vectors && int(at.remainder) < whole;
                places[i] = there ? int(at.remainder) * V::bytes : -1;
                rows[i] = int(at.quotient) * row_bytes;
                const Index offset = Index(at.quotient) * row_step + Index(at.remainder) * V::length;
                if (there) held[i] = load_global<V>(source + Signed<Index>(offset));
            }
#pragma unroll
            for (int i = 0; i < loads_held; ++i) {
                if (places[i] >= 0) Stage::put(memory + rows[i], places[i], held[i]);
            }
        }
    }

    template <int Written> __device__ __forceinline__ void write_row(Element* target) const {
        const int vectors = elements_left / V::length;
#pragma unroll 4
        for (int number = int(threadIdx.x); number < vectors; number += Threads) {
            if (V::length == 1 && is_gap<Written>(number)) continue;
            store_global(target + number * V::length, Stage::get(memory, number * V::bytes));
        }
    }

    template <int Written, typename Index>
    __device__ __forceinline__ void write_rows(Element* target, Index row_step,
                                               const Divisor<uint32>& row_vectors) const {
        const int vectors = int(row_vectors.divisor) * rows_left, whole = elements_left / V::length;
#pragma unroll 4
        for (int number = int(threadIdx.x); number < vectors; number += Threads) {
            const Quotient<uint32> at = divide(uint32(number), row_vectors);
            const int vector = int(at.remainder);
            if (vector >= whole || (V::length == 1 && is_gap<Written>(vector))) continue;
            const Index offset = Index(at.quotient) * row_step + Index(vector * V::length);
            store_global(target + Signed<Index>(offset),
                         Stage::get(memory + int(at.quotient) * row_bytes, vector * V::bytes));
        }
    }

    template <int Written> static __device__ __forceinline__ bool is_gap(int element) {
        return Written < Group::pitch && element % Group::pitch >= Written;
    }
    __device__ __forceinline__ unsigned char* shared(int row, int element) const {
        return memory + row * row_bytes + Group::place(element * int(sizeof(Element)));
    }

    // The elements at each row's end that fill no whole vector.
    template <typename Move> __device__ __forceinline__ void for_each_end(Move move) const {
        if constexpr (V::length > 1) {
            const int whole = elements_left / V::length * V::length;
            if (whole == elements_left) return;
#pragma unroll 1
            for (int i = int(threadIdx.x); i < rows_left * V::length; i += Threads) {
                const int element = whole + i % V::length;
                if (element < elements_left) move(i / V::length, element);
            }
        }
    }
};

}  // namespace sg
