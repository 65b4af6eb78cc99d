"""Turns at a tile: a counter in global memory that says how many contributions have been added."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def wait_for_turn(counter, turn):
    """Returns once `counter` is `turn`, with everything visible that was written before it was set so.

    Every thread reads the counter with acquire semantics for the whole device, so that none can see older data.
    """
    seen = turn - 1
    while seen != turn:
        seen = tl.inline_asm_elementwise(
            "ld.acquire.gpu.global.b32 $0, [$1];", "=r,l", [counter], dtype=tl.int32, is_pure=False, pack=1
        )
    tl.debug_barrier()


@triton.jit
def end_turn(counter):
    """Sets the counter to the next turn, after everything that the threads of this program have written."""
    tl.debug_barrier()
    tl.atomic_add(counter, 1, sem="release", scope="gpu")
