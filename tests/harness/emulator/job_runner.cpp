// Reads jobs from a file, runs them, and writes every buffer back; job_runner.h says how the file looks.
#include <sanitizer/asan_interface.h>

#include <cstdlib>
#include <memory>

// Last: words of CUDA are macros.
#include "job_runner.h"

namespace cuda_host {
namespace {

class Reader {
  public:
    explicit Reader(const char* path) : file_(std::fopen(path, "rb")) {
        if (!file_) fail("the job file cannot be opened");
    }
    template <typename T = uint32_t> T number() {
        T value;
        bytes(&value, sizeof(T));
        return value;
    }
    dim3 extent() {
        const uint32_t x = number(), y = number(), z = number();
        return {x, y, z};
    }
    void bytes(void* to, size_t size) {
        if (std::fread(to, 1, size, file_) != size) fail("the job file is cut short");
    }

  private:
    std::FILE* file_;
};

// Memory of exactly the size asked for, aligned to what was asked for and to nothing more: what lies before and after
// it is poisoned. Poison has a grain of 8 bytes, so that up to 7 bytes before the start are checked for writes instead.
class Buffer {
  public:
    Buffer(size_t size, size_t alignment, Reader& file) : size_(size), lead_(alignment) {
        const size_t outer = std::max<size_t>(2 * alignment, sizeof(void*));
        void* memory = nullptr;
        if (posix_memalign(&memory, outer, lead_ + std::max<size_t>(size, 1))) fail("no memory for a buffer");
        start_ = static_cast<char*>(memory);
        std::memset(start_, guard, lead_);
        file.bytes(start_ + lead_, size);
        if (size == 0) __asan_poison_memory_region(start_, lead_ + 1);
        else __asan_poison_memory_region(start_, lead_ & ~size_t(7));
    }
    Buffer(const Buffer&) = delete;
    ~Buffer() { std::free(start_); }
    char* data() const { return start_ + lead_; }
    size_t size() const { return size_; }
    void check_guard() const {
        __asan_unpoison_memory_region(start_, lead_);
        for (size_t i = 0; i < lead_; ++i) {
            if (start_[i] != guard) fail("bytes before a buffer were written");
        }
    }

  private:
    static constexpr char guard = 0x5A;
    char* start_;
    size_t size_, lead_;
};

void run_job(Reader& file, const std::vector<Entry>& kernels, std::FILE* results) {
    const uint32_t number = file.number();
    if (number >= kernels.size()) fail("no such kernel");
    const dim3 grid = file.extent(), block = file.extent();
    const uint32_t shared_bytes = file.number(), order = file.number(), seed = file.number();
    std::vector<std::unique_ptr<Buffer>> buffers(file.number());
    for (auto& buffer : buffers) {
        const uint64_t size = file.number<uint64_t>(), alignment = file.number<uint64_t>();
        buffer = std::make_unique<Buffer>(size, alignment, file);
    }
    std::vector<Argument> arguments(file.number());
    for (Argument& argument : arguments) {
        argument.resize(file.number());
        file.bytes(argument.data(), argument.size());
        for (uint32_t pointers = file.number(); pointers > 0; --pointers) {
            const uint32_t at = file.number(), buffer = file.number();
            const uint64_t address = reinterpret_cast<uint64_t>(buffers.at(buffer)->data()) + file.number<uint64_t>();
            if (at + sizeof(address) > argument.size()) fail("a pointer lies outside its argument");
            std::memcpy(argument.data() + at, &address, sizeof(address));
        }
    }
    launch(kernels[number].bind(arguments), grid, block, shared_bytes, Order(order), seed);
    for (const auto& buffer : buffers) {
        buffer->check_guard();
        const size_t written = std::fwrite(buffer->data(), 1, buffer->size(), results);
        if (written != buffer->size()) fail("the results cannot be written");
    }
    std::fflush(results);
}

}  // namespace

int run_file(int count, char** words, const std::vector<Entry>& kernels) {
    if (count != 3) fail("usage: program JOBS RESULTS");
    Reader file(words[1]);
    std::FILE* results = std::fopen(words[2], "wb");
    if (!results) fail("the result file cannot be opened");
    for (uint32_t jobs = file.number(); jobs > 0; --jobs) run_job(file, kernels, results);
    return std::fclose(results);
}

}  // namespace cuda_host
