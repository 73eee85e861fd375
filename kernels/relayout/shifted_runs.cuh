// Unaligned runs, staged between global and shared memory.
//
// Whole aligned vectors of a run move as such; the elements before the first and after the last of them move one by
// one. A run that was read has the same offset from a 16-byte boundary in shared as in global memory, and threads load
// funnel-shifted words from it:
//
//     global    | . . . a b c d e | f g h i j k l m | n o p . . . . .        a b c and n o p: element by element
//     shared    | . . . a b c d e | f g h i j k l m | n o p
//
// A run to be written begins at a word of shared memory, at most 3 bytes after the offset of its first vector. A vector
// is then 16 aligned bytes and the next word, funnel-shifted.
#pragma once
#include "indexing.cuh"
#include "vectors.cuh"

namespace sg {

// Load `words` unaligned words of shared memory, each funnel-shifted from the two aligned words that contain it.
template <int Words> __device__ __forceinline__ void load_shifted(const uint8* address, uint32 (&words)[Words]) {
    const uint32 beside = uint32(uint64(address) % 4);
    const uint8* aligned = address - beside;
    uint32 low = load<Vector<uint32, 1>>(aligned).word[0];
#pragma unroll
    for (int w = 0; w < Words; ++w) {
        const uint32 high = load<Vector<uint32, 1>>(aligned + 4 * (w + 1)).word[0];
        words[w] = __funnelshift_r(low, high, beside * 8);
        low = high;
    }
}

// Store words to a word-aligned address.
template <int Words>
__device__ __forceinline__ void store_words_apart(uint8* address, const uint32 (&words)[Words]) {
#pragma unroll
    for (int w = 0; w < Words; ++w) store(address + 4 * w, Vector<uint32, 1>{{words[w]}});
}

// Runs of `count` elements, each `run_bytes` in shared memory: one in each plane of each row. Rows are `step` apart,
// and `plane_offset(c)` is the offset of plane `c`. A single run, such as the pixels of one row, needs no division, and
// its vectors have one common offset.
template <typename T, typename Index, int Threads, int Planes, bool IsOneRow, typename PlaneOffset>
struct ShiftedRuns {
    static constexpr int bytes = 16;
    static constexpr int length = bytes / int(sizeof(T));
    static constexpr bool is_one = IsOneRow && Planes == 1;
    using V = Vector<T, length>;
    using One = Vector<T, 1>;

    uint8* memory;
    int run_bytes, rows, count;
    int counted_back;  // elements before where groups of elements are counted back from; 0 where they run forwards
    Index step;
    PlaneOffset plane_offset;

    // Elements of the run's first vector that precede the run.
    static __device__ __forceinline__ int lead(const T* run) {
        return int(uint32(uint64(run)) / uint32(sizeof(T)) % uint32(length));
    }
    // The run with a given number; the planes of a row are consecutive.
    template <typename Pointer> __device__ __forceinline__ Pointer run(Pointer first, int number) const {
        const int row = IsOneRow ? 0 : number / Planes;
        Pointer start = IsOneRow ? first : first + Signed<Index>(Index(row) * step);
        if constexpr (Planes > 1) start += plane_offset(number - row * Planes);
        return start;
    }

    // The address in shared memory of the first element of a run that was read, or that is to be written.
    __device__ __forceinline__ uint8* read_place(const T* first, int number) const {
        return memory + number * run_bytes + lead(run(first, number)) * int(sizeof(T));
    }
    __device__ __forceinline__ uint8* written_place(const T* first, int number) const {
        const int before = lead(run(first, number));
        return memory + number * run_bytes + before * int(sizeof(T)) + beside(before);
    }
    // Bytes by which a run is moved from its vectors' offset, so that groups of elements begin at whole words.
    __device__ __forceinline__ int beside(int before) const {
        return int(uint32(-(before + counted_back) * int(sizeof(T))) % 4);
    }

    // The run and the vector in it of vector `number`; `vectors` is the most that a run may have.
    static __device__ __forceinline__ Quotient<uint32> place_of(int number, const Divisor<uint32>& vectors) {
        return is_one ? Quotient<uint32>{0, uint32(number)} : divide(uint32(number), vectors);
    }
    __device__ __forceinline__ int all(const T* first, const Divisor<uint32>& vectors) const {
        return is_one ? (lead(first) + count) / length : int(vectors.divisor) * rows * Planes;
    }

    __device__ __forceinline__ void read(const T* first, const Divisor<uint32>& vectors) const {
        constexpr int loads_held = 4;
        const int end = all(first, vectors);
        for (int number = int(threadIdx.x); number < end; number += loads_held * Threads) {
            V held[loads_held];
            int places[loads_held];
#pragma unroll
            for (int i = 0; i < loads_held; ++i) {
                const int own = number + i * Threads;
                // After the last vector there may be no plane.
                const Quotient<uint32> at = place_of(own < end ? own : 0, vectors);
                const T* start = run(first, int(at.quotient));
                const int place = int(at.remainder) * length, element = place - lead(start);
                const bool there = own < end && element >= 0 && (is_one || element + length <= count);
                places[i] = there ? int(at.quotient) * run_bytes + int(at.remainder) * bytes : -1;
                if (there) held[i] = load_global<V>(start + element);
            }
#pragma unroll
            for (int i = 0; i < loads_held; ++i) {
                if (places[i] >= 0) store(memory + places[i], held[i]);
            }
        }
        for_each_end(first, [&](const T* start, int number, int element) {
            store(read_place(first, number) + element * int(sizeof(T)), load<One>(start + element));
        });
    }

    __device__ __forceinline__ void write(T* first, const Divisor<uint32>& vectors) const {
        const int end = all(first, vectors);
#pragma unroll 2
        for (int number = int(threadIdx.x); number < end; number += Threads) {
            const Quotient<uint32> at = place_of(number, vectors);
            T* start = run(first, int(at.quotient));
            const int before = lead(start), element = int(at.remainder) * length - before;
            if (element < 0 || (!is_one && element + length > count)) continue;
            const uint8* place = memory + int(at.quotient) * run_bytes + int(at.remainder) * bytes;
            V vector = load<V>(place);
            if constexpr (sizeof(T) < 4) {
                const uint32 last = load<Vector<uint32, 1>>(place + bytes).word[0];
                const uint32 shift = uint32(beside(before)) * 8;
#pragma unroll
                for (int w = 0; w < V::words; ++w) {
                    const uint32 next = w + 1 < V::words ? vector.word[w + 1 < V::words ? w + 1 : w] : last;
                    vector.word[w] = __funnelshift_r(vector.word[w], next, shift);
                }
            }
            store_global(start + element, vector);
        }
        for_each_end(first, [&](T* start, int number, int element) {
            store(start + element, load<One>(written_place(first, number) + element * int(sizeof(T))));
        });
    }

  private:
    // The elements of each run outside its whole vectors: those of its first vector, then those of its last.
    template <typename Pointer, typename Move>
    __device__ __forceinline__ void for_each_end(Pointer first, Move move) const {
#pragma unroll 1
        for (int i = int(threadIdx.x); i < rows * Planes * 2 * length; i += Threads) {
            const int number = is_one ? 0 : i / (2 * length), place = i % (2 * length);
            const Pointer start = run(first, number);
            const int before = lead(start), end = before + count, whole = end / length * length;
            const bool at_start = place < length;
            // A whole first vector has no such elements; a first vector that is also the last is counted once.
            const int element = (at_start ? place : whole + place - length) - before;
            const bool there = at_start ? before > 0 || whole == 0 : whole > 0;
            if (there && element >= 0 && element < count) move(start, number, element);
        }
    }
};

}  // namespace sg
