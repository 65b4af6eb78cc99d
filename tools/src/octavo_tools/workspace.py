"""What is in the workspace: found by being there, read from each member's `pyproject.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any


class WorkspaceError(ValueError):
    """The user asked for something that the workspace does not have."""


@dataclass(frozen=True)
class Member:
    """One installable project of the workspace.

    Attributes:
        slug: The name of its folder: `dash`, `shared`, `tools`.
        path: Its folder.
        pyproject: Its `pyproject.toml`, parsed.
    """

    slug: str
    path: Path
    pyproject: dict[str, Any]

    @property
    def module(self) -> str:
        """The package it is imported as: `octavo_dash`."""
        return module_name(self.slug)

    @property
    def is_package(self) -> bool:
        """Whether it is one of the papers, rather than `shared` or `tools`."""
        return self.path.parent.name == "packages"

    @property
    def project(self) -> dict[str, Any]:
        """The table `[project]`."""
        table = self.pyproject.get("project", {})
        return table if isinstance(table, dict) else {}

    @property
    def dist(self) -> str:
        """The name it is installed under, normalised: `octavo-dash`."""
        return normalized(str(self.project.get("name", f"octavo-{self.slug}")))

    @cached_property
    def requirements(self) -> frozenset[str]:
        """The normalised names of what it depends on, of all its extras too."""
        lists = [self.project.get("dependencies", []), *self.project.get("optional-dependencies", {}).values()]
        return frozenset(requirement_name(text) for texts in lists for text in texts)


@dataclass(frozen=True)
class Workspace:
    """The members that could be read, and what is wrong with those that could not.

    Attributes:
        root: The folder that holds `packages/`.
        members: Slug to member: `shared`, `tools`, then the packages in alphabetical order.
        broken: Slug to what is wrong with its `pyproject.toml`.
    """

    root: Path
    members: dict[str, Member]
    broken: dict[str, str]

    @property
    def slugs(self) -> list[str]:
        """Every name that a command accepts."""
        return sorted([*self.members, *self.broken])

    def select(self, slugs: Sequence[str], *, packages_only: bool = False) -> Workspace:
        """Returns the workspace cut down to these members; to all of them where none is named.

        Raises:
            WorkspaceError: A slug that the workspace does not have.
        """
        known = [s for s in self.slugs if not packages_only or s not in ("shared", "tools")]
        unknown = [slug for slug in slugs if slug not in known]
        if unknown:
            kind = "package" if packages_only else "member"
            names = ", ".join(map(repr, unknown))
            raise WorkspaceError(f"the workspace has no {kind} named {names}; it has {', '.join(known) or 'none'}")
        chosen = slugs or known
        return Workspace(
            self.root,
            {slug: member for slug, member in self.members.items() if slug in chosen},
            {slug: reason for slug, reason in self.broken.items() if slug in chosen},
        )

    def needs(self, member: Member) -> list[Member]:
        """Returns the members that this one depends on, directly or not."""
        by_dist = {other.dist: other for other in self.members.values()}
        found: dict[str, Member] = {}
        waiting = [member]
        while waiting:
            for name in sorted(waiting.pop().requirements):
                other = by_dist.get(name)
                if other is not None and other.slug != member.slug and other.slug not in found:
                    found[other.slug] = other
                    waiting.append(other)
        return list(found.values())

    def sources(self) -> list[Path]:
        """Returns every member's `src` folder: what PYTHONPATH holds in a bare checkout."""
        return [member.path / "src" for member in self.members.values()]


def find_root(start: Path) -> Path:
    """Returns the nearest workspace at or above `start`, or else the one that this file lies in.

    Raises:
        WorkspaceError: There is none.
    """
    for begin in (start.resolve(), Path(__file__).resolve()):
        for folder in (begin, *begin.parents):
            if (folder / "pyproject.toml").is_file() and (folder / "packages").is_dir():
                return folder
    raise WorkspaceError(f"no workspace at or above {start}: expected a folder with pyproject.toml and packages/")


def read_workspace(start: Path) -> Workspace:
    """Reads the workspace at or above `start`.

    Raises:
        WorkspaceError: There is none.
    """
    root = find_root(start)
    members: dict[str, Member] = {}
    broken: dict[str, str] = {}
    for folder in _folders(root):
        try:
            members[folder.name] = Member(folder.name, folder, _read_toml(folder / "pyproject.toml"))
        except ValueError as error:
            broken[folder.name] = str(error)
    return Workspace(root, members, broken)


def _folders(root: Path) -> Iterable[Path]:
    yield from (root / name for name in ("shared", "tools") if (root / name).is_dir())
    for folder in sorted((root / "packages").iterdir()):
        if folder.is_dir() and not folder.name.startswith((".", "_")):
            yield folder


def _read_toml(path: Path) -> dict[str, Any]:
    place = f"{path.parent.name}/{path.name}"
    if not path.is_file():
        raise ValueError(f"{place} does not exist: add it, or remove the folder")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{place} cannot be read: {error}") from error
    if not isinstance(table.get("project"), dict):
        raise ValueError(f"{place} has no table [project]")
    return table


def module_name(slug: str) -> str:
    """Returns the import name that belongs to a slug: `octavo_clipped_sgd` for `clipped-sgd`."""
    return "octavo_" + slug.replace("-", "_")


def requirement_name(requirement: str) -> str:
    """Returns the normalised name that a requirement begins with: `torch` for `torch>=2.6`."""
    match = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", requirement)
    return normalized(match.group(1)) if match else ""


def normalized(name: str) -> str:
    """Returns a distribution's name in the form in which names compare equal."""
    return re.sub(r"[-_.]+", "-", name).lower()
