// Vectors of any number of lanes in clang's vector extensions: one text for every processor, without a header of
// intrinsics and without a C++ library. A function or lambda of a loop is always inlined: clang stops at long steps,
// and a call for each vector takes up to nine tenths of the speed (tests/native inspects the machine code for calls).
#pragma once
#include <stddef.h>
#include <stdint.h>

#define INLINE inline __attribute__((always_inline))
#define INLINE_LAMBDA __attribute__((always_inline))

typedef _Float16 half;

constexpr int LINE = 64;  // bytes of a cache line, and of the widest vector

// What <utility> and <type_traits> have.
template <class T, T... I> struct Sequence {};
template <int N> using Numbers = __make_integer_seq<Sequence, int, N>;
template <bool, class A, class B> struct Either { typedef A type; };
template <class A, class B> struct Either<false, A, B> { typedef B type; };
template <bool which, class A, class B> using either = typename Either<which, A, B>::type;
template <class A, class B> constexpr bool same = __is_same(A, B);
template <int nbytes> using Signed = either<nbytes == 1, int8_t, either<nbytes == 2, int16_t, either<nbytes == 4, int32_t, int64_t>>>;

template <class T, int N> struct VectorOf { typedef T type __attribute__((vector_size(N * sizeof(T)))); };
template <class T, int N> using Vec = typename VectorOf<T, N>::type;

#if defined(__AVX512F__)
constexpr int VECTOR = 64;  // bytes of a register
#elif defined(__AVX2__)
constexpr int VECTOR = 32;
#else
constexpr int VECTOR = 16;
#endif

template <class V> INLINE V load(const void* p) { V v; __builtin_memcpy(&v, p, sizeof v); return v; }
template <class V> INLINE void store(void* p, V v) { __builtin_memcpy(p, &v, sizeof v); }

// Whole cache lines past the caches; `p` begins one.
template <class V> INLINE void stream(void* p, V v) {
    typedef Vec<uint8_t, LINE> Line;
    for (size_t at = 0; at < sizeof v; at += LINE)
        __builtin_nontemporal_store(load<Line>((char*)&v + at), (Line*)__builtin_assume_aligned((char*)p + at, LINE));
}

template <int N> struct Count { static constexpr int value = N; constexpr operator int() const { return N; } };
template <int N, class F> INLINE void unrolled(F f) {
    [&]<int... I>(Sequence<int, I...>) INLINE_LAMBDA { (f(Count<I>()), ...); }(Numbers<N>());
}

template <class To, class T, int N> INLINE Vec<To, N> cast(Vec<T, N> v) { return __builtin_convertvector(v, Vec<To, N>); }
template <class To, class V> INLINE To bits(V v) { static_assert(sizeof(To) == sizeof(V)); To r; __builtin_memcpy(&r, &v, sizeof r); return r; }
template <class T, int N> INLINE Vec<T, N> all(T x) { return x - Vec<T, N>{}; }

// Lanes 0 or -1 of `mask`, as comparisons give them, choose between two vectors.
template <class M, class V> INLINE V pick(M mask, V yes, V no) { return mask ? yes : no; }
template <class V> INLINE auto is_nan(V x) { return x != x; }

// Lane i of the result is lane map(i) of `a` followed by `b`.
template <int M, auto map, class V> INLINE auto shuffle(V a, V b) {
    return [&]<int... I>(Sequence<int, I...>) INLINE_LAMBDA { return __builtin_shufflevector(a, b, map(I)...); }(Numbers<M>());
}

// A vector in parts of W lanes, each by a function of a part.
template <class To, int W, class T, int N, class F> INLINE Vec<To, N> in_parts(Vec<T, N> x, F f) {
    Vec<To, N> r;
    unrolled<N / W>([&](auto k) INLINE_LAMBDA {
        auto part = load<Vec<T, W>>((char*)&x + k * sizeof(Vec<T, W>));
        store((char*)&r + k * sizeof(Vec<To, W>), f(part));
    });
    return r;
}
