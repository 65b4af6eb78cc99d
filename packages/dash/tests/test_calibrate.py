"""Costs that are found again where they are known, and measured where they are not."""

import pytest
import torch

from octavo_dash import Costs, Problem, make_schedule, simulate
from octavo_dash.calibrate import calibrate_cpu, calibrate_device, fit_costs, measured_trace


def schedules():
    return [
        make_schedule(Problem.tiles(8, num_heads=heads, causal=causal), name)
        for heads in (1, 4)
        for causal in (False, True)
        for name in ("ascending", "descending", "shift")
    ]


@pytest.mark.parametrize("true", [Costs(10e-6, 3e-6, 20e-6), Costs(8e-6, 2e-6, 0.0), Costs(5e-6, 5e-6, 1e-6)])
def test_the_two_sums_that_makespans_tell_are_found_again(true):
    tables = schedules()
    seconds = [simulate(s, true.compute, true.reduce, true.sync).makespan for s in tables]
    found = fit_costs(tables, seconds)
    assert found.costs.task == pytest.approx(true.task, rel=1e-3)
    assert found.costs.reduce + found.costs.sync == pytest.approx(true.reduce + true.sync, rel=1e-3)
    assert found.relative_error < 1e-3


def test_clocks_in_the_executor_give_positive_costs_and_predictions_of_the_right_size():
    table = make_schedule(Problem.dense(1, 512, num_heads=2, causal=True, num_sms=2), "descending")
    result = calibrate_cpu([table], 32, repeats=3)
    assert result.costs.compute > result.costs.reduce > 0
    assert result.schedules == ("descending, causal",)
    assert 0.2 < result.predicted[0] / result.measured[0] < 1.5
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    assert len(calibrate_device("cpu", 256, 2, 32, repeats=1).schedules) == 6
    torch.set_num_threads(threads)


def test_a_measured_trace_holds_every_task():
    table = make_schedule(Problem.dense(1, 512, num_heads=2, causal=True, num_sms=2), "descending")
    trace = measured_trace(table, 32)
    assert (trace.start >= 0).all()
    assert (trace.end > trace.start).all()
    assert set(trace.unit_sm.tolist()) <= {0, 1}


def test_wrong_use_is_named():
    with pytest.raises(ValueError, match="two measurements or more"):
        fit_costs(schedules()[:1], [1.0])
    with pytest.raises(ValueError, match="seconds must be positive; got 0"):
        fit_costs(schedules()[:2], [1.0, 0.0])
    with pytest.raises(ValueError, match="at least one schedule"):
        calibrate_cpu([])
