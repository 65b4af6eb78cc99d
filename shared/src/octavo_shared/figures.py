"""Figures: one restrained style, and how they are kept."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo_shared.files import written_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""Colours that remain apart for colour-blind readers (Okabe and Ito)."""

_STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "0.4",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 160,
    "figure.facecolor": "white",
    "font.size": 10,
    "grid.alpha": 0.25,
    "savefig.facecolor": "white",
    "svg.hashsalt": "octavo",
}


def figure(width: float = 7.0, height: float = 4.0) -> tuple[Figure, Axes]:
    """An empty figure in the house's style, and its axes; it needs no display.

    Args:
        width: Inches.
        height: Inches.
    """
    picture, axes = figures(1, width=width, height=height)
    return picture, axes[0]


def figures(
    rows: int, *, width: float = 7.0, height: float = 4.0, height_ratios: Sequence[float] | None = None
) -> tuple[Figure, Sequence[Axes]]:
    """A figure with several axes below one another, which share what they show to the right.

    Args:
        rows: How many axes.
        width: Inches.
        height: Inches, of the whole.
        height_ratios: How the height is shared out.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.rcsetup import cycler

    with mpl.rc_context({**_STYLE, "axes.prop_cycle": cycler(color=PALETTE)}):
        picture = Figure(figsize=(width, height), layout="constrained")
        axes = picture.subplots(rows, 1, sharex=True, squeeze=False, height_ratios=height_ratios)[:, 0]
    return picture, list(axes)


def png(picture: Figure) -> bytes:
    """The figure as a PNG file."""
    return _written(picture, "png")


def svg(picture: Figure) -> bytes:
    """The figure as an SVG file, the same bytes every time."""
    return _written(picture, "svg")


def save(picture: Figure, path: str | Path) -> Path:
    """Writes the figure whole or not at all, in the format that the suffix of `path` names.

    Raises:
        ValueError: A suffix other than .png and .svg.
        FileNotFoundError: The folder does not exist.
    """
    path = Path(path)
    formats = {".png": png, ".svg": svg}
    if path.suffix.lower() not in formats:
        raise ValueError(f"figures are written as .png or .svg; got {path.name!r}")
    content = formats[path.suffix.lower()](picture)
    with written_whole(path) as beside:
        beside.write_bytes(content)
    return path


def _written(picture: Figure, format_name: str) -> bytes:
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context(_STYLE):
        picture.savefig(buffer, format=format_name, metadata={"Date": None} if format_name == "svg" else None)
    return buffer.getvalue()
