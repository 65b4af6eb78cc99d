"""The backward pass: workspaces, and the drivers that run a schedule's tasks."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from octavo_dash.kernels.gradients import Gradients
from octavo_dash.kernels.triton.device import LOG2E
from octavo_dash.kernels.triton.launch import INTERPRETED, on_device, precision
from octavo_dash.kernels.triton.persistent import persistent_kernel
from octavo_dash.kernels.triton.residency import check_resident
from octavo_dash.kernels.triton.rows import postprocess_kernel, preprocess_kernel
from octavo_dash.kernels.triton.stepwise import stepwise_kernel
from octavo_dash.kernels.triton.tables import Tables, level_tables, row_tiles, schedule_tables
from octavo_dash.kernels.triton.tiles import Tiling, launch_tiling, padded
from octavo_dash.problem import UNBOUNDED, Problem
from octavo_dash.schedule import Schedule
from octavo_shared.arrays import Float

Driver = Literal["persistent", "wavefront", "tasks"]


def backward(
    dout: Float[Tensor, "total_q heads head_dim"],
    q: Float[Tensor, "total_q heads head_dim"],
    k: Float[Tensor, "total_k heads_kv head_dim"],
    v: Float[Tensor, "total_k heads_kv head_dim"],
    out: Float[Tensor, "total_q heads head_dim"],
    lse: Float[Tensor, "heads total_q"],
    schedule: Schedule,
    softmax_scale: float,
    *,
    dlse: Float[Tensor, "heads total_q"] | None = None,
    driver: Driver = "persistent",
    deterministic: bool = True,
) -> Gradients:
    """dQ, dK and dV, with contributions to dQ added in the order of the schedule.

    The formulas are those of `octavo_dash.kernels.cpu.backward`; sums are float32 whatever the type of the tensors.

    - `"persistent"` is for use: each CTA runs a worker's chains, and semaphores in memory keep the order.
    - `"wavefront"` launches a kernel for each step of `octavo_dash.simulate.levels`. It needs no semaphores, so that it
      runs in Triton's interpreter too.
    - `"tasks"` launches a kernel for each task, in the order of those steps: what the others are held against.

    All three inline one device function and add in one order: they give the same bits.

    Args:
        dout: Gradient of the output. This and all tensors below contiguous.
        q: Queries.
        k: Keys.
        v: Values.
        out: Output of `forward`.
        lse: Logarithms of `forward`, float32.
        schedule: What to execute; its problem's tile sizes are powers of two of at least 16.
        softmax_scale: Factor of the scores.
        dlse: Gradient of the logarithms, if they were used: it lowers rowsum(O∘dO).
        driver: Which of the three.
        deterministic: Whether additions wait for their turn; otherwise they are made in the order of completion. Only
            the persistent driver can be told so.

    Raises:
        ScheduleError: The schedule is incomplete or waits for itself.
        ValueError: An unknown driver, tile sizes or a head dimension without a kernel, or more workers than can be
            resident on the GPU at once.
    """
    if driver not in get_args(Driver):
        raise ValueError(f"driver must be one of {', '.join(get_args(Driver))}; got {driver!r}")
    if driver != "persistent" and not deterministic:
        raise ValueError(f"deterministic=False needs driver='persistent'; got {driver!r}, which always keeps the order")
    problem, head_dim = schedule.problem, q.shape[-1]
    tiling = launch_tiling(problem.block_m, problem.block_n, head_dim, q.element_size(), _capability(q.device))
    tables = schedule_tables(schedule, q.device)
    with on_device(q):
        work = _prepare(dout, q, k, out, lse, dlse, problem, tables)
        tensors = (q, k, v, dout, work.lse2, work.delta, work.dq, work.dk, work.dv)
        settings = _settings(problem, head_dim, q.dtype, tiling)
        scales = (softmax_scale, softmax_scale * LOG2E)
        if driver == "persistent":
            _persistent(tensors, tables, schedule, scales, settings, deterministic)
        elif schedule.num_tasks:
            steps = level_tables(schedule, q.device)
            if driver == "tasks":
                steps = torch.cat(steps).split(1)
            _stepwise(tensors, tables, steps, problem, scales, settings)
        return _finish(work, q, k, problem, softmax_scale)


class _Work(NamedTuple):
    """Logarithms and rowsum(O∘dO) by tile; accumulators. dk and dv are the results where no heads share them."""

    lse2: Tensor
    delta: Tensor
    dq: Tensor
    dk: Tensor
    dv: Tensor


def _prepare(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    out: Tensor,
    lse: Tensor,
    dlse: Tensor | None,
    problem: Problem,
    tables: Tables,
) -> _Work:
    head_dim, block_m, block_n = q.shape[-1], problem.block_m, problem.block_n
    lse2, delta = torch.empty(2, tables.num_q_tiles, block_m, dtype=torch.float32, device=q.device)
    dq = torch.zeros(tables.num_q_tiles, block_m, head_dim, dtype=torch.float32, device=q.device)
    if problem.group_size > 1:
        dk, dv = torch.zeros(2, tables.num_kv_tiles, block_n, head_dim, dtype=torch.float32, device=q.device)
    else:
        fill = torch.empty_like if tables.covers_all_keys else torch.zeros_like
        dk, dv = fill(k), fill(k)
    tiles, count = row_tiles(problem.seqlens_q, problem.num_heads, block_m, q.device)
    if count:
        preprocess_kernel[(count,)](
            out,
            dout,
            lse,
            lse if dlse is None else dlse.contiguous(),
            delta,
            lse2,
            tiles,
            problem.num_heads,
            q.shape[0],
            HEAD_DIM=head_dim,
            BLOCK_D=padded(head_dim),
            BLOCK_M=block_m,
            HAS_DLSE=dlse is not None,
            LOG2E=LOG2E,
            enable_fp_fusion=False,
        )
    return _Work(lse2, delta, dq, dk, dv)


def _settings(problem: Problem, head_dim: int, dtype: torch.dtype, tiling: Tiling) -> dict[str, Any]:
    """What kernels are compiled for, and how."""
    left, right = problem.window
    return {
        "HEAD_DIM": head_dim,
        "BLOCK_D": padded(head_dim),
        "BLOCK_M": problem.block_m,
        "BLOCK_N": problem.block_n,
        "HAS_LEFT": left != UNBOUNDED,
        "HAS_RIGHT": right != UNBOUNDED,
        "GROUPED": problem.group_size > 1,
        "PRECISION": precision(dtype),
        "num_warps": tiling.num_warps,
        "num_stages": tiling.num_stages,
        "enable_fp_fusion": False,
    }


def _persistent(
    tensors: tuple[Tensor, ...],
    tables: Tables,
    schedule: Schedule,
    scales: tuple[float, float],
    settings: dict[str, Any],
    deterministic: bool,
) -> None:
    if not tables.num_queues:
        return
    problem = schedule.problem
    semaphores = torch.zeros(
        tables.num_q_tiles + 2 * tables.num_kv_tiles + 1, dtype=torch.int32, device=tensors[0].device
    )
    arguments = (
        *tensors,
        semaphores,
        tables.task_q,
        tables.task_wait,
        tables.chains,
        tables.queue_start,
        tables.queue_chain,
        tables.num_queues,
        tables.num_q_tiles,
        tables.num_kv_tiles,
        problem.num_heads,
        problem.num_heads_kv,
        *problem.window,
        *scales,
    )
    settings = {**settings, "ORDERED": deterministic, "DYNAMIC": schedule.dynamic, "INTERPRETED": INTERPRETED}
    grid = min(tables.num_queues, problem.num_sms)
    if deterministic and not schedule.dynamic and not INTERPRETED:
        check_resident(persistent_kernel, arguments, settings, grid)
        # The driver then starts all CTAs together or none, whatever else is running on the GPU.
        settings["launch_cooperative_grid"] = True
    persistent_kernel[(grid,)](*arguments, **settings)


def _stepwise(
    tensors: tuple[Tensor, ...],
    tables: Tables,
    steps: tuple[Tensor, ...],
    problem: Problem,
    scales: tuple[float, float],
    settings: dict[str, Any],
) -> None:
    chains, shape = len(tables.chains), (problem.block_n, settings["HEAD_DIM"])
    dk_chain, dv_chain = torch.zeros(2, chains, *shape, dtype=torch.float32, device=tensors[0].device)
    for tasks in steps:
        stepwise_kernel[(len(tasks),)](
            *tensors,
            dk_chain,
            dv_chain,
            tasks,
            tables.task_q,
            tables.task_chain,
            tables.chains,
            problem.num_heads,
            problem.num_heads_kv,
            *problem.window,
            *scales,
            **settings,
        )


def _finish(work: _Work, q: Tensor, k: Tensor, problem: Problem, softmax_scale: float) -> Gradients:
    """Scales, casts and packs what was accumulated."""
    dq = _packed(work.dq, q, problem.seqlens_q, problem.block_m, softmax_scale)
    if problem.group_size == 1:
        return Gradients(dq, work.dk, work.dv)
    dk = _packed(work.dk, k, problem.seqlens_k, problem.block_n, softmax_scale)
    return Gradients(dq, dk, _packed(work.dv, k, problem.seqlens_k, problem.block_n, 1.0))


def _packed(accumulator: Tensor, like: Tensor, seqlens: tuple[int, ...], block: int, scale: float) -> Tensor:
    result = torch.empty_like(like)
    head_dim = like.shape[-1]
    tiles, count = row_tiles(seqlens, like.shape[1], block, like.device)
    if count:
        postprocess_kernel[(count,)](
            accumulator,
            result,
            tiles,
            like.shape[1],
            scale,
            HEAD_DIM=head_dim,
            BLOCK_D=padded(head_dim),
            ROWS=block,
            enable_fp_fusion=False,
        )
    return result


def _capability(device: torch.device) -> int:
    if device.type != "cuda":
        return 90
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor
