"""The table of the workspace's papers."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from octavo_tools.papers import collect
from octavo_tools.record import state
from octavo_tools.workspace import Workspace


def table_of(workspace: Workspace) -> tuple[Table, dict[str, str]]:
    """Returns the table, and what is wrong with the packages that are not in it, by slug."""
    collected = collect(workspace)
    table = Table(title="octavo: one paper, one package", title_justify="left", show_lines=True)
    for heading in ("package", "paper", "for", "host", "claims"):
        table.add_column(heading, overflow="fold")
    for slug, paper in collected.papers.items():
        title = Text(paper.title, style=f"link {paper.url}")
        table.add_row(slug, title, Text(paper.purpose), Text(paper.host), state(workspace.root, paper))
    return table, collected.troubles
