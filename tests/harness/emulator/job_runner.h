// The program around emulated kernels: reads jobs from one file, runs them, writes every buffer back to another.
//
// Usage: program JOBS RESULTS. A translation unit is this file, the kernels, and
//     RUN_KERNELS(ENTRY(kernel<A>), ENTRY(kernel<B>))
// linked with cuda_host.cpp, job_runner.cpp and matrix_host.cpp.
// A job names a kernel by its position there. Jobs whose results are in the file have run to the end, so that
// after a sanitizer stops the program, the size of the file says which job it was.
//
// Numbers are little-endian 32-bit words unless noted. The file: job count, then for each job
//     kernel, grid x y z, block x y z, dynamic shared bytes, order, seed,
//     buffer count, and for each: size (64 bits), alignment (64 bits), bytes,
//     argument count, and for each: size, bytes, pointer count, and for each: position in the argument, buffer,
//     byte offset into the buffer (signed 64 bits)
#pragma once

#include <cstdio>
#include <functional>
#include <tuple>
#include <vector>

// Last: words of CUDA are macros.
#include "cuda_host.h"

namespace cuda_host {

enum class Order : uint32_t { forward, reversed, random };

// Runs a kernel over its grid, as a launch does.
void launch(const std::function<void()>& body, dim3 grid, dim3 block, unsigned shared_bytes, Order order, unsigned seed);

using Argument = std::vector<char>;

struct Entry {
    const char* name;
    std::function<std::function<void()>(const std::vector<Argument>&)> bind;
};

template <typename T> T argument_as(const char* kernel, const Argument& bytes) {
    if (bytes.size() != sizeof(T)) {
        std::fprintf(stderr, "emulation: %s: an argument has %zu bytes, its parameter %zu: ", kernel, bytes.size(),
                     sizeof(T));
        fail("wrong arguments");
    }
    T value;
    std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof(T));
    return value;
}

template <typename... P, size_t... I>
std::function<void()> bind_arguments(const char* name, void (*function)(P...), const std::vector<Argument>& arguments,
                                     std::index_sequence<I...>) {
    if (arguments.size() != sizeof...(P)) fail("a kernel has more or fewer parameters than the job has arguments");
    std::tuple<P...> values{argument_as<P>(name, arguments[I])...};
    return [=] { function(std::get<I>(values)...); };
}

template <typename... P> Entry make_entry(const char* name, void (*function)(P...)) {
    return {name, [=](const std::vector<Argument>& arguments) {
                return bind_arguments(name, function, arguments, std::index_sequence_for<P...>{});
            }};
}

int run_file(int count, char** words, const std::vector<Entry>& kernels);

}  // namespace cuda_host

#define ENTRY(...) cuda_host::make_entry(#__VA_ARGS__, &__VA_ARGS__)
#define RUN_KERNELS(...) \
    int main(int count, char** words) { return cuda_host::run_file(count, words, {__VA_ARGS__}); }
