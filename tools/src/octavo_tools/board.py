"""What the screen shows while jobs run: a table that moves on a terminal, a line for each event elsewhere."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from octavo_tools.jobs import Running

STYLES = {"waiting": "dim", "running": "cyan", "passed": "green", "failed": "bold red"}


class Board:
    """The state of each job, by name.

    Example:
        with board.shown(): board.set("dash", "running")
    """

    def __init__(self, console: Console, title: str, names: Sequence[str]) -> None:
        self.console = console
        self.title = title
        self.rows: dict[str, tuple[str, str, float]] = dict.fromkeys(names, ("waiting", "", 0.0))
        self._live: Live | None = None
        self._drawn = 0.0

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Shows the table until the block ends, and leaves its last state on the screen."""
        if not self.console.is_terminal:
            yield
            return
        # Drawn by our own loop and not by a thread, so that nothing is printed after an interruption.
        with Live(self._table(), console=self.console, auto_refresh=False) as self._live:
            try:
                yield
            finally:
                self._live.update(self._table(), refresh=True)
                self._live = None

    def set(self, name: str, state: str, note: str = "", seconds: float = 0.0) -> None:
        """Records a change of state; off a terminal it is printed as a line."""
        self.rows[name] = (state, note, seconds)
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
        else:
            took = f" in {seconds:.1f} s" if seconds else ""
            self.console.print(f"{name}: {state}{took}{': ' + note if note else ''}", markup=False, soft_wrap=True)

    def tick(self, running: Sequence[Running]) -> None:
        """Keeps the clock of what is running going, a few times a second."""
        if self._live is None or time.monotonic() - self._drawn < 0.25:
            return
        self._drawn = time.monotonic()
        for one in running:
            self.rows[one.job.name] = ("running", progress_of(one), one.seconds)
        self._live.update(self._table(), refresh=True)

    def _table(self) -> Table:
        table = Table(title=self.title, title_justify="left", box=None, padding=(0, 2, 0, 0))
        for heading in ("member", "state", "seconds", ""):
            table.add_column(heading, justify="right" if heading == "seconds" else "left")
        for name, (state, note, seconds) in self.rows.items():
            table.add_row(
                Text(name), Text(state, STYLES.get(state, "")), f"{seconds:.1f}" if seconds else "", Text(note)
            )
        return table


def progress_of(one: Running) -> str:
    """Returns how far a run of pytest has come, as its log says: `45 %`."""
    with one.job.log.open("rb") as log:
        log.seek(max(0, one.job.log.stat().st_size - 4096))
        found = re.findall(rb"\[ *(\d+)%\]", log.read())
    return f"{int(found[-1])} %" if found else ""
