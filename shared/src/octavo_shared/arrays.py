"""jaxtyping's array annotations, or names that stand for them where jaxtyping is not installed.

Public signatures say `Float[Tensor, "batch heads seq head_dim"]`, and the tests enforce it. A bare checkout on a GPU
machine may hold torch and little else; there an annotation is the array type alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from jaxtyping import Bool, Float, Float32, Int, Int32, Int64, Integer, Num, Shaped
except ImportError:
    if not TYPE_CHECKING:

        class Shaped:
            """`Shaped[Array, "shape"]` is `Array`."""

            def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
                return item[0]

        Bool = Float = Float32 = Int = Int32 = Int64 = Integer = Num = Shaped

__all__ = ["Bool", "Float", "Float32", "Int", "Int32", "Int64", "Integer", "Num", "Shaped"]
