"""What the Triton kernels are run on in Triton's interpreter, and how to run them there from another process."""

from __future__ import annotations

import torch

from octavo_dash.problem import Problem

PROBLEMS = {
    "full": Problem.dense(1, 48, num_heads=1, block_m=16, block_n=16, num_sms=3),
    "causal": Problem.dense(1, 60, num_heads=2, causal=True, block_m=16, block_n=32, num_sms=4),
    "grouped": Problem.dense(1, 45, 77, num_heads=2, num_heads_kv=1, causal=True, block_m=16, block_n=16, num_sms=8),
    "window": Problem.dense(1, 100, num_heads=1, window=(40, 0), block_m=16, block_n=32, num_sms=4),
    "varlen": Problem((33, 0, 17, 20), (50, 7, 0, 20), 2, 1, (-1, -1), 16, 16, 8),
}
"""Small ones: `varlen` holds sequences without queries and without keys, `grouped` more keys than queries."""

CASES = [
    ("full", "shift", 32, torch.float32),
    ("full", "ascending", 32, torch.float32),
    ("causal", "symmetric_shift", 32, torch.float32),
    ("causal", "descending", 32, torch.float32),
    ("grouped", "ascending", 32, torch.float32),
    ("grouped", "descending", 96, torch.float32),
    ("window", "descending", 32, torch.float32),
    ("varlen", "shift", 32, torch.float32),
    ("causal", "symmetric_shift", 64, torch.float16),
]
"""Problem, schedule, head dimension and type."""


def run_case(number: int) -> dict[str, object]:
    """Runs a case in this process, whose kernels are interpreted from then on."""
    import interpreted

    return interpreted.run_poisoned(*CASES[number])
