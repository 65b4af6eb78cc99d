// Small matrix products on tiles that lie in the first levels of cache.
#pragma once

#include <cstddef>

namespace octavo {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
constexpr int kColumnVectors = 4;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
constexpr int kColumnVectors = 2;
#else
constexpr int kVectorBytes = 16;
constexpr int kColumnVectors = 2;
#endif
constexpr int kRows = 4;  // kRows * kColumnVectors sums stay in registers

template <typename T>
struct Simd {
    static constexpr int width = kVectorBytes / int(sizeof(T));
    typedef T Vector __attribute__((vector_size(kVectorBytes), aligned(sizeof(T)), may_alias));
};

// A matrix whose element (row, column) is data[row * row_stride + column * column_stride].
template <typename T>
struct View {
    const T* data;
    std::ptrdiff_t row_stride;
    std::ptrdiff_t column_stride;
};

// kRows rows and Vectors * width columns of C: C (+)= A B, with the inner dimension summed in increasing order.
template <typename T, int Vectors, bool Accumulate>
inline void multiply_block(const View<T>& a, int row, const T* b, int b_stride, T* c, int c_stride, int inner) {
    using Vector = typename Simd<T>::Vector;
    constexpr int width = Simd<T>::width;
    Vector sum[kRows][Vectors];
    for (int r = 0; r < kRows; ++r)
        for (int v = 0; v < Vectors; ++v)
            sum[r][v] = Accumulate ? *reinterpret_cast<const Vector*>(c + r * c_stride + v * width) : Vector{};
    const T* a_row = a.data + row * a.row_stride;
    for (int k = 0; k < inner; ++k) {
        Vector right[Vectors];
        for (int v = 0; v < Vectors; ++v)
            right[v] = *reinterpret_cast<const Vector*>(b + std::ptrdiff_t(k) * b_stride + v * width);
        for (int r = 0; r < kRows; ++r) {
            const T left = a_row[r * a.row_stride + k * a.column_stride];
            for (int v = 0; v < Vectors; ++v) sum[r][v] += left * right[v];
        }
    }
    for (int r = 0; r < kRows; ++r)
        for (int v = 0; v < Vectors; ++v) *reinterpret_cast<Vector*>(c + r * c_stride + v * width) = sum[r][v];
}

// C (+)= A B with C [rows, columns] and B [inner, columns] stored row by row. rows is a multiple of kRows, columns one of
// the vector width: head dimensions and block sizes are multiples of 16.
template <typename T, bool Accumulate>
inline void multiply(const View<T>& a, const T* b, T* c, int rows, int columns, int inner) {
    constexpr int width = Simd<T>::width;
    constexpr int wide = kColumnVectors * width;
    for (int column = 0; column < columns;) {
        const bool fits = column + wide <= columns;
        for (int row = 0; row < rows; row += kRows) {
            T* out = c + row * columns + column;
            if (fits)
                multiply_block<T, kColumnVectors, Accumulate>(a, row, b + column, columns, out, columns, inner);
            else
                multiply_block<T, 1, Accumulate>(a, row, b + column, columns, out, columns, inner);
        }
        column += fits ? wide : width;
    }
}

}  // namespace octavo
