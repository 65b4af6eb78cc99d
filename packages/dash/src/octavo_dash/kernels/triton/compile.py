"""What the compiler makes of the backward kernel, found without a GPU."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import triton
import triton.backends.nvidia
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from octavo_dash.kernels.triton.launch import precision
from octavo_dash.kernels.triton.persistent import persistent_kernel
from octavo_dash.kernels.triton.tiles import Tiling, backward_tiling, padded

ScheduleKind = Literal["static", "dynamic", "atomic"]

SHARED_LIMITS = {80: 163 * 1024, 90: 227 * 1024}
"""Bytes of shared memory that a CTA can have, by compute capability."""

_POINTERS = {torch.float16: "*fp16", torch.bfloat16: "*bf16", torch.float32: "*fp32"}


@dataclass(frozen=True)
class CompileReport:
    """What a kernel takes.

    Attributes:
        tiling: Tile sizes, warps and pipeline stages.
        capability: What it was compiled for: 80 or 90.
        registers: Registers of a thread.
        spill_bytes: Bytes of local memory of a thread, where registers were not enough.
        shared_bytes: Shared memory of a CTA.
        tensor_core: The tensor core instructions in the code: `"wgmma"`, `"mma"`, or `""` for none.
        ptx: The code in PTX.
    """

    tiling: Tiling
    capability: int
    registers: int
    spill_bytes: int
    shared_bytes: int
    tensor_core: str
    ptx: str


def compile_report(
    head_dim: int,
    causal: bool,
    capability: int = 90,
    schedule_kind: ScheduleKind = "static",
    dtype: torch.dtype = torch.bfloat16,
    *,
    window: bool = False,
    grouped: bool = False,
    tiling: Tiling | None = None,
) -> CompileReport:
    """Compiles the persistent backward kernel for a GPU that need not be there.

    Args:
        head_dim: Head dimension.
        causal: Whether the mask is causal.
        capability: 80 or 90.
        schedule_kind: `"static"` for workers with lists of their own, `"dynamic"` for units that are claimed,
            `"atomic"` for additions in no order.
        dtype: Of the tensors.
        window: Whether the mask is closed to the left too.
        grouped: Whether heads share key heads.
        tiling: Tile sizes, warps and stages; those of the table by default.

    Raises:
        ValueError: An unknown capability or schedule kind, or a head dimension without a kernel.
    """
    if capability not in SHARED_LIMITS:
        raise ValueError(f"capability must be one of {', '.join(map(str, SHARED_LIMITS))}; got {capability}")
    if schedule_kind not in ("static", "dynamic", "atomic"):
        raise ValueError(f"schedule_kind must be 'static', 'dynamic' or 'atomic'; got {schedule_kind!r}")
    tiling = tiling or backward_tiling(head_dim, causal, dtype.itemsize, capability)
    constants = {
        "HEAD_DIM": head_dim,
        "BLOCK_D": padded(head_dim),
        "BLOCK_M": tiling.block_m,
        "BLOCK_N": tiling.block_n,
        "HAS_LEFT": window,
        "HAS_RIGHT": causal or window,
        "GROUPED": grouped,
        "ORDERED": schedule_kind != "atomic",
        # The atomic mode runs the descending schedule, which is dynamic.
        "DYNAMIC": schedule_kind != "static",
        "PRECISION": precision(dtype),
        "INTERPRETED": False,
    }
    compiled = _compile(constants, dtype, grouped, capability, tiling)
    registers, stack = _resources(compiled.asm["cubin"])
    ptx = compiled.asm["ptx"]
    kinds = [name for name, code in (("wgmma", "wgmma.mma_async"), ("mma", "mma.sync")) if code in ptx]
    return CompileReport(tiling, capability, registers, stack, compiled.metadata.shared, "+".join(kinds), ptx)


def _compile(constants: dict[str, Any], dtype: torch.dtype, grouped: bool, capability: int, tiling: Tiling) -> Any:
    element = _POINTERS[dtype]
    floats = {"lse_ptr", "delta_ptr", "dq_ptr"} | ({"dk_ptr", "dv_ptr"} if grouped else set())
    integers = {"semaphores_ptr", "task_q_ptr", "task_wait_ptr", "chains_ptr", "queue_start_ptr", "queue_chain_ptr"}
    signature = {}
    for name in persistent_kernel.arg_names:
        if name in constants:
            signature[name] = "constexpr"
        elif name.endswith("_ptr"):
            signature[name] = "*fp32" if name in floats else "*i32" if name in integers else element
        else:
            signature[name] = "fp32" if name.startswith("scale") else "i32"
    aligned = {(i,): [["tt.divisibility", 16]] for i, kind in enumerate(signature.values()) if kind.startswith("*")}
    source = ASTSource(persistent_kernel, signature, constants, aligned)
    options = {"num_warps": tiling.num_warps, "num_stages": tiling.num_stages, "enable_fp_fusion": False}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def _resources(cubin: bytes) -> tuple[int, int]:
    """Registers, and bytes of stack, as the binary itself says."""
    tool = Path(triton.backends.nvidia.__path__[0]) / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        command = [str(tool), "--dump-resource-usage", str(path)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.search(r"Function persistent_kernel.*?REG:(\d+) STACK:(\d+)", text, re.DOTALL)
    if found is None:
        raise RuntimeError(f"cuobjdump says nothing of the kernel's registers: {text[:500]}")
    return int(found[1]), int(found[2])
