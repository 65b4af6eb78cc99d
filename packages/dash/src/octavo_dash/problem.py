"""The tiles of an attention backward pass: which pairs of a query tile and a key tile there is work for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

HEAD_DIMS = (32, 64, 96, 128, 192, 256)
"""The head dimensions that kernels exist for."""

UNBOUNDED = -1
"""A window side without a limit, as in flash-attn's `window_size`."""


@dataclass(frozen=True)
class Geometry:
    """The tiles of one sequence: for every key tile, the run of query tiles that see it.

    Query row `i` sees key column `j` iff `-left ≤ j - (i + len_k - len_q) ≤ right`: the mask is aligned to the
    bottom right corner (flash-attn's convention), causal is `window=(-1, 0)`.
    """

    seqlen_q: int
    seqlen_k: int
    window: tuple[int, int]
    block_m: int
    block_n: int

    @cached_property
    def num_q_tiles(self) -> int:
        """M, the number of query tiles."""
        return -(-self.seqlen_q // self.block_m)

    @cached_property
    def num_kv_tiles(self) -> int:
        """n, the number of key tiles."""
        return -(-self.seqlen_k // self.block_n)

    @property
    def diagonal(self) -> int:
        """Query row `i` is aligned with key column `i + diagonal`."""
        return self.seqlen_k - self.seqlen_q

    @cached_property
    def q_ranges(self) -> np.ndarray:
        """For every key tile the first query tile that sees it and the one after the last: int64, `[n, 2]`."""
        left, right = self.window
        first_column = np.arange(self.num_kv_tiles, dtype=np.int64) * self.block_n
        last_column = np.minimum(first_column + self.block_n, self.seqlen_k) - 1
        first_row = np.zeros_like(first_column) if right == UNBOUNDED else first_column - self.diagonal - right
        first_row = np.maximum(first_row, 0)
        last_row = np.full_like(first_column, self.seqlen_q - 1)
        if left != UNBOUNDED:
            last_row = np.minimum(last_row, last_column - self.diagonal + left)
        ranges = np.stack([first_row // self.block_m, last_row // self.block_m + 1], axis=1)
        ranges[first_row > last_row] = 0
        return ranges

    @cached_property
    def num_tasks(self) -> int:
        """The number of tile pairs with work, for one head."""
        return int((self.q_ranges[:, 1] - self.q_ranges[:, 0]).sum())

    @property
    def full(self) -> bool:
        """Whether every query tile sees every key tile."""
        return self.num_tasks == self.num_q_tiles * self.num_kv_tiles

    @property
    def causal(self) -> bool:
        """Whether the mask is the plain lower triangle: equal lengths, no window to the left."""
        return self.window == (UNBOUNDED, 0) and self.seqlen_q == self.seqlen_k


@dataclass(frozen=True)
class Problem:
    """What there is to schedule: sequences, heads, mask, tile sizes, and the processors to run on.

    Attributes:
        seqlens_q: Number of queries of each sequence in the batch.
        seqlens_k: Number of keys of each sequence.
        num_heads: Query heads.
        num_heads_kv: Key and value heads; a divisor of `num_heads` (grouped-query attention).
        window: How many keys to the left and to the right of its diagonal position a query sees; -1 for all.
            `(-1, -1)` is the full mask, `(-1, 0)` the causal one.
        block_m: Rows of a query tile.
        block_n: Columns of a key tile.
        num_sms: Streaming multiprocessors, that is persistent workers, to schedule for.

    Raises:
        ValueError: A number out of range, lengths that do not pair up, or heads that do not divide.
    """

    seqlens_q: tuple[int, ...]
    seqlens_k: tuple[int, ...]
    num_heads: int = 1
    num_heads_kv: int = 1
    window: tuple[int, int] = (UNBOUNDED, UNBOUNDED)
    block_m: int = 64
    block_n: int = 64
    num_sms: int = 132

    def __post_init__(self) -> None:
        if len(self.seqlens_q) != len(self.seqlens_k):
            raise ValueError(
                f"seqlens_q and seqlens_k must name the same sequences; got {len(self.seqlens_q)} and "
                f"{len(self.seqlens_k)} of them"
            )
        for name in ("seqlens_q", "seqlens_k"):
            if any(length < 0 for length in getattr(self, name)):
                raise ValueError(f"{name} must not be negative; got {min(getattr(self, name))}")
        for name in ("num_heads", "num_heads_kv", "block_m", "block_n", "num_sms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; got {getattr(self, name)}")
        if self.num_heads % self.num_heads_kv:
            raise ValueError(
                f"num_heads must be a multiple of num_heads_kv; got {self.num_heads} and {self.num_heads_kv}"
            )
        if len(self.window) != 2 or min(self.window) < UNBOUNDED:
            raise ValueError(f"window must be two numbers of at least 0, or -1 for no limit; got {self.window}")

    @classmethod
    def dense(
        cls,
        batch: int,
        seqlen_q: int,
        seqlen_k: int | None = None,
        *,
        num_heads: int = 1,
        num_heads_kv: int | None = None,
        causal: bool = False,
        window: tuple[int, int] = (UNBOUNDED, UNBOUNDED),
        block_m: int = 64,
        block_n: int = 64,
        num_sms: int = 132,
    ) -> Problem:
        """A batch of equal lengths; `seqlen_k` and `num_heads_kv` default to those of the queries."""
        return cls(
            seqlens_q=(seqlen_q,) * batch,
            seqlens_k=(seqlen_q if seqlen_k is None else seqlen_k,) * batch,
            num_heads=num_heads,
            num_heads_kv=num_heads if num_heads_kv is None else num_heads_kv,
            window=causal_window(window, causal),
            block_m=block_m,
            block_n=block_n,
            num_sms=num_sms,
        )

    @classmethod
    def tiles(
        cls,
        n: int,
        m: int | None = None,
        *,
        num_heads: int = 1,
        causal: bool = False,
        sigma: int = 1,
        num_sms: int | None = None,
    ) -> Problem:
        """The paper's abstract problem: `n` key tiles, `m` query tiles (σ·n by default), `n` SMs by default.

        Tiles are as small as they can be: a query tile has one row, a key tile σ = block_n / block_m columns.
        """
        return cls.dense(
            1,
            n * sigma if m is None else m,
            n * sigma,
            num_heads=num_heads,
            causal=causal,
            block_m=1,
            block_n=sigma,
            num_sms=n if num_sms is None else num_sms,
        )

    @property
    def batch(self) -> int:
        """The number of sequences."""
        return len(self.seqlens_q)

    @property
    def total_heads(self) -> int:
        """Sequences times query heads: the m of the paper. Head `b * num_heads + h` is head `h` of sequence `b`."""
        return self.batch * self.num_heads

    @property
    def group_size(self) -> int:
        """Query heads that share a key and value head."""
        return self.num_heads // self.num_heads_kv

    @cached_property
    def geometries(self) -> tuple[Geometry, ...]:
        """The tiles of each sequence."""
        return tuple(
            Geometry(length_q, length_k, self.window, self.block_m, self.block_n)
            for length_q, length_k in zip(self.seqlens_q, self.seqlens_k, strict=True)
        )

    @cached_property
    def q_tile_offsets(self) -> np.ndarray:
        """Where each head's query tiles start in a table over all heads: int64, `[total_heads + 1]`."""
        per_head = np.repeat([g.num_q_tiles for g in self.geometries], self.num_heads)
        return np.concatenate([[0], np.cumsum(per_head)]).astype(np.int64)

    @cached_property
    def num_tasks(self) -> int:
        """The number of tile pairs with work, over all heads."""
        return self.num_heads * sum(g.num_tasks for g in self.geometries)

    def alone(self, sequence: int) -> Problem:
        """The same problem with one of its sequences only."""
        return replace(self, seqlens_q=(self.seqlens_q[sequence],), seqlens_k=(self.seqlens_k[sequence],))


def causal_window(window: tuple[int, int], causal: bool) -> tuple[int, int]:
    """`window`, closed to the right where `causal` is set (flash-attn's convention)."""
    return (window[0], 0) if causal else (window[0], window[1])
