"""The attention implementation of transformers, in small models of real classes."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM

from octavo_dash import register
from octavo_dash.huggingface import dash_attention_forward

SIZE = {
    "vocab_size": 128,
    "hidden_size": 128,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
MODELS = {
    "llama": (LlamaForCausalLM, LlamaConfig, {}),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, {}),
    "mistral with a sliding window": (MistralForCausalLM, MistralConfig, {"sliding_window": 20}),
}


@pytest.fixture(autouse=True)
def registered():
    register()


def models(name):
    """The same weights under dash and under PyTorch's attention."""
    model_class, config_class, extra = MODELS[name]
    torch.manual_seed(0)
    ours = model_class._from_config(config_class(**SIZE, **extra), attn_implementation="dash").double()
    theirs = model_class._from_config(config_class(**SIZE, **extra), attn_implementation="sdpa").double()
    theirs.load_state_dict(ours.state_dict())
    return ours.eval(), theirs.eval()


def tokens(batch=2, length=90):
    return torch.randint(1, 128, (batch, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", MODELS)
def test_losses_and_gradients_are_those_of_sdpa(name):
    ids = tokens()
    losses, gradients = [], []
    for model in models(name):
        loss = model(input_ids=ids, labels=ids).loss
        losses.append(loss.detach())
        gradients.append(torch.autograd.grad(loss, list(model.parameters())))
    torch.testing.assert_close(*losses)
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", MODELS)
def test_padding_changes_nothing(name, side):
    ids, mask = tokens(), torch.ones(2, 90, dtype=torch.long)
    mask[0, slice(0, 30) if side == "left" else slice(60, None)] = 0
    ours, theirs = (model(input_ids=ids, attention_mask=mask).logits[mask.bool()] for model in models(name))
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_generation_with_a_cache_gives_the_same_tokens(name):
    ids, mask = tokens(2, 24), torch.ones(2, 24, dtype=torch.long)
    mask[0, :7] = 0
    ours, theirs = (
        model.generate(ids, attention_mask=mask, max_new_tokens=12, do_sample=False) for model in models(name)
    )
    assert torch.equal(ours, theirs)
    assert ours.shape == (2, 36)


def test_packed_sequences_do_not_see_one_another():
    ours, _ = models("llama")
    first, second = tokens(1, 40), tokens(1, 50).flip(1)
    packed, position_ids = torch.cat([first, second], 1), torch.cat([torch.arange(40), torch.arange(50)])[None]
    alone = torch.cat([ours(input_ids=first).logits, ours(input_ids=second).logits], dim=1)
    offsets = torch.tensor([0, 40, 90], dtype=torch.int32)
    by_offsets = {"cu_seq_lens_q": offsets, "cu_seq_lens_k": offsets, "max_length_q": 50, "max_length_k": 50}
    for extra in ({}, by_offsets):
        logits = ours(input_ids=packed, position_ids=position_ids, **extra).logits
        torch.testing.assert_close(logits, alone)


def test_two_training_steps_have_the_same_bits():
    results = []
    for _ in range(2):
        model, _ = models("llama")
        model = model.float().train()
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for _ in range(2):
            model(input_ids=tokens(2, 300), labels=tokens(2, 300)).loss.backward()
            optimiser.step()
            optimiser.zero_grad()
        results.append([p.detach().clone() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("setting", [{"dropout": 0.1}, {"softcap": 50.0}, {"s_aux": torch.ones(4)}])
def test_what_is_not_supported_is_never_ignored(setting):
    q, k, v = (torch.randn(1, 4, 10, 32) for _ in range(3))
    with pytest.raises(NotImplementedError, match=f"{next(iter(setting))} is not supported"):
        dash_attention_forward(torch.nn.Module(), q, k, v, None, **setting)
