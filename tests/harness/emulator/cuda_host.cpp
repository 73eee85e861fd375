// Runs a block's threads as fibers on one host thread, and blocks one after another.
//
// A fiber runs until it meets a barrier or a warp-wide function, and between two barriers the fibers run in the order
// asked for: forward, reversed or random. A kernel that lacks a barrier gives the wrong result in one of them. A block
// in which some threads wait for others that have finished is stopped with a message. Shared memory is filled with
// 0xA5 before each block. Bulk copies are as late as they may be, and refused where CUDA would not make them.
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>

// Last: words of CUDA are macros.
#include "job_runner.h"

#if !defined(__x86_64__)
#error "the fiber switch below is written for x86-64"
#endif

dim3 gridDim, blockDim;
uint3 blockIdx, threadIdx;

// Saves the callee's registers on the stack in use, whose pointer goes to *rdi, and goes on with the stack at rsi.
extern "C" void switch_stack(void** save, void* load);
asm(R"(
.text
switch_stack:
    pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
    ret
)");

namespace cuda_host {

unsigned char* dynamic_shared_memory = nullptr;
static unsigned dynamic_shared_bytes = 0;
Thread* current = nullptr;

void fail(const char* what) {
    std::fprintf(stderr, "emulation: %s (block %u,%u,%u thread %u,%u,%u)\n", what, blockIdx.x, blockIdx.y, blockIdx.z,
                 threadIdx.x, threadIdx.y, threadIdx.z);
    std::fflush(stderr);
    std::_Exit(3);
}

namespace {

// Repeatable with every standard library (Marsaglia's xorshift).
struct Random {
    using result_type = uint32_t;
    uint32_t state;
    explicit Random(uint32_t seed) : state(seed * 2654435761u | 1u) {}
    static constexpr uint32_t min() { return 1; }
    static constexpr uint32_t max() { return ~0u; }
    uint32_t operator()() {
        state ^= state << 13;
        state ^= state >> 17;
        return state ^= state << 5;
    }
};

// A stack that runs one thread after another.
class Fiber {
  public:
    static constexpr size_t stack_bytes = 256 << 10;
    Fiber() {
        stack_ = static_cast<char*>(mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        if (stack_ == MAP_FAILED) fail("no memory for a thread's stack");
        // What switch_stack pops: six registers, then the address to return to, 16-byte aligned as a call leaves it.
        void** top = reinterpret_cast<void**>(stack_ + stack_bytes) - 2;
        top[0] = reinterpret_cast<void*>(&Fiber::main);
        pointer_ = top - 6;
    }
    void resume() {
        void* fake_stack;
        __sanitizer_start_switch_fiber(&fake_stack, stack_, stack_bytes);
        switch_stack(&caller_pointer_, pointer_);
        __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
    }
    void suspend() {
        __sanitizer_start_switch_fiber(&fake_stack_, caller_stack_, caller_stack_bytes_);
        switch_stack(&pointer_, caller_pointer_);
        __sanitizer_finish_switch_fiber(fake_stack_, nullptr, nullptr);
    }

  private:
    static void main();
    char* stack_;
    void* pointer_;
    void* fake_stack_ = nullptr;
    inline static void* caller_pointer_ = nullptr;
    inline static const void* caller_stack_ = nullptr;
    inline static size_t caller_stack_bytes_ = 0;
};

std::vector<std::unique_ptr<Fiber>> fibers;
std::vector<Thread> threads;
unsigned arrived = 0;  // at the block's barrier
const std::function<void()>* kernel = nullptr;

void suspend_current() { fibers[current - threads.data()]->suspend(); }

void Fiber::main() {
    __sanitizer_finish_switch_fiber(nullptr, &caller_stack_, &caller_stack_bytes_);
    for (;;) {
        (*kernel)();
        current->state = State::finished;
        suspend_current();
    }
}

}  // namespace

void block_barrier() {
    current->state = State::at_block_barrier;
    current->function = "__syncthreads";
    if (++arrived == threads.size()) {
        arrived = 0;
        for (Thread& thread : threads) thread.state = State::ready;
    }
    suspend_current();
}

namespace {

void check_agreement(const Thread& one, const Thread& other) {
    const bool agree = one.function == other.function || !std::strcmp(one.function, other.function);
    if (one.mask != other.mask || !agree) fail("lanes of a warp disagree on a function");
}

// The current lane waits in a function. Whether it is the last lane of the mask to call it, which makes all ready.
bool arrives_last(const char* function, unsigned mask, uint64_t value) {
    Thread& self = *current;
    unsigned& waiting = self.warp->waiting;
    if (!(mask >> self.lane & 1)) fail("the calling lane is not in its own mask");
    self.state = State::at_warp_barrier;
    self.mask = mask;
    self.function = function;
    self.given = value;
    waiting |= 1u << self.lane;
    check_agreement(self, self.warp[__builtin_ctz(waiting & mask)]);
    if (mask & ~waiting) return false;
    for (unsigned lanes = mask; lanes; lanes &= lanes - 1) {
        Thread& other = self.warp[__builtin_ctz(lanes)];
        check_agreement(self, other);
        other.state = State::ready;
    }
    waiting &= ~mask;
    return true;
}

}  // namespace

const uint64_t* warp_exchange(const char* function, unsigned mask, uint64_t value) {
    Thread& self = *current;
    if (self.warp_lanes < 32) mask &= (1u << self.warp_lanes) - 1;
    if (arrives_last(function, mask, value)) {
        uint64_t given[32] = {};
        for (unsigned lane = 0; lane < self.warp_lanes; ++lane) given[lane] = self.warp[lane].given;
        for (unsigned lanes = mask; lanes; lanes &= lanes - 1) {
            std::memcpy(self.warp[__builtin_ctz(lanes)].received, given, sizeof(given));
        }
    }
    suspend_current();
    return self.received;
}

void warp_together(const char* function, void* operands, void (*work)(void* const (&lanes)[32])) {
    Thread& self = *current;
    if (self.warp_lanes < 32) fail("a function of whole warps, in a warp of fewer than 32 lanes");
    if (arrives_last(function, ~0u, reinterpret_cast<uint64_t>(operands))) {
        void* lanes[32];
        for (unsigned lane = 0; lane < 32; ++lane) lanes[lane] = reinterpret_cast<void*>(self.warp[lane].given);
        work(lanes);
    }
    suspend_current();
}

namespace {

struct AsyncCopy { void* to; const void* from; unsigned bytes; };

void make(std::vector<AsyncCopy>& copies) {
    for (const AsyncCopy& copy : copies) {
        __asan_unpoison_memory_region(copy.to, copy.bytes);
        std::memcpy(copy.to, copy.from, copy.bytes);
    }
    copies.clear();
}

// Poison at the target is a copy that has not come, or memory that is not there.
void check_copy(const AsyncCopy& copy) {
    if (__asan_region_is_poisoned(copy.to, copy.bytes)) fail("a copy to memory that it may not write");
    if (__asan_region_is_poisoned(const_cast<void*>(copy.from), copy.bytes)) {
        fail("a copy of memory that it may not read");
    }
}

// A phase ends when its one arrival has said how many bytes it expects, and as many are copied.
struct CopyBarrier {
    unsigned phase = 0;
    bool arrived = false;
    uint64_t expected = 0, asked = 0;
    std::vector<AsyncCopy> copies;
};
std::map<void*, CopyBarrier> copy_barriers;  // of the block, by address
std::vector<std::vector<AsyncCopy>> copies;  // that each thread of the block has asked for

CopyBarrier& barrier_at(void* address) {
    const auto found = copy_barriers.find(address);
    if (found == copy_barriers.end()) fail("a barrier of bulk copies that nobody has made");
    return found->second;
}

// Makes the copies of a phase that is complete, and begins the next one.
void end_phase(CopyBarrier& barrier) {
    if (!barrier.arrived || barrier.asked < barrier.expected) return;
    if (barrier.asked > barrier.expected) fail("bulk copies of more bytes than their barrier expects");
    make(barrier.copies);
    const unsigned next = barrier.phase + 1;
    barrier = {};
    barrier.phase = next;
}

void wake_waiting() {
    for (Thread& thread : threads) {
        if (thread.state == State::at_copy_barrier) thread.state = State::ready;
    }
}

}  // namespace

void init_barrier(void* address) {
    if (uintptr_t(address) % 8) fail("a barrier of bulk copies that is not aligned to 8 bytes");
    if (!copy_barriers.emplace(address, CopyBarrier{}).second) fail("a barrier of bulk copies is made twice");
}

void expect_bytes(void* address, unsigned bytes) {
    CopyBarrier& barrier = barrier_at(address);
    end_phase(barrier);
    if (barrier.arrived) fail("a second arrival in one phase of a barrier of bulk copies");
    barrier.arrived = true;
    barrier.expected = bytes;
    wake_waiting();
}

void bulk_copy(void* shared, const void* global, unsigned bytes, void* address) {
    if ((uintptr_t(shared) | uintptr_t(global) | bytes) % 16) fail("a bulk copy that is not of whole 16 bytes");
    check_copy({shared, global, bytes});
    CopyBarrier& barrier = barrier_at(address);
    barrier.copies.push_back({shared, global, bytes});
    barrier.asked += bytes;
    __asan_poison_memory_region(shared, bytes);
    wake_waiting();
}

void wait_for_phase(void* address, unsigned parity) {
    for (;;) {
        CopyBarrier& barrier = barrier_at(address);
        if (barrier.phase % 2 == parity) end_phase(barrier);
        if (barrier.phase % 2 != parity) return;
        current->state = State::at_copy_barrier;
        current->function = "a wait for bulk copies";
        suspend_current();
    }
}

void copy_async(void* shared, const void* global, unsigned bytes) {
    if ((uintptr_t(shared) | uintptr_t(global)) % bytes) fail("a copy that is not aligned to its bytes");
    check_copy({shared, global, bytes});
    copies[current - threads.data()].push_back({shared, global, bytes});
    std::memset(shared, 0xA5, bytes);
    __asan_poison_memory_region(shared, bytes);
}

void wait_for_copies() { make(copies[current - threads.data()]); }

// The bounds of a section are named by the linker; it is absent when no kernel has static shared memory.
extern "C" __attribute__((weak)) char __start_shared_memory[], __stop_shared_memory[];
void fill_static_shared_memory() {
    for (volatile char* byte = __start_shared_memory; byte != __stop_shared_memory; ++byte) *byte = char(0xA5);
}

bool is_readable_shared_memory(const void* address, unsigned bytes) {
    const uintptr_t at = uintptr_t(address), start = uintptr_t(dynamic_shared_memory);
    return at >= start && at + bytes <= start + dynamic_shared_bytes &&
           !__asan_region_is_poisoned(const_cast<void*>(address), bytes);
}

namespace {

void run_block(Order order, Random& random) {
    for (size_t i = 0; i < threads.size(); ++i) {
        Thread& thread = threads[i];
        const unsigned lane = unsigned(i) % 32, first = unsigned(i) - lane;
        thread.state = State::ready;
        thread.index = {unsigned(i) % blockDim.x, unsigned(i) / blockDim.x % blockDim.y,
                        unsigned(i) / (blockDim.x * blockDim.y)};
        thread.lane = lane;
        thread.warp = &threads[first];
        thread.warp_lanes = std::min(32u, unsigned(threads.size()) - first);
        thread.waiting = 0;
    }
    arrived = 0;
    copy_barriers.clear();
    fill_static_shared_memory();
    std::vector<Thread*> ready;
    for (;;) {
        ready.clear();
        for (Thread& thread : threads) {
            if (thread.state == State::ready) ready.push_back(&thread);
        }
        if (ready.empty()) break;
        if (order == Order::reversed) std::reverse(ready.begin(), ready.end());
        if (order == Order::random) std::shuffle(ready.begin(), ready.end(), random);
        for (Thread* thread : ready) {
            current = thread;
            threadIdx = thread->index;
            fibers[thread - threads.data()]->resume();
        }
    }
    for (Thread& thread : threads) {
        if (thread.state == State::finished) continue;
        threadIdx = thread.index;
        std::fprintf(stderr, "emulation: %s: ", thread.function);
        fail("threads wait for others that have finished or wait elsewhere");
    }
    for (const auto& [address, barrier] : copy_barriers) {
        if (!barrier.copies.empty()) fail("a block ends before its bulk copies");
    }
    for (const auto& asked : copies) {
        if (!asked.empty()) fail("a thread ends before its copies");
    }
}

}  // namespace

void launch(const std::function<void()>& body, dim3 grid, dim3 block, unsigned shared_bytes, Order order,
                   unsigned seed) {
    const uint64_t threads_per_block = uint64_t(block.x) * block.y * block.z;
    if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
        fail("the grid is empty or too large");
    }
    if (threads_per_block == 0 || threads_per_block > 1024 || block.z > 64) fail("the block is empty or too large");
    if (shared_bytes > 227u << 10) fail("more shared memory than any GPU has");
    gridDim = grid;
    blockDim = block;
    dynamic_shared_bytes = shared_bytes;
    kernel = &body;
    threads.resize(threads_per_block);
    copies.resize(threads_per_block);
    while (fibers.size() < threads.size()) fibers.push_back(std::make_unique<Fiber>());
    Random random(seed);
    const uint64_t blocks = uint64_t(grid.x) * grid.y * grid.z;
    for (uint64_t i = 0; i < blocks; ++i) {
        const uint64_t number = order == Order::reversed ? blocks - 1 - i : i;
        blockIdx = {unsigned(number % grid.x), unsigned(number / grid.x % grid.y), unsigned(number / grid.x / grid.y)};
        // Aligned as CUDA promises and ending exactly where it was asked to end.
        void* shared = nullptr;
        if (shared_bytes && posix_memalign(&shared, 16, shared_bytes)) fail("no memory for shared memory");
        if (shared) std::memset(shared, 0xA5, shared_bytes);
        dynamic_shared_memory = static_cast<unsigned char*>(shared);
        run_block(order, random);
        std::free(shared);
    }
}

}  // namespace cuda_host
