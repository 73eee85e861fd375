// Pixels: raw samples.
#include "table.hpp"
namespace LEVEL {
#include "raw.hpp"

constexpr Loop raw_loops[] = {raw};

const Family families[] = {FAMILY("raw", raw_loops)};
}  // namespace LEVEL

UNIT(pixels)
