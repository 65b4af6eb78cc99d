"""Attention on a GPU, in Triton: forward, the backward pass under a schedule, and what the compiler says of it."""

from octavo_dash.kernels.triton.backward import backward
from octavo_dash.kernels.triton.compile import CompileReport, compile_report
from octavo_dash.kernels.triton.forward import forward
from octavo_dash.kernels.triton.tiles import tile_sizes

__all__ = ["CompileReport", "backward", "compile_report", "forward", "tile_sizes"]
