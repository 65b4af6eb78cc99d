"""Makespans to the unit, against the specification's numbers and against a second implementation."""

import dataclasses
import random
import time

import golden
import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_dash import RULES, Problem, ScheduleError, make_schedule, simulate
from octavo_dash.longest_path import Before, Costs, run_fixed
from octavo_dash.simulate import levels

ORDERS = pytest.mark.parametrize("order", ["canonical", "wave"])


@ORDERS
@pytest.mark.parametrize(("n", "heads"), golden.MAKESPANS)
def test_golden_makespans(n, heads, order):
    for (name, causal), expected in zip(golden.COLUMNS, golden.MAKESPANS[n, heads], strict=True):
        schedule = make_schedule(Problem.tiles(n, num_heads=heads, causal=causal), name, order=order)
        assert simulate(schedule, 4, 1).makespan == expected, name


@ORDERS
@pytest.mark.parametrize(("n", "heads", "c", "r", "name", "causal", "makespan"), golden.OTHER_COSTS)
def test_golden_makespans_of_other_costs(n, heads, c, r, name, causal, makespan, order):
    schedule = make_schedule(Problem.tiles(n, num_heads=heads, causal=causal), name, order=order)
    assert simulate(schedule, c, r).makespan == makespan


@ORDERS
@pytest.mark.parametrize(("n", "m", "heads", "sigma", "name", "causal", "makespan"), golden.OTHER_SHAPES)
def test_golden_makespans_of_other_shapes(n, m, heads, sigma, name, causal, makespan, order):
    problem = Problem.tiles(n, m, num_heads=heads, causal=causal, sigma=sigma)
    assert simulate(make_schedule(problem, name, order=order), 4, 1).makespan == makespan


@ORDERS
@pytest.mark.parametrize(("n", "heads", "sync", "name", "causal", "makespan"), golden.LATENCY)
def test_golden_makespans_with_latency(n, heads, sync, name, causal, makespan, order):
    schedule = make_schedule(Problem.tiles(n, num_heads=heads, causal=causal), name, order=order)
    assert simulate(schedule, 4, 1, sync).makespan == makespan


def longest_path(schedule, task_sm, costs):
    """A second implementation: the graph of the paper, edge by edge, and networkx's longest path."""
    graph = networkx.DiGraph()
    last = {}
    for task in range(schedule.num_tasks):
        sm = int(task_sm[task])
        graph.add_edge(last.get(sm, "start"), ("compute", task), weight=0.0)
        graph.add_edge(("compute", task), ("reduce", task), weight=costs.compute)
        graph.add_edge(("reduce", task), ("end", task), weight=costs.reduce)
        last[sm] = ("end", task)
    by_tile = {}
    for task in np.argsort(schedule.wait, kind="stable").tolist():
        tile = (int(schedule.head[task]), int(schedule.q[task]))
        if tile in by_tile:
            graph.add_edge(("end", by_tile[tile]), ("reduce", task), weight=costs.sync)
        by_tile[tile] = task
    return networkx.dag_longest_path_length(graph) if len(graph) else 0.0


@settings(max_examples=520, deadline=None)
@given(
    n=st.integers(1, 9),
    m=st.integers(1, 12),
    heads=st.integers(1, 3),
    causal=st.booleans(),
    sigma=st.integers(1, 2),
    num_sms=st.integers(1, 12),
    name=st.sampled_from(sorted(RULES)),
    order=st.sampled_from(["canonical", "wave"]),
    costs=st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(0, 9)),
)
def test_simulator_agrees_with_a_second_implementation(n, m, heads, causal, sigma, num_sms, name, order, costs):
    m = n * sigma if name == "symmetric_shift" else m
    causal = causal or name == "symmetric_shift"
    problem = Problem.tiles(n, m, num_heads=heads, causal=causal, sigma=sigma, num_sms=num_sms)
    schedule = make_schedule(problem, name, order=order)
    trace = simulate(schedule, *costs)
    assert trace.makespan == longest_path(schedule, trace.task_sm, Costs(*costs))
    plain = simulate(schedule, *costs, native=False)
    for name in ("start", "reduce_start", "end", "unit_sm"):
        np.testing.assert_array_equal(getattr(trace, name), getattr(plain, name))


@settings(max_examples=300, deadline=None)
@given(data=st.data(), chains=st.integers(2, 6), length=st.integers(2, 7))
def test_lemma_1_only_edges_that_go_back_in_depth_lengthen_parallel_chains(data, chains, length):
    """Zero-weight edges between equal parallel chains leave the critical path as it is iff none goes back in depth."""
    tasks = chains * length
    edges = data.draw(st.dictionaries(st.integers(0, tasks - 1), st.integers(0, tasks - 1), max_size=8))
    edges = {after: before for after, before in edges.items() if after // length != before // length}
    before = np.full(tasks, -1, dtype=np.int64)
    for after, earlier in edges.items():
        before[after] = earlier
    chain = np.arange(tasks) // length
    end = run_fixed(chain, Before.dq_only(before), Costs(compute=0.0, reduce=1.0)).end
    # An edge leaves the end of a task and enters the start of another: depths count completed tasks.
    goes_back = any(earlier % length + 1 > after % length for after, earlier in edges.items())
    unchanged = not np.isnan(end).any() and end.max() == length
    assert unchanged == (not goes_back)


def test_a_trace_accounts_for_all_time():
    trace = simulate(make_schedule(Problem.tiles(8, num_heads=2), "ascending"), 4, 1)
    assert trace.makespan == 87
    np.testing.assert_array_equal(trace.per_sm_busy, np.full(8, 80.0))
    assert trace.stalls.sum() == 7 * 8 / 2
    assert trace.bubble_fraction == pytest.approx(7 / 87)
    assert simulate(make_schedule(Problem.tiles(8, num_heads=2), "shift"), 4, 1).stalls.sum() == 0


@pytest.mark.parametrize("name", ["ascending", "descending", "spt"])
def test_the_critical_path_is_as_long_as_the_makespan(name):
    trace = simulate(make_schedule(Problem.tiles(6, num_heads=3, causal=True), name), 4, 1, 3)
    path = trace.critical_path
    assert trace.start[path[0]] == 0
    assert trace.end[path[-1]] == trace.makespan
    length = 0.0
    for before, after in zip((-1, *path[:-1]), path, strict=True):
        waited = trace.stalls[after] > 0
        length += trace.costs.reduce + (trace.costs.sync if waited else trace.costs.compute)
        assert before < 0 or (trace.schedule.dq_predecessor[after] == before) == waited or not waited
    assert length == trace.makespan


def test_simulating_a_long_causal_layer_takes_less_than_a_second_and_the_symmetric_shift_never_stalls():
    problem = Problem.tiles(128, 256, num_heads=16, causal=True, sigma=2, num_sms=132)
    start = time.perf_counter()
    trace = simulate(make_schedule(problem, "symmetric_shift"), 4, 1)
    assert time.perf_counter() - start < 1.0
    assert trace.schedule.num_tasks == 264_192
    assert trace.stalls.sum() == 0


def test_levels_never_share_a_chain_or_a_query_tile():
    rng = random.Random(0)
    for _ in range(20):
        problem = Problem.dense(
            rng.randint(1, 2), rng.randint(1, 40), rng.randint(1, 40), num_heads=4, num_heads_kv=2, block_m=4, block_n=4
        )
        schedule = make_schedule(problem, rng.choice(["ascending", "descending", "shift"]))
        seen = set()
        for level in levels(schedule):
            chains = set(zip(schedule.head[level].tolist(), schedule.kv[level].tolist(), strict=True))
            assert len(chains) == len(level) == len(set(schedule.q_tile[level].tolist()))
            for before in schedule.before:
                assert {b for b in before[level].tolist() if b >= 0} <= seen
            seen.update(level.tolist())
        assert seen == set(range(schedule.num_tasks))


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ((-1, 1), "compute must be a finite number"),
        ((1, float("nan")), "reduce"),
        ((1, 1, -2), "sync"),
        ((0, 0), "both"),
    ],
)
def test_costs_that_make_no_sense_are_refused(costs, message):
    with pytest.raises(ValueError, match=message):
        simulate(make_schedule(Problem.tiles(2), "shift"), *costs)


@pytest.mark.parametrize("native", [True, False])
def test_a_schedule_that_waits_for_itself_is_refused(native):
    shift = make_schedule(Problem.tiles(4), "shift")
    stuck = dataclasses.replace(shift, unit_sm=np.zeros_like(shift.unit_sm))
    with pytest.raises(ScheduleError, match=r"waits for itself: 1[0-9] tasks never run"):
        simulate(stuck, 4, 1, native=native)
