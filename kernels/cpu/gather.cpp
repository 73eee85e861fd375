// Gathers: indices by type and mode, runs by length, rows in registers, and the check of indices.
#include "table.hpp"
namespace LEVEL {
#include "index_check.hpp"
#include "gather_registers.hpp"

// [int32, int64, uint32, uint64][checked, clipped, wrapped][any, small]
template <class... I> struct Resolves { Resolve functions[sizeof...(I)][3][2] = {
    {{resolve<I, CHECKED, false>, resolve<I, CHECKED, true>}, {resolve<I, CLIPPED, false>, resolve<I, CLIPPED, true>},
     {resolve<I, WRAPPED, false>, resolve<I, WRAPPED, true>}}...}; };
constexpr Resolves<int32_t, int64_t, uint32_t, uint64_t> resolves;

// [gather, scatter][1 to 256 bytes; up to twice 2 to 64; up to 256; longer]
template <bool... scatters> struct Transfers { Transfer functions[sizeof...(scatters)][17] = {
    {transfer<EXACT, 1, scatters>, transfer<EXACT, 2, scatters>, transfer<EXACT, 4, scatters>, transfer<EXACT, 8, scatters>,
     transfer<EXACT, 16, scatters>, transfer<EXACT, 32, scatters>, transfer<EXACT, 64, scatters>, transfer<EXACT, 128, scatters>,
     transfer<EXACT, 256, scatters>, transfer<TWO, 2, scatters>, transfer<TWO, 4, scatters>, transfer<TWO, 8, scatters>,
     transfer<TWO, 16, scatters>, transfer<TWO, 32, scatters>, transfer<TWO, 64, scatters>, transfer<FOUR, 64, scatters>, transfer<LONG, 64, scatters>}...}; };
constexpr Transfers<false, true> transfers;
// [gather, scatter][1, 2, 4, 8 bytes][checked int32, checked int64; clipped int32, int64, uint32, uint64, for gathers alone]
template <int... W> struct ElementsOf {
    MoveElements gathers[sizeof...(W)][6] = {
        {elements<int32_t, CHECKED, W, false>, elements<int64_t, CHECKED, W, false>, elements<int32_t, CLIPPED, W, false>,
         elements<int64_t, CLIPPED, W, false>, elements<uint32_t, CLIPPED, W, false>, elements<uint64_t, CLIPPED, W, false>}...};
    MoveElements scatters[sizeof...(W)][2] = {{elements<int32_t, CHECKED, W, true>, elements<int64_t, CHECKED, W, true>}...};
};
constexpr ElementsOf<1, 2, 4, 8> moves_of_elements;

constexpr Loop gathers[] = {gather};
constexpr Loop checks[] = {check<int32_t>, check<int64_t>, check<uint32_t>, check<uint64_t>};

const Family families[] = {
    FAMILY("gather", gathers), FAMILY("resolve", resolves), FAMILY("runs", transfers), FAMILY("elements", moves_of_elements),
    FAMILY("index check", checks),
#if defined(__AVX512VBMI__)
    FAMILY("gather in registers", in_registers), FAMILY("positions", positions), FAMILY("lookup", lookups),
#endif
};
}  // namespace LEVEL

UNIT(gather)
