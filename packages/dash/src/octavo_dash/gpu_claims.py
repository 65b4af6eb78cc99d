"""The paper's statements about speed, which need a GPU."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import nn

from octavo_dash.attention import attention
from octavo_dash.determinism import check_determinism
from octavo_dash.throughput import Backward, Workload
from octavo_shared.claims import Claim, Finding, Scale, Setting
from octavo_shared.timing import compare

TOTAL_TOKENS, HIDDEN = 16_384, 2_048
"""The paper's workloads: batch × length, and heads × head_dim (section 4)."""


def workload(seqlen: int, head_dim: int, causal: bool, device: str) -> Workload:
    """A workload of the paper's evaluation, in bfloat16."""
    return Workload(
        TOTAL_TOKENS // seqlen, seqlen, HIDDEN // head_dim, head_dim, causal, dtype=torch.bfloat16, device=device
    )


def _speedup(backward: Backward, ours: Callable[[], object], peer: Callable[[], object]) -> float:
    case, wait = str(backward.workload), torch.cuda.synchronize
    return compare(case, ("ours", ours), ("peer", peer), repeats=9, warmup=3, synchronize=wait).speedup


def _cost_of_determinism(setting: Setting) -> Finding:
    losses = {}
    for head_dim in (64, 128):
        for causal in (False, True):
            backward = Backward(workload(8192, head_dim, causal, setting.device))
            atomic = partial(backward.run, deterministic=False)
            speedup = _speedup(backward, partial(backward.run, "ascending"), atomic)
            losses[f"d={head_dim} {'causal' if causal else 'full'}"] = 1.0 - speedup
    value = ", ".join(f"{case} {loss:.1%}" for case, loss in losses.items())
    return Finding("", value, max(losses.values()) > 0.05, "ascending against our own atomic mode, 8,192 tokens")


def _best_against_ascending(setting: Setting) -> Finding:
    speedups = {}
    for seqlen in (8192, 16384):
        backward = Backward(workload(seqlen, 128, True, setting.device))
        names = [name for name in backward.schedules() if name != "ascending"]
        peer = partial(backward.run, "ascending")
        ratio = {name: _speedup(backward, partial(backward.run, name), peer) for name in names}
        best = max(ratio, key=ratio.__getitem__)
        speedups[f"{seqlen:,} tokens, {best}"] = ratio[best]
    value = ", ".join(f"{case} {speedup:.2f}×" for case, speedup in speedups.items())
    return Finding("", value, min(speedups.values()) >= 1.15, "causal, head_dim 128; at least 1.15× is asked for")


def _bit_equal(setting: Setting) -> Finding:
    deterministic: list[int] = []
    atomic: list[int] = []
    for causal in (False, True):
        backward = Backward(workload(4096, 128, causal, setting.device))
        schedules = backward.schedules()
        deterministic += [_patterns(partial(backward.run, name), setting.device) for name in schedules]
        atomic.append(_patterns(partial(backward.run, deterministic=False), setting.device))
    value = f"deterministic: at most {max(deterministic)} pattern in 200 runs; atomic: {min(atomic)} or more"
    return Finding("", value, max(deterministic) == 1 and min(atomic) >= 2)


def _patterns(run: Callable[[], Sequence[torch.Tensor]], device: str) -> int:
    return max(result.n_patterns for result in check_determinism(run, 200, device).values())


class _Layer(nn.Module):
    """A decoder layer of Llama-3 8B's size: grouped attention 32:8, gated perceptron."""

    def __init__(self, schedule: str) -> None:
        super().__init__()
        self.schedule = schedule
        self.norm_attention, self.norm_mlp = nn.RMSNorm(4096), nn.RMSNorm(4096)
        self.q, self.kv, self.out = (nn.Linear(4096, n, bias=False) for n in (4096, 2048, 4096))
        self.gate, self.up = (nn.Linear(4096, 14336, bias=False) for _ in range(2))
        self.down = nn.Linear(14336, 4096, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm_attention(x)
        k, v = self.kv(y).unflatten(-1, (2, 8, 128)).unbind(-3)
        attended = attention(self.q(y).unflatten(-1, (32, 128)), k, v, causal=True, schedule=self.schedule)
        x = x + self.out(attended.flatten(-2))  # type: ignore[union-attr]
        y = self.norm_mlp(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


def _end_to_end(setting: Setting) -> Finding:
    gains = []
    for seqlen in (8192, 16384, 32768):
        torch.manual_seed(setting.seeds[0])
        layers = {name: _Layer(name).to(setting.device, torch.bfloat16) for name in ("auto", "ascending")}
        x = torch.randn(1, seqlen, 4096, device=setting.device, dtype=torch.bfloat16)

        def step(name: str, x: torch.Tensor = x, layers: dict[str, _Layer] = layers) -> None:
            layers[name].zero_grad()
            layers[name](x).float().square().mean().backward()

        wait = torch.cuda.synchronize
        ours, peer = ("auto", lambda step=step: step("auto")), ("ascending", lambda step=step: step("ascending"))
        gains.append(compare(f"{seqlen}", ours, peer, repeats=7, warmup=2, synchronize=wait).speedup - 1.0)
    value = ", ".join(f"{gain:.1%}" for gain in gains) + " at 8k, 16k, 32k tokens"
    note = "one decoder layer of Llama-3 8B's size, forward and backward"
    return Finding("", value, statistics.median(gains) > 0.02, note)


GPU_CLAIMS = (
    Claim(
        "cost-of-determinism",
        "FlashAttention-3's deterministic backward pass loses up to 37.9 % against its atomic one.",
        "Section 1",
        "up to 37.9 %",
        "a loss of more than 5 % somewhere",
        Scale.GPU,
        20,
        _cost_of_determinism,
    ),
    Claim(
        "dash-speedup",
        "DASH is up to 1.28× as fast as FlashAttention-3's deterministic backward pass.",
        "Section 4",
        "1.28× (causal, head_dim 128, 16k tokens)",
        "≥ 1.15× over our own ascending at 8k and 16k",
        Scale.GPU,
        20,
        _best_against_ascending,
    ),
    Claim(
        "gpu-determinism",
        "On a GPU, too, gradients under a schedule are the same bits in every run.",
        "Section 4, determinism",
        "0",
        "one bit pattern in 200 runs; atomic at least two",
        Scale.GPU,
        30,
        _bit_equal,
    ),
    Claim(
        "end-to-end",
        "A training step of a whole model gains about 5 %.",
        "Section 4, end to end",
        "≈ 5 % (2 to 10 % causal, 8k to 32k)",
        "> 2 % in the median",
        Scale.GPU,
        30,
        _end_to_end,
    ),
)
