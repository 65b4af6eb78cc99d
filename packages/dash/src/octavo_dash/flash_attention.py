"""flash-attn's two functions, with its names, shapes and defaults, for code that calls them."""

from __future__ import annotations

from torch import Tensor

from octavo_dash.attention import attention, attention_varlen
from octavo_dash.build import Order
from octavo_dash.problem import UNBOUNDED
from octavo_shared.arrays import Float, Int32


def flash_attn_func(
    q: Float[Tensor, "batch seqlen_q heads head_dim"],
    k: Float[Tensor, "batch seqlen_k heads_kv head_dim"],
    v: Float[Tensor, "batch seqlen_k heads_kv head_dim"],
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (UNBOUNDED, UNBOUNDED),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = True,
    return_attn_probs: bool = False,
    *,
    schedule: str = "auto",
    order: Order = "canonical",
) -> Tensor | tuple[Tensor, Tensor, None]:
    """`flash_attn.flash_attn_func`, deterministic unless told otherwise.

    Args:
        q: Queries.
        k: Keys.
        v: Values.
        dropout_p: Must be 0.
        softmax_scale: Factor of the scores; 1/√head_dim by default.
        causal: Causal mask, aligned to the bottom right.
        window_size: Keys to the left and right of its position that a query sees; -1 for all.
        softcap: Must be 0.
        alibi_slopes: Must be `None`.
        deterministic: Whether gradients are the same bits in every run.
        return_attn_probs: Whether to return `(out, log-sum-exp [batch, heads, seqlen_q], None)`, as flash-attn does.
        schedule: See `attention`.
        order: See `attention`.

    Raises:
        NotImplementedError: Dropout, soft capping or ALiBi; or a head dimension that there is no kernel for.
        ValueError: As `attention`.
    """
    refuse_unsupported(dropout_p=dropout_p, softcap=softcap, alibi_slopes=alibi_slopes)
    out, lse = attention(
        q,
        k,
        v,
        causal=causal,
        softmax_scale=softmax_scale,
        window_size=window_size,
        deterministic=deterministic,
        schedule=schedule,
        order=order,
        return_lse=True,
    )
    return (out, lse, None) if return_attn_probs else out


def flash_attn_varlen_func(
    q: Float[Tensor, "total_q heads head_dim"],
    k: Float[Tensor, "total_k heads_kv head_dim"],
    v: Float[Tensor, "total_k heads_kv head_dim"],
    cu_seqlens_q: Int32[Tensor, " batch_plus_one"],
    cu_seqlens_k: Int32[Tensor, " batch_plus_one"],
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (UNBOUNDED, UNBOUNDED),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = True,
    return_attn_probs: bool = False,
    *,
    schedule: str = "auto",
    order: Order = "canonical",
) -> Tensor | tuple[Tensor, Tensor, None]:
    """`flash_attn.flash_attn_varlen_func`; offsets as in `attention_varlen`, the rest as in `flash_attn_func`."""
    refuse_unsupported(dropout_p=dropout_p, softcap=softcap, alibi_slopes=alibi_slopes)
    out, lse = attention_varlen(
        q,
        k,
        v,
        cu_seqlens_q,
        cu_seqlens_k,
        max_seqlen_q,
        max_seqlen_k,
        causal=causal,
        softmax_scale=softmax_scale,
        window_size=window_size,
        deterministic=deterministic,
        schedule=schedule,
        order=order,
        return_lse=True,
    )
    return (out, lse, None) if return_attn_probs else out


def refuse_unsupported(**settings: object) -> None:
    """Raises for a setting that asks for something the kernels do not do, so that none is ignored silently.

    Raises:
        NotImplementedError: A setting that is neither `None` nor 0.
    """
    for name, value in settings.items():
        if value is not None and not (isinstance(value, int | float) and value == 0):
            raise NotImplementedError(f"{name} is not supported by octavo-dash; got {value!r}, expected 0 or None")
