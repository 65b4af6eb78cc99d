"""The demonstration: a transformer on handwritten digits, trained twice, with and without determinism."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from octavo_dash.attention import attention
from octavo_dash.build import make_schedule
from octavo_dash.calibrate import measured_trace
from octavo_dash.gantt import gantt
from octavo_dash.native import native_module
from octavo_dash.problem import Problem
from octavo_dash.simulate import simulate
from octavo_shared.claims import Finding, Setting
from octavo_shared.datasets import digits
from octavo_shared.figures import figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMAGES_PER_PAGE = 16
"""Digits on a page: 16 images of 64 pixels make a sequence of 1,024 tokens, long enough for several key tiles."""


class Block(nn.Module):
    """A transformer layer: attention under a given setting, then a perceptron, both added to their normalised input."""

    def __init__(self, width: int, num_heads: int, attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        """`attend` maps queries, keys and values `[batch, seq, heads, head_dim]` to an output of that shape."""
        super().__init__()
        self.num_heads, self.attend = num_heads, attend
        self.norm_attention, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, seq, width]` to the same."""
        q, k, v = self.qkv(self.norm_attention(x)).unflatten(-1, (3, self.num_heads, -1)).unbind(-3)
        x = x + self.out(self.attend(q, k, v).flatten(-2))
        return x + self.mlp(self.norm_mlp(x))


class PageReader(nn.Module):
    """Two layers over the pixels of a page of digits, which names every digit on it."""

    def __init__(self, attend: Callable[[Tensor, Tensor, Tensor], Tensor], width: int = 64, num_heads: int = 2) -> None:
        """See `Block` for `attend`."""
        super().__init__()
        self.pixel = nn.Parameter(torch.randn(64, width))
        self.position = nn.Parameter(0.1 * torch.randn(64 * IMAGES_PER_PAGE, width))
        self.blocks = nn.Sequential(*(Block(width, num_heads, attend) for _ in range(2)))
        self.head = nn.Linear(width, 10)

    def forward(self, pages: Tensor) -> Tensor:
        """Pixels `[batch, images, 64]` to logits `[batch, images, 10]`."""
        x = self.blocks((pages[..., None] * self.pixel).flatten(1, 2) + self.position)
        return self.head(x.unflatten(1, (IMAGES_PER_PAGE, 64)).mean(dim=2))


@dataclass(frozen=True)
class Training:
    """A training run: the loss of every step, all weights after every step, and the weights' names."""

    losses: tuple[float, ...]
    weights: tuple[Tensor, ...]
    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def equal_tensors(self, other: Training) -> int:
        """How many weight tensors are equal bit for bit at the end."""
        pairs = zip(self.weights[-1].split(self.sizes), other.weights[-1].split(self.sizes), strict=True)
        return sum(torch.equal(a.view(torch.int32), b.view(torch.int32)) for a, b in pairs)

    def divergence(self, other: Training) -> list[float]:
        """The largest difference of a weight after each step."""
        return [float((a - b).abs().max()) for a, b in zip(self.weights, other.weights, strict=True)]


def train(*, deterministic: bool, steps: int = 30, seed: int = 0, device: str = "cpu") -> Training:
    """Trains a `PageReader` from a fixed start on a fixed order of pages.

    Args:
        deterministic: Whether attention's backward pass adds in the order of its schedule.
        steps: Optimiser steps, on 4 pages each.
        seed: Seed of weights and pages.
        device: Where to train.
    """
    generator = torch.Generator().manual_seed(seed)
    data = digits()
    images, labels = torch.from_numpy(data.images).flatten(1), torch.from_numpy(data.labels)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = PageReader(partial(attention, deterministic=deterministic)).to(device)  # type: ignore[arg-type]
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3)
    losses, weights = [], []
    for _ in range(steps):
        chosen = torch.randint(len(images), (4, IMAGES_PER_PAGE), generator=generator)
        logits = model(images[chosen].to(device))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels[chosen].flatten().to(device))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]).cpu().clone())
    named = list(model.named_parameters())
    return Training(tuple(losses), tuple(weights), tuple(n for n, _ in named), tuple(p.numel() for _, p in named))


def demo(setting: Setting) -> Iterator[Finding]:
    """Schedules on paper, then two trainings with and two without determinism, then a schedule on this machine."""
    traces = [
        simulate(make_schedule(Problem.tiles(8, num_heads=2, causal=True), name), 4, 1)
        for name in ("ascending", "descending", "symmetric_shift")
    ]
    yield Finding(
        "causal attention, 8 key tiles, 2 heads, 8 SMs: makespans",
        ", ".join(f"{trace.schedule.name} {trace.makespan:g}" for trace in traces),
        traces[2].makespan < traces[1].makespan < traces[0].makespan,
        "c = 4, r = 1; the lower bound is 45",
        gantt(traces),
    )
    pairs = {}
    for deterministic in (True, False):
        run = partial(train, deterministic=deterministic, seed=setting.seeds[0], device=setting.device)
        first, second = pairs[deterministic] = run(), run()
        equal, divergence = first.equal_tensors(second), first.divergence(second)[-1]
        losses = f"loss {first.losses[0]:.2f} to {first.losses[-1]:.2f}"
        all_equal = equal == len(first.names)
        if not deterministic and setting.device == "cpu" and native_module() is None:
            continue  # without the compiled module there is no atomic mode to show
        yield Finding(
            f"two trainings on digits, {'under dash' if deterministic else 'in the atomic mode'}",
            f"{equal} of {len(first.names)} weight tensors equal bit for bit, max |Δ| = {divergence:.1e}",
            all_equal == deterministic,
            f"{len(first.losses)} steps, 4 pages of 1,024 pixels each; {losses}",
            None if deterministic else _divergence_figure(pairs),
        )
    if setting.device == "cpu" and native_module() is not None:
        schedule = make_schedule(Problem.dense(1, 512, num_heads=2, causal=True, num_sms=2), "descending")
        trace = measured_trace(schedule)
        yield Finding(
            "the same kind of picture, read off the clock: descending on two threads",
            f"{1e3 * trace.makespan:.2f} ms, {trace.bubble_fraction:.0%} of it idle or waiting",
            None,
            "colours are heads; a bar is a tile pair, its dark end the addition to dQ",
            gantt([trace], unit="s"),
        )


def _divergence_figure(pairs: dict[bool, tuple[Training, Training]]) -> Figure:
    picture, axes = figure(width=7.0, height=3.2)
    for deterministic, (first, second) in pairs.items():
        label = "dash" if deterministic else "atomic mode"
        axes.plot(range(1, len(first.losses) + 1), first.divergence(second), marker="o", markersize=3, label=label)
    axes.set_yscale("symlog", linthresh=1e-9)
    axes.set_ylim(bottom=-2e-10)
    axes.set_xlabel("optimiser step")
    axes.set_ylabel("max |Δ weight| between two runs")
    axes.legend()
    return picture
