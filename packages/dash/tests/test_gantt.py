"""Pictures of schedules."""

import pytest
from matplotlib.collections import PolyCollection

from octavo_dash import Problem, make_schedule, simulate
from octavo_dash.gantt import gantt
from octavo_shared.figures import png, save


def test_every_task_is_drawn_once_and_waits_are_marked():
    traces = [simulate(make_schedule(Problem.tiles(4, num_heads=2), name), 4, 1) for name in ("ascending", "shift")]
    picture = gantt(traces)
    assert len(picture.axes) == 2
    for axes, trace in zip(picture.axes, traces, strict=True):
        bars = [len(c.get_paths()) for c in axes.collections if isinstance(c, PolyCollection)]
        waiting = int((trace.stalls > 0).sum())
        assert bars == [32, 32, *([waiting] if waiting else [])]
        assert axes.get_xlim() == (0, traces[0].makespan)
        assert f"makespan {trace.makespan:g}" in axes.get_title(loc="left")
    assert png(picture).startswith(b"\x89PNG")


def test_pictures_are_written_in_both_formats_and_nothing_else(tmp_path):
    picture = gantt([simulate(make_schedule(Problem.tiles(3), "shift"), 4, 1)])
    assert save(picture, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in save(picture, tmp_path / "a.svg").read_bytes()
    with pytest.raises(ValueError, match=r"as \.png or \.svg; got 'a.pdf'"):
        save(picture, tmp_path / "a.pdf")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "a.svg"]


def test_nothing_to_draw_is_refused():
    with pytest.raises(ValueError, match="at least one trace"):
        gantt([])
