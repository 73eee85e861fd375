// What Python calls: the tables of loops, the processor's CPUID, builtin functions around loops, and the pool.
// Everything is found by name (ctypes); only the builtin functions are called for each piece of work.
#include "pool.hpp"
#include "table.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

#define DECLARE(unit) extern "C" const Unit unit_##unit;
UNITS(DECLARE)
#define ADDRESS(unit) &unit_##unit,
static const Unit* const units[] = {UNITS(ADDRESS)};
constexpr int64_t unit_count = sizeof units / sizeof *units;

// What the library was made of and by: setup.py looks for it to see whether a library is up to date.
EXPORTED const char stridedgpu_build[];
const char stridedgpu_build[] = "stridedgpu build " BUILD;

EXPORTED void stridedgpu_connect(const Python* functions) { python = *functions; }

// The level of a unit by its number; null behind the last.
EXPORTED const char* stridedgpu_level(int64_t number) { return number < unit_count ? units[number]->level : nullptr; }

static bool same_text(const char* a, const char* b) { while (*a && *a == *b) { a++; b++; } return *a == *b; }

// The function of a level at a place of a family; null for a level, a family or a place that there is not.
EXPORTED const void* stridedgpu_function(const char* level, const char* family, int64_t place) {
    for (const Unit* unit : units)
        for (int32_t i = 0; i < unit->count; i++) {
            const Family& found = unit->families[i];
            if (same_text(unit->level, level) && same_text(found.name, family))
                return place >= 0 && place < found.count ? found.functions[place] : nullptr;
        }
    return nullptr;
}

#if defined(__x86_64__)
EXPORTED void stridedgpu_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t* words) {
    __asm__ volatile("cpuid" : "=a"(words[0]), "=b"(words[1]), "=c"(words[2]), "=d"(words[3]) : "a"(leaf), "c"(subleaf));
}
EXPORTED uint64_t stridedgpu_saved_registers() {  // XCR0, which CPUID's OSXSAVE says there is
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return uint64_t(high) << 32 | low;
}
#endif

static PyObject* nothing() { python.keep(python.none); return python.none; }

template <int N> static bool words_of(PyObject* const* arguments, intptr_t count, int64_t (&words)[N]) {
    for (int i = 0; i < N; i++) {
        words[i] = i < count ? int64_t(python.as_pointer(arguments[i])) : 0;
        if (!words[i] && i < count && python.error()) return false;
    }
    return true;
}

// The function at an address, of up to six integers, without Python's lock. `self`: bytes with the address.
EXPORTED PyObject* stridedgpu_call(PyObject* self, PyObject* const* arguments, intptr_t count) {
    typedef void (*Function)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);
    Function function = *(Function*)python.bytes(self);
    int64_t words[6];
    if (!words_of(arguments, count, words)) return nullptr;
    void* thread = python.release();
    function(words[0], words[1], words[2], words[3], words[4], words[5]);
    python.resume(thread);
    return nothing();
}

// A loop for all its items. `self`: bytes with this. Arguments: an address of each side[, of indices].
struct Bound {
    Loop loop; int64_t* parameters; int64_t items;
    int64_t source, target, indices;            // added to the addresses; that of indices is parameter 0
    int64_t source_argument, target_argument, has_indices, keeps_lock;
};
EXPORTED PyObject* stridedgpu_move(PyObject* self, PyObject* const* arguments, intptr_t count) {
    const Bound& bound = *(const Bound*)python.bytes(self);
    int64_t words[3];
    if (!words_of(arguments, count, words)) return nullptr;
    const char* source = (const char*)(words[bound.source_argument] + bound.source);
    char* target = (char*)(words[bound.target_argument] + bound.target);
    if (bound.has_indices) *bound.parameters = words[2] + bound.indices;
    if (bound.keeps_lock) bound.loop(source, target, bound.parameters, 0, bound.items);
    else {
        void* thread = python.release();
        bound.loop(source, target, bound.parameters, 0, bound.items);
        python.resume(thread);
    }
    return nothing();
}

// Run a loop's items on this thread and on idle workers of a pool. Arguments: pool, loop, source, target, parameters,
// items, threads, spins.
EXPORTED PyObject* stridedgpu_share(PyObject*, PyObject* const* arguments, intptr_t count) {
    int64_t words[8];
    if (!words_of(arguments, count, words)) return nullptr;
    void* thread = python.release();
    (*(Pool*)words[0]).run((Loop)words[1], (const char*)words[2], (char*)words[3], (const void*)words[4], words[5], words[6], words[7]);
    python.resume(thread);
    return nothing();
}

// Pools and workers are zeroed memory of Python's, which begins at a cache line.
EXPORTED int64_t stridedgpu_pool_bytes() { return sizeof(Pool); }
EXPORTED int64_t stridedgpu_worker_bytes() { return sizeof(Worker); }

// A worker's locks, which are acquired, and the functions of its affinity.
EXPORTED void stridedgpu_prepare(Worker* worker, void* wake, void* done, const Affinity* affinity) {
    worker->wake = wake; worker->done = done;
    __builtin_memcpy_inline(&worker->affinity, affinity, sizeof *affinity);
}
EXPORTED void stridedgpu_serve(Worker* worker, int64_t spins) { Pool::serve(*worker, spins); }

// A worker whose thread has begun joins a pool, unless that is full.
EXPORTED void stridedgpu_join(Pool* pool, Worker* worker, int64_t thread) {
    int64_t number = pool->count.load();
    if (number >= MOST_THREADS - 1) return;
    worker->affinity.thread = int(thread);
    pool->workers[number] = worker;
    pool->count.store(number + 1);
}
