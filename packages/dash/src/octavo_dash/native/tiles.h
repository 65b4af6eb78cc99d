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

// One side of a problem, queries or keys: which head and tokens each tile holds.
class Tiling {
public:
    Tiling(const std::int64_t* cu, int batch, int heads, int block) : block(block), heads(heads), cu_(cu), offsets_{0} {
        for (int b = 0; b < batch; ++b)
            for (int h = 0; h < heads; ++h) offsets_.push_back(offsets_.back() + (cu[b + 1] - cu[b] + block - 1) / block);
    }
    std::int64_t count() const { return offsets_.back(); }
    std::int64_t first(int head) const { return offsets_[head]; }  // of head b * heads + h
    int head(std::int64_t tile) const {
        return int(std::upper_bound(offsets_.begin(), offsets_.end(), tile) - offsets_.begin()) - 1;
    }
    std::int64_t token(std::int64_t tile) const {
        const int h = head(tile);
        return cu_[h / heads] + (tile - offsets_[h]) * block;
    }
    std::int64_t rows(std::int64_t tile) const {
        return std::min<std::int64_t>(block, cu_[head(tile) / heads + 1] - token(tile));
    }
    const int block, heads;

private:
    const std::int64_t* cu_;
    std::vector<std::int64_t> offsets_;
};

// The tiles of a tensor [tokens, heads, dim], each [block, dim]; the rows beyond a sequence are zero.
template <typename T>
Buffer<T> gather(const Tiling& tiling, const T* packed, int dim, int threads) {
    const std::int64_t size = std::int64_t(tiling.block) * dim;
    auto tiles = buffer<T>(tiling.count() * size);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (std::int64_t tile = 0; tile < tiling.count(); ++tile) {
        const std::int64_t token = tiling.token(tile), rows = tiling.rows(tile), h = tiling.head(tile) % tiling.heads;
        T* out = tiles.get() + tile * size;
        for (std::int64_t row = 0; row < rows; ++row)
            std::memcpy(out + row * dim, packed + ((token + row) * tiling.heads + h) * dim, dim * sizeof(T));
        std::fill(out + rows * dim, out + size, T(0));
    }
    return tiles;
}

// The way back: every row of every tile, times `factor`, to its token.
template <typename T>
void scatter(const Tiling& tiling, const T* tiles, T* packed, int dim, T factor, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (std::int64_t tile = 0; tile < tiling.count(); ++tile) {
        const std::int64_t token = tiling.token(tile), rows = tiling.rows(tile), h = tiling.head(tile) % tiling.heads;
        for (std::int64_t row = 0; row < rows; ++row) {
            const T* from = tiles + (tile * tiling.block + row) * dim;
            T* to = packed + ((token + row) * tiling.heads + h) * dim;
            for (int column = 0; column < dim; ++column) to[column] = from[column] * factor;
        }
    }
}

// Every tile [block, dim] turned to [dim, block].
template <typename T>
Buffer<T> turned(const Tiling& tiling, const T* tiles, int dim, int threads) {
    const std::int64_t size = std::int64_t(tiling.block) * dim;
    auto out = buffer<T>(tiling.count() * size);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (std::int64_t tile = 0; tile < tiling.count(); ++tile)
        for (int row = 0; row < tiling.block; ++row)
            for (int column = 0; column < dim; ++column)
                out[tile * size + column * tiling.block + row] = tiles[tile * size + row * dim + column];
    return out;
}

}  // namespace octavo
