// Per-channel constants: scale and bias, and the channel's place in the source.
//
// Constants of up to 16 channels are in the kernel's parameter block, in the constant bank, where any lane may index
// them. More are in a table in device memory. Both are indexed by the output channel. A kernel declares its parameter
// `__grid_constant__ const`, so that a dynamic index does not copy the block to local memory.
#pragma once
#include "conversion.cuh"

namespace sg {

// alike: the same for all channels; few: up to 16, in the parameter block; many: in a table.
enum class Channels { alike, few, many };
inline constexpr int most_few_channels = 16;

// Scale and bias of each channel; `alike` and unused for a conversion without them.
template <typename Compute, Channels Kind> struct ChannelAffines;

template <typename Compute> struct ChannelAffines<Compute, Channels::alike> {
    Affine<Compute> value;
    __device__ __forceinline__ Affine<Compute> of(uint64) const { return value; }
};

template <typename Compute> struct ChannelAffines<Compute, Channels::few> {
    Affine<Compute> values[most_few_channels];
    __device__ __forceinline__ Affine<Compute> of(uint64 channel) const { return values[channel]; }
};

template <typename Compute> struct ChannelAffines<Compute, Channels::many> {
    const Vector<Compute, 2>* values;
    __device__ __forceinline__ Affine<Compute> of(uint64 channel) const {
        return bit_cast<Affine<Compute>>(load<Vector<Compute, 2>>(values + channel));
    }
};

// The source offset of each output channel, in elements: number * stride, or a table of offsets.
template <typename Index, Channels Kind> struct ChannelOrder;

template <typename Index> struct ChannelOrder<Index, Channels::alike> {
    Index source_stride;
    __device__ __forceinline__ Index source_offset(Index channel) const { return channel * source_stride; }
};

template <typename Index> struct ChannelOrder<Index, Channels::few> {
    Index offsets[most_few_channels];
    __device__ __forceinline__ Index source_offset(Index channel) const { return offsets[channel]; }
};

template <typename Index> struct ChannelOrder<Index, Channels::many> {
    const Index* offsets;
    __device__ __forceinline__ Index source_offset(Index channel) const { return offsets[channel]; }
};

}  // namespace sg
