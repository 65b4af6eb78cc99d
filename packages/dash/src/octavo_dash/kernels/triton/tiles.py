"""Tile sizes of the backward pass on a GPU."""

from __future__ import annotations


def tile_sizes(head_dim: int, causal: bool, dtype_bytes: int, capability: int) -> tuple[int, int]:
    """Rows of a query tile and columns of a key tile.

    Args:
        head_dim: Head dimension.
        causal: Whether the mask is causal.
        dtype_bytes: Bytes of an element.
        capability: Compute capability, 80 or 90.
    """
    if dtype_bytes == 4:
        return (32, 32) if head_dim > 64 else (32, 64)
    if head_dim <= 64:
        return 64, 128
    if head_dim <= 128:
        return 64, 128
    return 32, 64


def num_warps(head_dim: int) -> int:
    """Warps of a program of the backward pass."""
    return 8 if head_dim > 32 else 4
