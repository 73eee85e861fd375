// The tables of an axis, by the operations of stridedgpu/problems/resize_taps.py in their order, none of them fused:
// for each pixel its filter's values and their sum, then their shares of it as integers, two by two.
#pragma once
#include "resize_pairs.hpp"

enum Filter { BOX, TRIANGLE, HAMMING, CUBIC, SINC3 };
typedef double (*Function)(double);
struct FilterAxis {
    double low, scale, support, narrowing;
    int64_t source, target, first, next, count, step, origin, mask, parity, groups, filter, narrow, unused;
    Function sine, cosine;
    int64_t *counts, *firsts, *ends, *indices; int32_t* weights; double* values;
};
constexpr double PI = 3.141592653589793;

INLINE double sinc(double x, Function sine) { if (x == 0) return 1; double angle = x * PI; return sine(angle) / angle; }
INLINE double weight_at(const FilterAxis& a, double x) {
    double distance = __builtin_fabs(x);
    switch (a.filter) {
    case BOX: return x > -0.5 && x <= 0.5 ? 1 : 0;
    case TRIANGLE: { double near = distance * -1.0 + 1.0; return near > 0 ? near : 0; }
    case HAMMING:
        if (!(distance < 1)) return 0;
        return distance == 0 ? 1 : sinc(distance, a.sine) * (a.cosine(distance * PI) * 0.46000000834465027 + 0.5400000214576721);
    case CUBIC:
        if (distance < 1) return (distance * 1.5 + -2.5) * distance * distance + 1.0;
        return distance < 2 ? (((distance - 5.0) * distance + 8.0) * distance + -4.0) * -0.5 : 0;
    default: return x >= -3 && x < 3 ? sinc(x, a.sine) * sinc(x / 3.0, a.sine) : 0;
    }
}

inline void filter_table(const char*, char*, const void* parameters, int64_t, int64_t) {
    FilterAxis& a = *(FilterAxis*)parameters;
    struct Span { double center; int64_t start, count; };
    auto span = [&](int64_t pixel) INLINE_LAMBDA {
        double center = a.low + (double(pixel) + 0.5) * a.scale;
        int64_t begin = int64_t(center - a.support + 0.5), end = int64_t(center + a.support + 0.5);
        if (begin < 0) begin = 0;
        return Span{center, begin, (end < a.source ? end : a.source) - begin};
    };
    // The values of a pixel's taps are a row, whose last word is their sum. Narrow weights need the largest share of the
    // whole axis, and a row for each of its pixels; others have one row for all.
    const int64_t sum_place = a.groups * 2 + 2;
    auto row_of = [&](int64_t pixel) INLINE_LAMBDA { return a.values + (a.narrow ? pixel * (sum_place + 1) : 0); };
    auto filter = [&](int64_t pixel) INLINE_LAMBDA {
        double *row = row_of(pixel), total = 0, most = 0;
        Span s = span(pixel);
        for (int64_t tap = 0; tap < s.count; tap++) {
            double value = weight_at(a, (double(tap + s.start) - s.center + 0.5) * a.narrowing);
            row[tap + 1] = value;
            total += value;
            if (value > most) most = value;
        }
        if (total == 0) total = 1;
        row[0] = row[s.count + 1] = 0;
        row[sum_place] = total;
        return most / total;
    };
    double factor = 1 << BITS;
    if (a.narrow) {
        double most = 0;
        for (int64_t pixel = 0; pixel < a.target; pixel++) { double share = filter(pixel); if (share > most) most = share; }
        factor = 1; a.unused = BITS;
        for (double scaled = most * 2; a.unused > 0 && scaled + 0.5 < double(1 << 15); scaled *= 2) { factor *= 2; a.unused--; }
    }
    for (int64_t place = 0; place < a.count; place++) {
        const int64_t pixel = a.first + place * a.next;
        if (!a.narrow) filter(pixel);
        const double *row = row_of(pixel), total = row[sum_place];
        const Span s = span(pixel);
        const int64_t last = s.count - 1;
        const bool mirrored = a.step * a.parity < 0;
        const int64_t lowest = mirrored ? last : 0, ahead = mirrored ? -1 : 1;
        const int64_t before = ((s.start + lowest) * a.step + a.origin) & a.parity, pairs = (s.count + before + 1) >> 1;
        for (int64_t pair = 0; pair < pairs; pair++) {
            const int64_t group = place * a.groups + pair;
            int32_t weight[2];
            for (int half = 0; half < 2; half++) {
                int64_t tap = lowest + (pair * 2 + half - before) * ahead;
                double scaled = row[tap + 1] / total * factor;
                weight[half] = int32_t(scaled + __builtin_copysign(0.5, scaled));
                tap = tap < 0 ? 0 : tap < last ? tap : last;
                const int64_t index = ((s.start + tap) * a.step + a.origin) & a.mask;
                if (!a.parity) a.indices[group * 2 + half] = index;
                else if (pair + half == 0) a.indices[place] = index;
            }
            auto packed = [](int32_t left, int32_t right) INLINE_LAMBDA { return int32_t((left & 0xFFFF) | uint32_t(right) << 16); };
            if (a.narrow) a.weights[group] = packed(weight[0], weight[1]);
            else {
                constexpr int32_t mask = (1 << LOW) - 1;
                a.weights[2 * group] = packed(weight[0] >> LOW, weight[1] >> LOW);
                a.weights[2 * group + 1] = packed(weight[0] & mask, weight[1] & mask);
            }
        }
        a.counts[place] = pairs;
        a.firsts[place] = s.start + a.origin;
        a.ends[place] = s.start + a.origin + s.count;
    }
}
