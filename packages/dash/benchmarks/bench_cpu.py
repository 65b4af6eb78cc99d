"""The deterministic backward pass on the CPU: against its atomic mode, PyTorch's SDPA and a plain loop over tiles."""

from collections.abc import Iterator

import torch
from octavo_dash.throughput import Workload, cpu_comparisons
from octavo_shared.timing import Comparison


def comparisons(device: str) -> Iterator[Comparison]:
    """Yields one comparison a schedule and peer: B = 1, H = 8, L = 2,048, d = 64, on two threads."""
    if device != "cpu":
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        yield from cpu_comparisons([Workload(1, 2048, 8, 64, causal) for causal in (False, True)])
    finally:
        torch.set_num_threads(threads)
