"""The papers of the workspace, as their installed packages present them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points

from rich.console import Console

from octavo_shared.claims import Paper
from octavo_tools.workspace import Workspace

GROUP = "octavo.papers"


@dataclass(frozen=True)
class Collected:
    """The papers that could be loaded, and why the others could not, by slug."""

    papers: dict[str, Paper]
    troubles: dict[str, str]


def collect(workspace: Workspace) -> Collected:
    """Loads the paper of each of the workspace's packages through its entry point."""
    points = {point.name: point for point in entry_points(group=GROUP)}
    papers: dict[str, Paper] = {}
    troubles = dict(workspace.broken)
    for slug, member in workspace.members.items():
        if not member.is_package:
            continue
        if slug not in points:
            troubles[slug] = f"is not installed: pip install -e packages/{slug}, or start the command with hatch run"
            continue
        try:
            paper = points[slug].load()
        # Whatever a package raises while it is imported concerns that package alone.
        except Exception as error:
            troubles[slug] = f"cannot be loaded: {type(error).__name__}: {error}"
            continue
        if isinstance(paper, Paper):
            papers[slug] = paper
        else:
            troubles[slug] = f"publishes a {type(paper).__name__} where a Paper is expected"
    return Collected(papers, troubles)


def say_troubles(troubles: dict[str, str], console: Console) -> bool:
    """Prints what is wrong with each package; says whether nothing is."""
    for slug, trouble in troubles.items():
        console.print(f"{slug} {trouble}", style="red", markup=False, soft_wrap=True, highlight=False)
    return not troubles
