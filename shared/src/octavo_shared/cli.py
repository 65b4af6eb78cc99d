"""What every package's command has in common: options, and the commands `demo` and `claims`."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from octavo_shared.claims import Claim, Finding, Outcome, Paper, Scale, Setting, Status
from octavo_shared.display import Interrupted, run_claims, run_demo
from octavo_shared.figures import save
from octavo_shared.report import Section, write_report

Result = TypeVar("Result")

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
    Console(stderr=True).print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)
    raise typer.Exit(2)


_WRONG_PATHS = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turns errors that say what is wrong with the input into exit status 2, an interruption into 130."""
    try:
        yield
    except (ValueError, TypeError, NotImplementedError, ImportError, *_WRONG_PATHS) as error:
        usage_error(str(error))
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
    found = _cuda_devices()
    if device == "auto":
        return "cuda" if found else "cpu"
    if int(index or 0) >= found:
        raise ValueError(f"--device {device} is not there: the number of CUDA devices that PyTorch finds is {found}")
    return device


def _cuda_devices() -> int:
    """How many there are; none where there is no PyTorch to use them."""
    if importlib.util.find_spec("torch") is None:
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


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


def claim_record(claim: Claim) -> dict[str, Any]:
    """A claim without its check, for JSON."""
    return {
        "name": claim.name,
        "statement": claim.statement,
        "source": claim.source,
        "paper": claim.paper,
        "relation": claim.relation,
        "scale": claim.scale.value,
        "expected_seconds": claim.seconds,
    }


def outcome_record(outcome: Outcome) -> dict[str, Any]:
    """An outcome without its figure, for JSON."""
    return {
        **claim_record(outcome.claim),
        "status": outcome.status.value,
        "ours": outcome.finding.value,
        "note": outcome.finding.note,
        "seconds": round(outcome.seconds, 3),
    }


def failed(outcomes: Sequence[Outcome]) -> bool:
    """Whether a claim that was run does not hold."""
    return any(outcome.status in (Status.FAILS, Status.ERROR) for outcome in outcomes)


def add_paper_commands(app: typer.Typer, paper: Paper) -> None:
    """Adds `demo` and `claims` to a package's command.

    Both end with status 0 if all came out as it should, 1 if something did not, 2 if they were called wrongly, and 130
    if they were interrupted; what was found until then is in the report all the same.
    """

    @app.command()
    def demo(
        seed: SeedOption = 0, device: DeviceOption = "auto", out: OutOption = None, as_json: JsonOption = False
    ) -> None:
        """Show the method at work on real input, and write a report."""
        console = console_for(as_json)
        with usage_errors():
            setting = setting_of(seed, device)
            folder = _made(out or Path("octavo-report"))
        findings, interrupted = _as_far_as_it_comes(lambda: run_demo(paper, setting, console), as_json=as_json)
        _write(Section(paper, findings=findings), folder, console, figures=out is not None)
        if as_json:
            print_json([finding_record(finding) for finding in findings])
        _end(any(finding.holds is False for finding in findings), interrupted=interrupted)

    @app.command()
    def claims(
        names: Annotated[list[str] | None, typer.Argument(help="Claims to measure; all if none is named.")] = None,
        scale: Annotated[list[Scale] | None, typer.Option(help="Only claims of this scale; may be repeated.")] = None,
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
                _list(chosen, console, as_json=as_json)
                return
            setting = setting_of(seed, device)
            folder = _made(out) if out else None
        measured, interrupted = _as_far_as_it_comes(
            lambda: run_claims([(paper, chosen)], setting, console), as_json=as_json
        )
        [(_, outcomes)] = measured
        if folder:
            _write(Section(paper, outcomes=outcomes), folder, console, figures=True)
        if as_json:
            print_json([outcome_record(outcome) for outcome in outcomes])
        _end(failed(outcomes), interrupted=interrupted)


def _as_far_as_it_comes(work: Callable[[], list[Result]], *, as_json: bool) -> tuple[list[Result], bool]:
    """Does the work; returns what came of it, and whether the user interrupted it.

    Whatever a check prints must not come between the lines of JSON.
    """
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        try:
            return work(), False
        except Interrupted as stop:
            return stop.results, True
        except ImportError as error:  # an extra that the demonstration needs
            usage_error(str(error))


def _end(failure: bool, *, interrupted: bool) -> NoReturn:
    if interrupted:
        Console(stderr=True).print("interrupted")
        raise typer.Exit(130)
    raise typer.Exit(int(failure))


def _made(folder: Path) -> Path:
    """Makes the folder, before the work rather than after it: by then a name that cannot be one would cost the work."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _list(claims: Sequence[Claim], console: Console, *, as_json: bool) -> None:
    if as_json:
        print_json([claim_record(claim) for claim in claims])
        return
    for claim in claims:
        title = (claim.name, "bold")
        console.print(Text.assemble(title, f"  {claim.source}, {claim.scale}, about {claim.seconds:g} s"))
        console.print(Padding(Text(claim.statement), (0, 0, 0, 4)))


def _write(section: Section, folder: Path, console: Console, *, figures: bool) -> None:
    """Writes the report, with `figures` every figure beside it too, as PNG and SVG."""
    paper = section.paper
    title = f"octavo-{paper.slug}: {'claims' if section.outcomes else 'demonstration'}"
    report = write_report(folder / f"{paper.slug}.html", [section], title)
    named = [(f"{paper.slug}-demo-{i}", finding) for i, finding in enumerate(section.findings, 1)]
    named += [(f"{paper.slug}-{outcome.claim.name}", outcome.finding) for outcome in section.outcomes]
    for name, finding in named if figures else ():
        for suffix in (".png", ".svg"):
            if finding.figure:
                save(finding.figure, folder / f"{name}{suffix}")
    console.print(Text(f"report: {report.resolve()}"), soft_wrap=True)
