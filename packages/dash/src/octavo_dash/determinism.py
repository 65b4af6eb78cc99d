"""Whether a function gives the same bits every time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Repeatability:
    """How a tensor came out over several runs.

    Attributes:
        bit_equal: Whether every run gave the same bits.
        max_abs_diff: The largest difference of an element from its value in the first run.
        n_patterns: How many different bit patterns there were.
    """

    bit_equal: bool
    max_abs_diff: float
    n_patterns: int


def check_determinism(
    fn: Callable[[], Tensor | Sequence[Tensor] | Mapping[str, Tensor]],
    runs: int = 10,
    device: str | torch.device | None = None,
) -> dict[str, Repeatability]:
    """Runs a function again and again and compares its tensors bit by bit (section 4 of the paper measures max |Δ|).

    Args:
        fn: Computes a tensor, a sequence of tensors or a mapping of names to tensors, from the same inputs every time.
        runs: How often; at least 2.
        device: Where the tensors are expected; a CUDA device is synchronised after every run. `None`: anywhere.

    Returns:
        What came out for each tensor, by its name; by its number as a string where `fn` returns no names.

    Raises:
        ValueError: Fewer than two runs, tensors whose number or shapes change from run to run, or another device.

    Example:
        >>> check_determinism(lambda: torch.ones(3).sum(), runs=3)["0"].bit_equal
        True
    """
    if runs < 2:
        raise ValueError(f"runs must be at least 2; got {runs}")
    first = _named(fn(), device)
    patterns = {name: {_digest(tensor)} for name, tensor in first.items()}
    difference = dict.fromkeys(first, 0.0)
    for run in range(1, runs):
        again = _named(fn(), device)
        if {n: t.shape for n, t in again.items()} != {n: t.shape for n, t in first.items()}:
            raise ValueError(f"fn must return tensors of the same names and shapes every time; run {run} differs")
        for name, tensor in again.items():
            patterns[name].add(_digest(tensor))
            if tensor.numel():
                delta = (tensor.double() - first[name].double()).abs().nan_to_num(nan=0.0)
                difference[name] = max(difference[name], float(delta.max()))
    return {name: Repeatability(len(patterns[name]) == 1, difference[name], len(patterns[name])) for name in first}


def _named(
    result: Tensor | Sequence[Tensor] | Mapping[str, Tensor], device: str | torch.device | None
) -> dict[str, Tensor]:
    if isinstance(result, Tensor):
        result = [result]
    named = result if isinstance(result, Mapping) else {str(i): tensor for i, tensor in enumerate(result)}
    expected = torch.device(device) if device is not None else None
    for name, tensor in named.items():
        if expected is not None and tensor.device.type != expected.type:
            raise ValueError(f"device is {expected} but tensor {name} is on {tensor.device}")
    return {name: tensor.detach().cpu().clone() for name, tensor in named.items()}


def _digest(tensor: Tensor) -> str:
    return hashlib.sha256(tensor.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()
