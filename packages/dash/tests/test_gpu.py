"""What needs a GPU: bits of the persistent kernel over many runs, values, and no hang.

`octavo gpu` runs these from a bare checkout: they import torch and pytest, not the libraries that other tests use.
"""

import pytest
import torch

from octavo_dash import attention, attention_varlen, check_determinism
from octavo_dash.kernels import reference
from octavo_dash.problem import Problem
from octavo_dash.throughput import Backward, Workload

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

MASKS = pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])


def names(causal):
    return ["ascending", "descending", "shift", "spt", *(["symmetric_shift"] if causal else [])]


@MASKS
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("heads_kv", [8, 2], ids=["mha", "gqa4"])
def test_two_hundred_runs_have_the_same_bits(head_dim, causal, heads_kv):
    backward = Backward(Workload(2, 2048, 8, head_dim, causal, heads_kv, torch.bfloat16, "cuda"))
    for name in names(causal):
        results = check_determinism(lambda name=name: backward.run(name), 200, "cuda")
        assert {result.n_patterns for result in results.values()} == {1}, name


@MASKS
def test_the_atomic_mode_gives_several_bit_patterns(causal):
    backward = Backward(Workload(2, 4096, 8, 64, causal, None, torch.bfloat16, "cuda"))
    results = check_determinism(lambda: backward.run(deterministic=False), 50, "cuda")
    assert results["0"].n_patterns >= 2


@MASKS
@pytest.mark.parametrize("driver", ["wavefront", "tasks"])
def test_drivers_give_the_same_bits(driver, causal):
    from octavo_dash.build import make_schedule
    from octavo_dash.kernels import triton

    backward = Backward(Workload(1, 512, 2, 64, causal, 1, torch.bfloat16, "cuda"))
    tensors = (backward.dout, backward.q, backward.k, backward.v, backward.out, backward.lse)
    for name in names(causal):
        table = make_schedule(backward.problem, name)
        persistent = triton.backward(*tensors, table, backward.scale)
        for ours, expected in zip(
            triton.backward(*tensors, table, backward.scale, driver=driver), persistent, strict=True
        ):
            assert torch.equal(ours, expected), name


@MASKS
@pytest.mark.parametrize("head_dim", [32, 64, 96, 128, 192, 256])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_values_agree_with_float64(dtype, head_dim, causal):
    generator = torch.Generator("cuda").manual_seed(0)
    inputs = [
        torch.randn(2, 333, heads, head_dim, generator=generator, device="cuda").to(dtype).requires_grad_()
        for heads in (4, 2, 2)
    ]
    problem = Problem.dense(2, 333, num_heads=4, num_heads_kv=2, causal=causal)
    exact = [x.detach().double().flatten(0, 1).requires_grad_() for x in inputs]
    expected = reference.attention(*exact, problem, head_dim**-0.5)
    out = attention(*inputs, causal=causal)
    grad = torch.randn(out.shape, generator=generator, device="cuda").to(dtype)
    ours = torch.autograd.grad(out, inputs, grad)
    theirs = torch.autograd.grad(expected, exact, grad.double().flatten(0, 1))
    tolerance = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}[dtype]
    for mine, true in zip((out, *ours), (expected, *theirs), strict=True):
        error = (mine.detach().double().flatten(0, 1) - true.detach()).norm() / true.detach().norm()
        assert error <= tolerance


@pytest.mark.parametrize("schedule", ["auto", "ascending", "descending", "shift"])
def test_packed_sequences_and_windows(schedule):
    lengths = torch.tensor([0, 700, 700, 1, 1300]).cumsum(0).to(torch.int32).cuda()
    generator = torch.Generator("cuda").manual_seed(1)
    total = int(lengths[-1])
    inputs = [torch.randn(total, 4, 64, generator=generator, device="cuda").requires_grad_() for _ in range(3)]
    sequences = tuple(lengths.diff().tolist())
    for window in ((-1, 0), (128, 0), (-1, -1)):
        problem = Problem(sequences, sequences, 4, 4, window)
        out = attention_varlen(*inputs, lengths, lengths, window_size=window, schedule=schedule)
        exact = [x.detach().double().requires_grad_() for x in inputs]
        expected = reference.attention(*exact, problem, 64**-0.5)
        ours = torch.autograd.grad(out.square().sum(), inputs)
        theirs = torch.autograd.grad(expected.square().sum(), exact)
        for mine, true in zip(ours, theirs, strict=True):
            assert (mine.double() - true).norm() / true.norm() <= 1e-5


def test_bits_of_a_sequence_do_not_depend_on_its_neighbours():
    generator = torch.Generator("cuda").manual_seed(2)
    mine, other = (
        [torch.randn(n, 4, 64, generator=generator, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
        for n in (1500, 900)
    )

    def gradients(parts):
        packed = [torch.cat([part[i] for part in parts]).requires_grad_() for i in range(3)]
        offsets = torch.tensor([0, *(part[0].shape[0] for part in parts)]).cumsum(0).to(torch.int32).cuda()
        out = attention_varlen(*packed, offsets, offsets, causal=True)
        start = 0 if parts[0] is mine else 900
        return [g[start : start + 1500] for g in torch.autograd.grad(out.float().square().sum(), packed)]

    alone = gradients([mine])
    for parts in ([mine, other], [other, mine]):
        for one, two in zip(alone, gradients(parts), strict=True):
            assert torch.equal(one, two)


def test_two_streams_at_once_do_not_hang_and_have_the_same_bits():
    backward = Backward(Workload(1, 2048, 8, 64, True, None, torch.bfloat16, "cuda"))
    expected = backward.run("symmetric_shift")
    streams = [torch.cuda.Stream() for _ in range(2)]
    results = []
    for stream in streams * 4:
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            results.append(backward.run("symmetric_shift"))
    torch.cuda.synchronize()
    for result in results:
        for ours, theirs in zip(result, expected, strict=True):
            assert torch.equal(ours, theirs)
