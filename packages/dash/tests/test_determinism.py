"""The check of determinism, on functions that are and are not."""

import itertools

import pytest
import torch

from octavo_dash import Repeatability, check_determinism


def test_what_is_equal_and_what_is_not():
    count = itertools.count()
    results = check_determinism(
        lambda: {"same": torch.ones(3), "other": torch.full((2,), float(next(count) % 3))}, runs=7
    )
    assert results["same"] == Repeatability(True, 0.0, 1)
    assert results["other"] == Repeatability(False, 2.0, 3)


def test_signed_zeros_differ_in_bits_though_not_in_value():
    signs = itertools.cycle([0.0, -0.0])
    result = check_determinism(lambda: torch.tensor([next(signs)]), runs=4)["0"]
    assert result == Repeatability(False, 0.0, 2)


def test_nan_of_equal_bits_is_equal():
    assert check_determinism(lambda: [torch.tensor([torch.nan]), torch.zeros(0)], runs=2)["0"].bit_equal


def test_wrong_use_is_named():
    with pytest.raises(ValueError, match="runs must be at least 2; got 1"):
        check_determinism(lambda: torch.ones(1), runs=1)
    sizes = itertools.count(1)
    with pytest.raises(ValueError, match="the same names and shapes every time; run 1 differs"):
        check_determinism(lambda: torch.ones(next(sizes)), runs=3)
    with pytest.raises(ValueError, match="device is cuda but tensor 0 is on cpu"):
        check_determinism(lambda: torch.ones(1), device="cuda")
