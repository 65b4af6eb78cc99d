"""Turns: how CTAs agree on the order in which they add to the same tile."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def wait_for_turn(semaphore, turn, INTERPRETED: tl.constexpr):
    """Returns once `semaphore` holds `turn`, with everything visible that was written before it was raised to that.

    One thread spins on acquire loads; the barrier hands what it has acquired to the others. The value cannot be
    missed: nobody but the caller raises the semaphore beyond it.

    The barrier is written as an instruction here because Triton's own would keep the loop around it from being
    pipelined. Interpreted programs run one after another: there the turn must have come already.
    """
    if INTERPRETED:
        tl.device_assert(tl.load(semaphore) == turn, "a task came before its turn")
    else:
        tl.inline_asm_elementwise(
            """{
            .reg .pred %other, %early;
            .reg .b32 %thread, %value;
            mov.u32 %thread, %tid.x;
            setp.ne.u32 %other, %thread, 0;
            @%other bra arrive;
            spin:
            ld.acquire.gpu.global.b32 %value, [$1];
            setp.ne.s32 %early, %value, $2;
            @%early bra spin;
            arrive:
            bar.sync 0;
            mov.u32 $0, 0;
            }""",
            "=r,l,r",
            [semaphore, turn],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )


@triton.jit
def pass_turn(semaphore, INTERPRETED: tl.constexpr):
    """Raises `semaphore` by one once all threads of the CTA have added, and makes what they added visible before.

    The barrier orders the additions of all threads before the one release, which is cumulative.
    """
    if INTERPRETED:
        tl.atomic_add(semaphore, 1, sem="release")
    else:
        tl.inline_asm_elementwise(
            """{
            .reg .pred %first;
            .reg .b32 %thread;
            bar.sync 0;
            mov.u32 %thread, %tid.x;
            setp.eq.u32 %first, %thread, 0;
            @%first red.release.gpu.global.add.s32 [$1], 1;
            mov.u32 $0, 0;
            }""",
            "=r,l",
            [semaphore],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )
