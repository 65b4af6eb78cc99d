"""Which schedule is chosen, and why."""

import pytest

from octavo_dash import Costs, Problem, ScheduleError, best, candidates
from octavo_dash.planner import plan


def test_latency_makes_ascending_better_than_the_shift():
    problem = Problem.tiles(8, num_heads=4)
    assert [best(problem, 4, 1, sync).name for sync in (0, 4, 5, 8)] == ["shift", "shift", "shift", "ascending"]


def test_every_schedule_is_tried_and_a_refusal_is_kept():
    tried = {c.name: c for c in candidates(Problem.tiles(8, num_heads=2), 4, 1)}
    assert tried["shift"].makespan == tried["shift"].bound == 80
    assert tried["symmetric_shift"].trace is None
    assert tried["symmetric_shift"].makespan == float("inf")
    assert "causal mask with equal lengths" in tried["symmetric_shift"].refusal
    with pytest.raises(ScheduleError, match="no schedule 'fastest'"):
        candidates(Problem.tiles(8), 4, 1, names=("shift", "fastest"))
    with pytest.raises(ScheduleError, match="equal lengths"):
        best(Problem.tiles(8), 4, 1, names=("symmetric_shift",))


def test_auto_chooses_for_each_sequence_by_itself_under_the_canonical_order():
    mixed = Problem((8, 4), (8, 8), num_heads=2, num_heads_kv=2, window=(-1, 0), block_m=1, block_n=1, num_sms=8)
    schedule = plan(mixed, "auto", "canonical", Costs())
    assert schedule.names[0] == plan(mixed.alone(0), "auto", "canonical", Costs()).name == "symmetric_shift"
    assert schedule.names[1] == plan(mixed.alone(1), "auto", "canonical", Costs()).name != "symmetric_shift"
    schedule.validate()


def test_auto_follows_the_costs_it_is_given():
    problem = Problem.tiles(8, num_heads=4)
    assert plan(problem, "auto", "canonical", Costs(4, 1, 0)).name == "shift"
    assert plan(problem, "auto", "canonical", Costs(4, 1, 12)).name == "ascending"
    assert plan(problem, "auto", "wave", Costs(4, 1, 8)).name == "ascending"


def test_a_plan_is_made_once():
    problem = Problem.tiles(8, num_heads=4)
    assert plan(problem, "shift", "canonical", Costs()) is plan(problem, "shift", "canonical", Costs())
