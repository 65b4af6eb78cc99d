"""Compiling the kernels for a GPU that is not there, and what the compiler says of them."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from octavo_dash.kernels.triton.persistent import persistent_backward
from octavo_dash.kernels.triton.tiles import num_warps, tile_sizes


@dataclass(frozen=True)
class CompileReport:
    """What came out of compiling the persistent backward kernel.

    Attributes:
        block_m: Rows of a query tile.
        block_n: Columns of a key tile.
        registers: Registers of a thread.
        spills: Bytes of a thread that do not fit into registers and are kept in local memory.
        shared: Bytes of shared memory of a program.
        tensor_cores: Whether the code holds tensor-core instructions.
        ptx: The code, in NVIDIA's assembly.
    """

    block_m: int
    block_n: int
    registers: int
    spills: int
    shared: int
    tensor_cores: bool
    ptx: str


def compile_report(
    head_dim: int,
    causal: bool,
    capability: int,
    *,
    dtype: str = "bf16",
    group_size: int = 1,
    deterministic: bool = True,
    dynamic: bool = False,
    tiles: tuple[int, int] | None = None,
    warps: int | None = None,
) -> CompileReport:
    """Compiles the persistent backward kernel ahead of time; no GPU is needed.

    Args:
        head_dim: Head dimension.
        causal: Whether the mask is causal; otherwise full, with lengths that are multiples of the tiles.
        capability: Compute capability: 80, 90.
        dtype: `"fp16"`, `"bf16"` or `"fp32"`.
        group_size: Query heads to a key head.
        deterministic: Whether additions wait for their turn.
        dynamic: Whether workers take chains as they come.
        tiles: Tile sizes; those of `tile_sizes` by default.
        warps: Warps of a program; `num_warps` by default.
    """
    bytes_of = {"fp16": 2, "bf16": 2, "fp32": 4}
    block_m, block_n = tiles or tile_sizes(head_dim, causal, bytes_of[dtype], capability)
    constant = {
        "HEADS": 8 * group_size,
        "GROUP": group_size,
        "HEAD_DIM": head_dim,
        "BLOCK_D": 1 << (head_dim - 1).bit_length(),
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "LEFT": -1,
        "RIGHT": 0 if causal else -1,
        "MASKED": causal,
        "DETERMINISTIC": deterministic,
        "DYNAMIC": dynamic,
        "PRECISION": "ieee" if dtype == "fp32" else "tf32",
    }
    gradient = "*fp32" if group_size > 1 else f"*{dtype}"
    types = {name: "*i32" for name in persistent_backward.arg_names}
    types |= dict.fromkeys(("q", "k", "v", "dout"), f"*{dtype}") | dict.fromkeys(("lse", "delta", "dq_acc"), "*fp32")
    types |= dict.fromkeys(("dk", "dv"), gradient) | dict.fromkeys(("scale", "scale_log2"), "fp32")
    types |= dict.fromkeys(("num_chains", "total_q"), "i32") | dict.fromkeys(constant, "constexpr")
    aligned = {
        (position,): [["tt.divisibility", 16]]
        for position, name in enumerate(persistent_backward.arg_names)
        if types[name].startswith("*")
    }
    source = ASTSource(persistent_backward, types, constexprs=constant, attrs=aligned)
    options: dict[str, Any] = {"num_warps": warps or num_warps(head_dim), "num_stages": 1, "enable_fp_fusion": True}
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    registers, spills = _resources(compiled.asm["cubin"])
    ptx = compiled.asm["ptx"]
    tensor_cores = "mma.sync" in ptx or "wgmma.mma_async" in ptx
    return CompileReport(block_m, block_n, registers, spills, compiled.metadata.shared, tensor_cores, ptx)


def _resources(cubin: bytes) -> tuple[int, int]:
    """Registers and bytes of stack of a thread, from the program that Triton ships to read its binaries."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(tool), "--dump-resource-usage", file.name]
        usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", usage)
    if found is None:
        raise RuntimeError(f"cuobjdump printed no resource usage: {usage!r}")
    return int(found[1]), int(found[2])
