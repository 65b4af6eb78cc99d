"""The tables of each schedule against those of the specification, and against the released formulas."""

import dataclasses
import inspect

import golden
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_dash import RULES, Problem, ScheduleError, make_schedule
from octavo_dash.build import CANONICAL_GROUP


def orders(schedule, num_q_tiles, head=0):
    return tuple(schedule.order_table[0, head, i] for i in range(num_q_tiles))


def work(schedule):
    return tuple(tuple(task[1:] for task in tasks) for tasks in schedule.exec)


@pytest.mark.parametrize("order", ["canonical", "wave"])
def test_symmetric_shift_of_eight_key_tiles_is_the_golden_table(order):
    schedule = make_schedule(Problem.tiles(8, causal=True, num_sms=4), "symmetric_shift", order=order)
    assert work(schedule) == golden.SYMMETRIC_8
    assert orders(schedule, 8) == golden.SYMMETRIC_8_ORDER


@pytest.mark.parametrize("order", ["canonical", "wave"])
def test_symmetric_shift_with_two_query_tiles_a_key_tile_is_the_golden_table(order):
    schedule = make_schedule(Problem.tiles(4, causal=True, sigma=2, num_sms=2), "symmetric_shift", order=order)
    assert work(schedule) == golden.SYMMETRIC_4_SIGMA_2
    assert orders(schedule, 8) == golden.SYMMETRIC_4_SIGMA_2_ORDER


@pytest.mark.parametrize("order", ["canonical", "wave"])
def test_shift_is_the_golden_table(order):
    schedule = make_schedule(Problem.tiles(3, 5), "shift", order=order)
    assert tuple(tuple(q for _, q in tasks) for tasks in work(schedule)) == golden.SHIFT_3_5
    assert orders(schedule, 5) == golden.SHIFT_3_5_ORDER


def released_cohort(unit, head, num_units, num_sms):
    """(A, f) of the paper's kernel: the head's units in this wave, and its units before it."""
    wave = (unit + head * num_units) // num_sms
    first = max(head * num_units, wave * num_sms)
    end = min((head + 1) * num_units, (wave + 1) * num_sms)
    return end - first, max(0, wave * num_sms - head * num_units)


@settings(max_examples=150, deadline=None)
@given(n=st.integers(1, 19), extra=st.integers(0, 20), heads=st.integers(1, 4), num_sms=st.integers(1, 24))
def test_wave_order_gives_the_released_wait_values_of_the_shift(n, extra, heads, num_sms):
    schedule = make_schedule(Problem.tiles(n, n + extra, num_heads=heads, num_sms=num_sms), "shift", order="wave")
    for head, kv, q, wait in zip(schedule.head, schedule.kv, schedule.q, schedule.wait, strict=True):
        size, finished = released_cohort(kv, head, n, num_sms)
        assert wait == finished + (min(q, size - 1) - (kv - finished)) % size


@settings(max_examples=150, deadline=None)
@given(pairs=st.integers(1, 9), sigma=st.integers(1, 3), heads=st.integers(1, 4), num_sms=st.integers(1, 24))
def test_wave_order_gives_the_released_wait_values_of_the_symmetric_shift(pairs, sigma, heads, num_sms):
    n, m = 2 * pairs, 2 * pairs * sigma
    problem = Problem.tiles(n, num_heads=heads, causal=True, sigma=sigma, num_sms=num_sms)
    schedule = make_schedule(problem, "symmetric_shift", order="wave")
    for head, kv, q, wait in zip(
        *(a.tolist() for a in (schedule.head, schedule.kv, schedule.q, schedule.wait)), strict=True
    ):
        pair = min(kv, n - 1 - kv)
        size, finished = released_cohort(pair, head, pairs, num_sms)
        place, rect = pair - finished, finished * sigma + sigma * (size - 1)
        before = finished + max(0, finished - (m - 1 - q) // sigma)
        if kv != pair:
            expected = before + size + (size - 1 - place)
        elif q >= rect:
            expected = before + (min(q - rect, size - 1) - place) % size
        else:
            expected = before + (q - pair * sigma) // sigma
        assert wait == expected


def test_turn_reads_the_order_table():
    schedule = make_schedule(Problem.tiles(3, 5), "shift")
    assert [schedule.turn(0, 0, kv, 0) for kv in range(3)] == [0, 2, 1]
    with pytest.raises(KeyError, match="key tile 7 and query tile 0"):
        schedule.turn(0, 0, 7, 0)


def test_equal_orders_have_equal_hashes_and_others_do_not():
    problem = Problem.tiles(8, num_heads=2)
    hashes = {name: make_schedule(problem, name).order_hash for name in ("ascending", "descending", "shift")}
    assert hashes["ascending"] == hashes["descending"] != hashes["shift"]
    assert hashes["shift"] == make_schedule(problem, "shift", order="wave").order_hash
    wider = dataclasses.replace(problem, block_n=2, seqlens_k=(16,))
    assert make_schedule(wider, "shift").order_hash != hashes["shift"]


def test_canonical_order_of_a_sequence_does_not_depend_on_workers_heads_or_neighbours():
    one = make_schedule(Problem((9,), (9,), block_m=1, block_n=1, num_sms=9), "shift")
    many = make_schedule(
        Problem((4, 9, 12), (3, 9, 12), num_heads=2, num_heads_kv=1, block_m=1, block_n=1, num_sms=50), "shift"
    )
    assert [many.order_table[1, 1, i] for i in range(9)] == [one.order_table[0, 0, i] for i in range(9)]
    wave = make_schedule(Problem.tiles(9, num_heads=2, num_sms=5), "shift", order="wave")
    assert orders(wave, 9, head=0) != orders(wave, 9, head=1)


def test_canonical_groups_fit_the_machine_or_the_plan_says_what_it_did_instead():
    small = make_schedule(Problem.tiles(12, num_sms=4), "shift")
    assert small.name == "descending"
    assert "needs 12 units of a head to run at once and there are 4 SMs" in small.note
    grouped = make_schedule(Problem.tiles(12, num_sms=4), "shift", canonical_group=4)
    assert grouped.name == "shift"
    assert not grouped.note
    grouped.validate()
    large = Problem.tiles(2 * CANONICAL_GROUP, num_sms=132)
    other = dataclasses.replace(large, num_sms=CANONICAL_GROUP)
    assert make_schedule(large, "shift").order_hash == make_schedule(other, "shift").order_hash


def test_fewer_query_than_key_tiles_cut_the_shift_into_cohorts():
    schedule = make_schedule(Problem.tiles(7, 3), "shift")
    schedule.validate()
    assert schedule.order_table[0, 0, 0] == (0, 1, 2, 3, 4, 5, 6) or set(schedule.order_table[0, 0, 0]) == set(range(7))
    assert all(set(order[:2]) <= {0, 1, 2} for order in orders(schedule, 3))


def test_masked_tiles_are_in_no_order():
    window = make_schedule(Problem.dense(1, 64, window=(8, 0), block_m=8, block_n=8), "shift")
    assert window.order_table[0, 0, 5] in {(4, 5), (5, 4)}
    empty = make_schedule(Problem((0, 16), (8, 0), block_m=8, block_n=8), "ascending")
    assert empty.num_tasks == 0
    assert empty.order_table == {}
    empty.validate()
    assert make_schedule(Problem((), (), num_sms=2), "shift").name == "empty"


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (Problem.tiles(4), "causal mask with equal lengths; got window \\(-1, -1\\) with 4 queries and 4 keys"),
        (Problem.tiles(4, 8, causal=True), "equal lengths; got window \\(-1, 0\\) with 8 queries and 4 keys"),
        (Problem.dense(1, 96, causal=True, block_m=32, block_n=48), "multiple of block_m; got 48 and 32"),
        (Problem.dense(1, 64, window=(8, 0)), "causal mask"),
    ],
)
def test_symmetric_shift_is_refused_with_the_reason(problem, reason):
    with pytest.raises(ScheduleError, match=reason):
        make_schedule(problem, "symmetric_shift")


def test_unknown_names_and_settings_are_named():
    problem = Problem.tiles(4)
    with pytest.raises(ScheduleError, match=r"no schedule 'shuffle'; there are ascending, descending, shift"):
        make_schedule(problem, "shuffle")
    with pytest.raises(ValueError, match="order must be 'canonical' or 'wave'; got 'random'"):
        inspect.unwrap(make_schedule)(problem, "shift", order="random")  # as it is without the type checks of tests
    with pytest.raises(ValueError, match="canonical_group must be at least 1; got 0"):
        make_schedule(problem, "shift", canonical_group=0)
    with pytest.raises(ScheduleError, match="one for each of 1 sequences; got 2"):
        make_schedule(problem, ["shift", "shift"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seqlens_q": (1, 2), "seqlens_k": (1,)}, "got 2 and 1 of them"),
        ({"seqlens_q": (-1,), "seqlens_k": (1,)}, "seqlens_q must not be negative; got -1"),
        ({"seqlens_q": (1,), "seqlens_k": (1,), "num_heads": 3, "num_heads_kv": 2}, "got 3 and 2"),
        ({"seqlens_q": (1,), "seqlens_k": (1,), "block_m": 0}, "block_m must be at least 1; got 0"),
        ({"seqlens_q": (1,), "seqlens_k": (1,), "num_sms": 0}, "num_sms must be at least 1; got 0"),
        ({"seqlens_q": (1,), "seqlens_k": (1,), "window": (-2, 0)}, r"got \(-2, 0\)"),
    ],
)
def test_problems_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Problem(**arguments)


@settings(max_examples=60, deadline=None)
@given(
    seqlen_q=st.integers(0, 70),
    seqlen_k=st.integers(0, 70),
    left=st.integers(-1, 40),
    right=st.integers(-1, 40),
    block_m=st.sampled_from([1, 3, 8]),
    block_n=st.sampled_from([1, 4, 8]),
)
def test_tile_ranges_are_those_of_the_mask(seqlen_q, seqlen_k, left, right, block_m, block_n):
    geometry = Problem((seqlen_q,), (seqlen_k,), window=(left, right), block_m=block_m, block_n=block_n).geometries[0]
    i, j = np.arange(seqlen_q)[:, None], np.arange(seqlen_k)[None, :]
    distance = j - (i + seqlen_k - seqlen_q)
    seen = (distance >= (-left if left >= 0 else -(10**6))) & (distance <= (right if right >= 0 else 10**6))
    for kv, (first, end) in enumerate(geometry.q_ranges):
        rows = np.flatnonzero(seen[:, kv * block_n : (kv + 1) * block_n].any(axis=1)) // block_m
        assert set(rows.tolist()) == set(range(first, end))


@settings(max_examples=200, deadline=None)
@given(
    lengths=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=0, max_size=4),
    group=st.integers(1, 3),
    heads_kv=st.integers(1, 2),
    window=st.tuples(st.integers(-1, 20), st.integers(-1, 20)),
    block_m=st.sampled_from([1, 2, 4]),
    sigma=st.integers(1, 3),
    num_sms=st.integers(1, 40),
    name=st.sampled_from(sorted(RULES)),
    order=st.sampled_from(["canonical", "wave"]),
)
def test_every_schedule_that_is_made_is_valid(lengths, group, heads_kv, window, block_m, sigma, num_sms, name, order):
    problem = Problem(
        tuple(q for q, _ in lengths),
        tuple(k for _, k in lengths),
        num_heads=group * heads_kv,
        num_heads_kv=heads_kv,
        window=window,
        block_m=block_m,
        block_n=block_m * sigma,
        num_sms=num_sms,
    )
    if any(RULES[name].refusal(geometry) for geometry in problem.geometries):
        with pytest.raises(ScheduleError, match="equal lengths"):
            make_schedule(problem, name, order=order)
    else:
        make_schedule(problem, name, order=order).validate()
