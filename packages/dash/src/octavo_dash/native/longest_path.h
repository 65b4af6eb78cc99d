// When each task of a schedule starts and ends: the longest path through program order and order of additions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace octavo {

struct Costs {
    double compute, reduce, sync;
};

struct Times {
    double *start, *reduce_start, *end;  // [tasks]
};

// When a task ends that may start at `start`, given its predecessors' ends.
inline double finish(std::int64_t t, double start, const std::int64_t* dq_before, const std::int64_t* dkv_before,
                     const Costs& costs, const Times& times) {
    double ready = start + costs.compute;
    if (dq_before[t] >= 0) ready = std::max(ready, times.end[dq_before[t]] + costs.sync);
    if (dkv_before && dkv_before[t] >= 0) ready = std::max(ready, times.end[dkv_before[t]]);
    times.start[t] = start;
    times.reduce_start[t] = ready;
    return times.end[t] = ready + costs.reduce;
}

// Workers with fixed lists of tasks. Tasks on a cycle never run: their times stay as they are.
inline void run_fixed(const std::int64_t* worker_start, std::int64_t workers, const std::int64_t* worker_tasks,
                              const std::int64_t* dq_before, const std::int64_t* dkv_before, const Costs& costs,
                              const Times& times) {
    const std::int64_t tasks = worker_start[workers];
    std::vector<std::vector<std::int64_t>> waiting(tasks);  // workers that stand before a task's end
    std::vector<char> done(tasks, 0);
    std::vector<std::int64_t> position(worker_start, worker_start + workers), ready;
    std::vector<double> clock(workers, 0.0);
    for (std::int64_t w = workers; w-- > 0;) ready.push_back(w);
    while (!ready.empty()) {
        const std::int64_t w = ready.back();
        ready.pop_back();
        for (; position[w] < worker_start[w + 1]; ++position[w]) {
            const std::int64_t t = worker_tasks[position[w]];
            std::int64_t missing = -1;
            if (dq_before[t] >= 0 && !done[dq_before[t]]) missing = dq_before[t];
            if (dkv_before && dkv_before[t] >= 0 && !done[dkv_before[t]]) missing = dkv_before[t];
            if (missing >= 0) {
                waiting[missing].push_back(w);
                break;
            }
            clock[w] = finish(t, clock[w], dq_before, dkv_before, costs, times);
            done[t] = 1;
            ready.insert(ready.end(), waiting[t].begin(), waiting[t].end());
            waiting[t].clear();
        }
    }
}

// The worker that is free first takes the next unit, the lowest of them where several are. Units wait for earlier ones
// only.
inline void run_dynamic(const std::int64_t* unit_start, std::int64_t units, std::int64_t workers,
                                const std::int64_t* dq_before, const Costs& costs, const Times& times,
                                std::int32_t* unit_worker) {
    using Free = std::pair<double, std::int32_t>;
    std::priority_queue<Free, std::vector<Free>, std::greater<Free>> free;
    for (std::int32_t w = 0; w < workers; ++w) free.push({0.0, w});
    for (std::int64_t unit = 0; unit < units; ++unit) {
        auto [clock, worker] = free.top();
        free.pop();
        unit_worker[unit] = worker;
        for (std::int64_t t = unit_start[unit]; t < unit_start[unit + 1]; ++t) {
            if (dq_before[t] >= t) return;
            clock = finish(t, clock, dq_before, nullptr, costs, times);
        }
        free.push({clock, worker});
    }
}

}  // namespace octavo
