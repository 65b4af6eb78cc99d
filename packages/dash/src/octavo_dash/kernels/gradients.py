"""What a backward pass returns."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Gradients(NamedTuple):
    """The gradients of a loss with respect to queries, keys and values, each in the shape of its tensor."""

    dq: Tensor
    dk: Tensor
    dv: Tensor
