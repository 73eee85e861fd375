// Raw sensors: packed samples of 10 and 12 bits as numbers of 16.
//
// One thread unpacks one group: 4 samples in 5 bytes, or 2 samples in 3. It loads the bytes one by one: groups lie
// at any address, joins them to a word, and takes two fields of every sample out of it:
//
//     bytes      b0 b1 b2 b3 b4                      group of mipi-raw10
//     word       b4'b3'b2'b1'b0
//     sample i   ((word >> right) & mask) << left, twice, from the constant bank
//
// Samples are stored as one vector where the target's rows allow it. Neighbouring threads have neighbouring groups, so
// loads and stores share cache lines.
//
// Bytes moved: each byte of the source once, and each sample of the target once.
#include "indexing.cuh"
#include "vectors.cuh"

namespace sg {

struct RawPolicy {
    int bytes, count;  // of a group: bytes, and samples
    bool of_vectors;
};

struct RawField { uint32 right, mask, left; };

template <typename Index, RawPolicy policy> struct RawParameters {
    const uint8* source;
    uint8* target;
    RawField fields[2 * policy.count];  // two for each sample
    Divisor<Index> groups;              // of a row
    int64 pitch;                        // bytes from one row to the next
    Index row_stride, column_stride, offset;  // of the target, in elements
    Index items;                        // groups
};

template <typename Index, RawPolicy policy>
__global__ void __launch_bounds__(256) unpack_raw(__grid_constant__ const RawParameters<Index, policy> p) {
    const Index number = linear_block<Index>() * 256 + threadIdx.x;
    if (number >= p.items) return;
    const Quotient<Index> at = divide(number, p.groups);
    const uint8* from = p.source + int64(at.quotient) * p.pitch + int64(at.remainder) * policy.bytes;
    uint64 word = 0;
#pragma unroll
    for (int i = 0; i < policy.bytes; ++i) word |= uint64(load<uint8>(from + i)) << 8 * i;
    Vector<uint16, policy.count> samples{};
#pragma unroll
    for (int i = 0; i < policy.count; ++i) {
        const RawField upper = p.fields[2 * i], lower = p.fields[2 * i + 1];
        const uint32 first = (uint32(word >> upper.right) & upper.mask) << upper.left;
        const uint32 second = (uint32(word >> lower.right) & lower.mask) << lower.left;
        samples.set(i, uint16(first | second));
    }
    uint16* const target = reinterpret_cast<uint16*>(p.target) +
                           Signed<Index>(p.offset + at.quotient * p.row_stride +
                                         at.remainder * policy.count * p.column_stride);
    if constexpr (policy.of_vectors) {
        store_global(target, samples);
    } else {
#pragma unroll
        for (int i = 0; i < policy.count; ++i) {
            store(target + Signed<Index>(Index(i) * p.column_stride), samples.get(i));
        }
    }
}

}  // namespace sg
