"""Schedules with one thing wrong, and what is said about it."""

import dataclasses

import numpy as np
import pytest

from octavo_dash import Problem, ScheduleError, make_schedule
from octavo_dash.verification import grid, verify


def changed(schedule, **columns):
    return dataclasses.replace(schedule, **columns)


@pytest.fixture
def shift():
    return make_schedule(Problem.tiles(4), "shift")


def test_a_missing_task(shift):
    cut = changed(
        shift,
        **{name: getattr(shift, name)[:-1] for name in ("head", "kv", "q", "wait")},
        unit_start=np.minimum(shift.unit_start, shift.num_tasks - 1),
    )
    with pytest.raises(ScheduleError, match="has 15 tasks, the problem 16"):
        cut.validate()


def test_a_repeated_task(shift):
    q = shift.q.copy()
    q[1] = q[0]
    with pytest.raises(ScheduleError, match=r"has a task twice: \(sequence 0, head 0, key tile 0, query tile 0\)"):
        changed(shift, q=q).validate()


def test_a_task_without_work():
    schedule = make_schedule(Problem.tiles(4, causal=True), "ascending")
    q = schedule.q.copy()
    q[np.flatnonzero(schedule.kv == 3)] = 0
    with pytest.raises(ScheduleError, match=r"a task without work: .*key tile 3, query tile 0"):
        changed(schedule, q=q).validate()


def test_a_repeated_turn(shift):
    wait = shift.wait.copy()
    wait[wait == 2] = 1
    with pytest.raises(ScheduleError, match="turn 1 is repeated or left out at"):
        changed(shift, wait=wait).validate()


def test_a_chain_that_is_left_and_taken_up_again():
    schedule = make_schedule(Problem.tiles(2, 3, num_sms=1), "ascending")
    order = np.array([0, 3, 1, 2, 4, 5])
    columns = {name: getattr(schedule, name)[order] for name in ("head", "kv", "q", "wait")}
    with pytest.raises(ScheduleError, match="leaves key tile 0 of head 0 and comes back to it"):
        changed(schedule, **columns).validate()


def test_the_smallest_cycle_is_shown():
    schedule = make_schedule(Problem.tiles(2, 2), "ascending")
    q, wait = schedule.q.copy(), np.array([0, 1, 0, 1], dtype=np.int32)
    q[:] = [0, 1, 1, 0]  # each key tile first visits the query tile at which the other is to add first
    wait[:] = [1, 0, 1, 0]
    with pytest.raises(ScheduleError, match=r"waits for itself through 4 tasks: .*→.*→.*→"):
        changed(schedule, q=q, wait=wait).validate()


def test_waves_of_too_few_workers_deadlock_and_are_found():
    shift = make_schedule(Problem.tiles(4), "shift")
    with pytest.raises(ScheduleError, match="waits for itself"):
        changed(shift, unit_sm=np.zeros_like(shift.unit_sm)).validate()


def test_a_dynamic_schedule_may_not_wait_for_a_later_launch():
    schedule = make_schedule(Problem.tiles(3), "descending")
    with pytest.raises(ScheduleError, match="which is launched later"):
        changed(schedule, wait=2 - schedule.wait).validate()


def test_the_grid_holds_no_invalid_plan_and_every_refusal_has_a_reason():
    verdicts = [verify(problem) for problem in grid(range(2, 5), (2,), (1, 3, 132))]
    assert not [text for verdict in verdicts for text in verdict.invalid]
    assert sum(verdict.valid for verdict in verdicts) > 300
    reasons = {reason for verdict in verdicts for reason in verdict.refused}
    assert reasons == {"symmetric_shift: it is defined for the causal mask with equal lengths"}
