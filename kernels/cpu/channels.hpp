// Small channels: pixels of interleaved elements taken apart to planes, put together of planes, and permuted.
//
//     pixels   r g b r g b r g ...                          whole vectors of P pixels
//     planes   r r r ... | g g g ... | b b b ...            a vector of P elements for each channel
//
// Pixels of 2 to 7 elements are shuffled by templates, with the common conversions between the shuffles and the stores;
// those of 8 to 16 are transposed. All other pixels are permuted as bytes by tables that the planner computes: any order,
// any number of elements, zeros behind them, pixels from last to first. Other conversions, stores past the caches, rows
// shorter than a step and pixels with gaps go through a tile in the L1 cache.
#pragma once
#include "copy.hpp"
#include "interleave.hpp"
#include "transpose.hpp"

// Bytes across which one instruction permutes bytes.
#if defined(__AVX512VBMI__)
constexpr int WORD = 64;
#else
constexpr int WORD = 16;
#endif

// How the channels of a pixel lie in planes: for each element of a pixel the bytes to its plane, or ABSENT where no plane
// has it, and the number of its constants.
constexpr int MOST_ELEMENTS = 16;
constexpr int64_t ABSENT = int64_t(1) << 63;
struct Layout { int64_t plane[MOST_ELEMENTS], constants[MOST_ELEMENTS]; };

// Puts, the words that a step of so many pixels stores: each has bytes of some loads, by tables.
struct Permutation {
    int64_t pixels, puts, loads;
    int64_t from_zero;                        // a word begins as zeros, and not as the first of its loads
    const int64_t *put, *load;                // where words go, and where each one's loads begin
    const uint8_t* places;                    // of each byte: in the word so far, or from WORD on in the next load
};

// The block of a move of pixels: rows of so many pixels, `source_step` and `target_step` from a pixel to the next.
struct PixelBlock : Block { const void* layout; };

INLINE void copy_bytes(char* target, const char* source, int64_t nbytes) {
    for (; nbytes > 2 * LINE; nbytes -= LINE, source += LINE, target += LINE) {
        store(target, load<Vec<uint8_t, LINE>>(source));
        __asm__ volatile("" : "+r"(target));  // no call of memcpy in place of the loop
    }
    copy_short(target, source, nbytes);
}

// The constants of each channel.
template <class F, int C, int P, class Arithmetic> struct Constants {
    Vec<F, P> scale[C], bias[C];
    INLINE Constants(const Block& k, const Layout& layout) {
        if constexpr (!same<Arithmetic, Nothing>) unrolled<C>([&](auto c) INLINE_LAMBDA {
            const int64_t at = layout.constants[c] * k.constants_pitch;
            scale[c.value] = all<F, P>(load<F>(k.scale + at)); bias[c.value] = all<F, P>(load<F>(k.bias + at));
        });
    }
    template <class S, class T, int c> INLINE Vec<Stored<T>, P> converted_of(Vec<Stored<S>, P> v) const {
        if constexpr (same<Arithmetic, Nothing>) return converted<S, T, P>(v);
        else {
            auto x = Arithmetic::template of<F, P>(converted<S, F, P>(v), scale[c], bias[c], {}, 0, 0);
            if constexpr (is_float<S> && is_float<T>) x = pick(is_nan(x), all<F, P>(F(__builtin_nan(""))), x);
            return converted<F, T, P>(x);
        }
    }
};

// The steps of a row of so many pixels: `step(place, streams)`. Steps past the caches begin `lead` pixels behind the first
// one (-1: there are none), and share no line with other steps, which would read it again. The last step ends with the
// row, which has a step or more; before it comes `ends(place)`, and no other step reads the end where that `copies` it.
template <int P, class Step, class Ends>
INLINE void for_steps(int64_t size, int64_t lead, bool copies, Step step, Ends ends) {
    int64_t at = 0, last = size - P - copies;
    bool streams = lead >= 0 && size >= 4 * P;
    if (streams) last = lead ? 0 : -1;
    for (bool is_second = lead > 0;;) {
        for (; at <= last; at += P) step(at, Count<0>());
        if (at >= size) break;
        if (streams && is_second) { at = last = lead; is_second = false; }
        else if (streams) {
            const int64_t final = (size - at) % P || copies ? size - 2 * P : size - P;
            for (; at <= final; at += P) step(at, Count<1>());
            streams = false; last = size - P - copies;
        } else { at = last = size - P; ends(at); }
    }
}
// `streamable`: whether there are steps past the caches.
template <class S, class T, int C, class Arithmetic, bool streamable> void pixels_to_planes(const Block& block) {
    typedef Stored<S> In; typedef Stored<T> Out; typedef Compute<S, T> F;
    const PixelBlock& k = static_cast<const PixelBlock&>(block);
    const Layout& layout = *(const Layout*)k.layout;
    constexpr int P = pixels_of_step<In>, pixel = C * sizeof(In);
    const Constants<F, C, P, Arithmetic> constants(k, layout);
    const int64_t size = k.size, rows = k.rows, source_pitch = k.source_pitch;
    int64_t unread = 0;  // bytes behind the last element of a pixel that is read
    for (int c = C - 1; layout.plane[c] == ABSENT; c--) unread += sizeof(In);
    // Past the caches go all planes, or all but the last one, where they begin lines together.
    const bool has_last = layout.plane[C - 1] != ABSENT;
    bool may_stream = streamable && k.streams;
    for (int c = 0; c < C - !has_last; c++)
        may_stream &= layout.plane[c] != ABSENT && (uint64_t(layout.plane[c]) - uint64_t(layout.plane[0])) % LINE == 0;
    for (int64_t row = 0; row < rows; row++) {
        const char* source = k.source + row * source_pitch;
        alignas(LINE) char in[P * pixel];
        char* target[C];
        unrolled<C>([&](auto c) INLINE_LAMBDA {
            target[c] = layout.plane[c] == ABSENT ? nullptr : k.target + row * k.target_pitch + layout.plane[c];
        });
        const uintptr_t first = uintptr_t(target[0]);
        const int64_t lead = may_stream && first % sizeof(Out) == 0 ? (-first & (LINE - 1)) / sizeof(Out) : -1;
        // Memory may end behind the last element that is read, unless another row follows: the last step reads a copy.
        const bool copies = unread && (row == rows - 1 || source_pitch < unread);
        for_steps<P>(size, lead, copies, [&](int64_t at, auto streams) INLINE_LAMBDA {
            Vec<In, P> pieces[C];
            take_apart<In, C, P>(source + at * pixel, pieces);
            auto plane_of = [&](auto c) INLINE_LAMBDA {
                constexpr int number = decltype(c)::value;
                return constants.template converted_of<S, T, number>(channel_of<In, C, P, number>(pieces));
            };
            if constexpr (streamable && decltype(streams)::value) {
                auto stream_all = [&](auto count) INLINE_LAMBDA {  // after all is computed: the stores are one burst
                    constexpr int n = decltype(count)::value;
                    Vec<Out, P> planes[n];
                    unrolled<n>([&](auto c) INLINE_LAMBDA { planes[c.value] = plane_of(c); });
                    unrolled<n>([&](auto c) INLINE_LAMBDA { stream(target[c] + at * sizeof(Out), planes[c.value]); });
                };
                if (has_last) stream_all(Count<C>()); else stream_all(Count<C - 1>());
            } else unrolled<C>([&](auto c) INLINE_LAMBDA {
                if (target[c]) store(target[c] + at * sizeof(Out), plane_of(c));
            });
        }, [&](int64_t at) INLINE_LAMBDA {
            if (copies) { copy_bytes(in, source + at * pixel, (size - at) * pixel - unread); source = in - at * pixel; }
        });
    }
}

// Pixels from which on those of so many bytes begin a line; -1 where none does.
template <int pixel> INLINE int64_t pixels_to_line(const char* target) {
    for (int64_t lead = 0; lead < LINE; lead++) if ((uintptr_t(target) + lead * pixel) % LINE == 0) return lead;
    return -1;
}

template <class S, class T, int C, class Arithmetic, bool streamable> void planes_to_pixels(const Block& block) {
    typedef Stored<S> In; typedef Stored<T> Out; typedef Compute<S, T> F;
    const PixelBlock& k = static_cast<const PixelBlock&>(block);
    const Layout& layout = *(const Layout*)k.layout;
    constexpr int P = pixels_of_step<Out>, pixel = C * sizeof(Out);
    const Constants<F, C, P, Arithmetic> constants(k, layout);
    const int64_t size = k.size, rows = k.rows;
    for (int64_t row = 0; row < rows; row++) {
        char* target = k.target + row * k.target_pitch;
        const char* source[C];
        for (int c = 0; c < C; c++) source[c] = k.source + row * k.source_pitch + layout.plane[c];
        const int64_t lead = streamable && k.streams ? pixels_to_line<pixel>(target) : -1;
        for_steps<P>(size, lead, false, [&](int64_t at, auto streams) INLINE_LAMBDA {
            Vec<Out, P> planes[C];
            unrolled<C>([&](auto c) INLINE_LAMBDA {
                auto plane = load<Vec<In, P>>(source[c] + at * sizeof(In));
                planes[c.value] = constants.template converted_of<S, T, decltype(c)::value>(plane);
            });
            put_together<Out, C, P, streamable && decltype(streams)::value>(planes, target + at * pixel);
        }, [&](int64_t) INLINE_LAMBDA {});
    }
}

// Pixels of C elements to pixels of others of them, or of zeros (-1), in this order; `mirrors`: from the last pixel on.
template <int... order> struct Order {
    static constexpr int at(int i) { const int places[] = {order...}; return places[i]; }
    static constexpr int most() { int most = 0; ((most = order > most ? order : most), ...); return most; }
    static constexpr bool has_zeros = ((order < 0) || ...);
};
template <class T, int C, bool mirrors, int... order> void pixels_to_pixels(const Block& block) {
    typedef Order<order...> Taken;
    const PixelBlock& k = static_cast<const PixelBlock&>(block);
    constexpr int P = pixels_of_step<T>, each = P / parts_of<T>, D = sizeof...(order);
    constexpr int pixel = C * sizeof(T), to = D * sizeof(T);
    constexpr int64_t unread = (C - 1 - Taken::most()) * sizeof(T);
    const int64_t size = k.size, rows = k.rows, source_pitch = k.source_pitch;
    for (int64_t row = 0; row < rows; row++) {
        alignas(LINE) char in[P * pixel];
        const char* source = k.source + row * source_pitch;
        char* target = k.target + row * k.target_pitch;
        const bool copies = unread && (row == rows - 1 || source_pitch < unread);
        // The lowest address of the pixels from a place on.
        auto lowest = [&](int64_t at, int64_t count) INLINE_LAMBDA {
            return source + (mirrors ? 1 - at - count : at) * pixel;
        };
        auto step = [&](int64_t at, auto streams) INLINE_LAMBDA {
            // Where 16 bytes have whole pixels, each vector is shuffled alone.
            if constexpr (C == D && 16 % pixel == 0 && !mirrors) {
                unrolled<C>([&](auto k) INLINE_LAMBDA {
                    auto v = load<Vec<T, P>>(source + at * pixel + k * LINE);
                    v = shuffle<P, [](int i) { return i / D * D + Taken::at(i % D); }>(v, v);
                    if constexpr (decltype(streams)::value) stream(target + at * to + k * LINE, v);
                    else store(target + at * to + k * LINE, v);
                });
                return;
            }
            Vec<T, P> pieces[C + Taken::has_zeros] = {};
            take_apart<T, C, P, mirrors>(lowest(at, P), pieces);
            store_pieces<T, D, P, decltype(streams)::value>(target + at * to, [&](auto k) INLINE_LAMBDA {
                return gathered<[](int i) {
                    int place = decltype(k)::value * each + i % each, from = Taken::at(place % D);
                    int at = (mirrors ? each - 1 - place / D : place / D) * C + from;
                    return from < 0 ? C * P : at / each * P + i / each * each + at % each;
                }, C + Taken::has_zeros, T, P>(pieces);
            });
        };
        auto before_last = [&](int64_t at) INLINE_LAMBDA {
            if (!copies) return;
            const int64_t count = size - at;
            copy_bytes(in + (mirrors ? (P - count) * pixel : 0), lowest(at, count), count * pixel - unread);
            source = mirrors ? in + (P - 1 + at) * pixel : in - at * pixel;
        };
        for_steps<P>(size, k.streams ? pixels_to_line<to>(target) : -1, copies, step, before_last);
    }
}

// Pixels of 8 to 16 elements: 16 bytes of each are transposed with those of as many others as 16 bytes have elements.
// Longer pixels have several such parts, of which the last ends with them; behind shorter ones, others follow.
template <class T> struct Parts {
    static constexpr int L = 16 / sizeof(T), P = pixels_of_step<T>;
    static constexpr int width = L > 8 ? VECTOR : LINE, N = width / sizeof(T), words = N / L;
    // body(first element, place of the first pixel in the step) for a vector of 16-byte words of pixels.
    template <class Body> static INLINE void each(int64_t elements, Body body) {
        for (int64_t first = 0; first < elements; first += L) {
            const int64_t c = first + L > elements && elements > L ? elements - L : first;
            unrolled<P / N>([&](auto part) INLINE_LAMBDA { body(c, part * N); });
        }
    }
};
template <class T> void many_to_planes(const Block& block) {
    typedef Parts<T> Of;
    constexpr int L = Of::L, N = Of::N, P = Of::P;
    const PixelBlock& k = static_cast<const PixelBlock&>(block);
    const Layout& layout = *(const Layout*)k.layout;
    const int64_t size = k.size, rows = k.rows, source_pitch = k.source_pitch, pixel = k.source_step;
    const int64_t elements = pixel / sizeof(T);
    int64_t used = elements;
    while (layout.plane[used - 1] == ABSENT) used--;
    const int64_t read = used * sizeof(T), unread = (pixel < 16 ? 16 : pixel) - read;
    for (int64_t row = 0; row < rows; row++) {
        alignas(LINE) char in[P * MOST_ELEMENTS * sizeof(T) + 16];
        const char* source = k.source + row * source_pitch;
        char* target[MOST_ELEMENTS] = {};
        for (int64_t c = 0; c < used; c++)
            if (layout.plane[c] != ABSENT) target[c] = k.target + row * k.target_pitch + layout.plane[c];
        const bool copies = unread && (row == rows - 1 || source_pitch < unread);
        for_steps<P>(size, -1, copies, [&](int64_t at, auto) INLINE_LAMBDA {
            Of::each(elements, [&](int64_t c, int64_t place) INLINE_LAMBDA {
                Vec<T, N> lines[L];
                const char* from = source + (at + place) * pixel + c * sizeof(T);
                unrolled<L>([&](auto r) INLINE_LAMBDA {
                    unrolled<Of::words>([&](auto word) INLINE_LAMBDA {
                        store((char*)&lines[r] + 16 * word, load<Vec<T, L>>(from + (word * L + r) * pixel));
                    });
                });
                transpose_lanes<1, T, N>(lines);
                unrolled<L>([&](auto r) INLINE_LAMBDA {
                    if (char* plane = target[c + r]) store(plane + (at + place) * sizeof(T), lines[r]);
                });
            });
        }, [&](int64_t at) INLINE_LAMBDA {
            if (copies) { copy_bytes(in, source + at * pixel, (size - at - 1) * pixel + read); source = in - at * pixel; }
        });
    }
}
template <class T> void many_to_pixels(const Block& block) {
    typedef Parts<T> Of;
    constexpr int L = Of::L, N = Of::N, P = Of::P;
    const PixelBlock& k = static_cast<const PixelBlock&>(block);
    const Layout& layout = *(const Layout*)k.layout;
    const int64_t size = k.size, rows = k.rows, pixel = k.target_step, elements = pixel / sizeof(T);
    for (int64_t row = 0; row < rows; row++) {
        alignas(LINE) char out[P * MOST_ELEMENTS * sizeof(T) + 16];
        char *target = k.target + row * k.target_pitch, *pixels = target;
        const char* source[MOST_ELEMENTS];
        for (int64_t c = 0; c < MOST_ELEMENTS; c++)
            source[c] = k.source + row * k.source_pitch + layout.plane[c < elements ? c : elements - 1];
        // What is stored behind a pixel is the next one's, and behind the last one another's.
        const bool copies = pixel < 16;
        for_steps<P>(size, -1, copies, [&](int64_t at, auto) INLINE_LAMBDA {
            Of::each(elements, [&](int64_t c, int64_t place) INLINE_LAMBDA {
                Vec<T, N> lines[L];
                unrolled<L>([&](auto r) INLINE_LAMBDA { lines[r] = load<Vec<T, N>>(source[c + r] + (at + place) * sizeof(T)); });
                transpose_lanes<1, T, N>(lines);
                char* to = pixels + (at + place) * pixel + c * sizeof(T);
                unrolled<Of::words>([&](auto word) INLINE_LAMBDA {
                    unrolled<L>([&](auto r) INLINE_LAMBDA {
                        store(to + (word * L + r) * pixel, load<Vec<T, L>>((char*)&lines[r] + 16 * word));
                    });
                });
            });
        }, [&](int64_t at) INLINE_LAMBDA { if (copies) pixels = out - at * pixel; });
        if (copies) copy_bytes(target + (size - P) * pixel, out, P * pixel);
    }
}

// Rows of pixels as bytes, of the last pixel so many as are used.
inline void copy_pixels(const Block& block) {
    const PixelBlock& k = static_cast<const PixelBlock&>(block);
    const int64_t nbytes = (k.size - 1) * k.source_step + *(const int64_t*)k.layout, rows = k.rows;
    const int64_t source_pitch = k.source_pitch, target_pitch = k.target_pitch;
    for (int64_t row = 0; row < rows; row++) copy_bytes(k.target + row * target_pitch, k.source + row * source_pitch, nbytes);
}

// Pixels of as many bytes from one to the next on both sides, of which the first ones are written.
struct Gaps { int64_t nbytes, count; const uint64_t* masks; };  // masks of lines from a row's beginning on
inline void copy_between_gaps(const Block& block) {
    const PixelBlock& k = static_cast<const PixelBlock&>(block);
    const Gaps& gaps = *(const Gaps*)k.layout;
    const int64_t rows = k.rows, size = k.size, pixel = k.target_step, nbytes = gaps.nbytes;
    const int64_t source_pitch = k.source_pitch, target_pitch = k.target_pitch;
    const char* source = k.source;
    char* target = k.target;
    for (int64_t row = 0; row < rows; row++, source += source_pitch, target += target_pitch) {
#if defined(__AVX512BW__)
        typedef Vec<char, LINE> V;
        const int64_t end = (size - 1) * pixel + nbytes, count = gaps.count;
        const uint64_t* masks = gaps.masks;
        int64_t turn = 0;
        for (int64_t at = 0; at < end; at += LINE) {
            uint64_t mask = masks[turn];
            if (end - at < LINE) mask &= (uint64_t(1) << (end - at)) - 1;
            V line = __builtin_ia32_loaddquqi512_mask((const V*)(source + at), V{}, mask);
            __builtin_ia32_storedquqi512_mask((V*)(target + at), line, mask);
            turn = turn + 1 == count ? 0 : turn + 1;
        }
#else
        // Each pixel by steps of which the last overlaps the one before.
        auto each = [&](auto v) INLINE_LAMBDA {
            typedef decltype(v) V;
            const int64_t last = nbytes - sizeof(V);
            for (int64_t i = 0, at = 0; i < size; i++, at += pixel) {
                store(target + at, load<V>(source + at));
                for (int64_t byte = sizeof(V); byte < last; byte += sizeof(V)) store(target + at + byte, load<V>(source + at + byte));
                store(target + at + last, load<V>(source + at + last));
            }
        };
        if (nbytes >= 16) each(Vec<uint8_t, 16>());
        else if (nbytes >= 8) each(uint64_t());
        else if (nbytes >= 4) each(uint32_t());
        else if (nbytes >= 2) each(uint16_t());
        else each(uint8_t());
#endif
    }
}

// Two steps at a time, which read each table once: in the halves of a vector where an instruction permutes within 16 bytes.
template <int W> struct Steps {
    const char* from[2]; char* to[2];
    typedef Vec<uint8_t, 2 * W> Words;
    typedef Vec<uint8_t, W> Word;
    INLINE Words loaded(int64_t offset) const {
        Words v;
        for (int i = 0; i < 2; i++) store((char*)&v + i * W, load<Word>(from[i] + offset));
        return v;
    }
    INLINE void stored(int64_t offset, Words v) const {
        for (int i = 0; i < 2; i++) store(to[i] + offset, load<Word>((char*)&v + i * W));
    }
};
template <int W> INLINE Vec<uint8_t, 2 * W> permuted(Vec<uint8_t, 2 * W> sum, Vec<uint8_t, 2 * W> v, const uint8_t* places) {
    [[maybe_unused]] typedef Vec<uint8_t, 2 * W> Words;
    typedef Vec<uint8_t, W> Word;
    auto table = load<Word>(places);
    auto tables = shuffle<2 * W, [](int i) { return i % W; }>(table, table);
#if defined(__AVX512VBMI__)
    if constexpr (W == 64) {
        Words r;
        unrolled<2>([&](auto i) INLINE_LAMBDA {
            typedef Vec<char, W> Bytes;
            auto a = load<Bytes>((char*)&sum + i * W), b = load<Bytes>((char*)&v + i * W);
            store((char*)&r + i * W, __builtin_ia32_vpermi2varqi512(a, bits<Bytes>(table), b));
        });
        return r;
    }
#endif
#if defined(__AVX2__)
    if constexpr (W == 16) {
        typedef Vec<char, 32> Bytes;
        return sum | bits<Words>(__builtin_ia32_pshufb256(bits<Bytes>(v), bits<Bytes>(tables)));
    }
#elif defined(__aarch64__)
    return sum | in_parts<uint8_t, W, uint8_t, 2 * W>(v, [&](Word b) INLINE_LAMBDA {
        return bits<Word>(__builtin_neon_vqtbl1q_v(bits<Vec<int8_t, 16>>(b), bits<Vec<int8_t, 16>>(table), 48));
    });
#endif
    for (int i = 0; i < 2 * W; i++) if (tables[i] < W) sum[i] |= v[i / W * W + tables[i]];
    return sum;
}
template <int W, int L> INLINE void permute_rows(const PixelBlock& k, const Permutation& p) {
    const int64_t puts = p.puts, loads = L ? L : p.loads, pixels = p.pixels;
    const int64_t rows = k.rows, size = k.size, last = size - pixels;
    const int64_t source_step = k.source_step, target_step = k.target_step;
    const int64_t source_pitch = k.source_pitch, target_pitch = k.target_pitch;
    const int64_t *put = p.put, *load = p.load;
    const uint8_t* tables = p.places;
    const bool from_zero = p.from_zero;
    const char* source = k.source;
    char* target = k.target;
    for (int64_t row = 0; row < rows; row++, source += source_pitch, target += target_pitch)
        for (int64_t at = 0; at < size; at += 2 * pixels) {
            const int64_t first = at < last ? at : last, second = at + pixels < last ? at + pixels : last;
            const Steps<W> steps = {{source + first * source_step, source + second * source_step},
                                    {target + first * target_step, target + second * target_step}};
            const int64_t* offset = load;
            const uint8_t* places = tables;
            for (int64_t i = 0; i < puts; i++) {
                Vec<uint8_t, 2 * W> sum = {};
                if (!from_zero) sum = steps.loaded(*offset++);
                auto take = [&](int64_t) INLINE_LAMBDA {
                    sum = permuted<W>(sum, steps.loaded(*offset++), places);
                    places += W;
                };
                if constexpr (L) { if (from_zero) take(0); unrolled<L - 1>(take); }
                else for (int64_t j = from_zero ? 0 : 1; j < loads; j++) take(j);
                steps.stored(put[i], sum);
            }
        }
}
template <int W> void permute(const Block& block) {
    const PixelBlock& k = static_cast<const PixelBlock&>(block);
    const Permutation& p = *(const Permutation*)k.layout;
    switch (p.loads) {
        case 1: permute_rows<W, 1>(k, p); break;
        case 2: permute_rows<W, 2>(k, p); break;
        case 3: permute_rows<W, 3>(k, p); break;
        case 4: permute_rows<W, 4>(k, p); break;
        default: permute_rows<W, 0>(k, p);
    }
}

// Pixels by a chain of moves: each reads the source or a tile, and writes a tile or the target. A move of rows has the
// elements of a channel, or all of pixels, as a row.
struct PixelStage {
    Move move;
    const void* layout;                          // of a move of pixels
    int64_t reads, writes;                       // SOURCE, TARGET, or a tile
    int64_t source, target;                      // bytes to the first channel
    int64_t channels, elements;                  // channels of a move of rows, and elements of a pixel in a row
    int64_t source_pitch, target_pitch;          // from a channel to the next
    int64_t source_step, target_step;            // from an element to the next; of a move of pixels, from a pixel
    int64_t source_pixel, target_pixel;          // from a pixel to the next
    int64_t constants_pitch, along;              // bytes of constants from a channel to the next, and from a pixel
    int64_t streams;
    const char *scale, *bias, *low;
};
enum { SOURCE, TARGET, FIRST_TILE };
struct Pixels {
    double unit, unit_low;
    int64_t of_item, of_a;                       // bytes of constants from a place of the outer loops, or a row, to the next
    int64_t least, most;                         // pixels of a call of the moves
    int64_t fewest;                              // and of one between tiles
    int64_t whole;                               // 1 where one move takes all rows of an item
    int64_t joins;                               // 1 where a tile may have several rows
    int64_t ahead_planes, ahead_pitch, ahead_bytes;  // what is prefetched: planes, from one to the next, and of a pixel
    int64_t count;
    const PixelStage* stages;
    Grid grid;
};

inline void channels(const char* source, char* target, const void* parameters, int64_t first, int64_t last) {
    const Pixels& p = *(const Pixels*)parameters;
    const Grid& grid = p.grid;
    alignas(LINE) char tiles[2][TILE_BYTES];
    for_items(grid, source, target, first, last, [&](const Item& item) INLINE_LAMBDA {
        // An item of too few pixels has others of the row, too.
        const int64_t size = item.size < p.least ? p.least : item.size;
        const int64_t start = item.b + size > grid.b.size ? grid.b.size - size : item.b, back = item.b - start;
        const int64_t most = p.whole ? size : p.most;
        const int64_t rows_of_tile = p.whole ? item.rows : p.joins && 2 * size <= most ? most / size : 1;
        for (int64_t row = 0; row < item.rows; row += rows_of_tile)
            for (int64_t at = 0; at < size; at += most) {
                const int64_t rows = item.rows - row < rows_of_tile ? item.rows - row : rows_of_tile;
                int64_t begin = at, pixels = size - at < most ? size - at : most;
                if (pixels < p.least) { begin = size - p.least; pixels = p.least; }
                char* places[] = {(char*)item.source + row * grid.a.source + (begin - back) * grid.b.source,
                                  item.target + row * grid.a.target + (begin - back) * grid.b.target, tiles[0], tiles[1]};
                const int64_t constants = item.place * p.of_item + (item.a + row) * p.of_a;
                for (int64_t i = 0; i < p.count; i++) {
                    const PixelStage& s = p.stages[i];
                    // While later moves write, the source of the next tile comes into the L2 cache.
                    if (i == 1) for (int64_t plane = 0; plane < p.ahead_planes; plane++) {
                        const char* next = places[SOURCE] + plane * p.ahead_pitch;
                        next += rows_of_tile > 1 ? rows * grid.a.source : pixels * grid.b.source;
                        const int64_t nbytes = rows * pixels * p.ahead_bytes;
                        for (int64_t line = 0; line < nbytes; line += LINE) __builtin_prefetch(next + line, 0, 2);
                    }
                    const int64_t place = constants + (start + begin) * s.along;
                    PixelBlock k;
                    k.source = places[s.reads] + s.source; k.target = places[s.writes] + s.target;
                    // From a row to the next: in tiles they follow one another.
                    k.source_pitch = s.reads == SOURCE ? grid.a.source : pixels * s.source_pixel;
                    k.target_pitch = s.writes == TARGET ? grid.a.target : pixels * s.target_pixel;
                    k.rows = rows; k.size = pixels * s.elements;
                    k.source_step = s.source_step; k.target_step = s.target_step;
                    k.scale = s.scale + place; k.bias = s.bias + place; k.low = s.low + place;
                    k.constants_pitch = s.constants_pitch; k.unit = p.unit; k.unit_low = p.unit_low;
                    k.ahead = 0; k.streams = s.streams; k.layout = s.layout;
                    // Rows that follow one another on both sides are one.
                    if (k.source_pitch == pixels * s.source_pixel && k.target_pitch == pixels * s.target_pixel) {
                        k.size *= rows; k.rows = 1;
                    }
                    if (s.layout) {
                        if (k.size < p.fewest && s.reads >= FIRST_TILE && s.writes >= FIRST_TILE) k.size = p.fewest;
                        s.move(k);
                        continue;
                    }
                    if (k.rows == 1) {
                        k.rows = s.channels; k.source_pitch = s.source_pitch; k.target_pitch = s.target_pitch;
                        s.move(k);
                        continue;
                    }
                    k.constants_pitch = 0;
                    for (int64_t c = 0; c < s.channels; c++) {
                        s.move(k);
                        k.source += s.source_pitch; k.target += s.target_pitch;
                        k.scale += s.constants_pitch; k.bias += s.constants_pitch; k.low += s.constants_pitch;
                    }
                }
            }
    });
}
