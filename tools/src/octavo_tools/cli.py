"""The command `octavo`: each of its commands reads the workspace, calls one module, and says how it went."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from octavo_shared.claims import Scale
from octavo_shared.cli import DeviceOption, JsonOption, SeedOption, setting_of
from octavo_tools.workspace import Workspace, WorkspaceError, read_workspace

app = typer.Typer(
    help="Finds the packages of this workspace; tests, checks, demonstrates and measures them.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)

Slugs = Annotated[list[str] | None, typer.Argument(metavar="[SLUG]...", help="Packages; all where none is named.")]
Timeout = Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Time limit of each.")]
Workers = Annotated[int | None, typer.Option(min=1, help="How many run side by side; as many as cores by default.")]


@app.command("list")
def list_command() -> None:
    """Lists the packages: paper, what it is for, host library, state of its claims."""
    from octavo_tools.listing import table_of
    from octavo_tools.papers import say_troubles

    with _usage_errors():
        workspace = _packages(read_workspace(Path.cwd()), None)
    table, troubles = table_of(workspace)
    console = Console()
    console.print(table)
    _finish(say_troubles(troubles, console))


@app.command("test")
def run_command(
    slugs: Slugs = None,
    changed: Annotated[
        str | None, typer.Option(metavar="REF", help="Only what differs from this commit, and what depends on it.")
    ] = None,
    isolated: Annotated[
        bool, typer.Option("--isolated", help="Build the wheels and test them in new environments outside the tree.")
    ] = False,
    mark: Annotated[
        str | None, typer.Option("-m", metavar="MARK", help="As pytest's; 'not slow and not gpu' by default.")
    ] = None,
    timeout: Timeout = 900.0,
    workers: Workers = None,
) -> None:
    """Runs the tests, one process for each package, and ends with one line in pytest's form.

    SLUG may also be shared or tools. Logs of failures and the JUnit file are kept under test-results/.
    """
    from octavo_tools.isolated import run_isolated
    from octavo_tools.testing import Options, close, default_workers, run_tests

    console, start = Console(), time.monotonic()
    with _usage_errors():
        whole = read_workspace(Path.cwd())
        chosen = whole.select(slugs or [])
        if isolated:
            chosen = _installable(chosen, named="tools" in (slugs or []))
        if changed is not None:
            chosen = _changed(whole, chosen, changed, console)
    options = Options(mark, timeout, workers or default_workers(chosen))
    results = run_isolated(chosen, whole, options, console) if isolated else run_tests(chosen, options, console)
    _finish(close(results, whole.root, start, console))


@app.command()
def claims(
    slugs: Slugs = None,
    scale: Annotated[list[Scale] | None, typer.Option(help="Only claims of this scale; may be repeated.")] = None,
    report: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write an HTML page there.")] = None,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Runs the papers' claims and says which hold."""
    console = Console(stderr=as_json)
    with _usage_errors():
        workspace = _packages(read_workspace(Path.cwd()), slugs)
        setting = setting_of(seed, device)
    # Only now: reading the options has to be quick, and drawing is heavy.
    from octavo_tools.presenting import run_all_claims

    _finish(run_all_claims(workspace, tuple(scale or ()), setting, report, console, as_json=as_json))


@app.command()
def demo(
    slugs: Slugs = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the report goes.")] = Path("octavo-report"),
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
) -> None:
    """Shows each method at work on real input, and writes a report with the figures."""
    with _usage_errors():
        workspace = _packages(read_workspace(Path.cwd()), slugs)
        setting = setting_of(seed, device)
    # Only now: reading the options has to be quick, and drawing is heavy.
    from octavo_tools.presenting import run_all_demos

    _finish(run_all_demos(workspace, setting, out, Console()))


@app.command()
def bench(slugs: Slugs = None, device: DeviceOption = "cpu", timeout: Timeout = 900.0) -> None:
    """Runs the benchmarks: ours against a named peer and against the last run."""
    from octavo_tools.benchmarks import run_benchmarks

    with _usage_errors():
        workspace = _packages(read_workspace(Path.cwd()), slugs)
        device = setting_of(0, device).device
    _finish(run_benchmarks(workspace, device, timeout, Console()))


@app.command()
def gpu(
    slugs: Slugs = None,
    minutes: Annotated[float, typer.Option(min=0.05, help="Time limit of all together.")] = 8.0,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write the table as Markdown there.")] = None,
) -> None:
    """Runs all that needs a GPU: tests, then benchmarks. Without a GPU the tests are collected and skip."""
    from octavo_tools.gpu import run_gpu

    with _usage_errors():
        workspace = _packages(read_workspace(Path.cwd()), slugs)
    _finish(run_gpu(workspace, minutes, out, Console()))


@app.command()
def new(
    slug: Annotated[str, typer.Argument(help="Lowercase words joined by dashes.")],
    title: Annotated[str, typer.Option(help="The paper's title.")] = "A paper to be named",
    url: Annotated[str, typer.Option(help="Where the paper is.")] = "https://arxiv.org/",
    purpose: Annotated[str, typer.Option(help="What a user installs it for.")] = "Sums that keep what rounding takes",
    host: Annotated[str, typer.Option(help="The library it fits into.")] = "numpy",
    install: Annotated[bool, typer.Option(help="Install it editable into this environment.")] = True,
) -> None:
    """Writes a package that passes its checks and tests as it is, with a small method to be replaced."""
    from octavo_tools.new import About, write_package
    from octavo_tools.new import install as install_package

    console = Console()
    with _usage_errors():
        workspace = read_workspace(Path.cwd())
        folder = write_package(workspace, About(slug, title, url, purpose, host))
    console.print(f"wrote {folder.relative_to(workspace.root)}", markup=False)
    trouble = install_package(workspace.root, folder) if install else ""
    if trouble:
        console.print(f"it could not be installed:\n{trouble}", markup=False, soft_wrap=True)
    elif install:
        console.print(f"installed it: try octavo-{slug} demo, octavo check {slug}, octavo test {slug}", markup=False)
    _finish(not trouble)


@app.command()
def check(slugs: Slugs = None) -> None:
    """Says where a package departs from what all packages have in common, and what to do about it."""
    from octavo_tools.check import check_workspace

    console = Console()
    with _usage_errors():
        chosen = read_workspace(Path.cwd()).select(slugs or [])
    breaches = check_workspace(chosen, console)
    for breach in breaches:
        console.print(f"{breach.slug} [{breach.rule}] {breach.problem}", markup=False, soft_wrap=True, highlight=False)
        console.print(f"    → {breach.remedy}", markup=False, soft_wrap=True, highlight=False)
    console.print(f"breaches: {len(breaches)}, in {len(chosen.slugs)} of the workspace's members")
    _finish(not breaches)


def _packages(workspace: Workspace, slugs: list[str] | None) -> Workspace:
    return workspace.select(slugs or [], packages_only=True)


def _installable(chosen: Workspace, *, named: bool) -> Workspace:
    """Leaves out `tools`, which is about the tree and is not tested away from it."""
    if named:
        raise WorkspaceError(
            "tools cannot be tested with --isolated: it is the workspace's runner and works in its tree"
        )
    members = {slug: member for slug, member in chosen.members.items() if slug != "tools"}
    return Workspace(chosen.root, members, chosen.broken)


def _changed(whole: Workspace, chosen: Workspace, reference: str, console: Console) -> Workspace:
    from octavo_tools.changes import changed_files, touched

    reasons = touched(whole, changed_files(whole.root, reference))
    slugs = [slug for slug in reasons if slug in chosen.slugs]
    for slug in slugs:
        console.print(f"{slug}: {reasons[slug]}", markup=False, soft_wrap=True, highlight=False)
    if not slugs:
        console.print(f"nothing to test: no chosen member is touched by the changes since {reference}", markup=False)
        return Workspace(whole.root, {}, {})
    return whole.select(slugs)


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Turns a request for something that does not exist into a message and exit status 2."""
    try:
        yield
    # ValueError: from the common options, such as an unknown device. ImportError: no torch to look for a GPU with.
    except (ValueError, ImportError) as error:
        raise typer.BadParameter(str(error)) from error


def _finish(success: bool) -> None:
    raise typer.Exit(0 if success else 1)
