"""The attention implementation `"dash"` of transformers."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from octavo_dash.attention import attention, attention_varlen
from octavo_dash.flash_attention import refuse_unsupported
from octavo_dash.problem import UNBOUNDED
from octavo_shared.arrays import Bool, Float


def register(name: str = "dash") -> None:
    """Makes `attn_implementation="dash"` known to transformers, with flash-attention's convention for masks.

    Example:
        >>> register()
        >>> model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="dash")  # doctest: +SKIP

    Args:
        name: The name to register.

    Raises:
        ImportError: transformers is not installed, or is older than 4.56.
    """
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import flash_attention_mask
    except ImportError as error:
        raise ImportError(
            "register() needs transformers 4.56 or newer: pip install 'octavo-dash[transformers]'"
        ) from error
    AttentionInterface.register(name, dash_attention_forward)
    AttentionMaskInterface.register(name, flash_attention_mask)


def dash_attention_forward(
    module: nn.Module,
    query: Float[Tensor, "batch heads seqlen_q head_dim"],
    key: Float[Tensor, "batch heads_kv seqlen_k head_dim"],
    value: Float[Tensor, "batch heads_kv seqlen_k head_dim"],
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Transformers' attention interface: `[batch, heads, seq, head_dim]` in, `[batch, seq, heads, head_dim]` out.

    Padding is taken out before and put back as zeros after. Sequences packed into one row are kept apart, by
    `cu_seq_lens_q` and `cu_seq_lens_k` where the collator gives them, by `position_ids` that start again otherwise.

    Args:
        module: The attention layer; its `is_causal` counts where the argument is not given.
        query: Queries.
        key: Keys.
        value: Values.
        attention_mask: `None`, or which tokens are no padding, `[batch, tokens]`.
        dropout: Must be 0.
        scaling: Factor of the scores.
        sliding_window: How many keys a query sees at most, itself included.
        is_causal: Whether the mask is causal.
        **kwargs: What else the model passes. `softcap` and `s_aux` (attention sinks) must not be set.

    Raises:
        NotImplementedError: Dropout, soft capping or attention sinks.
    """
    refuse_unsupported(dropout=dropout, softcap=kwargs.get("softcap"), s_aux=kwargs.get("s_aux"))
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    window = (UNBOUNDED, UNBOUNDED) if sliding_window is None else (sliding_window - 1, sliding_window - 1)
    settings: dict[str, Any] = {"causal": causal, "softmax_scale": scaling, "window_size": window}
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))
    if attention_mask is not None:
        return _without_padding(query, key, value, attention_mask.bool(), settings), None
    offsets = _packed_offsets(query, key, kwargs)
    if offsets is None:
        return cast(Tensor, attention(query, key, value, **settings)), None
    batch, length = query.shape[:2]
    query, key, value = (x.flatten(0, 1) for x in (query, key, value))
    out = cast(Tensor, attention_varlen(query, key, value, offsets[0], offsets[1], **settings))
    return out.unflatten(0, (batch, length)), None


def _without_padding(
    query: Tensor, key: Tensor, value: Tensor, tokens: Bool[Tensor, "batch tokens"], settings: dict[str, Any]
) -> Tensor:
    seqlen_q = query.shape[1]
    key, value = key[:, : tokens.shape[1]], value[:, : tokens.shape[1]]  # a static cache holds more than was seen
    queries = tokens[:, -seqlen_q:]
    starts_q, starts_k = (_offsets(mask.sum(dim=1)) for mask in (queries, tokens))
    out = torch.zeros_like(query)
    out[queries] = cast(
        Tensor, attention_varlen(query[queries], key[tokens], value[tokens], starts_q, starts_k, **settings)
    )
    return out


def _packed_offsets(query: Tensor, key: Tensor, kwargs: dict[str, Any]) -> tuple[Tensor, Tensor] | None:
    if kwargs.get("cu_seq_lens_q") is not None:
        return kwargs["cu_seq_lens_q"].to(torch.int32), kwargs["cu_seq_lens_k"].to(torch.int32)
    position = kwargs.get("position_ids")
    if position is None or position.ndim != 2 or query.shape[0] != 1 or query.shape[1] != key.shape[1]:
        return None
    starts = torch.nonzero(position.reshape(-1).diff() != 1).flatten() + 1
    if not len(starts):
        return None
    ends = torch.cat([starts, starts.new_tensor([query.shape[1]])])
    offsets = torch.cat([ends.new_zeros(1), ends]).to(torch.int32)
    return offsets, offsets


def _offsets(lengths: Tensor) -> Tensor:
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(torch.int32)
