"""What the last run of `octavo claims` found, kept for `octavo list` in `.octavo/claims.json`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from octavo_shared.claims import Outcome, Paper, Status
from octavo_shared.files import written_whole


def save(root: Path, outcomes: Sequence[tuple[Paper, Sequence[Outcome]]], device: str) -> None:
    """Keeps these outcomes, claim by claim, beside those of the claims that were not run this time."""
    known = _read(root)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    for paper, of_paper in outcomes:
        entry = known.setdefault(paper.slug, {})
        for outcome in of_paper:
            # A claim that was not run for want of a device says nothing against what was measured on one.
            if outcome.status is Status.NOT_RUN and outcome.claim.name in entry:
                continue
            entry[outcome.claim.name] = {
                "status": str(outcome.status),
                "value": outcome.finding.value,
                "seconds": round(outcome.seconds, 3),
                "device": device,
                "date": now,
            }
    folder = private_folder(root)
    with written_whole(folder / "claims.json") as beside:
        beside.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def state(root: Path, paper: Paper) -> str:
    """Returns the state of a paper's claims in a few words: `7 hold, 1 does not hold, 2 not measured`."""
    entry = _read(root).get(paper.slug, {})
    measured = Counter(entry[claim.name]["status"] for claim in paper.claims if claim.name in entry)
    words = {
        Status.HOLDS: ("holds", "hold"),
        Status.FAILS: ("does not hold", "do not hold"),
        Status.ERROR: ("error", "errors"),
        Status.NOT_RUN: ("not run", "not run"),
    }
    parts = [f"{measured[s]} {words[s][measured[s] > 1]}" for s in words if measured[s]]
    missing = len(paper.claims) - measured.total()
    if not parts:
        return f"{missing} not measured"
    return ", ".join([*parts, *([f"{missing} not measured"] if missing else [])])


def private_folder(root: Path) -> Path:
    """Returns the runner's own folder, which tells git by itself to leave it alone."""
    folder = root / ".octavo"
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.is_file():
        ignore.write_text("*\n", encoding="utf-8")
    return folder


def _read(root: Path) -> dict[str, dict[str, dict[str, object]]]:
    path = root / ".octavo" / "claims.json"
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        # It can be measured again; a damaged record is no reason to refuse.
        return {}
    return known if isinstance(known, dict) else {}
