"""Writes the skeleton of a new package: small, whole, and working, with a method that waits to be replaced."""

from __future__ import annotations

import keyword
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from octavo_tools.jobs import Job, run_jobs
from octavo_tools.record import private_folder
from octavo_tools.results import tail
from octavo_tools.workspace import Workspace, WorkspaceError, module_name

SKELETON = Path(__file__).parent / "skeleton"
SUFFIX = ".jinja"
LONGEST = 100
"""Characters of a title or a purpose: they stand in a line of Python."""


@dataclass(frozen=True)
class About:
    """What is known of the paper when its package begins.

    Attributes:
        slug: The package's name: lowercase words joined by dashes.
        title: The paper's title.
        url: Where the paper is.
        purpose: What a user will install the package for, in a sentence.
        host: The library that it fits into.
    """

    slug: str
    title: str
    url: str
    purpose: str
    host: str


def write_package(workspace: Workspace, about: About) -> Path:
    """Writes `packages/<slug>` and returns it; it is there whole or not at all.

    Raises:
        WorkspaceError: The slug is not usable, or taken; the address is none.
    """
    _validate(workspace, about)
    folder = workspace.root / "packages" / about.slug
    with tempfile.TemporaryDirectory(prefix="new-", dir=private_folder(workspace.root)) as place:
        written = Path(place) / about.slug
        for template in sorted(SKELETON.rglob(f"*{SUFFIX}")):
            _render(template, written, {**asdict(about), "module": module_name(about.slug)})
        _sort_imports(written, workspace.root)
        written.rename(folder)
    return folder


def install(root: Path, folder: Path) -> str:
    """Installs the package editable into the environment that runs us; returns what went wrong, or an empty text."""
    constraints = root / "ci" / "constraints.txt"
    env = {**os.environ, **({"PIP_CONSTRAINT": str(constraints)} if constraints.is_file() else {})}
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--editable", f"{folder}[test]"]
    with tempfile.TemporaryDirectory(prefix="octavo-install-") as place:
        log = Path(place) / "pip.log"
        (end,) = run_jobs([Job(folder.name, command, root, log, 900.0, env)], 1)
        return "\n".join(tail(log, 10)) or f"pip ended with status {end.status}" if end.status else ""


def _validate(workspace: Workspace, about: About) -> None:
    slug = about.slug
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", slug):
        raise WorkspaceError(f"SLUG must be lowercase words joined by dashes, such as clipped-sgd; not {slug!r}")
    if keyword.iskeyword(slug) or keyword.issoftkeyword(slug):
        raise WorkspaceError(f"SLUG must not be a word of Python's own: {slug!r}")
    if slug in ("shared", "tools"):
        raise WorkspaceError(f"SLUG {slug!r} is taken by the workspace itself")
    if (workspace.root / "packages" / slug).exists():
        raise WorkspaceError(f"SLUG {slug!r} is taken: packages/{slug} exists")
    if not about.url.startswith("https://"):
        raise WorkspaceError(f"--url must begin with https://, not {about.url!r}")
    for name in ("title", "purpose", "host"):
        value = getattr(about, name)
        if not value.strip() or len(value) > LONGEST or re.search(r'["\\\n]', value):
            raise WorkspaceError(
                f"--{name} must be one line of at most {LONGEST} characters without quotation marks and backslashes, "
                f"not {value!r}"
            )


def _sort_imports(folder: Path, root: Path) -> None:
    """Puts imports in order: whether a package comes before or after `octavo_shared` depends on its name."""
    command = [sys.executable, "-m", "ruff", "check", "--quiet", "--isolated", "--select=I", "--fix", "--no-cache"]
    ours = 'lint.isort.known-first-party = ["octavo_*"]'  # as in the workspace's settings
    subprocess.run([*command, "--no-respect-gitignore", "--config", ours, str(folder)], cwd=root, check=True)


def _render(template: Path, written: Path, context: Mapping[str, str]) -> None:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(SKELETON), undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    name = template.relative_to(SKELETON).as_posix()
    target = written / environment.from_string(name.removesuffix(SUFFIX)).render(context)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(environment.get_template(name).render(context), encoding="utf-8")
    shutil.copymode(template, target)
