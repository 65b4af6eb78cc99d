"""What a member's `pyproject.toml` has to say."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from octavo_tools.check.breach import Breach
from octavo_tools.workspace import Member

LICENCE = "Apache-2.0"
PYTHON = ">=3.11"


def metadata(member: Member) -> Iterator[Breach]:
    """Every member: name, licence, Python version, readme, description, a test extra, markers of the tests."""
    breach = partial(Breach, member.slug, "metadata")
    project = member.project
    expected = {"name": f"octavo-{member.slug}", "license": LICENCE, "requires-python": PYTHON, "readme": "README.md"}
    for key, value in expected.items():
        if project.get(key) != value:
            yield breach(f"project.{key} is {project.get(key)!r}", f'set {key} = "{value}" in [project]')
    if not project.get("description"):
        yield breach("there is no description", "say in [project] description what a user installs it for")
    if "test" not in project.get("optional-dependencies", {}):
        yield breach("there is no extra 'test'", "list what the tests need under [project.optional-dependencies] test")
    markers = [str(marker).partition(":")[0] for marker in pytest_settings(member).get("markers", [])]
    for marker in ("slow", "gpu"):
        if marker not in markers:
            yield breach(f"pytest does not know the marker {marker!r}", f"add it to markers in {PYTEST_TABLE}")


def package_metadata(member: Member) -> Iterator[Breach]:
    """Every package of a paper: its command, its entry point, the paper's address, the array annotations enforced."""
    breach = partial(Breach, member.slug, "metadata")
    project, module = member.project, member.module
    script = f"octavo-{member.slug}"
    if project.get("scripts", {}).get(script) != f"{module}.cli:app":
        yield breach(f"there is no command {script}", f'set {script} = "{module}.cli:app" in [project.scripts]')
    points = project.get("entry-points", {}).get("octavo.papers", {})
    if points != {member.slug: f"{module}.claims:PAPER"}:
        yield breach(
            f"the entry points octavo.papers are {points}",
            f'set {member.slug} = "{module}.claims:PAPER" in [project.entry-points."octavo.papers"], and no other',
        )
    if not str(project.get("urls", {}).get("Paper", "")).startswith("https://"):
        yield breach("the paper's address is missing", "set Paper in [project.urls] to an address with https://")
    hook = f"--jaxtyping-packages={module},beartype.beartype"
    # A package may go on and configure beartype.
    if not any(str(option).startswith(hook) for option in pytest_settings(member).get("addopts", [])):
        yield breach("the tests do not enforce the array annotations", f'add "{hook}" to addopts in {PYTEST_TABLE}')


def ranges(member: Member) -> Iterator[Breach]:
    """Dependencies are ranges: exact versions belong to the workspace's constraints."""
    breach = partial(Breach, member.slug, "ranges")
    groups = {"dependencies": member.project.get("dependencies", [])}
    groups |= member.project.get("optional-dependencies", {})
    for group, texts in groups.items():
        for text in texts:
            try:
                requirement = Requirement(text)
            except InvalidRequirement as error:
                yield breach(f"{text!r} in {group} is no requirement: {error}", "write it as name>=version")
                continue
            operators = {spec.operator for spec in requirement.specifier}
            if requirement.url or operators & {"==", "==="}:
                yield breach(f"{text!r} in {group} is a pin", "give a range, such as >=; pins go to ci/constraints.txt")
            elif not operators and not requirement.name.startswith("octavo-"):
                yield breach(f"{text!r} in {group} has no lower bound", "add the oldest version that works: >=…")


PYTEST_TABLE = "[tool.pytest.ini_options]"


def pytest_settings(member: Member) -> dict[str, Any]:
    """Returns the member's settings of pytest."""
    settings = member.pyproject.get("tool", {}).get("pytest", {}).get("ini_options", {})
    return settings if isinstance(settings, dict) else {}
