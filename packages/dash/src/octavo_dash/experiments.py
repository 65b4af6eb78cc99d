"""What the claims measure: repeated backward passes on real threads, and errors against float64."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from octavo_dash.build import make_schedule
from octavo_dash.determinism import Repeatability, check_determinism
from octavo_dash.kernels import cpu, reference
from octavo_dash.kernels.gradients import Gradients
from octavo_dash.problem import Problem


@dataclass(frozen=True)
class Inputs:
    """Random inputs of a backward pass on the CPU, with the results of its forward pass."""

    problem: Problem
    q: Tensor
    k: Tensor
    v: Tensor
    dout: Tensor
    out: Tensor
    lse: Tensor

    @classmethod
    def random(cls, problem: Problem, head_dim: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Inputs:
        """Standard normal queries, keys, values and output gradients."""
        generator = torch.Generator().manual_seed(seed)
        total_q, total_k = sum(problem.seqlens_q), sum(problem.seqlens_k)
        q, dout = (torch.randn(total_q, problem.num_heads, head_dim, generator=generator).to(dtype) for _ in range(2))
        k, v = (torch.randn(total_k, problem.num_heads_kv, head_dim, generator=generator).to(dtype) for _ in range(2))
        out, lse = cpu.forward(q, k, v, problem, head_dim**-0.5)
        return cls(problem, q, k, v, dout, out, lse)

    @property
    def scale(self) -> float:
        """1/√head_dim."""
        return float(self.q.shape[-1] ** -0.5)

    def backward(
        self, schedule: str, *, deterministic: bool = True, threads: int | None = None, jitter: int = 0
    ) -> Gradients:
        """The gradients under a schedule, or in the atomic mode; see `kernels.cpu.backward`."""
        table = make_schedule(self.problem, schedule)
        tensors = (self.dout, self.q, self.k, self.v, self.out, self.lse)
        return cpu.backward(*tensors, table, self.scale, deterministic=deterministic, threads=threads, jitter=jitter)

    def exact_gradients(self) -> Gradients:
        """The gradients by autograd through the formula in float64."""
        q, k, v = (x.double().requires_grad_() for x in (self.q, self.k, self.v))
        out = reference.attention(q, k, v, self.problem, self.scale)
        return Gradients(*torch.autograd.grad(out, (q, k, v), self.dout.double()))

    def in_float32(self) -> Inputs:
        """The same numbers in float32, so that results are not rounded to half precision."""
        q, k, v, dout = (x.float() for x in (self.q, self.k, self.v, self.dout))
        out, lse = cpu.forward(q, k, v, self.problem, self.scale)
        return replace(self, q=q, k=k, v=v, dout=dout, out=out, lse=lse)


def repeated(
    inputs: Inputs, schedule: str, *, deterministic: bool, runs: int, threads: int, jitter: bool = True
) -> dict[str, Repeatability]:
    """Runs a backward pass again and again, with other random sleeps every time."""
    seeds = iter(range(1, runs + 1))

    def once() -> dict[str, Tensor]:
        seed = next(seeds)
        gradients = inputs.backward(
            schedule, deterministic=deterministic, threads=threads, jitter=seed if jitter else 0
        )
        return gradients._asdict()

    return check_determinism(once, runs, "cpu")


def relative_errors(gradients: Gradients, exact: Gradients) -> dict[str, float]:
    """The largest absolute error of each gradient, relative to its largest element."""
    return {
        name: float((ours.double() - true).abs().max() / true.abs().max()) if true.numel() else 0.0
        for name, ours, true in zip(Gradients._fields, gradients, exact, strict=True)
    }
