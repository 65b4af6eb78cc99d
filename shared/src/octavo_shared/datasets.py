"""Data sets that two packages or more use, as the libraries ship them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from octavo_shared.arrays import Float32, Int64


@dataclass(frozen=True)
class Digits:
    """Handwritten digits.

    Attributes:
        images: Grey values from 0 to 1.
        labels: The digit that each shows.
    """

    images: Float32[np.ndarray, "1797 8 8"]
    labels: Int64[np.ndarray, " 1797"]


def digits() -> Digits:
    """The 1,797 images of 8 × 8 pixels that scikit-learn ships (UCI optical recognition of handwritten digits).

    Raises:
        ImportError: scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError("digits() needs scikit-learn: pip install 'octavo-shared[datasets]'") from error
    bunch = load_digits()
    return Digits((bunch.images / 16.0).astype(np.float32), bunch.target.astype(np.int64))
