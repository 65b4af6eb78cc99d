"""What a package's README tells, and that its quickstart runs as printed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from octavo_tools.check.breach import Breach
from octavo_tools.jobs import Ended, Job
from octavo_tools.results import tail
from octavo_tools.workspace import Member

SECTIONS = ("Install", "Quickstart", "Method", "Claims", "API", "Command line", "Limits and departures")
TIMEOUT = 180.0


def readme(member: Member) -> Iterator[Breach]:
    """A package's README has the sections that every README has, and Python in its quickstart."""
    text = _text(member)
    headings = re.findall(r"^## +(.+?)\s*$", text, flags=re.MULTILINE)
    for section in SECTIONS if text else ():
        if not any(heading.lower().startswith(section.lower()) for heading in headings):
            yield Breach(member.slug, "readme", f"README.md has no section '{section}'", f"add '## {section}'")
    if text and not python_blocks(_section(text, "Quickstart")):
        yield Breach(member.slug, "readme", "the quickstart shows no Python", "add a ```python block that runs")


def quickstart_job(member: Member, scratch: Path) -> Job | None:
    """Returns the job that runs all Python of the README in order, in an empty folder; none where there is none."""
    blocks = python_blocks(_text(member))
    if not blocks:
        return None
    place = scratch / f"{member.slug}-readme"
    place.mkdir()
    script = place / "readme.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    return Job(member.slug, [sys.executable, str(script)], place, scratch / f"{member.slug}-readme.log", TIMEOUT)


def quickstart(end: Ended) -> Iterator[Breach]:
    """The README's Python runs."""
    if end.status:
        why = f"takes more than {TIMEOUT:g} s" if end.timed_out else "\n".join(tail(end.job.log, 4))
        yield Breach(end.job.name, "readme", f"the README's Python does not run: {why}", "make it run as printed")


def python_blocks(text: str) -> list[str]:
    """Returns the blocks of Python in a Markdown text."""
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def _text(member: Member) -> str:
    file = member.path / "README.md"
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _section(text: str, heading: str) -> str:
    match = re.search(rf"^## +{heading}\s*$(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL | re.IGNORECASE)
    return match.group(1) if match else ""
