// The loops of a unit (a .cpp file) for one level of instructions, by name and place: what Python looks up.
//
// A unit is compiled once a level, with the level's name as LEVEL. Each level has a namespace of its own, else the linker
// may keep one level's instructions for the templates of all.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct Family { const char* name; int32_t count; const void* const* functions; };
struct Unit { const char* level; int32_t count; const Family* families; };

#define TEXT(name) TEXT_OF(name)
#define TEXT_OF(name) #name
#define JOINED(unit, level) JOINED_OF(unit, level)
#define JOINED_OF(unit, level) unit_##unit##_##level

#define FAMILY(name, table) {name, sizeof table / sizeof(void*), (const void* const*)&table}
#define UNIT(name) \
    extern "C" const Unit JOINED(name, LEVEL) = {TEXT(LEVEL), sizeof LEVEL::families / sizeof(Family), LEVEL::families};
