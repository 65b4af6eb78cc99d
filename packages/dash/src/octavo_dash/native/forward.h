// The forward pass: softmax(scale * Q K^T) V, a query tile at a time, with the running maximum of FlashAttention.
#pragma once

#include "matmul.h"
#include "rows.h"
#include "tiles.h"

namespace octavo {

constexpr double kLog2E = 1.4426950408889634;

// One query tile: the running output, largest score and sum of each row.
template <typename T>
class Softmax {
public:
    Softmax(const Shape& s, T scale)
        : s_(s), scale_(scale), acc_(buffer<T>(s.block_m * s.head_dim)), scores_(buffer<T>(s.block_m * s.block_n)),
          peak_(s.block_m), total_(s.block_m) {}

    void start() {
        std::fill(acc_.get(), acc_.get() + s_.block_m * s_.head_dim, T(0));
        std::fill(peak_.begin(), peak_.end(), -std::numeric_limits<T>::infinity());
        std::fill(total_.begin(), total_.end(), T(0));
    }

    void take(const Mask& mask, const T* q, const T* k_turned, const T* v) {
        const int bm = s_.block_m, bn = s_.block_n, dim = s_.head_dim;
        multiply<T, false>({q, dim, 1}, k_turned, scores_.get(), bm, bn, dim);
        for (int row = 0; row < bm; ++row) {
            T* line = scores_.get() + row * bn;
            const int first = mask.first(row), end = mask.end(row);
            if (first >= end) {
                std::fill(line, line + bn, T(0));
                continue;
            }
            const T highest = std::max(peak_[row], row_max(line + first, end - first) * scale_);
            const T shrink = std::exp(peak_[row] - highest);
            exp2_row(line, bn, T(scale_ * kLog2E), T(highest * kLog2E));
            std::fill(line, line + first, T(0));
            std::fill(line + end, line + bn, T(0));
            total_[row] = total_[row] * shrink + row_sum(line, bn);
            peak_[row] = highest;
            if (shrink != T(1))
                for (int column = 0; column < dim; ++column) acc_[row * dim + column] *= shrink;
        }
        multiply<T, true>({scores_.get(), bn, 1}, v, acc_.get(), bm, dim, bn);
    }

    // Writes a row of the output; returns its log-sum-exp.
    T finish(std::int64_t row, T* out) const {
        const T divisor = total_[row] > 0 ? T(1) / total_[row] : T(0);
        for (int column = 0; column < s_.head_dim; ++column) out[column] = acc_[row * s_.head_dim + column] * divisor;
        return peak_[row] + std::log(total_[row]);
    }

private:
    const Shape& s_;
    const T scale_;
    Buffer<T> acc_, scores_;
    std::vector<T> peak_, total_;
};

// out [tokens, heads, head_dim]; lse [heads, tokens], -inf for a query that sees no key. Every query tile is the work
// of one thread, key tiles in increasing order: the bits do not depend on the number of threads.
template <typename T>
void forward(const Shape& s, const T* q, const T* k, const T* v, T* out, T* lse, T scale, int threads) {
    const int dim = s.head_dim;
    const std::int64_t tokens = s.cu_q[s.batch], q_size = std::int64_t(s.block_m) * dim;
    const std::int64_t kv_size = std::int64_t(s.block_n) * dim;
    const Tiling queries(s.cu_q, s.batch, s.heads, s.block_m), keys(s.cu_k, s.batch, s.heads_kv, s.block_n);
    const auto q_tiles = gather(queries, q, dim, threads), v_tiles = gather(keys, v, dim, threads);
    const auto k_turned = turned(keys, gather(keys, k, dim, threads).get(), dim, threads);
#pragma omp parallel num_threads(threads)
    {
        Softmax<T> softmax(s, scale);
#pragma omp for schedule(dynamic, 1)
        for (std::int64_t tile = 0; tile < queries.count(); ++tile) {
            const int head = queries.head(tile), b = head / s.heads, h = head % s.heads;
            const std::int64_t first_key = keys.first(b * s.heads_kv + h / s.group());
            const std::int64_t i = tile - queries.first(head), rows = queries.rows(tile);
            softmax.start();
            for (std::int64_t j = 0; j < s.kv_tiles(b); ++j) {
                const Mask mask(s, b, i, j);
                if (mask.end(rows - 1) == 0 || mask.first(0) >= mask.columns) continue;
                softmax.take(mask, q_tiles.get() + tile * q_size, k_turned.get() + (first_key + j) * kv_size,
                             v_tiles.get() + (first_key + j) * kv_size);
            }
            for (std::int64_t row = 0; row < rows; ++row) {
                const std::int64_t token = queries.token(tile) + row;
                lse[h * tokens + token] = softmax.finish(row, out + (token * s.heads + h) * dim);
            }
        }
    }
}

}  // namespace octavo
