// Transposes of elements of 1, 2, 4 and 8 bytes, conversions in them, and the loop of their chains.
#include "table.hpp"
namespace LEVEL {
#include "transpose.hpp"

constexpr Move transposed[] = {transpose<uint8_t>, transpose<uint16_t>, transpose<uint32_t>, transpose<uint64_t>};
constexpr Loop transpose_loops[] = {transposes};

// The pairs of types that people have; the first ones with a scale and a bias, too. The planner's side is `IN_REGISTERS`
// and `_SCALED` in stridedgpu/devices/cpu/native/transpose.py.
template <class S, class T> struct Pair {};
template <class Arithmetic, class... S, class... T> constexpr auto pairs(Pair<S, T>...) {
    struct Converted { Move move[sizeof...(S)]; };
    return Converted{{transpose_converted<S, T, Arithmetic>...}};
}
#define SCALED Pair<uint8_t, half>(), Pair<uint8_t, Bfloat16>(), Pair<uint8_t, float>(), Pair<float, uint8_t>(), Pair<float, half>()
constexpr auto scaled = pairs<MultiplyAdd>(SCALED);
constexpr auto converted_only = pairs<Nothing>(SCALED,
    Pair<uint8_t, int32_t>(), Pair<uint16_t, float>(), Pair<int16_t, float>(), Pair<half, float>(), Pair<Bfloat16, float>(),
    Pair<float, double>(), Pair<float, Bfloat16>(), Pair<float, int8_t>(), Pair<half, uint8_t>(), Pair<float, int32_t>(),
    Pair<int32_t, float>(), Pair<double, float>());

const Family families[] = {
    FAMILY("transpose", transposed), FAMILY("transpose converted", converted_only), FAMILY("transpose scaled", scaled),
    FAMILY("transposes", transpose_loops),
};
}  // namespace LEVEL

UNIT(transpose)
