"""What all launches have in common."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
import triton
from torch import Tensor

from octavo_dash.kernels.triton.rows import postprocess_kernel

INTERPRETED = not isinstance(postprocess_kernel, triton.JITFunction)
"""Whether Triton was imported under TRITON_INTERPRET=1, so that kernels run on CPU tensors, program after program."""


def on_device(tensor: Tensor) -> AbstractContextManager[object]:
    """Makes the tensor's GPU the current one: Triton launches there."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


def precision(dtype: torch.dtype) -> str:
    """How products are formed: float32 as three TF32 products each, which keeps its precision on tensor cores."""
    return "tf32x3" if dtype == torch.float32 else "tf32"
