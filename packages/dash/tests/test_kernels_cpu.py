"""The CPU kernels: exact to rounding, the same bits every time, and in the order of the table."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_dash import Problem, make_schedule
from octavo_dash.experiments import Inputs, relative_errors, repeated
from octavo_dash.kernels import cpu, reference, vectorised

SHAPES = {
    "full": Problem.dense(2, 200, num_heads=2),
    "causal": Problem.dense(2, 200, num_heads=2, causal=True),
    "longer keys": Problem.dense(2, 130, 300, num_heads=4, num_heads_kv=2, causal=True),
    "longer queries": Problem.dense(1, 300, 130, num_heads=4, num_heads_kv=1, causal=True),
    "window": Problem.dense(1, 500, num_heads=2, window=(128, 0)),
    "window to both sides": Problem.dense(1, 300, num_heads=2, window=(30, 50)),
    "varlen": Problem((100, 0, 70, 33, 1), (80, 10, 0, 33, 1), num_heads=4, num_heads_kv=2, window=(-1, 0)),
}


def names_for(problem):
    square = problem.window == (-1, 0) and problem.seqlens_q == problem.seqlens_k
    return ["ascending", "descending", "shift", "spt", *(["symmetric_shift"] if square else [])]


@pytest.mark.parametrize("head_dim", [32, 64, 128])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_agree_with_float64_autograd(shape, head_dim):
    problem = SHAPES[shape]
    precisions = [(torch.float32, 1e-5)] + [(torch.float64, 1e-13)] * (head_dim == 32)
    for dtype, tolerance in precisions:
        inputs = Inputs.random(problem, head_dim, seed=1, dtype=dtype)
        exact = inputs.exact_gradients()
        for name in names_for(problem):
            errors = relative_errors(inputs.backward(name, threads=3), exact)
            assert max(errors.values()) <= tolerance, (name, errors)


@pytest.mark.parametrize("shape", ["full", "causal", "longer keys"])
def test_half_precision_inputs_are_exact_before_rounding_and_near_after(shape):
    inputs = Inputs.random(SHAPES[shape], 64, seed=2, dtype=torch.bfloat16)
    exact = inputs.exact_gradients()
    assert max(relative_errors(inputs.in_float32().backward("shift"), exact).values()) <= 2e-3
    rounded = inputs.backward("shift")
    assert {g.dtype for g in rounded} == {torch.bfloat16}
    # An element next to the largest is rounded to 8 significant bits: half a unit is 2^-8 of it at worst.
    assert max(relative_errors(rounded, exact).values()) <= 2e-3 + 2**-8


def test_one_token_attends_to_itself():
    inputs = Inputs.random(Problem.dense(1, 1, num_heads=1), 32, dtype=torch.float64)
    for ours, exact in zip(inputs.backward("shift"), inputs.exact_gradients(), strict=True):
        torch.testing.assert_close(ours, exact)


@pytest.mark.parametrize("head_dim", [96, 192, 256])
def test_the_other_head_dimensions(head_dim):
    inputs = Inputs.random(SHAPES["causal"], head_dim, seed=3)
    assert max(relative_errors(inputs.backward("symmetric_shift"), inputs.exact_gradients()).values()) <= 1e-5


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(0, 150), st.integers(0, 150)), min_size=1, max_size=3),
    group=st.sampled_from([1, 2, 4]),
    window=st.tuples(st.integers(-1, 90), st.integers(-1, 90)),
    name=st.sampled_from(["ascending", "descending", "shift", "spt"]),
    seed=st.integers(0, 100),
)
def test_forward_and_backward_for_any_lengths_heads_and_windows(lengths, group, window, name, seed):
    q, k = (tuple(pair[i] for pair in lengths) for i in (0, 1))
    problem = Problem(q, k, num_heads=group, num_heads_kv=1, window=window)
    inputs = Inputs.random(problem, 32, seed, torch.float64)
    torch.testing.assert_close(
        inputs.out, reference.attention(inputs.q, inputs.k, inputs.v, problem, inputs.scale), rtol=1e-12, atol=1e-13
    )
    for ours, exact in zip(inputs.backward(name, threads=2), inputs.exact_gradients(), strict=True):
        torch.testing.assert_close(ours, exact, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_bits_do_not_depend_on_the_number_of_threads(threads):
    for shape, name in (("causal", "symmetric_shift"), ("longer keys", "shift"), ("varlen", "descending")):
        inputs = Inputs.random(SHAPES[shape], 64, seed=4)
        for ours, single in zip(
            inputs.backward(name, threads=threads, jitter=threads), inputs.backward(name, threads=1), strict=True
        ):
            assert torch.equal(ours, single)
        out, lse = cpu.forward(inputs.q, inputs.k, inputs.v, inputs.problem, inputs.scale, threads=threads)
        assert torch.equal(out, inputs.out)
        assert torch.equal(lse, inputs.lse)


@pytest.mark.parametrize("mask", ["full", "causal", "varlen"])
@pytest.mark.parametrize("group", [1, 4], ids=["mha", "gqa4"])
@pytest.mark.parametrize("name", ["ascending", "descending", "shift", "symmetric_shift"])
def test_fifty_runs_on_four_threads_have_the_same_bits(name, group, mask):
    lengths = {"full": (256,), "causal": (256,), "varlen": (150, 0, 100)}[mask]
    window = (-1, -1) if mask == "full" else (-1, 0)
    if name == "symmetric_shift" and mask == "full":
        pytest.skip("there is no symmetric shift for the full mask")
    problem = Problem(lengths, lengths, num_heads=4, num_heads_kv=4 // group, window=window)
    results = repeated(Inputs.random(problem, 32, seed=5), name, deterministic=True, runs=50, threads=4)
    assert {tensor: result.n_patterns for tensor, result in results.items()} == {"dq": 1, "dk": 1, "dv": 1}


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_the_atomic_mode_gives_several_bit_patterns_so_that_the_tests_have_power(causal):
    problem = Problem.dense(1, 1024, num_heads=2, num_heads_kv=1, causal=causal)
    results = repeated(Inputs.random(problem, 32, seed=6), "ascending", deterministic=False, runs=50, threads=4)
    assert results["dq"].n_patterns >= 2
    assert 0 < results["dq"].max_abs_diff < 1e-5


def test_another_order_gives_other_bits_and_equal_values():
    inputs = Inputs.random(Problem.dense(1, 512, num_heads=2, causal=True), 64, seed=7)
    one, other = inputs.backward("ascending"), inputs.backward("symmetric_shift")
    assert not torch.equal(one.dq, other.dq)
    assert float((one.dq - other.dq).abs().max() / one.dq.abs().max()) <= 1e-6


def test_the_sequential_loop_of_the_order_table_gives_the_same_bits_as_threads():
    inputs = Inputs.random(SHAPES["longer keys"], 64, seed=8)
    for name in ("ascending", "shift"):
        sequential = inputs.backward(name, threads=1)
        for seed in range(1, 6):
            for ours, expected in zip(inputs.backward(name, threads=4, jitter=seed), sequential, strict=True):
                assert torch.equal(ours, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_vectorised_and_the_plain_loop_agree_with_the_compiled_executor(shape):
    inputs = Inputs.random(SHAPES[shape], 32, seed=9, dtype=torch.float64)
    dlse = torch.randn(inputs.lse.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    dlse = torch.where(torch.isinf(inputs.lse), 0.0, dlse)
    tensors = (inputs.q, inputs.k, inputs.v, inputs.out, inputs.dout, inputs.lse, dlse)
    out, lse = vectorised.forward(inputs.q, inputs.k, inputs.v, inputs.problem, inputs.scale)
    torch.testing.assert_close(out, inputs.out, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(lse, inputs.lse, rtol=1e-12, atol=1e-13)
    for name in names_for(inputs.problem):
        table = make_schedule(inputs.problem, name)
        compiled = cpu.backward(
            inputs.dout, inputs.q, inputs.k, inputs.v, inputs.out, inputs.lse, table, inputs.scale, dlse=dlse
        )
        for path in (vectorised.backward, reference.backward_in_order):
            for ours, expected in zip(path(*tensors, table, inputs.scale), compiled, strict=True):
                torch.testing.assert_close(ours, expected, rtol=1e-11, atol=1e-12)


def test_vectorised_bits_are_those_of_the_order_table():
    inputs = Inputs.random(Problem.dense(1, 512, num_heads=2), 32, seed=10)
    tensors = (inputs.q, inputs.k, inputs.v, inputs.out, inputs.dout, inputs.lse, torch.zeros_like(inputs.lse))

    def dq(name):
        return vectorised.backward(*tensors, make_schedule(inputs.problem, name), inputs.scale).dq

    assert torch.equal(dq("ascending"), dq("ascending"))
    assert not torch.equal(dq("ascending"), dq("shift"))


@pytest.mark.slow
def test_everything_works_without_the_compiled_module():
    program = """
import sys, logging
sys.modules["octavo_dash._native"] = None
logging.basicConfig(level=logging.WARNING)
import torch, octavo_dash as od
q, k, v = (torch.randn(2, 100, 2, 32, dtype=torch.float64, requires_grad=True) for _ in range(3))
def gradients(attend):
    return torch.autograd.grad(attend(q, k, v).square().sum(), (q, k, v))
ours = gradients(lambda *x: od.attention(*x, causal=True))
sdpa = torch.nn.functional.scaled_dot_product_attention
theirs = gradients(lambda *x: sdpa(*(y.transpose(1, 2) for y in x), is_causal=True).transpose(1, 2))
assert all(torch.allclose(a, b) for a, b in zip(ours, theirs))
trace = od.simulate(od.make_schedule(od.Problem.tiles(8, num_heads=4, causal=True), "descending"), 4, 1)
assert trace.makespan == 97
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=110)
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("without its compiled module") == 1


def test_a_timeline_says_when_each_task_ran():
    inputs = Inputs.random(Problem.dense(1, 256, num_heads=2, causal=True, num_sms=2), 32)
    table = make_schedule(inputs.problem, "descending")
    timeline = cpu.Timeline.of(table)
    cpu.backward(
        inputs.dout,
        inputs.q,
        inputs.k,
        inputs.v,
        inputs.out,
        inputs.lse,
        table,
        inputs.scale,
        threads=2,
        timeline=timeline,
    )
    assert (timeline.start <= timeline.computed).all()
    assert (timeline.computed <= timeline.turn).all()
    assert (timeline.turn <= timeline.end).all()
    before = table.dq_predecessor
    assert (timeline.end[before[before >= 0]] <= timeline.turn[before >= 0] + 1e-5).all()
    assert set(np.unique(timeline.thread)) <= {0, 1}
