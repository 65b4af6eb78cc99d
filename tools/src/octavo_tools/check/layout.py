"""Where a package keeps what: the same in all of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from octavo_tools.benchmarks import benchmark_files
from octavo_tools.check.breach import Breach
from octavo_tools.check.sources import parse
from octavo_tools.workspace import Member


def layout(member: Member) -> Iterator[Breach]:
    """Every member: sources under `src/`, typed, with tests and a README."""
    source = f"src/{member.module}"
    yield from _missing(member, [f"{source}/__init__.py", f"{source}/py.typed", "README.md"])
    if not list((member.path / "tests").rglob("test_*.py")):
        yield Breach(member.slug, "layout", "tests/ holds no test_*.py", "add tests")


def package_layout(member: Member) -> Iterator[Breach]:
    """Every package of a paper: command, claims, their tests, and a benchmark that names a peer."""
    source = f"src/{member.module}"
    yield from _missing(
        member, [f"{source}/cli.py", f"{source}/claims.py", "tests/test_cli.py", "tests/test_readme.py"]
    )
    breach = partial(Breach, member.slug, "layout")
    benchmarks = benchmark_files(member)
    if not benchmarks:
        yield breach("benchmarks/ holds no bench_*.py", "add one that times the method against a named peer")
    for file in benchmarks:
        tree = parse(file)
        functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)] if tree else []
        if "comparisons" not in functions:
            yield breach(
                f"benchmarks/{file.name} defines no function comparisons",
                "define comparisons(device: str) -> Iterator[Comparison], and run nothing at import",
            )


def _missing(member: Member, names: list[str]) -> Iterator[Breach]:
    for name in names:
        if not (member.path / name).is_file():
            yield Breach(member.slug, "layout", f"{name} is missing", f"add {name}; `octavo new` shows what it holds")
