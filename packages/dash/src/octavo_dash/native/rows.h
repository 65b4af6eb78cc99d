// Rows of scores: exponential, largest element and sum, the same bits wherever the row lies.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "matmul.h"

namespace octavo {

// 2^x for x <= 0 in single precision: a polynomial on [-1/2, 1/2] and the exponent put in place; 0 below 2^-126.
inline Simd<float>::Vector exp2_vector(Simd<float>::Vector x) {
    using Vector = Simd<float>::Vector;
    typedef std::int32_t Integers __attribute__((vector_size(kVectorBytes)));
    const Vector floor_value = Vector{} - 126.0f;
    const Integers vanishes = x < floor_value;
    x = vanishes ? floor_value : x;
    const Vector shift = Vector{} + 12582912.0f;  // 1.5 * 2^23: adding it rounds to the nearest integer
    const Vector whole = (x + shift) - shift;
    const Vector part = x - whole;
    // The Taylor series of 2^t in t ln 2; its first term left out is below 2^-24 on [-1/2, 1/2].
    Vector sum = Vector{} + 1.5252733e-5f;
    sum = sum * part + 1.5403530e-4f;
    sum = sum * part + 1.3333558e-3f;
    sum = sum * part + 9.6181291e-3f;
    sum = sum * part + 5.5504109e-2f;
    sum = sum * part + 2.4022651e-1f;
    sum = sum * part + 6.9314718e-1f;
    sum = sum * part + 1.0f;
    const Integers exponent = (__builtin_convertvector(whole, Integers) + 127) << 23;
    Vector scale;
    static_assert(sizeof(scale) == sizeof(exponent), "a float and its exponent take the same room");
    __builtin_memcpy(&scale, &exponent, sizeof(scale));
    return vanishes ? Vector{} : sum * scale;
}

// row[i] = 2^(row[i] * factor - offset) for count elements, a multiple of the vector width.
inline void exp2_row(float* row, int count, float factor, float offset) {
    using Vector = Simd<float>::Vector;
    for (int i = 0; i < count; i += Simd<float>::width) {
        Vector& x = *reinterpret_cast<Vector*>(row + i);
        x = exp2_vector(x * factor - offset);
    }
}

inline void exp2_row(double* row, int count, double factor, double offset) {
    for (int i = 0; i < count; ++i) row[i] = std::exp2(row[i] * factor - offset);
}

template <typename T>
T row_max(const T* row, int count) {
    using Vector = typename Simd<T>::Vector;
    constexpr int width = Simd<T>::width;
    T highest = -std::numeric_limits<T>::infinity();
    int i = 0;
    if (count >= width) {
        Vector high = *reinterpret_cast<const Vector*>(row);
        for (i = width; i + width <= count; i += width) {
            const Vector x = *reinterpret_cast<const Vector*>(row + i);
            high = x > high ? x : high;
        }
        for (int lane = 0; lane < width; ++lane) highest = std::max(highest, high[lane]);
    }
    for (; i < count; ++i) highest = std::max(highest, row[i]);
    return highest;
}

// Sums a whole number of vectors.
template <typename T>
T row_sum(const T* row, int count) {
    using Vector = typename Simd<T>::Vector;
    Vector sums{};
    for (int i = 0; i < count; i += Simd<T>::width) sums += *reinterpret_cast<const Vector*>(row + i);
    T sum = 0;
    for (int lane = 0; lane < Simd<T>::width; ++lane) sum += sums[lane];
    return sum;
}

}  // namespace octavo
