"""Every formula against the simulator, wherever it claims to be exact."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_dash import Problem, closed_form, lower_bound, make_schedule, simulate

NAMES = ("ascending", "shift", "descending", "symmetric_shift")


@settings(max_examples=600, deadline=None)
@given(
    n=st.integers(1, 32),
    m=st.integers(1, 48),
    heads=st.integers(1, 8),
    causal=st.booleans(),
    sigma=st.integers(1, 3),
    reduce=st.integers(0, 9),
    surplus=st.integers(-4, 9),
    sync=st.sampled_from([0, 0, 0, 1, 5, 12]),
    order=st.sampled_from(["canonical", "wave"]),
)
def test_formulas_are_exact(n, m, heads, causal, sigma, reduce, surplus, sync, order):
    compute = max(0 if reduce else 1, reduce + surplus)
    problem = Problem.tiles(n, None if causal else m, num_heads=heads, causal=causal, sigma=sigma)
    for name in NAMES:
        expected = closed_form(problem, name, compute, reduce, sync)
        if expected is not None:
            makespan = simulate(make_schedule(problem, name, order=order), compute, reduce, sync).makespan
            assert makespan == expected, name


@pytest.mark.parametrize("n", range(2, 33))
def test_shift_is_optimal_and_so_is_symmetric_shift(n):
    for heads in range(1, 9):
        full = Problem.tiles(n, num_heads=heads)
        assert closed_form(full, "shift", 4, 1) == lower_bound(full, 4, 1) == heads * n * 5
        causal = Problem.tiles(n, num_heads=heads, causal=True)
        if n % 2 == 0 and heads % 2 == 0:
            assert closed_form(causal, "symmetric_shift", 4, 1) == lower_bound(causal, 4, 1)


def test_no_formula_where_none_is_exact():
    assert closed_form(Problem.tiles(8, causal=True), "spt", 4, 1) is None
    assert closed_form(Problem.tiles(8, num_heads=3, causal=True), "descending", 4, 1) is None
    assert closed_form(Problem.tiles(4, num_heads=4, causal=True), "descending", 1, 2) is None
    assert closed_form(Problem.tiles(7, num_heads=2, causal=True), "symmetric_shift", 4, 1) is None
    assert closed_form(Problem.tiles(8, 4), "shift", 4, 1) is None
    assert closed_form(Problem.tiles(8, num_sms=5), "shift", 4, 1) is None
    assert closed_form(Problem((4, 8), (4, 8), block_m=1, block_n=1, num_sms=4), "shift", 4, 1) is None
    # The formula for descending would say 36 here.
    assert simulate(make_schedule(Problem.tiles(4, num_heads=4, causal=True), "descending"), 1, 2).makespan == 39


@settings(max_examples=100, deadline=None)
@given(
    n=st.integers(1, 12),
    m=st.integers(1, 12),
    heads=st.integers(1, 4),
    num_sms=st.integers(1, 20),
    causal=st.booleans(),
)
def test_nothing_undercuts_the_lower_bound(n, m, heads, num_sms, causal):
    problem = Problem.tiles(n, m, num_heads=heads, causal=causal, num_sms=num_sms)
    for name in ("ascending", "descending", "shift", "spt"):
        assert simulate(make_schedule(problem, name), 4, 1).makespan >= lower_bound(problem, 4, 1)
