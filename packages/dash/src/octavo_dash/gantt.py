"""Schedules as pictures: one line a worker, computing and adding side by side, waits left open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import PolyCollection

from octavo_dash.simulate import Trace
from octavo_shared.figures import PALETTE, figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELLED_TASKS = 160
"""With more tasks than this their tiles are not written into them."""


def gantt(traces: Sequence[Trace], *, unit: str = "") -> Figure:
    """Draws traces below one another on one time axis.

    Computing is a filled bar in the colour of its head, adding to dQ a darker one, waiting a hatched gap. Where there
    is room each bar says `key tile, query tile`.

    Args:
        traces: What to draw; at least one.
        unit: The unit of time, for the axis.

    Raises:
        ValueError: Nothing to draw.
    """
    if not traces:
        raise ValueError("traces must hold at least one trace")
    heights = [1.0 + 0.28 * trace.schedule.problem.num_sms for trace in traces]
    picture, rows = figures(len(traces), width=10.0, height=min(30.0, sum(heights)), height_ratios=heights)
    for axes, trace in zip(rows, traces, strict=True):
        _draw(axes, trace)
    rows[-1].set_xlim(0, max(trace.makespan for trace in traces))  # the axes share it
    rows[-1].set_xlabel(f"time [{unit}]" if unit else "time")
    return picture


def _draw(axes: Axes, trace: Trace) -> None:
    schedule = trace.schedule
    sm, computed = trace.task_sm, trace.reduce_start - np.maximum(trace.stalls, 0.0)
    hues = [PALETTE[head % len(PALETTE)] for head in schedule.head.tolist()]
    axes.add_collection(PolyCollection(_bars(sm, trace.start, computed), facecolors=hues, alpha=0.45, linewidths=0))
    axes.add_collection(PolyCollection(_bars(sm, trace.reduce_start, trace.end), facecolors=hues, linewidths=0))
    waits = np.flatnonzero(trace.stalls > 1e-12)
    if len(waits):
        gaps = _bars(sm[waits], computed[waits], trace.reduce_start[waits])
        axes.add_collection(PolyCollection(gaps, facecolors="none", edgecolors="0.6", hatch="////", linewidths=0))
    if schedule.num_tasks <= LABELLED_TASKS:
        for task in range(schedule.num_tasks):
            middle = (trace.start[task] + computed[task]) / 2
            label = f"{schedule.kv[task]},{schedule.q[task]}"
            axes.text(middle, sm[task], label, ha="center", va="center", fontsize=6)
    axes.set_ylim(schedule.problem.num_sms - 0.5, -0.5)
    axes.set_ylabel("SM")
    axes.set_yticks(range(0, schedule.problem.num_sms, max(1, schedule.problem.num_sms // 8)))
    axes.set_title(f"{schedule.name}: makespan {trace.makespan:.4g}, idle {trace.bubble_fraction:.1%}", loc="left")


def _bars(row: np.ndarray, start: np.ndarray, end: np.ndarray) -> Any:
    """Rectangles as polygons, `[tasks, 4, 2]`."""
    low, high = row - 0.42, row + 0.42
    corners = [(start, low), (end, low), (end, high), (start, high)]
    return np.stack([np.stack(corner, axis=-1) for corner in corners], axis=1)
