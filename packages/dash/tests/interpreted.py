"""Runs the Triton kernels in Triton's interpreter, for a process of its own; see `triton_cases.run_case`.

TRITON_INTERPRET counts when kernels are defined, and other tests need them compiled.
"""

import dataclasses
import os

os.environ["TRITON_INTERPRET"] = "1"

import torch
from triton_cases import PROBLEMS

from octavo_dash.build import make_schedule
from octavo_dash.kernels import triton
from octavo_dash.problem import Problem


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
    return dataclasses.replace(problem, num_sms=1)


def run_poisoned(problem_name: str, schedule_name: str, head_dim: int, dtype: torch.dtype) -> dict[str, object]:
    """`run`, with every new tensor that is not asked to be zero full of NaN: what a kernel forgets to write shows."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    return run(PROBLEMS[problem_name], schedule_name, head_dim, dtype)
