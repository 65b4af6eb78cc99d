"""The kernels for a GPU, in Triton: a forward pass, and a backward pass driven by the tables of a schedule."""

from octavo_dash.kernels.triton.backward import backward
from octavo_dash.kernels.triton.compile import CompileReport, compile_report
from octavo_dash.kernels.triton.forward import forward
from octavo_dash.kernels.triton.tiles import num_warps, tile_sizes

__all__ = ["CompileReport", "backward", "compile_report", "forward", "num_warps", "tile_sizes"]
