"""The paper's statements as checks."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import torch

from octavo_dash.build import make_schedule
from octavo_dash.closed_forms import closed_form, lower_bound
from octavo_dash.demo import demo
from octavo_dash.experiments import Inputs, relative_errors, repeated
from octavo_dash.gantt import gantt
from octavo_dash.gpu_claims import GPU_CLAIMS
from octavo_dash.longest_path import Before, Costs, run_fixed
from octavo_dash.problem import Problem
from octavo_dash.simulate import simulate
from octavo_shared.claims import Claim, Finding, Paper, Scale, Setting
from octavo_shared.figures import figure


def _problems(seed: int, causal: bool) -> Iterator[tuple[Problem, int, int]]:
    """Problems over all n from 2 to 32 and m from 1 to 8 with random r ≤ c; n is even under the causal mask."""
    rng = random.Random(seed)
    for n in range(2, 33, 2 if causal else 1):
        for heads in range(1, 9):
            reduce = rng.randint(1, 9)
            yield Problem.tiles(n, num_heads=heads, causal=causal), reduce + rng.randint(0, 9), reduce


def _exact(name: str, causal: bool, *, optimal: Callable[[Problem], bool] = lambda _: False) -> Callable[..., Finding]:
    """A check that a formula gives the simulated makespan, and the lower bound where it is said to be optimal."""

    def check(setting: Setting) -> Finding:
        equal = total = bound = bounds = 0
        for seed in setting.seeds:
            for problem, compute, reduce in _problems(seed, causal):
                expected = closed_form(problem, name, compute, reduce)
                if expected is None:
                    continue
                makespan = simulate(make_schedule(problem, name), compute, reduce).makespan
                total, equal = total + 1, equal + (makespan == expected)
                if optimal(problem):
                    bounds, bound = bounds + 1, bound + (makespan == lower_bound(problem, compute, reduce))
        value = f"{equal} of {total} makespans equal" + (f", {bound} of {bounds} at the lower bound" if bounds else "")
        shown = simulate(make_schedule(Problem.tiles(8, num_heads=2, causal=causal), name), 4, 1)
        return Finding("", value, total > 0 and equal == total and bound == bounds, figure=gantt([shown]))

    return check


def _lemma_1(setting: Setting) -> Finding:
    """Random zero-weight edges between random equal parallel chains."""
    agree = lengthened = total = 0
    for seed in setting.seeds:
        rng = random.Random(seed)
        for _ in range(2000):
            chains, length = rng.randint(2, 8), rng.randint(2, 8)
            before, goes_back = np.full(chains * length, -1, dtype=np.int64), False
            for _ in range(rng.randint(0, 6)):
                earlier, later = rng.randrange(chains * length), rng.randrange(chains * length)
                if earlier // length != later // length:
                    before[later] = earlier
            for later in np.flatnonzero(before >= 0).tolist():
                # The edge leaves the end of one task, at depth + 1, and enters the start of the other, at its depth.
                goes_back |= before[later] % length + 1 > later % length
            end = run_fixed(np.arange(chains * length) // length, Before.dq_only(before), Costs(0.0, 1.0)).end
            unchanged = not np.isnan(end).any() and end.max() == length
            total, agree, lengthened = total + 1, agree + (unchanged != goes_back), lengthened + goes_back
    note = f"{lengthened} of the graphs have an edge that goes back in depth"
    return Finding("", f"{agree} of {total} random graphs agree", agree == total and 0 < lengthened < total, note)


_MASKS = {
    "full": ("ascending", "descending", "shift"),
    "causal": ("ascending", "descending", "symmetric_shift"),
}


def _layer(mask: str, group: int = 1) -> Problem:
    return Problem.dense(1, 1024, num_heads=4, num_heads_kv=4 // group, causal=mask == "causal", num_sms=64)


def _deterministic(setting: Setting) -> Finding:
    worst, patterns, cases = 0.0, 0, 0
    for seed in setting.seeds:
        for mask, names in _MASKS.items():
            for name in names:
                inputs = Inputs.random(_layer(mask, group=4), 64, seed)
                results = repeated(inputs, name, deterministic=True, runs=50, threads=4).values()
                worst = max(worst, *(result.max_abs_diff for result in results))
                patterns = max(patterns, *(result.n_patterns for result in results))
                cases += len(results)
    value = f"max |Δ| = {worst:g}, {patterns} bit pattern in each of {cases} cases"
    note = "50 runs each on 4 threads with random sleeps; grouped heads 4:1, 1,024 tokens"
    return Finding("", value, patterns == 1, note)


def _atomic(mask: str) -> Callable[[Setting], Finding]:
    def check(setting: Setting) -> Finding:
        deviations, patterns = [], []
        for seed in setting.seeds:
            inputs = Inputs.random(_layer(mask), 64, seed)
            results = repeated(inputs, "ascending", deterministic=False, runs=50, threads=4)
            deviations.append(results["dq"].max_abs_diff)
            patterns.append(results["dq"].n_patterns)
        value = f"dQ: max |Δ| = {max(deviations):.1e}, {min(patterns)} to {max(patterns)} bit patterns in 50 runs"
        note = "float32 on 4 threads, where the paper has bfloat16 outputs on an H800: the deviation is smaller"
        return Finding("", value, min(patterns) >= 2, note)

    return check


def _schedules_differ(setting: Setting) -> Finding:
    same_bits, largest = 0, 0.0
    for seed in setting.seeds:
        inputs = Inputs.random(_layer("causal"), 64, seed)
        results = [inputs.backward(name).dq for name in ("ascending", "spt", "symmetric_shift")]
        for i, first in enumerate(results):
            for second in results[:i]:
                same_bits += int(torch.equal(first, second))
                largest = max(largest, float((first - second).abs().max() / first.abs().max()))
    value = f"max |Δ| / max = {largest:.1e}; {same_bits} of {3 * len(setting.seeds)} pairs have the same bits"
    return Finding("", value, largest <= 1e-6 and same_bits == 0, "ascending, spt and symmetric_shift in float32")


def _numerics(setting: Setting) -> Finding:
    errors = {torch.float32: 0.0, torch.bfloat16: 0.0}
    for seed in setting.seeds:
        for dtype in errors:
            for problem, name in ((_layer("full"), "shift"), (_layer("causal"), "symmetric_shift")):
                inputs = Inputs.random(problem, 64, seed, dtype).in_float32()
                found = relative_errors(inputs.backward(name), inputs.exact_gradients())
                errors[dtype] = max(errors[dtype], *found.values())
    value = f"float32 {errors[torch.float32]:.1e}, bfloat16 inputs {errors[torch.bfloat16]:.1e}"
    holds = errors[torch.float32] <= 1e-5 and errors[torch.bfloat16] <= 2e-3
    return Finding("", value, holds, "max |Δ| / max of dQ, dK, dV before results are rounded; bounds 1e-5 and 2e-3")


def _latency(_: Setting) -> Finding:
    problem, latencies = Problem.tiles(8, num_heads=4), np.linspace(0, 10, 41)
    names = ("ascending", "shift")
    schedules = {name: make_schedule(problem, name) for name in names}
    makespans = {n: [simulate(s, 4, 1, float(sync)).makespan for sync in latencies] for n, s in schedules.items()}
    picture, axes = figure(width=7.0, height=3.4)
    for name in names:
        axes.plot(latencies, makespans[name], label=name)
    axes.axvline(4, color="0.6", linestyle=":", label="ℓ = c")
    axes.set_xlabel("latency ℓ of a signal (c = 4, r = 1)")
    axes.set_ylabel("makespan")
    axes.legend()
    crossing = next((s for s, a, b in zip(latencies, *makespans.values(), strict=True) if b > a), None)
    free = all(m == makespans["shift"][0] for s, m in zip(latencies, makespans["shift"], strict=True) if s <= 4)
    behind = "never behind ascending" if crossing is None else f"behind ascending from ℓ = {crossing:g} on"
    value = f"{'free' if free else 'not free'} up to ℓ = c; {behind}"
    return Finding("", value, free and crossing is not None, "latency in the model is our reading (INFERRED)", picture)


def _registers(_: Setting) -> Finding:
    from octavo_dash.kernels.triton import compile_report

    symmetric = compile_report(head_dim=128, causal=True, capability=90, schedule_kind="static")
    descending = compile_report(head_dim=128, causal=True, capability=90, schedule_kind="dynamic")
    more = symmetric.registers - descending.registers
    value = (
        f"{more:+d} registers ({symmetric.registers} and {descending.registers}), {symmetric.spill_bytes} bytes spilled"
    )
    note = (
        "The paper's kernel computes the symmetric order in registers. Ours reads every order from a table, so that "
        "the cost need not arise; where it does not, the paper's statement does not hold for this implementation."
    )
    return Finding("", value, more > 0 and symmetric.spill_bytes > 0, note)


PAPER = Paper(
    slug="dash",
    title="DASH: Deterministic Attention Scheduling for High-Throughput Reproducible LLM Training",
    url="https://arxiv.org/abs/2601.21824",
    purpose="Attention whose gradients are the same bits in every run, scheduled so that determinism costs little.",
    host="PyTorch, transformers",
    demo=demo,
    claims=(
        Claim(
            "ascending-full",
            "Under the full mask FlashAttention-3's order takes m·M·(c+r) + (n−1)·r.",
            "Section 3",
            "m·M·(c+r) + (n−1)·r",
            "equal for n = 2 … 32, m = 1 … 8, random r ≤ c",
            Scale.EXACT,
            2,
            _exact("ascending", causal=False),
        ),
        Claim(
            "shift-is-optimal",
            "Under the full mask the shift takes m·M·(c+r), the least possible.",
            "Section 3",
            "m·M·(c+r)",
            "equal, and equal to the lower bound",
            Scale.EXACT,
            2,
            _exact("shift", causal=False, optimal=lambda _: True),
        ),
        Claim(
            "ascending-causal",
            "Under the causal mask FlashAttention-3's order takes m·n·(c+r) + (n−1)·r.",
            "Section 3",
            "n(c+r) + (n−1)·r a head",
            "equal, where heads follow one another without a barrier",
            Scale.EXACT,
            1,
            _exact("ascending", causal=True),
        ),
        Claim(
            "descending-causal",
            "For an even number of heads and r ≤ c the descending order takes m(n+1)(c+r)/2 + (n−1)·r.",
            "Section 3",
            "m(n+1)(c+r)/2 + (n−1)·r",
            "equal",
            Scale.EXACT,
            1,
            _exact("descending", causal=True),
        ),
        Claim(
            "symmetric-shift-is-optimal",
            "For an even number of heads the symmetric shift takes m(n+1)(c+r)/2, the least possible.",
            "Section 3",
            "m(n+1)(c+r)/2",
            "equal, and equal to the lower bound",
            Scale.EXACT,
            1,
            _exact("symmetric_shift", causal=True, optimal=lambda problem: problem.total_heads % 2 == 0),
        ),
        Claim(
            "lemma-1",
            "Zero-weight edges between equal chains leave the critical path as it is iff none goes back in depth.",
            "Lemma 1",
            "if and only if",
            "every random graph agrees",
            Scale.EXACT,
            3,
            _lemma_1,
        ),
        Claim(
            "deterministic-deviation",
            "With a fixed order of additions gradients are the same bits in every run.",
            "Section 4, determinism",
            "0",
            "= 0 for every schedule and mask",
            Scale.DESK,
            40,
            _deterministic,
        ),
        Claim(
            "atomic-deviation-full",
            "With atomic additions gradients change from run to run under the full mask.",
            "Section 4, determinism",
            "2.4e-4",
            "> 0, at least two bit patterns",
            Scale.DESK,
            8,
            _atomic("full"),
        ),
        Claim(
            "atomic-deviation-causal",
            "With atomic additions gradients change from run to run under the causal mask.",
            "Section 4, determinism",
            "4.9e-4",
            "> 0, at least two bit patterns",
            Scale.DESK,
            8,
            _atomic("causal"),
        ),
        Claim(
            "schedules-agree",
            "Schedules differ in bits and agree in value.",
            "Section 2",
            "rounding only",
            "≤ 1e-6 of the largest element, other bits",
            Scale.DESK,
            1,
            _schedules_differ,
        ),
        Claim(
            "numerics",
            "The deterministic backward pass is as exact as its arithmetic.",
            "Section 2",
            "—",
            "≤ 1e-5 (float32), ≤ 2e-3 (bfloat16 inputs) against float64",
            Scale.DESK,
            3,
            _numerics,
        ),
        Claim(
            "latency",
            "The full shift loses at long sequences, because its signals must cross the chip in time.",
            "Section 4, limits",
            "loses at 16k tokens",
            "free up to ℓ = c, behind ascending at a larger ℓ",
            Scale.EXACT,
            1,
            _latency,
        ),
        Claim(
            "symmetric-shift-spills",
            "At head_dim 128 the symmetric shift needs about 10 more registers than descending, and spills.",
            "Section 4, limits",
            "≈ 10 more registers, spills",
            "> 0 more registers",
            Scale.DESK,
            20,
            _registers,
        ),
        *GPU_CLAIMS,
    ),
)
