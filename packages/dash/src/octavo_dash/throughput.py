"""How fast a backward pass is under a schedule, next to the atomic mode and to PyTorch's own."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from octavo_dash.kernels import reference
from octavo_dash.longest_path import Costs
from octavo_dash.ops import attention_backward_op, attention_op, problem_of
from octavo_dash.planner import DASH_SCHEDULES, plan
from octavo_dash.problem import UNBOUNDED
from octavo_dash.schedules import ScheduleError
from octavo_shared.timing import Comparison, compare


@dataclass(frozen=True)
class Workload:
    """The shape of an attention layer.

    Attributes:
        batch: Sequences.
        seqlen: Tokens of each.
        num_heads: Query heads.
        head_dim: Head dimension.
        causal: Whether the mask is causal.
        num_heads_kv: Key heads; as many as query heads if `None`.
        dtype: Of the tensors.
        device: Of the tensors.
    """

    batch: int
    seqlen: int
    num_heads: int
    head_dim: int
    causal: bool
    num_heads_kv: int | None = None
    dtype: torch.dtype = torch.float32
    device: str = "cpu"

    def __str__(self) -> str:
        mask = "causal" if self.causal else "full"
        return f"{mask}, batch {self.batch}, {self.seqlen:,} tokens, {self.num_heads} heads, head_dim {self.head_dim}"

    @property
    def backward_flops(self) -> float:
        """2.5 times the forward pass's 4·B·H·L²·d, halved when causal (section 4 of the paper)."""
        forward = 4.0 * self.batch * self.num_heads * self.seqlen**2 * self.head_dim
        return 2.5 * forward / (2 if self.causal else 1)


class Backward:
    """The inputs of a workload's backward pass, and the pass itself under each schedule."""

    def __init__(self, workload: Workload, seed: int = 0) -> None:
        """Draws the inputs and runs the forward pass."""
        self.workload = w = workload
        generator = torch.Generator(w.device).manual_seed(seed)
        heads_kv = w.num_heads_kv or w.num_heads
        self.q, self.dout, self.k, self.v = (
            torch.randn(w.batch * w.seqlen, h, w.head_dim, generator=generator, device=w.device).to(w.dtype)
            for h in (w.num_heads, w.num_heads, heads_kv, heads_kv)
        )
        self.window = [UNBOUNDED, 0 if w.causal else UNBOUNDED]
        self.costs = [4.0, 1.0, 0.0]
        self.scale = w.head_dim**-0.5
        self.out, self.lse = attention_op(
            self.q, self.k, self.v, None, None, w.batch, self.scale, self.window, False, "auto", "canonical", self.costs
        )
        self.problem = problem_of(self.q, self.k, None, None, w.batch, self.window)

    def run(
        self, schedule: str = "auto", *, deterministic: bool = True, order: str = "canonical"
    ) -> tuple[Tensor, ...]:
        """dQ, dK and dV under a schedule, or in the atomic mode."""
        tensors = (self.dout, self.q, self.k, self.v, self.out, self.lse)
        settings = (self.workload.batch, self.scale, self.window, deterministic, schedule, order, self.costs)
        return attention_backward_op(*tensors, None, None, None, *settings)

    def schedules(self, names: Sequence[str] = DASH_SCHEDULES) -> list[str]:
        """Those of the names that exist for the workload."""
        existing = []
        for name in names:
            try:
                plan(self.problem, name, "canonical", Costs(*self.costs))
                existing.append(name)
            except ScheduleError:
                continue
        return existing

    def torch_sdpa(self) -> Callable[[], object]:
        """The backward pass of PyTorch's scaled_dot_product_attention on the same inputs."""
        w = self.workload
        q, k, v, dout = (
            x.unflatten(0, (w.batch, w.seqlen)).transpose(1, 2).contiguous()
            for x in (self.q, self.k, self.v, self.dout)
        )
        inputs = [x.requires_grad_() for x in (q, k, v)]
        query, key, value = inputs
        out = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=w.causal, enable_gqa=w.num_heads_kv is not None
        )
        return lambda: torch.autograd.grad(out, inputs, dout, retain_graph=True)


def comparisons(workload: Workload, *, repeats: int = 7, tile_loop: bool = False) -> Iterator[Comparison]:
    """Times every schedule against the atomic mode, and the default against PyTorch, on the workload's device.

    Args:
        workload: What to run.
        repeats: Pairs of runs for each comparison.
        tile_loop: Whether to time the plain loop over tiles on one CPU thread too, which takes its time.
    """
    backward = Backward(workload)
    on_gpu = workload.device.startswith("cuda")
    settings: dict[str, Any] = {"repeats": repeats}
    if on_gpu:
        settings |= {"warmup": 3, "synchronize": torch.cuda.synchronize}

    def against(name: str, run: Callable[[], object], peer: str, other: Callable[[], object]) -> Comparison:
        result = compare(str(workload), (name, run), (peer, other), **settings)
        seconds = statistics.median(result.ours_seconds)
        return replace(result, figures={"TFLOPS": round(workload.backward_flops / seconds / 1e12, 4)})

    atomic = partial(backward.run, deterministic=False)
    for name in backward.schedules():
        yield against(name, partial(backward.run, name), "atomic mode", atomic)
        if on_gpu and name != "ascending":
            yield against(name, partial(backward.run, name), "ascending", partial(backward.run, "ascending"))
    yield against("auto", backward.run, "torch SDPA backward", backward.torch_sdpa())
    if tile_loop:
        settings["repeats"] = min(3, repeats)
        yield against("auto", backward.run, "torch tile loop, one thread", _tile_loop(backward))


def _tile_loop(backward: Backward) -> Callable[[], object]:
    schedule = plan(backward.problem, "auto", "canonical", Costs(*backward.costs))
    tensors = (backward.q, backward.k, backward.v, backward.out, backward.dout, backward.lse)

    def run() -> None:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            reference.backward_in_order(*tensors, torch.zeros_like(backward.lse), schedule, backward.scale)
        finally:
            torch.set_num_threads(threads)

    return run
