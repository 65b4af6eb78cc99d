"""Measuring c, r and ℓ: what the parts of a task take on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from octavo_dash.build import make_schedule
from octavo_dash.kernels import cpu
from octavo_dash.longest_path import Costs
from octavo_dash.native import native_module
from octavo_dash.planner import plan
from octavo_dash.problem import Problem
from octavo_dash.schedule import Schedule
from octavo_dash.simulate import Trace, simulate
from octavo_dash.throughput import Backward, Workload
from octavo_shared.timing import compare


@dataclass(frozen=True)
class Calibration:
    """Costs in seconds, and how well the model with these costs tells measured times.

    Attributes:
        costs: c, r and ℓ, in seconds.
        schedules: The schedules that were timed, and the mask of each.
        measured: Seconds that each took.
        predicted: Seconds that the model gives each.
    """

    costs: Costs
    schedules: tuple[str, ...]
    measured: tuple[float, ...]
    predicted: tuple[float, ...]

    @property
    def relative_error(self) -> float:
        """The largest |predicted - measured| / measured."""
        return max(abs(p / m - 1.0) for p, m in zip(self.predicted, self.measured, strict=True))


def calibrate_device(
    device: str, seqlen: int = 2048, num_heads: int = 4, head_dim: int = 64, *, repeats: int = 5, seed: int = 0
) -> Calibration:
    """Measures the costs of an attention layer's tasks: by clocks inside them on a CPU, from whole passes on a GPU.

    Args:
        device: `"cpu"` or a CUDA device.
        seqlen: Tokens.
        num_heads: Heads.
        head_dim: Head dimension.
        repeats: Runs of each schedule.
        seed: Seed of the random inputs.

    Raises:
        RuntimeError: On a CPU, the package was installed without its compiled module.
    """
    if device.startswith("cuda"):
        return _calibrate_cuda(device, seqlen, num_heads, head_dim, repeats, seed)
    schedules = [
        make_schedule(
            Problem.dense(1, seqlen, num_heads=num_heads, causal=causal, num_sms=torch.get_num_threads()), name
        )
        for causal in (False, True)
        for name in ("ascending", "descending", "spt")
    ]
    return calibrate_cpu(schedules, head_dim, repeats=repeats, seed=seed)


def _calibrate_cuda(device: str, seqlen: int, num_heads: int, head_dim: int, repeats: int, seed: int) -> Calibration:
    schedules, seconds = [], []
    for causal in (False, True):
        workload = Workload(1, seqlen, num_heads, head_dim, causal, dtype=torch.bfloat16, device=device)
        backward = Backward(workload, seed)
        for name in backward.schedules():
            run = (name, partial(backward.run, name))
            timed = compare(name, run, run, repeats=repeats, warmup=3, synchronize=torch.cuda.synchronize)
            schedules.append(plan(backward.problem, name, "canonical", Costs()))
            seconds.append(float(np.median(timed.ours_seconds)))
    return fit_costs(schedules, seconds)


def calibrate_cpu(schedules: Sequence[Schedule], head_dim: int = 64, *, repeats: int = 5, seed: int = 0) -> Calibration:
    """Reads the clock in every task of real backward passes on as many threads as the problem has workers.

    c is the median time of a task's products, r of its addition, and ℓ, over tasks that had to wait, the lower
    quartile of the time from the end of the addition before to the start of their own.

    Args:
        schedules: What to run: problems with as many workers as there are threads to run on.
        head_dim: Head dimension.
        repeats: Runs of each.
        seed: Seed of the random inputs.

    Raises:
        RuntimeError: The package was installed without its compiled module.
        ValueError: No schedule, or one without work.
    """
    if native_module() is None:
        raise RuntimeError("calibrate_cpu reads clocks in the compiled module, which this installation lacks")
    if not schedules or any(not s.num_tasks for s in schedules):
        raise ValueError("schedules must hold at least one schedule, each with at least one task")
    runs = [[_timeline(s, head_dim, seed) for _ in range(repeats)] for s in schedules]
    flat = [(s, t) for s, timelines in zip(schedules, runs, strict=True) for t in timelines]
    compute = float(np.median(np.concatenate([t.computed - t.start for _, t in flat])))
    reduce = float(np.median(np.concatenate([t.end - t.turn for _, t in flat])))
    # The lower quartile: a thread that lost its core for a while is not latency.
    lags = np.concatenate([_lags(s, t) for s, t in flat])
    costs = Costs(compute, reduce, float(np.quantile(lags, 0.25)) if len(lags) else 0.0)
    measured = tuple(float(np.median([t.end.max() - t.start.min() for t in timelines])) for timelines in runs)
    return Calibration(costs, tuple(map(_label, schedules)), measured, _predict(schedules, costs))


def fit_costs(schedules: Sequence[Schedule], seconds: Sequence[float]) -> Calibration:
    """Finds the costs whose makespans come nearest to measured times, in the least squares of their logarithms.

    Makespans tell c + r and r + ℓ but not the three apart: a task ends at `max(end of the one before on its worker +
    (c + r), end of the addition before + (r + ℓ))`. Of all costs with these two sums the one with the least latency is
    returned, and every prediction is the same for the others.

    Args:
        schedules: What was timed; at least two that differ in how they wait.
        seconds: How long each took.

    Raises:
        ValueError: Fewer than two measurements, or a time that is not positive.
    """
    if len(schedules) != len(seconds) or len(seconds) < 2:
        raise ValueError(f"two measurements or more are needed, one a schedule; got {len(schedules)}, {len(seconds)}")
    if min(seconds) <= 0:
        raise ValueError(f"seconds must be positive; got {min(seconds)}")
    measured = np.log(seconds)

    def residuals(log_ratio: float) -> np.ndarray:
        """What is left of the logarithms at a ratio of the two sums; their scale is the mean of it."""
        return measured - np.log(_predict(schedules, _costs(1.0, np.exp(log_ratio))))

    centre, width = -1.0, 4.0
    for _ in range(6):  # each round looks eight times as closely around the best ratio
        ratios = np.linspace(centre - width, centre + width, 33)
        centre, width = min(ratios, key=lambda ratio: residuals(ratio).var()), width / 8
    scale = float(np.exp(residuals(centre).mean()))
    costs = _costs(scale, scale * float(np.exp(centre)))
    return Calibration(costs, tuple(map(_label, schedules)), tuple(seconds), _predict(schedules, costs))


def _costs(task: float, hop: float) -> Costs:
    reduce = float(min(task, hop))
    return Costs(float(task) - reduce, reduce, float(hop) - reduce)


def measured_trace(schedule: Schedule, head_dim: int = 64, *, seed: int = 0) -> Trace:
    """A real backward pass on this CPU as a trace: units on the threads that ran them, times in seconds."""
    timeline = _timeline(schedule, head_dim, seed)
    origin = timeline.start.min()
    median = [float(np.median(x)) for x in (timeline.computed - timeline.start, timeline.end - timeline.turn)]
    unit_sm = timeline.thread[schedule.unit_start[:-1]]
    return Trace(
        schedule, Costs(*median), timeline.start - origin, timeline.turn - origin, timeline.end - origin, unit_sm
    )


def _timeline(schedule: Schedule, head_dim: int, seed: int) -> cpu.Timeline:
    problem, generator = schedule.problem, torch.Generator().manual_seed(seed)
    q, dout = (torch.randn(sum(problem.seqlens_q), problem.num_heads, head_dim, generator=generator) for _ in range(2))
    k, v = (torch.randn(sum(problem.seqlens_k), problem.num_heads_kv, head_dim, generator=generator) for _ in range(2))
    threads, scale = problem.num_sms, head_dim**-0.5
    out, lse = cpu.forward(q, k, v, problem, scale, threads=threads)
    timeline = cpu.Timeline.of(schedule)
    cpu.backward(dout, q, k, v, out, lse, schedule, scale, threads=threads, timeline=timeline)
    return timeline


def _lags(schedule: Schedule, timeline: cpu.Timeline) -> np.ndarray:
    """How long after the addition before it a task that had to wait got its turn."""
    before = schedule.dq_predecessor
    ended = timeline.end[np.maximum(before, 0)]
    waited = (before >= 0) & (timeline.computed < ended)
    return np.maximum(0.0, timeline.turn - ended)[waited]


def _label(schedule: Schedule) -> str:
    masks = {"full" if g.full else "causal" if g.causal else "windowed" for g in schedule.problem.geometries}
    return f"{schedule.name}, {'+'.join(sorted(masks))}"


def _predict(schedules: Sequence[Schedule], costs: Costs) -> tuple[float, ...]:
    return tuple(simulate(s, costs.compute, costs.reduce, costs.sync).makespan for s in schedules)
