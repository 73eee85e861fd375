// Shared parts of kernels that move tiles: vectors cut at a tensor's edge, and the source of a channel's number.
#pragma once
#include "indexing.cuh"
#include "vectors.cuh"

namespace sg {

// The axis over the output channels: none, one fixed within a block, the axis along which the target is contiguous, or
// the one along which the source is.
enum class ChannelAxis { none, block, target, source };

// Load the first `count` elements at an aligned address, the rest as 0. Nothing after them is read.
template <typename V> __device__ __forceinline__ V load_first(const typename V::Element* address, int count) {
    if (count >= V::length) return load_global<V>(address);
    V vector{};
    if (count <= 0) return vector;
#pragma unroll
    for (int i = 0; i + 1 < V::length; ++i) {
        if (i < count) vector.set(i, address[i]);
    }
    return vector;
}

// Store the first `count` elements of a vector to an aligned address. Nothing after them is written.
template <typename V> __device__ __forceinline__ void store_first(typename V::Element* address, const V& vector,
                                                                  int count) {
    if (count >= V::length) return store_global(address, vector);
#pragma unroll
    for (int i = 0; i + 1 < V::length; ++i) {
        if (i < count) address[i] = vector.get(i);
    }
}

// How many of `extent` positions from `start` on are below `size`; not negative.
template <typename Index> __device__ __forceinline__ int positions_left(Index size, Index start, int extent) {
    return start >= size ? 0 : size - start < Index(extent) ? int(size - start) : extent;
}

}  // namespace sg
