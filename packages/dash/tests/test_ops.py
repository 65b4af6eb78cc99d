"""The operators of torch.library: registered completely, and traced by torch.compile."""

import subprocess
import sys

import pytest
import torch

from octavo_dash.ops import attention_backward_op, attention_op

OFFSETS = torch.tensor([0, 40, 40, 130], dtype=torch.int32)


def packed(requires_grad=True):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(130, heads, 32, generator=generator).requires_grad_(requires_grad) for heads in (4, 2, 2)]


@pytest.mark.parametrize(
    "settings",
    [
        (None, None, 2, 0.2, [-1, 0], True, "symmetric_shift", "canonical", [4.0, 1.0, 0.0]),
        (None, None, 1, 0.2, [-1, -1], True, "shift", "wave", [4.0, 1.0, 0.0]),
        (OFFSETS, OFFSETS, 0, 0.2, [16, 0], True, "auto", "canonical", [4.0, 1.0, 0.0]),
    ],
)
def test_opcheck(settings):
    torch.library.opcheck(attention_op, (*packed(), *settings))
    q, k, v = packed(requires_grad=False)
    out, lse = attention_op(q, k, v, *settings)
    torch.library.opcheck(attention_backward_op, (torch.ones_like(out), q, k, v, out, lse, None, *settings))


# Compiled in a process of its own, as users do: the type checks of these tests are not for torch.compile.
COMPILED = """
import sys, torch
from torch import nn
from octavo_dash import attention, attention_varlen

class Attention(nn.Module):
    def forward(self, q, k, v):
        return attention(q, k, v, causal=True, schedule="symmetric_shift")

def step(module, inputs, grad):
    out = module(*inputs)
    return [out.detach(), *torch.autograd.grad(out, inputs, grad)]

torch.manual_seed(0)
inputs = [torch.randn(2, 150, 2, 32, requires_grad=True) for _ in range(3)]
grad = torch.randn(2, 150, 2, 32)
compiled = torch.compile(Attention(), fullgraph=True, backend=sys.argv[1])
for ours, eager in zip(step(compiled, inputs, grad), step(Attention(), inputs, grad), strict=True):
    assert torch.equal(ours, eager)

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 3 * 64)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 32)).unbind(-3)
        return attention(q, k, v, causal=True)

layer, x = Layer(), torch.randn(2, 150, 64)
parameters = list(layer.parameters())
compiled = torch.compile(layer, fullgraph=True, backend=sys.argv[1])
results = [torch.autograd.grad(module(x).square().sum(), parameters) for module in (compiled, layer)]
for ours, eager in zip(*results, strict=True):
    # What inductor makes of the linear layer may be rounded otherwise.
    assert torch.equal(ours, eager) if sys.argv[1] == "eager" else torch.allclose(ours, eager, rtol=1e-4, atol=1e-4)

q, k, v = (torch.randn(130, heads, 32) for heads in (4, 2, 2))
offsets = torch.tensor([0, 40, 40, 130], dtype=torch.int32)
packed = torch.compile(lambda *x: attention_varlen(*x, causal=True), fullgraph=True, backend=sys.argv[1])
assert torch.equal(packed(q, k, v, offsets, offsets), attention_varlen(q, k, v, offsets, offsets, causal=True))
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_compiled_modules_give_the_bits_of_eager_ones(backend):
    command = [sys.executable, "-c", COMPILED, backend]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    assert run.returncode == 0, run.stderr
