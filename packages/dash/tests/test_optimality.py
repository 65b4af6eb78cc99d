"""A generic solver looks for schedules that are shorter than the paper's, and finds none where they are optimal."""

import itertools

import pytest
from ortools.sat.python import cp_model

from octavo_dash import Problem, best, make_schedule, simulate


def shortest_makespan(problem, compute, reduce):
    """CP-SAT over all assignments, all orders of chains and tasks, and all orders of additions."""
    model = cp_model.CpModel()
    geometry, heads, sms = problem.geometries[0], problem.total_heads, problem.num_sms
    horizon = (compute + reduce) * problem.num_tasks + reduce * problem.num_tasks
    additions = {}
    chains = []
    makespan = model.new_int_var(0, horizon, "makespan")
    for head, kv in itertools.product(range(heads), range(geometry.num_kv_tiles)):
        first, end = geometry.q_ranges[kv].tolist()
        spans = []
        for q in range(first, end):
            start = model.new_int_var(0, horizon, "")
            ready = model.new_int_var(0, horizon, "")
            finish = model.new_int_var(0, horizon, "")
            model.add(ready >= start + compute)
            model.add(finish == ready + reduce)
            duration = model.new_int_var(compute + reduce, horizon, "")
            spans.append(model.new_interval_var(start, duration, finish, ""))
            additions.setdefault((head, q), []).append(model.new_interval_var(ready, reduce, finish, ""))
            model.add(makespan >= finish)
        model.add_no_overlap(spans)
        chain_start, chain_end = model.new_int_var(0, horizon, ""), model.new_int_var(0, horizon, "")
        for span in spans:
            model.add(chain_start <= span.start_expr())
            model.add(chain_end >= span.end_expr())
        chains.append((chain_start, chain_end))
    for intervals in additions.values():
        model.add_no_overlap(intervals)
    on_sm = [[] for _ in range(sms)]
    for chain_start, chain_end in chains:
        size = model.new_int_var(0, horizon, "")
        chosen = [model.new_bool_var("") for _ in range(sms)]
        model.add_exactly_one(chosen)
        for sm, literal in enumerate(chosen):
            on_sm[sm].append(model.new_optional_interval_var(chain_start, size, chain_end, literal, ""))
        model.add(chain_start + size == chain_end)
    for intervals in on_sm:
        model.add_no_overlap(intervals)
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = 60
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    assert solver.solve(model) == cp_model.OPTIMAL
    return solver.objective_value


@pytest.mark.parametrize(("n", "heads"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2)])
def test_nothing_is_shorter_than_the_shift(n, heads):
    problem = Problem.tiles(n, num_heads=heads)
    assert shortest_makespan(problem, 4, 1) == simulate(make_schedule(problem, "shift"), 4, 1).makespan


def test_nothing_is_shorter_than_the_symmetric_shift_for_two_heads():
    problem = Problem.tiles(2, num_heads=2, causal=True)
    assert shortest_makespan(problem, 4, 1) == simulate(make_schedule(problem, "symmetric_shift"), 4, 1).makespan == 15


def test_for_one_head_the_symmetric_shift_is_not_optimal_and_the_planner_knows():
    problem = Problem.tiles(4, num_heads=1, causal=True)
    assert simulate(make_schedule(problem, "symmetric_shift"), 4, 1).makespan == 25
    chosen = best(problem, 4, 1)
    assert simulate(chosen, 4, 1).makespan == 20
    assert chosen.name == "descending"
    assert shortest_makespan(problem, 4, 1) == 20
