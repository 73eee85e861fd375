// Functions of matrices in the registers of a warp, by the layouts of the PTX ISA: "ldmatrix", and "Matrix Fragments
// for mma.m16n8k16 with integer type" and for mma.m16n8k32.
#include "job_runner.h"

namespace cuda_host {
namespace {

struct Load {
    uint32_t* fragment;
    unsigned count;
    const unsigned char* row;
    bool transposed;
};

struct Product {
    int32_t* sums;
    const uint32_t *a, *b;
    int k;
    bool a_is_signed, b_is_signed;
};

void load_warp(void* const (&lanes)[32]) {
    for (unsigned lane = 0; lane < 32; ++lane) {
        const Load& to = *static_cast<Load*>(lanes[lane]);
        for (unsigned matrix = 0; matrix < to.count; ++matrix) {
            const auto row = [&](unsigned number) { return static_cast<Load*>(lanes[8 * matrix + number])->row; };
            const unsigned group = lane / 4, place = lane % 4;
            if (lane < 8 && !is_readable_shared_memory(row(lane), 16)) fail("a row of a matrix that is not there yet");
            unsigned char bytes[4];
            if (to.transposed) {
                std::memcpy(bytes, row(2 * place) + 2 * group, 2);
                std::memcpy(bytes + 2, row(2 * place + 1) + 2 * group, 2);
            } else {
                std::memcpy(bytes, row(group) + 4 * place, 4);
            }
            std::memcpy(&to.fragment[matrix], bytes, 4);
        }
    }
}

int16_t byte_of(uint32_t word, int place, bool is_signed) {
    const uint8_t byte = uint8_t(word >> 8 * place);
    return is_signed ? int16_t(int8_t(byte)) : int16_t(byte);
}

void multiply_warp(void* const (&lanes)[32]) {
    int16_t a[16][32] = {}, b[8][32] = {};  // b by columns; zeros behind k
    const int k = static_cast<Product*>(lanes[0])->k;
    for (int lane = 0; lane < 32; ++lane) {
        const Product& one = *static_cast<Product*>(lanes[lane]);
        const int group = lane / 4, place = lane % 4;
        for (int byte = 0; byte < 4; ++byte) {
            for (int part = 0; part < k / 8; ++part) {
                a[group + part % 2 * 8][part / 2 * 16 + 4 * place + byte] = byte_of(one.a[part], byte, one.a_is_signed);
            }
            for (int part = 0; part < k / 16; ++part) {
                b[group][part * 16 + 4 * place + byte] = byte_of(one.b[part], byte, one.b_is_signed);
            }
        }
    }
    for (int lane = 0; lane < 32; ++lane) {
        int32_t* const sums = static_cast<Product*>(lanes[lane])->sums;
        for (int place = 0; place < 4; ++place) {
            const int row = lane / 4 + place / 2 * 8, column = lane % 4 * 2 + place % 2;
            int product = 0;  // below 2^21
            for (int i = 0; i < 32; ++i) product += a[row][i] * b[column][i];
            sums[place] = int32_t(uint32_t(sums[place]) + uint32_t(product));
        }
    }
}

}  // namespace

void load_matrices(uint32_t* fragment, unsigned count, const void* row, bool transposed) {
    constexpr const char* names[] = {"", "load_matrix_x1", "load_matrix_x2", "", "load_matrix_x4"};
    if (current->lane < 8 * count) {
        if (uintptr_t(row) % 16) fail("a row of a matrix that is not aligned to 16 bytes");
        if (!is_readable_shared_memory(row, 16)) fail("a row of a matrix outside of dynamic shared memory");
    }
    Load mine{fragment, count, static_cast<const unsigned char*>(row), transposed};
    warp_together(transposed ? "load_matrix_x4_transposed" : names[count], &mine, load_warp);
}

void multiply_add(const char* function, int32_t* sums, const uint32_t* a, const uint32_t* b, int k, bool a_is_signed,
                  bool b_is_signed) {
    Product mine{sums, a, b, k, a_is_signed, b_is_signed};
    warp_together(function, &mine, multiply_warp);
}

float fma_toward_zero(float a, float b, float c) {
    const int mode = std::fegetround();
    std::fesetround(FE_TOWARDZERO);
    const float result = std::fma(a, b, c);
    std::fesetround(mode);
    return result;
}

}  // namespace cuda_host
