"""Whether all CTAs of a grid can be resident at once, without which CTAs that wait for one another would hang."""

from __future__ import annotations

from typing import Any

import torch


def check_resident(kernel: Any, arguments: tuple[Any, ...], settings: dict[str, Any], grid: int) -> None:
    """Raises ValueError if the current GPU cannot hold `grid` CTAs of this kernel at once.

    A grid of at most one CTA an SM always fits, since a kernel that does not fit on an SM does not launch.
    """
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    if grid <= properties.multi_processor_count:
        return
    compiled = kernel.warmup(*arguments, **settings, grid=(1,))
    compiled._init_handles()  # loads the module: registers are known only then
    resident = properties.multi_processor_count * ctas_per_sm(
        threads=32 * settings["num_warps"],
        registers=compiled.n_regs,
        shared_bytes=compiled.metadata.shared,
        registers_per_sm=getattr(properties, "regs_per_multiprocessor", 65536),  # not every torch tells
        shared_bytes_per_sm=properties.shared_memory_per_multiprocessor,
        threads_per_sm=properties.max_threads_per_multi_processor,
    )
    if grid > resident:
        raise ValueError(
            f"num_sms of the schedule must be at most {resident}, the CTAs of this kernel that {properties.name} holds "
            f"at once on {properties.multi_processor_count} SMs; the schedule has {grid} workers that wait for one "
            "another"
        )


def ctas_per_sm(
    *,
    threads: int,
    registers: int,
    shared_bytes: int,
    registers_per_sm: int,
    shared_bytes_per_sm: int,
    threads_per_sm: int,
) -> int:
    """How many CTAs fit on an SM, at least one.

    Registers come in units of 256 a warp, and 1 KiB of shared memory is kept back for every CTA.
    """
    registers_per_warp = -(-max(1, 32 * registers) // 256) * 256
    by_registers = registers_per_sm // (registers_per_warp * (threads // 32))
    by_shared = shared_bytes_per_sm // (shared_bytes + 1024)
    return max(1, min(by_registers, by_shared, threads_per_sm // threads))
