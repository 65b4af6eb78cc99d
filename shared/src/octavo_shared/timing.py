"""Speed as a ratio: two things timed in turn, in one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Comparison:
    """Two things timed in turn: seconds of each run, pair by pair.

    Attributes:
        case: What was timed: "causal, 8 heads, 2,048 tokens, head_dim 64".
        ours: The name of ours.
        peer: The name of what it is held against.
        ours_seconds: Seconds of each run of ours.
        peer_seconds: Seconds of each run of the peer.
        figures: What else is worth keeping beside the ratio: {"TFLOPS": 412.0, "registers": 168}.
    """

    case: str
    ours: str
    peer: str
    ours_seconds: tuple[float, ...]
    peer_seconds: tuple[float, ...]
    figures: Mapping[str, float | str] = field(default_factory=dict)

    @property
    def speedup(self) -> float:
        """How many times faster ours is: the median over pairs of peer seconds / our seconds."""
        return statistics.median(p / o for o, p in zip(self.ours_seconds, self.peer_seconds, strict=True))


def compare(
    case: str,
    ours: tuple[str, Callable[[], object]],
    peer: tuple[str, Callable[[], object]],
    *,
    repeats: int = 7,
    warmup: int = 1,
    synchronize: Callable[[], object] = lambda: None,
) -> Comparison:
    """Times `ours` and `peer` alternately, so that a drift of the machine's speed touches both alike.

    Args:
        case: What is timed.
        ours: The name and the function of ours.
        peer: The name and the function of what it is held against.
        repeats: Number of pairs.
        warmup: Runs of each that are not counted.
        synchronize: Waits for the device to finish, for instance `torch.cuda.synchronize`.

    Raises:
        ValueError: `repeats` is below one.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    (our_name, our_function), (peer_name, peer_function) = ours, peer
    for _ in range(warmup):
        our_function()
        peer_function()
    pairs = [(_seconds(our_function, synchronize), _seconds(peer_function, synchronize)) for _ in range(repeats)]
    our_seconds, peer_seconds = zip(*pairs, strict=True)
    return Comparison(case, our_name, peer_name, our_seconds, peer_seconds)


def _seconds(function: Callable[[], object], synchronize: Callable[[], object]) -> float:
    synchronize()
    start = time.perf_counter()
    function()
    synchronize()
    return time.perf_counter() - start
