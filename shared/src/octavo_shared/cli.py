"""What every package's command has in common: options, and the commands `demo` and `claims`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from octavo_shared.claims import Finding, Outcome, Paper, Scale, Setting, Status
from octavo_shared.display import run_claims, run_demo

SeedOption = Annotated[int, typer.Option("--seed", help="First seed; further runs count up from it.", min=0)]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N.")]
DtypeOption = Annotated[str, typer.Option("--dtype", help="float16, bfloat16, float32 or float64.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="Folder for report and figures.", file_okay=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on standard output, the rest on standard error.")]
WorkersOption = Annotated[int, typer.Option("--workers", help="Processes to work with.", min=1)]

SEEDS = 3
"""How many seeds a check averages over."""


def console_for(as_json: bool) -> Console:
    """The console for what a person reads: standard error where standard output carries JSON."""
    return Console(stderr=as_json)


def usage_error(message: str) -> NoReturn:
    """Ends the command as one that was called wrongly: the message on standard error, exit status 2."""
    Console(stderr=True).print(f"[bold red]error:[/] {message}", highlight=False)
    raise typer.Exit(2)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turns errors that say what is wrong with the input into exit status 2, an interruption into 130."""
    try:
        yield
    except (ValueError, TypeError, NotImplementedError, FileNotFoundError, ImportError) as error:
        usage_error(str(error).replace("[", "\\["))
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted")
        raise typer.Exit(130) from None


def resolve_device(device: str) -> str:
    """The device to run on: `"auto"` is CUDA where there is one.

    Raises:
        ValueError: An unknown device, or one that is not there.
    """
    if device == "cpu":
        return device
    kind, _, index = device.partition(":")
    if kind not in ("auto", "cuda") or (index and not index.isdigit()) or (kind == "auto" and index):
        raise ValueError(f"--device must be auto, cpu, cuda or cuda:N; got {device!r}")
    import torch

    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto":
        return "cuda" if found else "cpu"
    if int(index or 0) >= found:
        raise ValueError(f"--device {device} is not there: this machine has {found} CUDA devices")
    return device


def resolve_dtype(dtype: str) -> Any:
    """The torch dtype of this name.

    Raises:
        ValueError: A name that no kernel computes in.
    """
    import torch

    known = ("float16", "bfloat16", "float32", "float64")
    if dtype not in known:
        raise ValueError(f"--dtype must be one of {', '.join(known)}; got {dtype!r}")
    return getattr(torch, dtype)


def print_json(value: Any) -> None:
    """Writes a value to standard output as JSON."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def setting_of(seed: int, device: str) -> Setting:
    """What checks are given, from a command's options."""
    return Setting(device=resolve_device(device), seeds=tuple(range(seed, seed + SEEDS)))


def finding_record(finding: Finding) -> dict[str, Any]:
    """A finding without its figure, for JSON."""
    return {"what": finding.what, "value": finding.value, "holds": finding.holds, "note": finding.note}


def outcome_record(outcome: Outcome) -> dict[str, Any]:
    """An outcome without its figure, for JSON."""
    claim = outcome.claim
    return {
        "name": claim.name,
        "statement": claim.statement,
        "source": claim.source,
        "paper": claim.paper,
        "relation": claim.relation,
        "scale": claim.scale.value,
        "status": outcome.status.value,
        "ours": outcome.finding.value,
        "note": outcome.finding.note,
        "seconds": round(outcome.seconds, 3),
    }


def failed(outcomes: Sequence[Outcome]) -> bool:
    """Whether a claim that was run does not hold."""
    return any(outcome.status in (Status.FAILS, Status.ERROR) for outcome in outcomes)


def add_paper_commands(app: typer.Typer, paper: Paper) -> None:
    """Adds `demo` and `claims` to a package's command."""

    @app.command()
    def demo(
        seed: SeedOption = 0, device: DeviceOption = "auto", out: OutOption = None, as_json: JsonOption = False
    ) -> None:
        """Show the method at work on real input, and write a report."""
        console = console_for(as_json)
        with usage_errors():
            findings = run_demo(paper, setting_of(seed, device), console)
            _write(paper, findings, (), out, console)
        if as_json:
            print_json([finding_record(finding) for finding in findings])
        raise typer.Exit(int(any(finding.holds is False for finding in findings)))

    @app.command()
    def claims(
        names: Annotated[list[str] | None, typer.Argument(help="Claims to measure; all if none is named.")] = None,
        scale: Annotated[list[Scale] | None, typer.Option(help="Only claims of this scale.")] = None,
        show: Annotated[bool, typer.Option("--list", help="List the claims and measure none.")] = False,
        seed: SeedOption = 0,
        device: DeviceOption = "auto",
        out: OutOption = None,
        as_json: JsonOption = False,
    ) -> None:
        """Measure the paper's claims on this machine."""
        console = console_for(as_json)
        with usage_errors():
            chosen = paper.select(names or (), scale or ())
            if show:
                for claim in chosen:
                    console.print(f"[bold]{claim.name}[/]  {claim.scale}, about {claim.seconds:g} s, {claim.source}")
                    console.print(f"    {claim.statement}", highlight=False)
                return
            [(_, outcomes)] = run_claims([(paper, chosen)], setting_of(seed, device), console)
            if out:
                _write(paper, (), outcomes, out, console)
        if as_json:
            print_json([outcome_record(outcome) for outcome in outcomes])
        raise typer.Exit(int(failed(outcomes)))


def _write(
    paper: Paper, findings: Sequence[Finding], outcomes: Sequence[Outcome], out: Path | None, console: Console
) -> None:
    """The report; with `out` every figure beside it, as PNG and SVG."""
    from octavo_shared.figures import save
    from octavo_shared.report import Section, write_report

    folder = out or Path("octavo-report")
    named = [(f"{paper.slug}-demo-{i}", finding) for i, finding in enumerate(findings, 1)]
    named += [(f"{paper.slug}-{outcome.claim.name}", outcome.finding) for outcome in outcomes]
    report = write_report(folder / f"{paper.slug}.html", [Section(paper, findings, outcomes)], paper.title)
    for name, finding in named if out else ():
        for suffix in (".png", ".svg"):
            if finding.figure:
                save(finding.figure, folder / f"{name}{suffix}")
    console.print(f"report: {report.resolve()}", soft_wrap=True)
