// Family B, unaligned rows of elements of up to 4 bytes: the innermost run is contiguous on both sides, but source and
// target have different offsets in their vectors and words.
//
// Places of a row are numbered from the start of the aligned target vector with its first element. The target is stored
// in whole vectors. Each is funnel-shifted from the aligned source words that contain it:
//
//     source   | . a b c | d e f g | h i j k |        words, each loaded once: adjacent lanes, adjacent words
//     shared   | . a b c | d e f g | h i j k |        words of a chunk, and the one after them
//     target   | . . . a | b c d e | f g h i | j k    a vector is its words and the next one, shifted; the
//                                                     ends of a row move element by element
//
// Words of elements of 4 bytes need no shifts; they change lanes as in rows.cu, after they are converted. A word only
// partially inside the buffer is not loaded; its elements move one by one, in the first and the last row only. The
// loads of a row's ends are in flight together with those of its words.
//
// Bytes moved: each element once in and once out.
#include "row_chunks.cuh"

namespace sg {

struct ShiftedRowsPolicy {
    int store_bytes;   // of one access; loads are words
    int steps;         // of a chunk: in each, a lane stores one vector
    bool whole_warps;  // groups are of 32 lanes throughout
    bool backwards;    // the source runs against the target
    int rank;          // axes over rows and chunks
    Channels affines, order;
};

template <typename Conversion, typename Index, ShiftedRowsPolicy policy> struct ShiftedRowsParameters {
    RowChunks<Conversion, Index, policy> chunks;
    uint64 source_bytes;  // that may be read, from the lowest element on
};

// The aligned word that contains the element at an address, and where the element is in it. Backwards, words are
// numbered downwards, and the elements of each are reversed once it is loaded.
template <typename Source, bool Backwards> struct SplitWord {
    const uint8* word;
    uint32 shift;  // bits

    explicit __device__ __forceinline__ SplitWord(const Source* element) {
        if constexpr (sizeof(Source) == 4) {
            word = reinterpret_cast<const uint8*>(element);
            shift = 0;
        } else {
            const uint32 beside = uint32(uint64(element) % 4);
            word = reinterpret_cast<const uint8*>(element) - beside;
            shift = 8 * (Backwards ? uint32(4 - sizeof(Source)) - beside : beside);
        }
    }

    // Whether the words of a vector that begins here, up to its first `words`, are inside some memory.
    __device__ __forceinline__ bool lies_in(const uint8* first, const uint8* end, int words) const {
        const int others = 4 * (words - 1 + (shift ? 1 : 0));
        return uint64(Backwards ? word - others : word) >= uint64(first) &&
               uint64(Backwards ? word + 4 : word + others + 4) <= uint64(end);
    }
};

// A vector of a chunk whose words are in shared memory: the one `byte` bytes behind the chunk's first word, shifted.
template <typename V> __device__ __forceinline__ V shifted(const uint8* words, uint32 byte, uint32 shift) {
    V vector{};
    const uint8* word = words + (V::bytes < 4 ? byte & ~3u : byte);
    uint32 low = load<uint32>(word);
    if constexpr (V::bytes < 4) {
        vector.word[0] = typename V::Word(__funnelshift_r(low, load<uint32>(word + 4), shift) >> (byte % 4 * 8));
    } else {
        const V held = load<V>(word);
        const uint32 after = load<uint32>(word + V::bytes);
#pragma unroll
        for (int w = 0; w < V::words; ++w) {
            const uint32 high = w + 1 < V::words ? held.word[w + 1 < V::words ? w + 1 : w] : after;
            vector.word[w] = __funnelshift_r(held.word[w], high, shift);
        }
    }
    return vector;
}

template <typename Conversion, typename Index, ShiftedRowsPolicy policy>
__global__ void __launch_bounds__(256, 2) copy_shifted_rows(
    __grid_constant__ const ShiftedRowsParameters<Conversion, Index, policy> p) {
    using Step = RunStep<Conversion, 4, policy.store_bytes>;
    using Source = typename Step::Source;
    using Target = typename Step::Target;
    using Loaded = typename Step::Loaded;
    using Stored = typename Step::Stored;
    using Split = SplitWord<Source, policy.backwards>;
    static_assert(sizeof(Source) <= 4, "larger elements are vectors of words");
    constexpr int direction = policy.backwards ? -1 : 1;
    constexpr bool splits = sizeof(Source) < 4;

    const auto& chunks = p.chunks;
    const LaneOfGroup place_in_block(policy.whole_warps ? 5 : chunks.lanes_log2);
    const uint32 lanes = place_in_block.lanes, lane = place_in_block.lane;
    const uint32 groups = place_in_block.groups, group = place_in_block.group;
    const uint32 chunk = uint32(policy.steps * Step::length) * lanes;  // places
    const Index number = linear_block<Index>() * groups + group;
    const bool there = number < chunks.items;

    // The address of the chunk's first place on either side, the word of that place and the shift to it.
    Index coordinates[2] = {0, 0};
    const Offsets<Index> offsets =
        chunks.axes.template unravel<2>(there ? number : 0, {chunks.chunk_axis, chunks.channel_axis}, coordinates);
    const Index start = coordinates[0] * chunk, channel = coordinates[1];
    const auto constants = chunks.affines.of(channel);
    Index source = chunks.source_offset + Index(offsets.source);
    if constexpr (policy.order != Channels::alike) source += chunks.order.source_offset(channel);
    Target* const element = reinterpret_cast<Target*>(chunks.target) + offsets.target;
    const uint32 before = uint32(uint64(element) / sizeof(Target)) % Step::store_length;
    Target* const to = element - before;
    const Source* const from =
        reinterpret_cast<const Source*>(chunks.source) + Signed<Index>(source) - direction * int(before);
    const Split split(from);

    // Places of the row: those of its elements, and those of whole vectors whose words are inside the buffer.
    const Index end = before + chunks.count;
    Index vectors = before ? Step::length : 0, vectors_end = end / Step::length * Step::length;
    const auto is_readable = [&](Index place) {
        const Signed<Index> distance = direction * (Signed<Index>(place) - Signed<Index>(start));
        return Split(from + distance).lies_in(chunks.source, chunks.source + p.source_bytes, Step::loads);
    };
    if (!is_readable(vectors)) vectors += Step::length;
    if (vectors < vectors_end && !is_readable(vectors_end - Step::length)) vectors_end -= Step::length;
    if (vectors_end < vectors) vectors_end = vectors;
    const auto in_chunk = [&](Index place) {
        return !there || place <= start ? 0 : int(place - start < Index(chunk) ? place - start : Index(chunk));
    };
    // Those of the chunk.
    const int first = in_chunk(before), last = in_chunk(end);
    const int whole_first = in_chunk(vectors), whole_last = in_chunk(vectors_end);

    // The row's ends: its places in the chunk without those of whole vectors.
    const int head = whole_first - first, ends = head + last - whole_last;
    const auto end_place = [&](int i) { return i < head ? first + i : whole_last + i - head; };
    Source first_end;
    const auto load_first_end = [&] {
        if (int(lane) < ends) first_end = load<Source>(from + direction * end_place(int(lane)));
    };

    // Of words that are split, shared memory has those of each chunk and one more, with room between the chunks, so
    // that those of a warp's groups are in different banks. A group has two lanes and more,
    // but for vectors of one element, whose rows may be one word.
    constexpr int words_bytes = policy.steps * Step::length * int(sizeof(Source));  // of a lane
    constexpr int most_groups = Step::store_length > 1 ? 128 : 256;
    constexpr int shared_bytes = splits ? 256 * words_bytes + most_groups * 32
                                        : Step::exchanges ? policy.steps * 256 * Step::exchange_bytes : 1;
    alignas(32) __shared__ uint8 exchange[shared_bytes];

    const auto move_chunk = [&](auto checks) {
        const auto is_whole = [&](uint32 place) {
            return !checks.value || place - uint32(whole_first) < uint32(whole_last - whole_first);
        };
        if constexpr (splits) {
            uint8* const words = exchange + group * (lanes * uint32(words_bytes) + (lanes < 8 ? 32 : 4 * lanes));
            const auto is_loaded = [&](uint32 place) {
                return is_whole(place) || (split.shift != 0 && place == uint32(whole_last) && whole_first < whole_last);
            };
            const auto word_at = [&](uint32 place) {
                return load<Loaded>(split.word + direction * int(place * sizeof(Source)));
            };
            const auto put = [&](int w, const Loaded& word) {
                if constexpr (policy.backwards) store(words + (w * lanes + lane) * 4, reversed(word));
                else store(words + (w * lanes + lane) * 4, word);
            };
            constexpr int count = words_bytes / 4;
            Loaded held[count]{}, after{};
#pragma unroll
            for (int w = 0; w < count; ++w) {
                const uint32 place = (w * lanes + lane) * Step::load_length;
                if (is_loaded(place)) held[w] = word_at(place);
            }
            // The word after the chunk.
            const bool has_after = lane == 0 && (checks.value ? is_loaded(chunk) : split.shift != 0);
            if (has_after) after = word_at(chunk);
            load_first_end();
#pragma unroll
            for (int w = 0; w < count; ++w) put(w, held[w]);
            if (lane == 0) put(count, after);
            __syncwarp();
#pragma unroll
            for (int piece = 0; piece < policy.steps * Step::stores; ++piece) {
                const uint32 place = (piece * lanes + lane) * Step::store_length;
                using Piece = Vector<Source, Step::store_length>;
                const Piece loaded = shifted<Piece>(words, place * uint32(sizeof(Source)), split.shift);
                const auto converted = Conversion::apply(loaded, constants);
                if (is_whole(place)) store_global(to + place, converted);
            }
        } else {
            load_first_end();
            Step::template move<policy.steps>(
                lane, lanes, exchange + (Step::exchanges ? (threadIdx.x - lane) * Step::exchange_bytes : 0),
                256 * Step::exchange_bytes,
                [&](int step, int piece) {
                    const uint32 place = (step * Step::loads + piece) * lanes + lane;
                    return is_whole(place) ? load<Loaded>(from + direction * int(place)) : Loaded{};
                },
                [&](int, uint32, const auto& vector) { return Conversion::apply(vector, constants); },
                [&](int step, int piece, const Stored& vector) {
                    const uint32 place = ((step * Step::stores + piece) * lanes + lane) * Step::store_length;
                    if (is_whole(place)) store_global(to + place, vector);
                });
        }
    };
    if (policy.whole_warps && whole_last - whole_first == int(chunk)) {
        move_chunk(Checks<false>{});
        return;
    }
    move_chunk(Checks<true>{});

    if (int(lane) < ends) store(to + end_place(int(lane)), Conversion::apply(first_end, constants));
#pragma unroll 1
    for (int i = int(lane + lanes); i < ends; i += int(lanes)) {
        const int place = end_place(i);
        store(to + place, Conversion::apply(load<Source>(from + direction * place), constants));
    }
}

}  // namespace sg
