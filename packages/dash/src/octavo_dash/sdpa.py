"""`torch.nn.functional.scaled_dot_product_attention`, with its names and shapes."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from octavo_dash.attention import attention
from octavo_dash.build import Order
from octavo_dash.flash_attention import refuse_unsupported
from octavo_dash.problem import UNBOUNDED
from octavo_shared.arrays import Float


def scaled_dot_product_attention(
    query: Float[Tensor, "batch heads seqlen_q head_dim"],
    key: Float[Tensor, "batch heads_kv seqlen_k head_dim"],
    value: Float[Tensor, "batch heads_kv seqlen_k head_dim"],
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    deterministic: bool = True,
    schedule: str = "auto",
    order: Order = "canonical",
) -> Tensor:
    """PyTorch's attention function with reproducible gradients.

    As in PyTorch, `is_causal` aligns the mask to the *top left*: query i sees keys 0 … i, whatever the lengths.

    Args:
        query: Queries.
        key: Keys.
        value: Values.
        attn_mask: Must be `None`; see `window_size` and `attention_varlen` for masks that the kernels know.
        dropout_p: Must be 0.
        is_causal: Causal mask.
        scale: Factor of the scores; 1/√head_dim by default.
        enable_gqa: Whether `key` may have fewer heads than `query`.
        deterministic: See `attention`.
        schedule: See `attention`.
        order: See `attention`.

    Raises:
        NotImplementedError: A mask or dropout; or a head dimension that there is no kernel for.
        ValueError: Fewer key heads without `enable_gqa`, or as `attention`.
    """
    refuse_unsupported(attn_mask=attn_mask, dropout_p=dropout_p)
    if query.ndim == 4 and key.ndim == 4 and query.shape[1] != key.shape[1] and not enable_gqa:
        raise ValueError(
            f"query and key must have the same number of heads unless enable_gqa=True; got {query.shape[1]} and "
            f"{key.shape[1]}"
        )
    seqlen_q, seqlen_k = query.shape[-2], key.shape[-2]
    window = (UNBOUNDED, UNBOUNDED)
    if is_causal and seqlen_k >= seqlen_q:
        key, value = key[..., :seqlen_q, :], value[..., :seqlen_q, :]  # no query sees a key beyond
        window = (UNBOUNDED, 0)
    elif is_causal:
        window = (UNBOUNDED, seqlen_q - seqlen_k)  # top left is this far to the right of bottom right
    out = attention(
        query,
        key,
        value,
        softmax_scale=scale,
        window_size=window,
        deterministic=deterministic,
        schedule=schedule,
        order=order,
        layout="bhld",
    )
    return cast(Tensor, out)
