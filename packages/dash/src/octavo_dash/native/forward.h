// The forward pass: softmax(scale * Q K^T) V, a query tile at a time, with the running maximum of FlashAttention.
#pragma once

#include "exponential.h"
#include "matmul.h"
#include "tiles.h"

namespace octavo {

constexpr double kLog2E = 1.4426950408889634;

// out [tokens, heads, head_dim]; lse [heads, tokens], -inf for a query that sees no key. Every query tile is the work
// of one thread, key tiles in increasing order: the bits do not depend on the number of threads.
template <typename T>
void forward(const Shape& s, const T* q, const T* k, const T* v, T* out, T* lse, T scale, int threads) {
    const int dim = s.head_dim, bm = s.block_m, bn = s.block_n;
    const auto offsets = tile_offsets(s, s.heads, true);
    const std::int64_t tiles = offsets.back(), tokens = s.cu_q[s.batch];
#pragma omp parallel num_threads(threads)
    {
        auto q_tile = buffer<T>(bm * dim), acc = buffer<T>(bm * dim), scores = buffer<T>(bm * bn);
        auto k_tile = buffer<T>(bn * dim), k_turned = buffer<T>(bn * dim), v_tile = buffer<T>(bn * dim);
        std::vector<T> peak(bm), total(bm);
#pragma omp for schedule(dynamic, 1)
        for (std::int64_t tile = 0; tile < tiles; ++tile) {
            const int head = int(std::upper_bound(offsets.begin(), offsets.end(), tile) - offsets.begin()) - 1;
            const int b = head / s.heads, h = head % s.heads, h_kv = h / s.group();
            const std::int64_t i = tile - offsets[head];
            const std::int64_t rows = std::min<std::int64_t>(bm, s.queries(b) - i * bm);
            gather(q, q_tile.get(), s.cu_q[b] + i * bm, rows, bm, s.heads, h, dim);
            std::fill(acc.get(), acc.get() + bm * dim, T(0));
            std::fill(peak.begin(), peak.end(), -std::numeric_limits<T>::infinity());
            std::fill(total.begin(), total.end(), T(0));
            for (std::int64_t j = 0; j < s.kv_tiles(b); ++j) {
                const Mask mask(s, b, i, j);
                if (mask.end(rows - 1) == 0 || mask.first(0) >= mask.columns) continue;
                gather(k, k_tile.get(), s.cu_k[b] + j * bn, mask.columns, bn, s.heads_kv, h_kv, dim);
                gather(v, v_tile.get(), s.cu_k[b] + j * bn, mask.columns, bn, s.heads_kv, h_kv, dim);
                transpose(k_tile.get(), k_turned.get(), bn, dim);
                multiply<T, false>({q_tile.get(), dim, 1}, k_turned.get(), scores.get(), bm, bn, dim);
                for (int row = 0; row < bm; ++row) {
                    T* line = scores.get() + row * bn;
                    const int first = mask.first(row), end = mask.end(row);
                    if (first >= end) {
                        std::fill(line, line + bn, T(0));
                        continue;
                    }
                    const T highest = std::max(peak[row], *std::max_element(line + first, line + end) * scale);
                    const T shrink = std::exp(peak[row] - highest);
                    exp2_row(line, bn, T(scale * kLog2E), T(highest * kLog2E));
                    std::fill(line, line + first, T(0));
                    std::fill(line + end, line + bn, T(0));
                    T sum = 0;
                    for (int column = first; column < end; ++column) sum += line[column];
                    total[row] = total[row] * shrink + sum;
                    peak[row] = highest;
                    for (int column = 0; column < dim; ++column) acc[row * dim + column] *= shrink;
                }
                multiply<T, true>({scores.get(), bn, 1}, v_tile.get(), acc.get(), bm, dim, bn);
            }
            for (std::int64_t row = 0; row < rows; ++row) {
                const std::int64_t token = s.cu_q[b] + i * bm + row;
                const T divisor = total[row] > 0 ? T(1) / total[row] : T(0);
                for (int column = 0; column < dim; ++column)
                    out[(token * s.heads + h) * dim + column] = acc[row * dim + column] * divisor;
                lse[std::int64_t(h) * tokens + token] = peak[row] + std::log(total[row]);
            }
        }
    }
}

}  // namespace octavo
