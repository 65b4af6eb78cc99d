"""The backward pass on a GPU, by any of three drivers."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from octavo_dash.kernels.gradients import Gradients
from octavo_dash.kernels.triton.launch import Offsets, Tables, constants, masked, problem_offsets, schedule_tables
from octavo_dash.kernels.triton.persistent import persistent_backward
from octavo_dash.kernels.triton.tiles import num_warps
from octavo_dash.kernels.triton.wavefront import wavefront_step
from octavo_dash.schedule import Schedule
from octavo_dash.simulate import levels

Driver = Literal["persistent", "wavefront", "tasks"]
LOG2_E = 1.4426950408889634


def backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    schedule: Schedule,
    softmax_scale: float,
    *,
    dlse: Tensor | None = None,
    deterministic: bool = True,
    driver: Driver = "persistent",
) -> Gradients:
    """dQ, dK and dV on a GPU, or in Triton's interpreter; see `kernels.cpu.backward` for the formulas.

    Args:
        dout: Gradient of the output, contiguous like all tensors.
        q: Queries `[total_q, heads, head_dim]`.
        k: Keys `[total_k, heads_kv, head_dim]`.
        v: Values.
        out: Output of `forward`.
        lse: Logarithms of `forward`.
        schedule: What to execute.
        softmax_scale: Factor of the scores.
        dlse: Gradient of the logarithms, if they were used.
        deterministic: Whether additions wait for their turn; otherwise they are atomic, in the order of completion.
        driver: `"persistent"`: one program a worker, with semaphores, on a GPU only. `"wavefront"`: a launch a step of
            the schedule. `"tasks"`: a launch a task, in the same order. All three give the same bits.

    Raises:
        ValueError: The schedule is for more workers than the device can hold at once: they would wait for ever.
    """
    grouped = schedule.problem.group_size > 1
    dq = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
    dk, dv = (torch.zeros_like(x, dtype=torch.float32 if grouped else x.dtype) for x in (k, v))
    delta = (out.float() * dout.float()).sum(dim=-1).transpose(0, 1) - (0.0 if dlse is None else dlse)
    tensors = (q, k, v, dout, lse.contiguous(), delta.contiguous(), dq, dk, dv)
    if schedule.num_tasks:
        offsets, tables = problem_offsets(schedule.problem, q.device), schedule_tables(schedule, q.device)
        if driver == "persistent":
            _persistent(tensors, schedule, offsets, tables, softmax_scale, deterministic)
        else:
            _wavefront(tensors, schedule, offsets, tables, softmax_scale, one_by_one=driver == "tasks")
    if grouped:
        dk, dv = (softmax_scale * dk).to(k.dtype), dv.to(v.dtype)
    return Gradients((softmax_scale * dq).to(q.dtype), dk, dv)


def _settings(schedule: Schedule, q: Tensor) -> dict[str, Any]:
    return constants(schedule.problem, q) | {
        "MASKED": masked(schedule.problem),
        "num_warps": num_warps(q.shape[-1]),
        "num_stages": 1,
    }


def _persistent(
    tensors: tuple[Tensor, ...], schedule: Schedule, offsets: Offsets, tables: Tables, scale: float, deterministic: bool
) -> None:
    q = tensors[0]
    workers = int(schedule.unit_sm.max()) + 1
    resident = torch.cuda.get_device_properties(q.device).multi_processor_count
    if workers > resident:
        raise ValueError(f"schedule is for {workers} workers, but only {resident} programs can be resident on {q.device}")
    # Zeros, never empty: a turn that starts elsewhere is a turn that never comes.
    dq_turn = torch.zeros(int(schedule.problem.q_tile_offsets[-1]), dtype=torch.int32, device=q.device)
    kv_tiles = schedule.problem.num_heads_kv * sum(g.num_kv_tiles for g in schedule.problem.geometries)
    dk_turn, dv_turn, next_chain = (torch.zeros(n, dtype=torch.int32, device=q.device) for n in (kv_tiles, kv_tiles, 1))
    persistent_backward[(workers,)](
        tables.worker_start, tables.worker_chain, next_chain, len(tables.chain_head),
        tables.chain_start, tables.chain_head, tables.chain_kv, tables.task_q, tables.task_wait,
        offsets.cu_q, offsets.cu_k, offsets.q_tile_offset, offsets.kv_tile_offset,
        *tensors, dq_turn, dk_turn, dv_turn, q.shape[0], scale, scale * LOG2_E,
        DETERMINISTIC=deterministic, DYNAMIC=schedule.dynamic, **_settings(schedule, q),
    )  # fmt: skip


def _wavefront(
    tensors: tuple[Tensor, ...], schedule: Schedule, offsets: Offsets, tables: Tables, scale: float, *, one_by_one: bool
) -> None:
    q, settings = tensors[0], _settings(schedule, tensors[0])
    shape = (len(tables.chain_head), settings["BLOCK_N"], settings["BLOCK_D"])
    dk_chain, dv_chain = (torch.zeros(shape, dtype=torch.float32, device=q.device) for _ in range(2))
    for level in levels(schedule):
        tasks = torch.from_numpy(level).to(torch.int32).to(q.device)
        for step in tasks.split(1) if one_by_one else (tasks,):
            wavefront_step[(len(step),)](
                step, tables.task_chain, tables.chain_start, tables.chain_head, tables.chain_kv, tables.task_q,
                offsets.cu_q, offsets.cu_k, *tensors, dk_chain, dv_chain, q.shape[0], scale, scale * LOG2_E,
                **settings,
            )  # fmt: skip
