"""The backward pass on a GPU: schedules against the atomic mode, the baseline order and PyTorch's SDPA."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from octavo_dash import throughput
from octavo_dash.calibrate import calibrate_device
from octavo_dash.gpu_claims import workload
from octavo_shared.timing import Comparison

DEVICES = ("cuda",)


def comparisons(device: str) -> Iterator[Comparison]:
    """Yields comparisons for the paper's workloads in bfloat16: head_dim 64 and 128, both masks, 2k, 8k and 16k tokens.

    With each go registers and spills, as the compiler says, and the costs that fit the measured times.
    """
    from octavo_dash.kernels.triton import compile_report

    major, _ = torch.cuda.get_device_capability(device)
    for head_dim in (64, 128):
        costs = calibrate_device(device, 4096, 16, head_dim).costs
        for causal in (False, True):
            report = compile_report(head_dim, causal, 90 if major >= 9 else 80)
            figures = {
                "registers": report.registers,
                "spill bytes": report.spill_bytes,
                "c + r [µs]": round(1e6 * costs.task, 2),
                "r + ℓ [µs]": round(1e6 * (costs.reduce + costs.sync), 2),
            }
            for seqlen in (2048, 8192, 16384):
                for comparison in throughput.comparisons(workload(seqlen, head_dim, causal, device), repeats=5):
                    yield replace(comparison, figures={**comparison.figures, **figures})
