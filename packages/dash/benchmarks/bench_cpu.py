"""The deterministic backward pass on the CPU: against its atomic mode, PyTorch's SDPA and a plain loop over tiles."""

from collections.abc import Iterator

import torch

from octavo_dash import throughput
from octavo_shared.timing import Comparison

DEVICES = ("cpu",)


def comparisons(device: str) -> Iterator[Comparison]:
    """Yields one comparison a schedule and peer: B = 1, H = 8, L = 2,048, d = 64, on two threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for causal in (False, True):
            yield from throughput.comparisons(throughput.Workload(1, 2048, 8, 64, causal), tile_loop=True)
    finally:
        torch.set_num_threads(threads)
