"""What the source files may contain and import, read from their syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from octavo_tools.check.breach import Breach
from octavo_tools.workspace import Member


def parse(file: Path) -> ast.Module | None:
    """Returns a file's syntax tree, or `None` where it is not valid Python; `syntax` reports that."""
    try:
        return ast.parse(file.read_text(encoding="utf-8"), str(file))
    except (SyntaxError, ValueError):
        return None


def syntax(member: Member) -> Iterator[Breach]:
    """Every Python file can be parsed."""
    for file in python_files(member):
        if parse(file) is None:
            name = file.relative_to(member.path)
            yield Breach(member.slug, "syntax", f"{name} is not valid Python", "run ruff check for the place")


def public_api(member: Member) -> Iterator[Breach]:
    """A package's `__init__` says what is public and nothing else: a docstring, imports, `__all__`."""
    file = member.path / "src" / member.module / "__init__.py"
    tree = parse(file) if file.is_file() else None
    if tree is None:
        return
    breach = partial(Breach, member.slug, "public-api")
    name = file.relative_to(member.path)
    for position, node in enumerate(tree.body):
        docstring = position == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not (docstring or isinstance(node, ast.Import | ast.ImportFrom) or _assigns_all(node)):
            yield breach(f"{name}:{node.lineno} is neither an import nor __all__", "move it to a module of its own")
    if member.is_package and not any(_assigns_all(node) for node in tree.body):
        yield breach(f"{name} has no __all__", "list the public names in __all__")


def isolation(member: Member) -> Iterator[Breach]:
    """A package imports itself and `octavo_shared`; `tools` no package by name; `shared` none at all."""
    allowed = {member.module, "octavo_shared"}
    remedy = {
        "shared": "move it to the package that needs it: shared depends on no member",
        "tools": "find packages through the entry point group octavo.papers",
    }.get(member.slug, "move what both packages need to shared, or write it in this one")
    for file in python_files(member):
        tree = parse(file)
        for name, line in _imports(tree) if tree else ():
            top = name.split(".")[0]
            if top.startswith("octavo_") and top not in allowed:
                place = f"{file.relative_to(member.path)}:{line}"
                yield Breach(member.slug, "isolation", f"{place} imports {top}", remedy)


def python_files(member: Member) -> list[Path]:
    """Returns the member's Python files: sources, tests, benchmarks."""
    return sorted(file for folder in ("src", "tests", "benchmarks") for file in (member.path / folder).rglob("*.py"))


def _assigns_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]


def _imports(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, node.lineno
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            yield from ((arg.value, node.lineno) for arg in node.args[:1] if _is_text(arg))  # type: ignore[attr-defined]


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
