// Rows: conversions of every pair of types, copies by size, and the loop of their chains.
#include "table.hpp"
namespace LEVEL {
#include "copy.hpp"

template <class... T> struct Types {};
typedef Types<Bool, uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t, half, Bfloat16, float, double> All;

// Conversions of every pair of types: [source][target][nothing, one constant a row, constants along it].
struct Conversions { Move move[13][13][3]; };
template <class S, class... T> constexpr void fill(Move (*to)[3], Types<T...>) {
    ((to[0][0] = convert<S, T, Nothing, false>, to[0][1] = convert<S, T, MultiplyAdd, false>, to[0][2] = convert<S, T, MultiplyAdd, true>, to++), ...);
}
template <class... S> constexpr Conversions conversions(Types<S...>) {
    Conversions table = {};
    auto* to = table.move;
    (fill<S>(*to++, All()), ...);
    return table;
}
constexpr Conversions every = conversions(All());

// The arithmetic of torchvision and transformers: [source and target][first step][one constant a row, constants along it].
template <class S, class T, bool by_products, First... first> constexpr void fill_normalized(Move (*to)[2]) {
    ((to[0][0] = convert<S, T, Normalize<first, by_products>, false>, to[0][1] = convert<S, T, Normalize<first, by_products>, true>, to++), ...);
}
struct Normalized { Move move[2][4][2]; };   // between floats of one type
struct OfBytes { Move move[3][3][2]; };      // bytes to float32, float16, bfloat16, by products in place of divisions
constexpr Normalized normalized() {
    Normalized table = {};
    fill_normalized<float, float, false, NO_FIRST, DIVIDE, MULTIPLY, MULTIPLY_WIDE>(table.move[0]);
    fill_normalized<double, double, false, NO_FIRST, DIVIDE, MULTIPLY, MULTIPLY_WIDE>(table.move[1]);
    return table;
}
constexpr OfBytes of_bytes() {
    OfBytes table = {};
    fill_normalized<uint8_t, float, true, NO_FIRST, PRODUCT, MULTIPLY>(table.move[0]);
    fill_normalized<uint8_t, half, true, NO_FIRST, PRODUCT, MULTIPLY>(table.move[1]);
    fill_normalized<uint8_t, Bfloat16, true, NO_FIRST, PRODUCT, MULTIPLY>(table.move[2]);
    return table;
}
constexpr Normalized of_floats = normalized();
constexpr OfBytes by_products = of_bytes();
constexpr Move copies[] = {copy<uint8_t>, copy<uint16_t>, copy<uint32_t>, copy<uint64_t>, copy<Sixteen>};
constexpr Move truncations[] = {convert<float, float, Truncate, false>, convert<double, double, Truncate, false>};
constexpr Loop row_loops[] = {rows};

const Family families[] = {
    FAMILY("rows", row_loops), FAMILY("copy", copies), FAMILY("convert", every), FAMILY("truncate", truncations),
    FAMILY("normalize", of_floats), FAMILY("normalize bytes", by_products),
};
}  // namespace LEVEL

UNIT(rows)
