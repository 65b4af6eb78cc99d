"""The public functions: against PyTorch, in every layout, and with every kind of wrong input."""

import inspect

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from octavo_dash import (
    ScheduleError,
    attention,
    attention_varlen,
    flash_attn_func,
    flash_attn_varlen_func,
    scaled_dot_product_attention,
)

# As users call them: the type checks of these tests would otherwise speak first.
raw_attention, raw_varlen = inspect.unwrap(attention), inspect.unwrap(attention_varlen)


def tensors(batch=2, seqlen_q=100, seqlen_k=100, heads=4, heads_kv=4, head_dim=32, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(batch, seqlen_q, heads), (batch, seqlen_k, heads_kv), (batch, seqlen_k, heads_kv)]
    return [torch.randn(*s, head_dim, generator=generator).to(dtype).requires_grad_() for s in shapes]


def gradients(out, inputs):
    return torch.autograd.grad(out.square().sum(), inputs)


@pytest.mark.parametrize(("seqlen_q", "seqlen_k"), [(100, 100), (70, 100), (100, 70), (1, 130)])
@pytest.mark.parametrize("causal", [False, True])
def test_sdpa_shaped_function_is_pytorchs(seqlen_q, seqlen_k, causal):
    inputs = [x.detach().transpose(1, 2).requires_grad_() for x in tensors(2, seqlen_q, seqlen_k, heads_kv=2)]
    ours = scaled_dot_product_attention(*inputs, is_causal=causal, enable_gqa=True)
    theirs = sdpa(*inputs, is_causal=causal, enable_gqa=True)
    torch.testing.assert_close(ours, theirs)
    for mine, expected in zip(gradients(ours, inputs), gradients(theirs, inputs), strict=True):
        torch.testing.assert_close(mine, expected)


def test_causal_is_aligned_to_the_bottom_right_as_in_flash_attention():
    q, k, v = tensors(1, 3, 5)
    mask = torch.ones(3, 5, dtype=torch.bool).tril(diagonal=2)
    expected = sdpa(*(x.transpose(1, 2) for x in (q, k, v)), attn_mask=mask).transpose(1, 2)
    torch.testing.assert_close(attention(q, k, v, causal=True), expected)


def test_layouts_hold_the_same():
    q, k, v = tensors()
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    assert torch.equal(attention(*turned, causal=True, layout="bhld").transpose(1, 2), attention(q, k, v, causal=True))


def test_flash_attention_functions_return_what_flash_attention_does():
    q, k, v = tensors(2, 60, 60)
    out, lse, nothing = flash_attn_func(q, k, v, causal=True, return_attn_probs=True)
    assert nothing is None
    scores = torch.einsum("blhd,bmhd->bhlm", q, k) / 32**0.5
    scores = scores.masked_fill(~torch.ones(60, 60, dtype=torch.bool).tril(), -torch.inf)
    torch.testing.assert_close(lse, scores.logsumexp(-1))
    offsets = torch.tensor([0, 60, 120], dtype=torch.int32)
    packed, lse_packed, _ = flash_attn_varlen_func(
        *(x.flatten(0, 1) for x in (q, k, v)), offsets, offsets, 60, 60, causal=True, return_attn_probs=True
    )
    assert torch.equal(packed.unflatten(0, (2, 60)), out)
    assert torch.equal(lse_packed.unflatten(1, (2, 60)).transpose(0, 1), lse)
    assert torch.equal(flash_attn_func(q, k, v, 0.0, None, True), out)


def test_the_log_sum_exp_is_differentiable():
    inputs = tensors(1, 70, 90, heads=2, heads_kv=1)
    q, k, v = inputs
    out, lse = attention(q, k, v, return_lse=True)
    scores = torch.einsum("blhd,bmgd->bhlm", q, k) / 32**0.5
    expected = torch.autograd.grad((scores.logsumexp(-1) * 0.7).sum(), (q, k))
    ours = torch.autograd.grad((lse * 0.7).sum() + 0.0 * out.sum(), (q, k))
    for mine, theirs in zip(ours, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_gradcheck_in_float64():
    inputs = tensors(1, 3, 4, heads=2, heads_kv=1)
    assert torch.autograd.gradcheck(lambda *x: attention(*x, causal=True, return_lse=True), inputs)


@pytest.mark.parametrize("schedule", ["auto", "descending", "symmetric_shift"])
def test_bits_of_a_sequence_are_the_same_alone_first_or_last_in_a_batch(schedule):
    others = [tensors(1, n, n, dtype=torch.float32, seed=n) for n in (64, 333, 128, 70)]
    mine = tensors(1, 300, 300, dtype=torch.float32, seed=9)

    def run(parts):
        packed = [torch.cat([part[i][0] for part in parts]).detach().requires_grad_() for i in range(3)]
        lengths = torch.tensor([0, *(part[0].shape[1] for part in parts)]).cumsum(0).to(torch.int32)
        out = attention_varlen(*packed, lengths, lengths, causal=True, schedule=schedule, order="canonical")
        at = next(i for i, part in enumerate(parts) if part is mine)
        where = slice(int(lengths[at]), int(lengths[at + 1]))
        return [out[where].detach(), *(g[where] for g in gradients(out, packed))]

    alone, first, last = run([mine]), run([mine, *others]), run([*others, mine])
    for one, two, three in zip(alone, first, last, strict=True):
        assert torch.equal(one, two)
        assert torch.equal(one, three)


def test_empty_sequences_and_batches_get_zero_gradients():
    packed = [torch.randn(10, 2, 32, requires_grad=True) for _ in range(3)]
    q_offsets = torch.tensor([0, 0, 10, 10], dtype=torch.int32)
    k_offsets = torch.tensor([0, 4, 4, 10], dtype=torch.int32)
    out = attention_varlen(*packed, q_offsets, k_offsets)
    assert torch.equal(out, torch.zeros_like(out))
    assert all(torch.equal(g, torch.zeros_like(g)) for g in gradients(out, packed))
    nothing = [torch.randn(0, 5, 2, 32, requires_grad=True) for _ in range(3)]
    assert attention(*nothing).shape == (0, 5, 2, 32)


def test_memory_that_is_not_initialised_is_never_read():
    q, k, v = tensors(dtype=torch.float32)
    before = gradients(attention(q, k, v, causal=True), (q, k, v))
    poison = [torch.full((2, 100, 4, 32), torch.nan) for _ in range(40)]
    del poison
    for ours, expected in zip(gradients(attention(q, k, v, causal=True), (q, k, v)), before, strict=True):
        assert torch.equal(ours, expected)


@pytest.mark.parametrize("head_dim", [16, 48, 80, 512])
def test_head_dimensions_without_a_kernel_are_refused(head_dim):
    q, k, v = tensors(head_dim=head_dim)
    with pytest.raises(NotImplementedError, match=f"head_dim must be one of 32, 64, 96, 128, 192, 256; got {head_dim}"):
        attention(q, k, v)


def test_shapes_dtypes_and_devices_that_do_not_fit_are_refused():
    q, k, v = tensors()
    with pytest.raises(ValueError, match="heads of q must be a multiple of those of k; got 4 and 3"):
        raw_attention(q, k[:, :, :3], v[:, :, :3])
    with pytest.raises(TypeError, match=r"one dtype; got torch.float64, torch.float32 and torch.float64"):
        raw_attention(q, k.float(), v)
    with pytest.raises(TypeError, match=r"float16, bfloat16, float32, float64 on cpu; got torch\.int64"):
        raw_attention(*(x.long() for x in (q, k, v)))
    with pytest.raises(ValueError, match="one device; got cpu, meta and cpu"):
        raw_attention(q, k.to("meta"), v)
    with pytest.raises(ValueError, match="4 dimensions; got 3, 4 and 4"):
        raw_attention(q[0], k, v)
    with pytest.raises(ValueError, match="one batch size; got 2, 1 and 2"):
        raw_attention(q, k[:1], v)
    with pytest.raises(ValueError, match="one length; got 100 and 90"):
        raw_attention(q, k, v[:, :90])
    with pytest.raises(ValueError, match="one number of heads; got 4 and 2"):
        raw_attention(q, k, v[:, :, :2])
    with pytest.raises(ValueError, match="one head_dim; got 32, 64 and 32"):
        raw_attention(q, torch.cat([k, k], -1), v)
    with pytest.raises(ValueError, match="layout must be 'blhd' or 'bhld'; got 'lbhd'"):
        raw_attention(q, k, v, layout="lbhd")
    with pytest.raises(ValueError, match=r"window_size must be two numbers of at least 0, or -1 .* got \(-5, 0\)"):
        attention(q, k, v, window_size=(-5, 0))


def test_schedules_that_do_not_exist_for_the_problem_are_refused_before_any_work():
    q, k, v = tensors(2, 100, 90)
    with pytest.raises(ScheduleError, match="got window \\(-1, 0\\) with 100 queries and 90 keys"):
        attention(q, k, v, causal=True, schedule="symmetric_shift")
    with pytest.raises(ScheduleError, match="no schedule 'best'"):
        attention(q, k, v, schedule="best")


@pytest.mark.parametrize(
    ("offsets", "error", "message"),
    [
        (torch.tensor([0, 50, 100]), TypeError, "cu_seqlens_q must be int32; got torch.int64"),
        (torch.tensor([1, 100], dtype=torch.int32), ValueError, r"cu_seqlens_q must start with 0; got \[1\]"),
        (torch.tensor([0, 60, 40, 100], dtype=torch.int32), ValueError, "must not decrease; got 60 before 40"),
        (torch.tensor([0, 90], dtype=torch.int32), ValueError, "end with the number of tokens, 100; got 90"),
        (torch.tensor([[0, 100]], dtype=torch.int32), ValueError, "cu_seqlens_q must have 1 dimension; got 2"),
        (torch.tensor([0, 50, 100], dtype=torch.int32), ValueError, "the same sequences; got 2 and 1"),
    ],
)
def test_offsets_that_make_no_sense_are_refused(offsets, error, message):
    packed = [torch.randn(100, 2, 32) for _ in range(3)]
    with pytest.raises(error, match=message):
        raw_varlen(*packed, offsets, torch.tensor([0, 100], dtype=torch.int32))


def test_a_sequence_longer_than_announced_is_refused():
    packed, offsets = [torch.randn(100, 2, 32) for _ in range(3)], torch.tensor([0, 100], dtype=torch.int32)
    with pytest.raises(ValueError, match="max_seqlen of cu_seqlens_k is 64, but a sequence has 100 tokens"):
        attention_varlen(*packed, offsets, offsets, 100, 64)


def test_what_is_not_supported_is_never_ignored():
    q, k, v = tensors()
    for setting in ({"dropout_p": 0.1}, {"softcap": 30.0}, {"alibi_slopes": torch.ones(4)}):
        with pytest.raises(NotImplementedError, match=f"{next(iter(setting))} is not supported"):
            flash_attn_func(q, k, v, **setting)
    with pytest.raises(NotImplementedError, match="attn_mask is not supported"):
        scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(4, 4, dtype=torch.bool))
    with pytest.raises(NotImplementedError, match=r"dropout_p is not supported by octavo-dash; got 0.5, expected 0"):
        scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    with pytest.raises(ValueError, match="same number of heads unless enable_gqa=True; got 100 and 50"):
        scaled_dot_product_attention(q, k[:, :50], v[:, :50])
