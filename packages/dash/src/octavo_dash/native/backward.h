// The backward pass: tasks (query tile, key tile) executed by threads in the order of a schedule.
#pragma once

#include <omp.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "forward.h"

namespace octavo {

// When each task started, had computed, got its turn and had added, in seconds; and by which thread. Null if not wanted.
struct Stamps {
    double *start, *computed, *turn, *end;  // [tasks]
    std::int32_t* thread;                   // [tasks]
};

// The tables of a schedule. A unit is run by one thread from end to end; a chain is the run of tasks of a key tile.
struct Plan {
    const std::int32_t *head, *kv, *q, *wait;  // [tasks]
    const std::int64_t* unit_start;            // [units + 1]
    const std::int64_t* lane_start;            // [lanes + 1]: where the tasks of each worker start in
    const std::int64_t* lane_task;             // [tasks]: the tasks of all workers, each in program order
    std::int64_t tasks, units, lanes;
    bool claim;          // whether threads take whole units in launch order: no unit waits for a later one
    bool deterministic;  // whether additions wait for their turn; otherwise they are made as they come
    unsigned jitter;     // seed of random sleeps between tasks, which tests use; 0 for none
    Stamps stamps;
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
    // Whether enter would return at once.
    bool open(std::int64_t tile, std::int32_t turn) const {
        return !in_turn_ || state_[tile].load(std::memory_order_acquire) == turn;
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
    Backward(const Shape& shape, const T* q, const T* k, const T* v, const T* out, const T* dout, const T* lse,
             const T* dlse, T scale, const Plan& plan, int threads)
        : s(shape), plan_(plan), scale_(scale), threads_(threads), q_size_(std::int64_t(s.block_m) * s.head_dim),
          kv_size_(std::int64_t(s.block_n) * s.head_dim), queries_(s.cu_q, s.batch, s.heads, s.block_m),
          keys_(s.cu_k, s.batch, s.heads_kv, s.block_n), chains_(s.cu_k, s.batch, s.heads, s.block_n),
          dq_turns_(queries_.count(), plan.deterministic), dkv_turns_(keys_.count(), plan.deterministic),
          q_(gather(queries_, q, s.head_dim, threads)), dout_(gather(queries_, dout, s.head_dim, threads)),
          k_(gather(keys_, k, s.head_dim, threads)), k_turned_(turned(keys_, k_.get(), s.head_dim, threads)),
          v_turned_(turned(keys_, gather(keys_, v, s.head_dim, threads).get(), s.head_dim, threads)),
          dq_(zeros(queries_.count() * q_size_)), dk_(zeros(keys_.count() * kv_size_)),
          dv_(zeros(keys_.count() * kv_size_)), dk_chain_(buffer<T>(chains_.count() * kv_size_)),
          dv_chain_(buffer<T>(chains_.count() * kv_size_)), lse_(buffer<T>(queries_.count() * s.block_m)),
          delta_(buffer<T>(queries_.count() * s.block_m)) {
        row_statistics(out, lse, dlse);
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
                serve_lanes(omp_get_thread_num(), omp_get_num_threads(), work, random);
            }
        }
        scatter(queries_, dq_.get(), dq, s.head_dim, scale_, threads_);
        scatter(keys_, dk_.get(), dk, s.head_dim, scale_, threads_);
        scatter(keys_, dv_.get(), dv, s.head_dim, T(1), threads_);
    }

private:
    struct Workspace {
        Buffer<T> p, ds, dq;
        explicit Workspace(const Shape& s)
            : p(buffer<T>(s.block_m * s.block_n)), ds(buffer<T>(s.block_m * s.block_n)),
              dq(buffer<T>(s.block_m * s.head_dim)) {}
    };

    static Buffer<T> zeros(std::int64_t count) {
        auto out = buffer<T>(count);
        std::fill(out.get(), out.get() + count, T(0));
        return out;
    }

    // For every query LSE * log2(e) and delta = rowsum(out * dout) - dLSE.
    void row_statistics(const T* out, const T* lse, const T* dlse) {
        const auto out_tiles = gather(queries_, out, s.head_dim, threads_);
        const std::int64_t tokens = s.cu_q[s.batch];
#pragma omp parallel for schedule(static) num_threads(threads_)
        for (std::int64_t tile = 0; tile < queries_.count(); ++tile) {
            const std::int64_t token = queries_.token(tile), rows = queries_.rows(tile), h = queries_.head(tile) % s.heads;
            for (std::int64_t row = 0; row < s.block_m; ++row) {
                const std::int64_t at = tile * q_size_ + row * s.head_dim;
                T delta = row < rows ? -dlse[h * tokens + token + row] : T(0);
                for (int c = 0; c < s.head_dim; ++c) delta += out_tiles[at + c] * dout_[at + c];
                delta_[tile * s.block_m + row] = delta;
                lse_[tile * s.block_m + row] = row < rows ? T(lse[h * tokens + token + row] * kLog2E) : T(0);
            }
        }
    }

    // One thread in the place of every so many workers: takes each as far as it gets without waiting, so that a key
    // tile stays in the cache. The schedule has no cycle, hence some worker can always go on.
    void serve_lanes(int thread, int threads, Workspace& work, std::minstd_rand& random) {
        std::vector<std::int64_t> next(plan_.lane_start, plan_.lane_start + plan_.lanes);
        for (bool finished = false; !finished;) {
            bool progress = false;
            finished = true;
            for (std::int64_t lane = thread; lane < plan_.lanes; lane += threads) {
                const std::int64_t end = plan_.lane_start[lane + 1];
                for (; next[lane] < end && open(plan_.lane_task[next[lane]]); ++next[lane], progress = true)
                    task(plan_.lane_task[next[lane]], work, random);
                finished = finished && next[lane] == end;
            }
            if (!progress) std::this_thread::yield();
        }
    }

    // Whether a task would find its turn at dQ, and at dK and dV where it ends a chain.
    bool open(std::int64_t t) const {
        const int head = plan_.head[t];
        return dq_turns_.open(queries_.first(head) + plan_.q[t], plan_.wait[t]) &&
               (!ends_chain(t) || dkv_turns_.open(keys_.first(head / s.group()) + plan_.kv[t], head % s.group()));
    }

    void task(std::int64_t t, Workspace& work, std::minstd_rand& random) {
        const int bm = s.block_m, bn = s.block_n, dim = s.head_dim;
        const int head = plan_.head[t], b = head / s.heads, member = head % s.group();
        const std::int64_t q_tile = queries_.first(head) + plan_.q[t];
        const std::int64_t kv_tile = keys_.first(head / s.group()) + plan_.kv[t];
        const std::int64_t chain = chains_.first(head) + plan_.kv[t];
        const T *query = q_.get() + q_tile * q_size_, *dout = dout_.get() + q_tile * q_size_;
        T *dk = dk_chain_.get() + chain * kv_size_, *dv = dv_chain_.get() + chain * kv_size_;
        stamp(plan_.stamps.start, t);
        if (plan_.stamps.thread) plan_.stamps.thread[t] = omp_get_thread_num();
        if (t == 0 || ends_chain(t - 1)) {
            std::fill(dk, dk + kv_size_, T(0));
            std::fill(dv, dv + kv_size_, T(0));
        }
        multiply<T, false>({query, dim, 1}, k_turned_.get() + kv_tile * kv_size_, work.p.get(), bm, bn, dim);
        multiply<T, false>({dout, dim, 1}, v_turned_.get() + kv_tile * kv_size_, work.ds.get(), bm, bn, dim);
        softmax_gradient(Mask(s, b, plan_.q[t], plan_.kv[t]), q_tile * bm, work.p.get(), work.ds.get());
        multiply<T, true>({work.p.get(), 1, bn}, dout, dv, bn, dim, bm);
        multiply<T, true>({work.ds.get(), 1, bn}, query, dk, bn, dim, bm);
        multiply<T, false>({work.ds.get(), bn, 1}, k_.get() + kv_tile * kv_size_, work.dq.get(), bm, dim, bn);
        if (plan_.jitter) std::this_thread::sleep_for(std::chrono::microseconds(random() % 50));
        stamp(plan_.stamps.computed, t);
        dq_turns_.enter(q_tile, plan_.wait[t]);
        stamp(plan_.stamps.turn, t);
        add(dq_.get() + q_tile * q_size_, work.dq.get(), q_size_);
        dq_turns_.leave(q_tile, plan_.wait[t]);
        stamp(plan_.stamps.end, t);
        if (!ends_chain(t)) return;
        dkv_turns_.enter(kv_tile, member);  // query heads of a group add in increasing order
        add(dk_.get() + kv_tile * kv_size_, dk, kv_size_);
        add(dv_.get() + kv_tile * kv_size_, dv, kv_size_);
        dkv_turns_.leave(kv_tile, member);
    }

    static void stamp(double* times, std::int64_t t) {
        using Seconds = std::chrono::duration<double>;
        if (times) times[t] = Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    }

    bool ends_chain(std::int64_t t) const {
        return t + 1 == plan_.tasks || plan_.head[t] != plan_.head[t + 1] || plan_.kv[t] != plan_.kv[t + 1];
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

    static void add(T* to, const T* from, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
    }

    const Shape& s;
    const Plan& plan_;
    const T scale_;
    const int threads_;
    const std::int64_t q_size_, kv_size_;
    const Tiling queries_, keys_, chains_;
    Turnstile dq_turns_, dkv_turns_;
    Buffer<T> q_, dout_, k_, k_turned_, v_turned_, dq_, dk_, dv_, dk_chain_, dv_chain_, lse_, delta_;
};

}  // namespace octavo
