// The backward pass: tasks (query tile, key tile) executed by threads in the order of a schedule.
#pragma once

#include <omp.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "forward.h"

namespace octavo {

// The tables of a schedule. A unit is run by one thread from end to end; a chain is the run of tasks of a key tile.
struct Plan {
    const std::int32_t *head, *kv, *q, *wait;  // [tasks]
    const std::int64_t* unit_start;            // [units + 1]
    const std::int64_t* order;                 // [tasks]: a topological order of the tasks
    const std::int32_t* lane;                  // [tasks]: tasks of a chain share a lane, a thread serves whole lanes
    std::int64_t tasks, units;
    bool claim;          // whether threads take whole units in launch order: no unit waits for a later one
    bool deterministic;  // whether additions wait for their turn; otherwise they are made as they come
    unsigned jitter;     // seed of random sleeps between tasks, which tests use; 0 for none
};

// Lets contributions to a tile in one at a time: in turn, or as they come.
class Turnstile {
public:
    Turnstile(std::int64_t tiles, bool in_turn) : in_turn_(in_turn), state_(tiles) {
        for (auto& s : state_) s.store(in_turn ? 0 : kOpen, std::memory_order_relaxed);
    }
    void enter(std::int64_t tile, std::int32_t turn) {
        auto& state = state_[tile];
        for (int spins = 0;; ++spins) {
            std::int32_t expected = in_turn_ ? turn : kOpen;
            if (in_turn_ ? state.load(std::memory_order_acquire) == turn
                         : state.compare_exchange_weak(expected, kShut, std::memory_order_acquire))
                return;
            if (spins > 256) std::this_thread::yield();
        }
    }
    void leave(std::int64_t tile, std::int32_t turn) {
        state_[tile].store(in_turn_ ? turn + 1 : kOpen, std::memory_order_release);
    }

private:
    static constexpr std::int32_t kOpen = -1, kShut = -2;
    bool in_turn_;
    std::vector<std::atomic<std::int32_t>> state_;
};

template <typename T>
class Backward {
public:
    Backward(const Shape& shape, const T* q, const T* k, const T* v, const T* out, const T* dout, const T* lse, T scale,
             const Plan& plan, int threads)
        : s(shape), plan_(plan), scale_(scale), threads_(threads), q_offsets_(tile_offsets(s, s.heads, true)),
          kv_offsets_(tile_offsets(s, s.heads_kv, false)), chain_offsets_(tile_offsets(s, s.heads, false)),
          dq_turns_(q_offsets_.back(), plan.deterministic), dkv_turns_(kv_offsets_.back(), plan.deterministic) {
        pack_queries(q, out, dout, lse);
        pack_keys(k, v);
    }

    void run(T* dq, T* dk, T* dv) {
        std::atomic<std::int64_t> next{0};
#pragma omp parallel num_threads(threads_)
        {
            Workspace work(s);
            std::minstd_rand random(plan_.jitter * 7919u + unsigned(omp_get_thread_num()) + 1u);
            if (plan_.claim) {
                for (std::int64_t unit; (unit = next.fetch_add(1, std::memory_order_relaxed)) < plan_.units;)
                    for (std::int64_t t = plan_.unit_start[unit]; t < plan_.unit_start[unit + 1]; ++t)
                        task(t, work, random);
            } else {
                for (std::int64_t position = 0; position < plan_.tasks; ++position) {
                    const std::int64_t t = plan_.order[position];
                    if (plan_.lane[t] % omp_get_num_threads() == omp_get_thread_num()) task(t, work, random);
                }
            }
        }
        unpack(dq_.get(), q_offsets_, dq, s.cu_q, s.heads, s.block_m);
        unpack(dk_.get(), kv_offsets_, dk, s.cu_k, s.heads_kv, s.block_n);
        unpack(dv_.get(), kv_offsets_, dv, s.cu_k, s.heads_kv, s.block_n);
    }

private:
    struct Workspace {
        Buffer<T> p, ds, dq;
        explicit Workspace(const Shape& s)
            : p(buffer<T>(s.block_m * s.block_n)), ds(buffer<T>(s.block_m * s.block_n)),
              dq(buffer<T>(s.block_m * s.head_dim)) {}
    };

    void pack_queries(const T* q, const T* out, const T* dout, const T* lse) {
        const int bm = s.block_m, dim = s.head_dim;
        const std::int64_t tiles = q_offsets_.back(), tokens = s.cu_q[s.batch];
        q_ = buffer<T>(tiles * bm * dim);
        dout_ = buffer<T>(tiles * bm * dim);
        dq_ = buffer<T>(tiles * bm * dim);
        lse_ = buffer<T>(tiles * bm);
        delta_ = buffer<T>(tiles * bm);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_)
        for (std::int64_t tile = 0; tile < tiles; ++tile) {
            const int head = head_of(q_offsets_, tile), b = head / s.heads, h = head % s.heads;
            const std::int64_t first = s.cu_q[b] + (tile - q_offsets_[head]) * bm;
            const std::int64_t rows = std::min<std::int64_t>(bm, s.cu_q[b + 1] - first);
            gather(q, q_.get() + tile * bm * dim, first, rows, bm, s.heads, h, dim);
            gather(dout, dout_.get() + tile * bm * dim, first, rows, bm, s.heads, h, dim);
            std::fill(dq_.get() + tile * bm * dim, dq_.get() + (tile + 1) * bm * dim, T(0));
            for (std::int64_t row = 0; row < bm; ++row) {
                T delta = 0;
                const std::int64_t at = ((first + row) * s.heads + h) * dim;
                for (int c = 0; row < rows && c < dim; ++c) delta += out[at + c] * dout[at + c];
                delta_[tile * bm + row] = delta;
                lse_[tile * bm + row] = row < rows ? T(lse[h * tokens + first + row] * kLog2E) : T(0);
            }
        }
    }

    void pack_keys(const T* k, const T* v) {
        const int bn = s.block_n, dim = s.head_dim;
        const std::int64_t tiles = kv_offsets_.back(), size = std::int64_t(bn) * dim;
        k_ = buffer<T>(tiles * size);
        k_turned_ = buffer<T>(tiles * size);
        v_turned_ = buffer<T>(tiles * size);
        dk_ = buffer<T>(tiles * size);
        dv_ = buffer<T>(tiles * size);
        dk_chain_ = buffer<T>(chain_offsets_.back() * size);
        dv_chain_ = buffer<T>(chain_offsets_.back() * size);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads_)
        for (std::int64_t tile = 0; tile < tiles; ++tile) {
            const int head = head_of(kv_offsets_, tile), b = head / s.heads_kv, h = head % s.heads_kv;
            const std::int64_t first = s.cu_k[b] + (tile - kv_offsets_[head]) * bn;
            const std::int64_t rows = std::min<std::int64_t>(bn, s.cu_k[b + 1] - first);
            gather(v, k_.get() + tile * size, first, rows, bn, s.heads_kv, h, dim);
            transpose(k_.get() + tile * size, v_turned_.get() + tile * size, bn, dim);
            gather(k, k_.get() + tile * size, first, rows, bn, s.heads_kv, h, dim);
            transpose(k_.get() + tile * size, k_turned_.get() + tile * size, bn, dim);
            std::fill(dk_.get() + tile * size, dk_.get() + (tile + 1) * size, T(0));
            std::fill(dv_.get() + tile * size, dv_.get() + (tile + 1) * size, T(0));
        }
    }

    void task(std::int64_t t, Workspace& work, std::minstd_rand& random) {
        const int bm = s.block_m, bn = s.block_n, dim = s.head_dim;
        const int head = plan_.head[t], b = head / s.heads, h_kv = head % s.heads / s.group();
        const std::int64_t q_tile = q_offsets_[head] + plan_.q[t];
        const std::int64_t kv_tile = kv_offsets_[b * s.heads_kv + h_kv] + plan_.kv[t];
        const std::int64_t chain = (chain_offsets_[head] + plan_.kv[t]) * bn * dim;
        const bool first = t == 0 || plan_.head[t - 1] != head || plan_.kv[t - 1] != plan_.kv[t];
        const bool last = t + 1 == plan_.tasks || plan_.head[t + 1] != head || plan_.kv[t + 1] != plan_.kv[t];
        const T* dout = dout_.get() + q_tile * bm * dim;
        const T* query = q_.get() + q_tile * bm * dim;
        T* dk = dk_chain_.get() + chain;
        T* dv = dv_chain_.get() + chain;
        if (first) {
            std::fill(dk, dk + bn * dim, T(0));
            std::fill(dv, dv + bn * dim, T(0));
        }
        multiply<T, false>({query, dim, 1}, k_turned_.get() + kv_tile * bn * dim, work.p.get(), bm, bn, dim);
        multiply<T, false>({dout, dim, 1}, v_turned_.get() + kv_tile * bn * dim, work.ds.get(), bm, bn, dim);
        softmax_gradient(Mask(s, b, plan_.q[t], plan_.kv[t]), q_tile * bm, work.p.get(), work.ds.get());
        multiply<T, true>({work.p.get(), 1, bn}, dout, dv, bn, dim, bm);
        multiply<T, true>({work.ds.get(), 1, bn}, query, dk, bn, dim, bm);
        multiply<T, false>({work.ds.get(), bn, 1}, k_.get() + kv_tile * bn * dim, work.dq.get(), bm, dim, bn);
        if (plan_.jitter) std::this_thread::sleep_for(std::chrono::microseconds(random() % 50));
        add(dq_turns_, q_tile, plan_.wait[t], dq_.get() + q_tile * bm * dim, work.dq.get(), bm * dim);
        if (!last) return;
        // Query heads of a group add to dK and dV in increasing order; the turn of dK is that of dV.
        dkv_turns_.enter(kv_tile, head % s.group());
        for (int i = 0; i < bn * dim; ++i) dk_[kv_tile * bn * dim + i] += dk[i] * scale_;
        for (int i = 0; i < bn * dim; ++i) dv_[kv_tile * bn * dim + i] += dv[i];
        dkv_turns_.leave(kv_tile, head % s.group());
    }

    // From scores and dP to P and dS = P * (dP - delta); both are zero where the mask is.
    void softmax_gradient(const Mask& mask, std::int64_t first_row, T* p, T* ds) const {
        const int bn = s.block_n;
        for (int row = 0; row < s.block_m; ++row, p += bn, ds += bn) {
            const int first = mask.first(row), end = std::max(first, mask.end(row));
            const T lse = lse_[first_row + row], delta = delta_[first_row + row];
            if (first < end) exp2_row(p, bn, T(scale_ * kLog2E), lse);
            std::fill(p, p + first, T(0));
            std::fill(p + end, p + bn, T(0));
            for (int c = 0; c < bn; ++c) ds[c] = p[c] * (ds[c] - delta);
        }
    }

    static void add(Turnstile& turns, std::int64_t tile, std::int32_t turn, T* to, const T* from, int count) {
        turns.enter(tile, turn);
        for (int i = 0; i < count; ++i) to[i] += from[i];
        turns.leave(tile, turn);
    }

    void unpack(const T* tiles, const std::vector<std::int64_t>& offsets, T* packed, const std::int64_t* cu, int heads,
                int block) const {
        const int dim = s.head_dim;
        const T factor = tiles == dq_.get() ? scale_ : T(1);
#pragma omp parallel for schedule(static) num_threads(threads_)
        for (std::int64_t tile = 0; tile < offsets.back(); ++tile) {
            const int head = head_of(offsets, tile), b = head / heads, h = head % heads;
            const std::int64_t first = cu[b] + (tile - offsets[head]) * block;
            const std::int64_t rows = std::min<std::int64_t>(block, cu[b + 1] - first);
            for (std::int64_t row = 0; row < rows; ++row)
                for (int c = 0; c < dim; ++c)
                    packed[((first + row) * heads + h) * dim + c] = tiles[(tile * block + row) * dim + c] * factor;
        }
    }

    static int head_of(const std::vector<std::int64_t>& offsets, std::int64_t tile) {
        return int(std::upper_bound(offsets.begin(), offsets.end(), tile) - offsets.begin()) - 1;
    }

    const Shape& s;
    const Plan& plan_;
    const T scale_;
    const int threads_;
    const std::vector<std::int64_t> q_offsets_, kv_offsets_, chain_offsets_;
    Turnstile dq_turns_, dkv_turns_;
    Buffer<T> q_, dout_, dq_, lse_, delta_, k_, k_turned_, v_turned_, dk_, dv_, dk_chain_, dv_chain_;
};

}  // namespace octavo
