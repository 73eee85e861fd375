// The loops of a level by name and place: what Python looks up.
#pragma once
#include <stdint.h>

struct Family { const char* name; int32_t count; const void* const* functions; };
struct Level { const char* name; int32_t count; const Family* families; };
