"""Which members a change touches: by git's word on the files, and by the dependence graph."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from octavo_tools.workspace import Workspace, WorkspaceError

TOUCHES_ALL = ("pyproject.toml", "ci/constraints.txt")
"""Files at the root that decide what every member is built and tested with."""


def changed_files(root: Path, reference: str) -> list[str]:
    """Returns the files that differ from a commit, new ones included, as paths from the root.

    Raises:
        WorkspaceError: Git does not know the reference, or the workspace is not under git.
    """
    # --no-renames: a file that moved from one package to another changes both.
    changed = _git(root, "diff", "--name-only", "--no-renames", "--relative", "-z", reference, "--")
    untracked = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return sorted(set(changed) | set(untracked))


def touched(workspace: Workspace, files: Iterable[str]) -> dict[str, str]:
    """Returns the members that these files touch and why, in the workspace's order.

    A member is touched by a file of its own or by a member that it depends on. Files outside all members (the README,
    the scripts of CI) touch `tools`, whose tests read them.
    """
    reasons: dict[str, str] = {}
    known = {*workspace.members, *workspace.broken}
    for file in files:
        owner = _owner(file)
        if file in TOUCHES_ALL:
            for slug in known:
                reasons.setdefault(slug, f"{file} changed")
        elif owner in known:
            reasons.setdefault(owner, f"{file} changed")
        elif owner is None and "tools" in known:
            reasons.setdefault("tools", f"{file} changed")
    for slug, member in workspace.members.items():
        for other in workspace.needs(member):
            if other.slug in reasons and not reasons[other.slug].startswith("needs "):
                reasons.setdefault(slug, f"needs {other.slug}, where {reasons[other.slug]}")
    return {slug: reasons[slug] for slug in (*workspace.members, *workspace.broken) if slug in reasons}


def _owner(file: str) -> str | None:
    parts = file.split("/")
    if parts[0] in ("shared", "tools"):
        return parts[0]
    return parts[1] if parts[0] == "packages" and len(parts) > 2 else None


def _git(root: Path, *arguments: str) -> list[str]:
    try:
        done = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise WorkspaceError("--changed needs git, which is not on the PATH") from error
    except subprocess.CalledProcessError as error:
        raise WorkspaceError(f"--changed: git says: {error.stderr.strip().splitlines()[0]}") from error
    return [name for name in done.stdout.split("\0") if name]
