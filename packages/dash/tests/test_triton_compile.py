"""What the compiler makes of the persistent kernel, without a GPU."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
import torch

from octavo_dash.kernels.triton import compile_report
from octavo_dash.kernels.triton.compile import SHARED_LIMITS
from octavo_dash.kernels.triton.residency import ctas_per_sm
from octavo_dash.problem import HEAD_DIMS

VARIANTS = [
    pytest.param(
        d, causal, capability, kind, marks=[] if (d, causal, kind) == (64, True, "static") else pytest.mark.slow
    )
    for d in HEAD_DIMS
    for causal in (False, True)
    for capability in (80, 90)
    for kind in ("static", "dynamic", "atomic")
]


@pytest.fixture(scope="module")
def compiled():
    """`compile_report` in a process without the type checks of these tests: Triton reads the source of its kernels."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield lambda *arguments, **settings: pool.submit(compile_report, *arguments, **settings).result()


@pytest.mark.parametrize(("head_dim", "causal", "capability", "kind"), VARIANTS)
@pytest.mark.parametrize("grouped", [False, True])
def test_half_precision_fits(compiled, head_dim, causal, capability, kind, grouped):
    report = compiled(head_dim, causal, capability, kind, grouped=grouped)
    assert report.spill_bytes == 0
    assert report.shared_bytes <= SHARED_LIMITS[capability]
    assert "mma" in report.tensor_core
    in_turn = {code in report.ptx for code in ("ld.acquire.gpu", "red.release.gpu")}
    assert in_turn == {kind != "atomic"}


def test_turns_enclose_the_addition(compiled):
    lines = compiled(64, True, 90).ptx.splitlines()
    acquire = next(i for i, line in enumerate(lines) if "ld.acquire.gpu" in line)
    release = next(i for i, line in enumerate(lines) if "red.release.gpu" in line)
    between = [
        line for line in lines[acquire:release] if "bar.sync" in line or ".add.v4.f32" in line or ".add.f32" in line
    ]
    assert "bar.sync" in between[0]
    assert any("add" in line for line in between)
    assert "bar.sync" in between[-1]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [((64, True, 70), "capability"), ((64, True, 90, "none"), "schedule_kind"), ((48, True), "head_dim")],
)
def test_bad_input(compiled, arguments, match):
    with pytest.raises(ValueError, match=match):
        compiled(*arguments)


def test_window_and_float32_compile(compiled):
    assert compiled(64, True, 90, dtype=torch.float32, window=True).tensor_core


def test_occupancy_is_bounded_by_each_resource():
    gpu = {"registers_per_sm": 65536, "shared_bytes_per_sm": 228 * 1024, "threads_per_sm": 2048}
    assert ctas_per_sm(threads=128, registers=128, shared_bytes=0, **gpu) == 4
    assert ctas_per_sm(threads=128, registers=32, shared_bytes=113 * 1024, **gpu) == 2
    assert ctas_per_sm(threads=1024, registers=16, shared_bytes=0, **gpu) == 2
    assert ctas_per_sm(threads=256, registers=255, shared_bytes=0, **gpu) == 1
