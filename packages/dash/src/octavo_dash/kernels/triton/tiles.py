"""Tile sizes: how large a piece of the score matrix one task is, and with how many warps it is computed."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from octavo_dash.problem import HEAD_DIMS


class Tiling(NamedTuple):
    """How a kernel is cut and compiled.

    Attributes:
        block_m: Query rows of a tile.
        block_n: Key columns of a tile.
        num_warps: Warps of a CTA.
        num_stages: Depth of the software pipeline: how many tiles ahead loads are issued.
    """

    block_m: int
    block_n: int
    num_warps: int
    num_stages: int


def tile_sizes(head_dim: int, causal: bool, dtype_bytes: int, capability: int) -> tuple[int, int]:
    """(block_m, block_n) of the backward pass; σ = block_n / block_m is an integer.

    Args:
        head_dim: Head dimension.
        causal: Whether the mask is causal.
        dtype_bytes: Bytes of an element of q, k and v.
        capability: Compute capability, 90 for 9.0.

    Raises:
        ValueError: A head dimension that there is no kernel for.
    """
    tiling = backward_tiling(head_dim, causal, dtype_bytes, capability)
    return tiling.block_m, tiling.block_n


_HOPPER = {
    32: Tiling(64, 128, 8, 2),
    64: Tiling(64, 128, 8, 2),
    96: Tiling(32, 64, 8, 2),
    128: Tiling(32, 64, 8, 2),
    192: Tiling(32, 32, 8, 2),
    256: Tiling(32, 32, 8, 2),
}
"""Chosen so that no register is spilled under Triton 3.6, 3.8 and 3.9; no GPU has told yet which are quickest.

At head_dim 64 tiles of 128 × 128 would take 296 bytes of local memory a thread; at 128 those of 64 × 64 take up to 24,
the paper's 64 × 128 about 144."""

_AMPERE = {
    32: Tiling(64, 64, 4, 2),
    64: Tiling(32, 64, 4, 2),
    96: Tiling(64, 64, 8, 2),
    128: Tiling(64, 64, 8, 2),
    192: Tiling(32, 32, 8, 2),
    256: Tiling(32, 32, 8, 2),
}
"""The same; the atomic mode spills 56 bytes at head_dim 128 under Triton 3.6."""


@lru_cache(maxsize=256)
def backward_tiling(head_dim: int, causal: bool, dtype_bytes: int, capability: int) -> Tiling:
    """The tiling of the backward pass; see `tile_sizes`. The mask does not matter so far.

    float32 is for checking, not for speed: from head_dim 96 on it spills.
    """
    check_head_dim(head_dim)
    if dtype_bytes == 4:
        return Tiling(32, 32, 4 if head_dim <= 64 else 8, 1) if head_dim <= 128 else Tiling(16, 16, 4, 1)
    return (_HOPPER if capability >= 90 else _AMPERE)[head_dim]


@lru_cache(maxsize=256)
def forward_tiling(head_dim: int, dtype_bytes: int) -> Tiling:
    """The tiling of the forward pass."""
    check_head_dim(head_dim)
    return Tiling(64, 64, 4, 2)


def check_head_dim(head_dim: int) -> None:
    """Raises ValueError unless there is a kernel for this head dimension."""
    if head_dim not in HEAD_DIMS:
        raise ValueError(f"head_dim must be one of {', '.join(map(str, HEAD_DIMS))}; got {head_dim}")


def padded(head_dim: int) -> int:
    """The next power of two: Triton's tiles have no other sides."""
    return 1 << (head_dim - 1).bit_length()


def launch_tiling(block_m: int, block_n: int, head_dim: int, dtype_bytes: int, capability: int) -> Tiling:
    """How to launch the backward pass on tiles of these sizes: as in the table, or modestly for others.

    Raises:
        ValueError: Sizes or a head dimension that there is no kernel for.
    """
    for name, block in (("block_m", block_m), ("block_n", block_n)):
        if block < 16 or block & (block - 1):
            raise ValueError(f"{name} must be a power of two of at least 16 for the Triton kernels; got {block}")
    for causal in (False, True):
        tiling = backward_tiling(head_dim, causal, dtype_bytes, capability)
        if (block_m, block_n) == (tiling.block_m, tiling.block_n):
            return tiling
    return Tiling(block_m, block_n, 8 if block_n * padded(head_dim) > 64 * 64 else 4, 1)
