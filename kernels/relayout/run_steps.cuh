// Moves a run that is contiguous on both sides, with vectors of different lengths to load and to store.
//
// In one step, `lanes` lanes move lanes * length elements. If the sides' vectors have different numbers of elements, a
// lane's longer vector corresponds to several shorter ones, and storing these from one lane would leave gaps: 4 stores
// of 16 bytes, 64 bytes apart. Instead every access is coalesced, and the narrower elements change lanes in shared
// memory. uint8 to float16, 16 bytes each, 32 lanes:
//
//     load        lane 0: 0-15       lane 1: 16-31     …                                 32 x 16 B
//     exchange    lane 0: 0-7, 256-263    lane 1: 8-15, 264-271    …                     in bytes, before they widen
//     store 0     lane 0: 0-7        lane 1: 8-15      …      lane 31: 248-255           32 x 16 B
//     store 1     lane 0: 256-263    lane 1: 264-271   …      lane 31: 504-511           32 x 16 B
#pragma once
#include "conversion.cuh"

namespace sg {

// Bounds-check every access (edges) or none (interior).
template <bool Value> struct Checks { static constexpr bool value = Value; };

// Customisation point: turns a loaded vector into the value to convert; the identity by default.
template <typename T, int N> __device__ __forceinline__ const Vector<T, N>& arrived(const Vector<T, N>& loaded) {
    return loaded;
}

template <typename Conversion, int LoadBytes, int StoreBytes> struct RunStep {
    using Source = typename Conversion::Source;
    using Target = typename Conversion::Target;
    static constexpr int load_length = LoadBytes / int(sizeof(Source));
    static constexpr int store_length = StoreBytes / int(sizeof(Target));
    static constexpr int length = load_length > store_length ? load_length : store_length;
    static constexpr int loads = length / load_length;
    static constexpr int stores = length / store_length;
    using Loaded = Vector<Source, load_length>;
    using Stored = Vector<Target, store_length>;

    static constexpr bool exchanges = load_length != store_length;
    // Bytes of one lane and step: those of the longer vector, source or target.
    static constexpr int exchange_bytes = loads == 1 ? LoadBytes : StoreBytes;
    // The place of a byte in the group's part of the exchange. Without a rotation, the parts of a warp's groups would
    // conflict in the same banks. The unit of the rotation is a round of accesses or a long vector, which stays whole.
    static __device__ __forceinline__ uint32 turned(uint32 place, uint32 lane, uint32 lanes) {
        constexpr uint32 piece_bytes = exchange_bytes / (loads * stores);
        const uint32 beside = (lanes < 8 ? lanes : 8) * piece_bytes;
        const uint32 step = beside < uint32(exchange_bytes) ? uint32(exchange_bytes) : beside;
        return (place + (threadIdx.x % 32 - lane) / 8 * step) & (lanes * exchange_bytes - 1);
    }

    // Moves Steps steps. `load_piece(step, piece)` returns one of the lane's `loads` vectors of a step, or a value that
    // `arrived` turns into one; vector `piece` starts (piece * lanes + lane) * load_length elements into the step.
    // `store_piece(step, piece, vector)` is the same for the target. `convert(step, element, vector)` converts a vector
    // that starts `element` elements into the step. All 32 lanes of a warp must call this. `exchange` is the group's
    // shared memory: lanes * exchange_bytes for the first step, and as much for each further one, `exchange_stride`
    // apart.
    template <int Steps, typename Load, typename Convert, typename Store>
    static __device__ __forceinline__ void move(uint32 lane, uint32 lanes, uint8* exchange, uint32 exchange_stride,
                                                Load load_piece, Convert convert, Store store_piece) {
        decltype(load_piece(0, 0)) loaded[Steps][loads];
#pragma unroll
        for (int step = 0; step < Steps; ++step) {
#pragma unroll
            for (int piece = 0; piece < loads; ++piece) loaded[step][piece] = load_piece(step, piece);
        }
        if constexpr (exchanges) {
#pragma unroll
            for (int step = 0; step < Steps; ++step) {
                uint8* shared = exchange + step * exchange_stride;
                if constexpr (loads == 1) {
                    store(shared + turned(lane * uint32(sizeof(Loaded)), lane, lanes), arrived(loaded[step][0]));
                } else {
                    using Piece = Vector<Target, load_length>;
#pragma unroll
                    for (int piece = 0; piece < loads; ++piece) {
                        const uint32 place = piece * lanes + lane;
                        const Piece converted = convert(step, place * load_length, arrived(loaded[step][piece]));
                        store(shared + turned(place * uint32(sizeof(Piece)), lane, lanes), converted);
                    }
                }
            }
            __syncwarp();
        }
#pragma unroll
        for (int step = 0; step < Steps; ++step) {
            const uint8* shared = exchange + step * exchange_stride;
            if constexpr (!exchanges) {
                store_piece(step, 0, convert(step, lane * length, arrived(loaded[step][0])));
            } else if constexpr (loads == 1) {
                using Piece = Vector<Source, store_length>;
#pragma unroll
                for (int piece = 0; piece < stores; ++piece) {
                    const uint32 place = piece * lanes + lane;
                    const Piece source = load<Piece>(shared + turned(place * uint32(sizeof(Piece)), lane, lanes));
                    store_piece(step, piece, convert(step, place * store_length, source));
                }
            } else {
                store_piece(step, 0, load<Stored>(shared + turned(lane * uint32(sizeof(Stored)), lane, lanes)));
            }
        }
    }
};

}  // namespace sg
