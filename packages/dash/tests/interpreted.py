"""Runs the Triton kernels in Triton's interpreter and saves what comes out; test_triton.py starts it and judges.

A process of its own, because TRITON_INTERPRET counts when kernels are defined, and other tests need them compiled.
"""

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

import torch

from octavo_dash.build import make_schedule
from octavo_dash.kernels import triton
from octavo_dash.problem import Problem

PROBLEMS = {
    "full": Problem.dense(1, 96, num_heads=2, block_m=16, block_n=16, num_sms=6),
    "causal": Problem.dense(1, 128, num_heads=2, causal=True, block_m=16, block_n=32, num_sms=2),
    "grouped": Problem.dense(2, 45, 77, num_heads=4, num_heads_kv=2, causal=True, block_m=16, block_n=16, num_sms=8),
    "window": Problem.dense(1, 100, num_heads=1, window=(40, 0), block_m=16, block_n=32, num_sms=4),
    "varlen": Problem((33, 0, 17, 20), (50, 7, 0, 20), 2, 1, (-1, -1), 16, 16, 8),
}
"""Small ones: `varlen` holds sequences without queries and without keys, `grouped` more keys than queries."""

CASES = [
    ("full", "shift", 32, torch.float32),
    ("full", "ascending", 32, torch.float32),
    ("causal", "symmetric_shift", 32, torch.float32),
    ("causal", "descending", 32, torch.float32),
    ("grouped", "ascending", 32, torch.float32),
    ("grouped", "descending", 96, torch.float32),
    ("window", "descending", 32, torch.float32),
    ("varlen", "shift", 32, torch.float32),
    ("causal", "symmetric_shift", 64, torch.float16),
]
"""Problem, schedule, head dimension and type."""


def run(problem: Problem, schedule_name: str, head_dim: int, dtype: torch.dtype) -> dict[str, object]:
    """Output, logarithms, and gradients under every driver that the interpreter can run."""
    generator = torch.Generator().manual_seed(0)
    total_q, total_k = sum(problem.seqlens_q), sum(problem.seqlens_k)
    q, dout, k, v = (
        torch.randn(total, heads, head_dim, generator=generator).to(dtype)
        for total, heads in (
            (total_q, problem.num_heads),
            (total_q, problem.num_heads),
            (total_k, problem.num_heads_kv),
            (total_k, problem.num_heads_kv),
        )
    )
    dlse = torch.randn(problem.num_heads, total_q, generator=generator)
    scale = head_dim**-0.5
    schedule = make_schedule(problem, schedule_name)
    out, lse = triton.forward(q, k, v, problem, scale)
    arguments = (dout, q, k, v, out, lse, schedule, scale)
    found: dict[str, object] = {"q": q, "k": k, "v": v, "dout": dout, "dlse": dlse, "out": out, "lse": lse}
    for driver in ("wavefront", "tasks"):
        found[driver] = tuple(triton.backward(*arguments, driver=driver))
    found["with_dlse"] = tuple(triton.backward(*arguments, dlse=dlse, driver="wavefront"))
    # Interpreted programs run one after another. One worker, or claimed units, never wait for a later program.
    alone = make_schedule(problem_with_one_worker(problem), "descending" if schedule.dynamic else "ascending")
    arguments = (dout, q, k, v, out, lse, alone, scale)
    found["persistent"] = tuple(triton.backward(*arguments, driver="persistent"))
    found["persistent_reference"] = tuple(triton.backward(*arguments, driver="tasks"))
    found["atomic"] = tuple(triton.backward(*arguments, deterministic=False))
    return found


def problem_with_one_worker(problem: Problem) -> Problem:
    """The same problem on a machine with one SM."""
    from dataclasses import replace

    return replace(problem, num_sms=1)


def poison_new_tensors() -> None:
    """Fills every new tensor that is not asked to be zero with NaN: what a kernel forgets to write shows."""
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True


if __name__ == "__main__":
    torch.set_num_threads(1)
    poison_new_tensors()
    torch.save({str(index): run(PROBLEMS[case[0]], *case[1:]) for index, case in enumerate(CASES)}, sys.argv[1])
