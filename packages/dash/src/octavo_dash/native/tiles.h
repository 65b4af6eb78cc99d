// Sequences packed end to end, cut into padded tiles.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <vector>

namespace octavo {

// The sizes of a problem; tensors are [tokens, heads, head_dim], sequence after sequence.
struct Shape {
    const std::int64_t* cu_q;  // [batch + 1]: where the queries of each sequence start
    const std::int64_t* cu_k;  // [batch + 1]
    int batch, heads, heads_kv, head_dim;
    int left, right;  // window sides, -1 for no limit
    int block_m, block_n;

    int group() const { return heads / heads_kv; }
    std::int64_t queries(int b) const { return cu_q[b + 1] - cu_q[b]; }
    std::int64_t keys(int b) const { return cu_k[b + 1] - cu_k[b]; }
    std::int64_t q_tiles(int b) const { return (queries(b) + block_m - 1) / block_m; }
    std::int64_t kv_tiles(int b) const { return (keys(b) + block_n - 1) / block_n; }
};

// The part of a tile that lies in its sequence and in the window: for each row the columns it sees are [first, end).
struct Mask {
    std::int64_t first_row, rows, first_column, columns, diagonal;
    int left, right;

    Mask(const Shape& s, int b, std::int64_t q_tile, std::int64_t kv_tile)
        : first_row(q_tile * s.block_m),
          rows(std::min<std::int64_t>(s.block_m, s.queries(b) - first_row)),
          first_column(kv_tile * s.block_n),
          columns(std::min<std::int64_t>(s.block_n, s.keys(b) - first_column)),
          diagonal(s.keys(b) - s.queries(b)),
          left(s.left),
          right(s.right) {}

    int first(std::int64_t row) const {
        if (row >= rows || left < 0) return 0;
        return int(std::clamp<std::int64_t>(first_row + row + diagonal - left - first_column, 0, columns));
    }
    int end(std::int64_t row) const {
        if (row >= rows) return 0;
        if (right < 0) return int(columns);
        return int(std::clamp<std::int64_t>(first_row + row + diagonal + right + 1 - first_column, 0, columns));
    }
};

template <typename T>
struct Free {
    void operator()(T* p) const { ::operator delete[](p, std::align_val_t(64)); }
};
template <typename T>
using Buffer = std::unique_ptr<T[], Free<T>>;

template <typename T>
Buffer<T> buffer(std::size_t count) {
    return Buffer<T>(static_cast<T*>(::operator new[](std::max<std::size_t>(count, 1) * sizeof(T), std::align_val_t(64))));
}

// Offsets of the tiles of each head in a table over all heads, head b * heads + h; one more entry at the end.
inline std::vector<std::int64_t> tile_offsets(const Shape& s, int heads, bool queries) {
    std::vector<std::int64_t> offsets{0};
    for (int b = 0; b < s.batch; ++b)
        for (int h = 0; h < heads; ++h) offsets.push_back(offsets.back() + (queries ? s.q_tiles(b) : s.kv_tiles(b)));
    return offsets;
}

// Copies rows of one head out of a packed tensor into a tile of `block` rows; the rows beyond the sequence are zero.
template <typename T>
void gather(const T* packed, T* tile, std::int64_t token, std::int64_t rows, int block, int heads, int head, int dim) {
    for (std::int64_t row = 0; row < rows; ++row)
        std::memcpy(tile + row * dim, packed + ((token + row) * heads + head) * dim, dim * sizeof(T));
    std::fill(tile + rows * dim, tile + std::int64_t(block) * dim, T(0));
}

template <typename T>
void transpose(const T* tile, T* out, int rows, int columns) {
    for (int row = 0; row < rows; ++row)
        for (int column = 0; column < columns; ++column) out[column * rows + row] = tile[row * columns + column];
}

}  // namespace octavo
