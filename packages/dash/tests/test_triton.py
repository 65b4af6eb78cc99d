"""The Triton kernels in Triton's interpreter: bits between drivers, values against float64 autograd."""

from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context

import pytest
import torch
from triton_cases import CASES, PROBLEMS, run_case

from octavo_dash.kernels import reference

NUMBERS = {f"{problem}-{schedule}-d{d}-{str(t)[6:]}": i for i, (problem, schedule, d, t) in enumerate(CASES)}
QUICK = ("full-shift-d32-float32", "full-ascending-d32-float32")
every_case = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in NUMBERS]
)


@pytest.fixture(scope="module")
def results():
    """What comes out of a case, by its name; each is run once, in another process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield cache(lambda name: pool.submit(run_case, NUMBERS[name]).result())


def relative(found, expected):
    if not expected.numel():
        return 0.0
    return ((found.double() - expected).norm() / expected.norm()).item()


def autograd(case, found, *, with_dlse):
    problem = PROBLEMS[case[0]]
    q, k, v = (found[name].double().requires_grad_() for name in "qkv")
    out = reference.attention(q, k, v, problem, case[2] ** -0.5)
    loss = (out * found["dout"].double()).sum()
    if with_dlse:
        lse = logarithms(q, k, problem, case[2] ** -0.5)
        loss = loss + torch.where(lse.isfinite(), lse * found["dlse"].double(), 0.0).sum()
    return out.detach(), torch.autograd.grad(loss, (q, k, v))


def logarithms(q, k, problem, scale):
    rows, start_q, start_k = [], 0, 0
    for geometry in problem.geometries:
        query = q[start_q : start_q + geometry.seqlen_q].transpose(0, 1)
        key = k[start_k : start_k + geometry.seqlen_k].repeat_interleave(problem.group_size, 1).transpose(0, 1)
        scores = (scale * query @ key.transpose(1, 2)).masked_fill(~reference.visible(geometry), -torch.inf)
        rows.append(torch.logsumexp(scores, dim=-1) if geometry.seqlen_k else scores.sum(-1) - torch.inf)
        start_q, start_k = start_q + geometry.seqlen_q, start_k + geometry.seqlen_k
    return torch.cat(rows, dim=1)


@every_case
def test_drivers_give_the_same_bits(results, name):
    found = results(name)
    for one, other in zip(found["wavefront"], found["tasks"], strict=True):
        assert torch.equal(one, other)
    for one, other in zip(found["persistent"], found["persistent_reference"], strict=True):
        assert torch.equal(one, other)


@every_case
def test_values(results, name):
    found, case = results(name), CASES[NUMBERS[name]]
    tolerance = 1e-5 if case[3] == torch.float32 else 2e-3
    out, expected = autograd(case, found, with_dlse=False)
    assert relative(found["out"], out) < tolerance
    for driver in ("wavefront", "tasks", "persistent", "atomic"):
        for gradient, reference_gradient in zip(found[driver], expected, strict=True):
            assert gradient.isfinite().all()
            assert relative(gradient, reference_gradient) < tolerance


@every_case
def test_gradient_of_the_logarithms(results, name):
    found, case = results(name), CASES[NUMBERS[name]]
    tolerance = 1e-5 if case[3] == torch.float32 else 2e-3
    _, expected = autograd(case, found, with_dlse=True)
    for gradient, reference_gradient in zip(found["with_dlse"], expected, strict=True):
        assert relative(gradient, reference_gradient) < tolerance


def test_another_order_gives_other_bits(results):
    shift, ascending = results("full-shift-d32-float32"), results("full-ascending-d32-float32")
    assert torch.equal(shift["q"], ascending["q"])
    assert not torch.equal(shift["wavefront"][0], ascending["wavefront"][0])
