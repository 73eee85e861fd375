// Transposes of elements of 1, 2, 4 and 8 bytes, and the loop of their chains.
#include "table.hpp"
namespace LEVEL {
#include "transpose.hpp"

constexpr Move transposed[] = {transpose<uint8_t>, transpose<uint16_t>, transpose<uint32_t>, transpose<uint64_t>};
constexpr Loop transpose_loops[] = {transposes};

const Family families[] = {FAMILY("transpose", transposed), FAMILY("transposes", transpose_loops)};
}  // namespace LEVEL

UNIT(transpose)
