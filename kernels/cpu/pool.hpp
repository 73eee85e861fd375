// Threads that share the items of a loop. Any number of callers may come at once, and no call depends on a worker to
// finish: a caller reserves idle workers, posts its job, works on it, takes back what no worker has picked up, and waits
// for the others. Each part is a range of the items, the same at each call: what a thread read or wrote before is in its
// caches. A thread takes its own part in chunks, then steals chunks of the others'. A worker spins, then parks on a lock
// of Python's (`PyThread_type_lock`): no pthread, futex or Win32 is named here. Workers are threads of Python that never
// need its lock.
//
//     state   FREE -> POSTED -> TAKEN -> FREE     a job is posted, picked up, finished
//             FREE <-> ASLEEP                     the worker parks on `wake`, which whoever posts releases
//             POSTED -> FREE                      the caller takes back a job that was not picked up
//             TAKEN -> AWAITED -> FREE            the caller parks on `done`, which the worker releases
//     owner   0 -> 1 -> 0                         a caller reserves the worker until its job is finished
#pragma once
#include "loops.hpp"
#include "python_abi.hpp"

template <class T> struct Atomic {  // what <atomic> has
    T value;
    T load() const { return __atomic_load_n(&value, __ATOMIC_ACQUIRE); }
    void store(T x) { __atomic_store_n(&value, x, __ATOMIC_RELEASE); }
    T exchange(T x) { return __atomic_exchange_n(&value, x, __ATOMIC_ACQ_REL); }
    T add(T x) { return __atomic_fetch_add(&value, x, __ATOMIC_ACQ_REL); }
    bool replace(T expected, T x) { return __atomic_compare_exchange_n(&value, &expected, x, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE); }
};

// Linux may wake a worker on its caller's own core, if another thread was busy on the others shortly before. The two then
// take turns there for milliseconds, and a shared call takes up to twice as long as on one thread: a caller takes its
// core out of the affinity of a worker that it wakes, and the worker, once it runs, puts it back.
struct Affinity {
    int (*get_core)();                                 // sched_getcpu; null where a system has no affinity
    int (*get)(int thread, size_t nbytes, void*);      // sched_getaffinity
    int (*set)(int thread, size_t nbytes, const void*);
    int thread;
    uint64_t cores[16];

    void keep_off_this_core() {
        if (!get_core || get(thread, sizeof cores, cores) < 0) return;
        int core = get_core();
        if (core < 0 || core >= int(8 * sizeof cores)) return;
        uint64_t &word = cores[core / 64], before = word;
        word &= ~(uint64_t(1) << core % 64);
        put_back();  // refused where the process has no other core
        word = before;
    }
    void put_back() { if (get_core) set(thread, sizeof cores, cores); }
};

enum State : int { FREE, ASLEEP, POSTED, TAKEN, AWAITED };
struct Job;
struct alignas(LINE) Worker {
    Atomic<int> state, owner;                                       // spun on: a line of their own
    alignas(LINE) Job* job; int64_t part; void *wake, *done; Affinity affinity;
};
constexpr int64_t MOST_THREADS = 256, CHUNKS = 32;  // a job is on its caller's stack
struct alignas(LINE) Part { Atomic<int64_t> begun; Worker* worker; };

struct Job {
    Loop loop; const char* source; char* target; const void* parameters; int64_t items, parts;
    Part part[MOST_THREADS];

    void work(int64_t own) {
        for (int64_t turn = 0; turn < parts; turn++) {
            int64_t p = (own + turn) % parts, begin = p * items / parts, end = (p + 1) * items / parts;
            int64_t chunk = (end - begin) / CHUNKS ? (end - begin) / CHUNKS : 1;
            for (int64_t first; (first = begin + part[p].begun.add(chunk)) < end;)
                loop(source, target, parameters, first, first + chunk < end ? first + chunk : end);
        }
    }
};

struct Pool {
    alignas(LINE) Atomic<int64_t> callers;
    Atomic<int64_t> count;
    Worker* workers[MOST_THREADS];

    static void look(const Atomic<int>& state, int wanted, bool until, int64_t spins) {
        for (; spins > 0 && (state.load() == wanted) != until; spins--)
#if defined(__x86_64__)
            __builtin_ia32_pause();
#else
            __asm__ volatile("yield");
#endif
    }
    [[noreturn]] static void serve(Worker& w, int64_t spins) {
        for (;;) {
            look(w.state, POSTED, true, spins);
            if (w.state.replace(POSTED, TAKEN)) {
                w.job->work(w.part);
                if (w.state.exchange(FREE) == AWAITED) python.release_lock(w.done);
            } else if (w.state.replace(FREE, ASLEEP)) {
                python.acquire_lock(w.wake, 1);
                w.affinity.put_back();
            }
        }
    }
    void run(Loop loop, const char* source, char* target, const void* parameters, int64_t items, int64_t threads, int64_t spins) {
        Job job;
        job.loop = loop; job.source = source; job.target = target; job.parameters = parameters; job.items = items;
        job.parts = 1; job.part[0].begun.value = 0;
        threads /= callers.add(1) + 1;  // callers at the same time divide the threads among themselves
        if (threads > items) threads = items;
        int64_t known = count.load();
        for (int64_t i = 0; i < known && job.parts < threads; i++)
            if (workers[i]->owner.replace(0, 1)) {
                job.part[job.parts].begun.value = 0;
                job.part[job.parts++].worker = workers[i];
            }
        for (int64_t p = 1; p < job.parts; p++) {
            Worker& w = *job.part[p].worker;
            w.job = &job; w.part = p;
            if (w.state.exchange(POSTED) == ASLEEP) {
                w.affinity.keep_off_this_core();
                python.release_lock(w.wake);
            }
        }
        job.work(0);
        for (int64_t p = 1; p < job.parts; p++) {
            Worker& w = *job.part[p].worker;
            if (w.state.replace(POSTED, FREE)) continue;
            look(w.state, TAKEN, false, spins);
            if (w.state.replace(TAKEN, AWAITED)) python.acquire_lock(w.done, 1);
        }
        // Workers are free after all parts are finished: until then one may still look at any part.
        for (int64_t p = 1; p < job.parts; p++) job.part[p].worker->owner.store(0);
        callers.add(-1);
    }
};
