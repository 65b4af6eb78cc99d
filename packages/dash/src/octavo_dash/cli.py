"""The command `octavo-dash`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.progress import track
from rich.table import Table

from octavo_dash.claims import PAPER
from octavo_dash.longest_path import Costs
from octavo_dash.planner import Candidate, candidates
from octavo_dash.problem import Problem
from octavo_dash.schedules import RULES
from octavo_shared.cli import (
    DeviceOption,
    DtypeOption,
    JsonOption,
    SeedOption,
    WorkersOption,
    add_paper_commands,
    console_for,
    print_json,
    resolve_device,
    resolve_dtype,
    usage_errors,
)

app = typer.Typer(help="Schedules for deterministic attention, and attention that runs them.", no_args_is_help=True)
add_paper_commands(app, PAPER)

CausalOption = Annotated[bool, typer.Option("--causal", help="Causal mask.")]
HeadsOption = Annotated[int, typer.Option("--heads", help="Query heads.", min=1)]
TilesOption = Annotated[int | None, typer.Option("--tiles", help="Key tiles, for a problem counted in tiles.", min=1)]
QTilesOption = Annotated[int | None, typer.Option("--q-tiles", help="Query tiles; σ times the key tiles if left out.")]
SigmaOption = Annotated[int, typer.Option("--sigma", help="Query tiles to a key tile.", min=1)]
SeqlenOption = Annotated[int | None, typer.Option("--seqlen", help="Tokens, for a problem counted in tokens.", min=1)]
BatchOption = Annotated[int, typer.Option("--batch", help="Sequences.", min=1)]
BlockMOption = Annotated[int, typer.Option("--block-m", help="Rows of a query tile.", min=1)]
BlockNOption = Annotated[int, typer.Option("--block-n", help="Columns of a key tile.", min=1)]
SmsOption = Annotated[int | None, typer.Option("--sms", help="Workers; key tiles if counted in tiles, or 132.", min=1)]
ComputeOption = Annotated[float, typer.Option("--compute", "-c", help="c, what the products of a task take.")]
ReduceOption = Annotated[float, typer.Option("--reduce", "-r", help="r, what its addition takes.")]
SyncOption = Annotated[float, typer.Option("--sync", "-l", help="ℓ, the latency of a signal.")]
OrderOption = Annotated[str, typer.Option("--order", help="canonical or wave.")]


@dataclass(frozen=True)
class ProblemOptions:
    """The options that describe a problem, in tiles or in tokens."""

    tiles: int | None
    q_tiles: int | None
    sigma: int
    seqlen: int | None
    batch: int
    heads: int
    causal: bool
    block_m: int
    block_n: int
    sms: int | None

    def problem(self) -> Problem:
        """The problem; eight key tiles where neither tiles nor tokens are given.

        Raises:
            ValueError: Both are given.
        """
        if self.seqlen is not None and self.tiles is not None:
            raise ValueError("--tiles and --seqlen describe the same thing; give one of them")
        if self.seqlen is None:
            return Problem.tiles(
                self.tiles or 8,
                self.q_tiles,
                num_heads=self.batch * self.heads,
                causal=self.causal,
                sigma=self.sigma,
                num_sms=self.sms,
            )
        return Problem.dense(
            self.batch,
            self.seqlen,
            num_heads=self.heads,
            causal=self.causal,
            block_m=self.block_m,
            block_n=self.block_n,
            num_sms=self.sms or 132,
        )


def _tried(options: ProblemOptions, costs: Costs, order: str, names: list[str] | None) -> tuple[Candidate, ...]:
    if order not in ("canonical", "wave"):
        raise ValueError(f"--order must be canonical or wave; got {order!r}")
    weights = (costs.compute, costs.reduce, costs.sync)
    return candidates(options.problem(), *weights, order=order, names=names or tuple(RULES))  # type: ignore[arg-type]


def _record(candidate: Candidate, table: bool) -> dict[str, Any]:
    record: dict[str, Any] = {"schedule": candidate.name, "lower_bound": candidate.bound, "note": candidate.refusal}
    if candidate.trace:
        schedule = candidate.trace.schedule
        record |= {
            "runs": schedule.name,
            "makespan": candidate.trace.makespan,
            "bubble_fraction": candidate.trace.bubble_fraction,
            "order_hash": schedule.order_hash,
        }
        if table:
            orders = schedule.order_table.items()
            record["order"] = [{"sequence": b, "head": h, "q": q, "kv": list(kv)} for (b, h, q), kv in orders]
            record["exec"] = [[list(task) for task in tasks] for tasks in schedule.exec]
    return record


@app.command()
def plan(
    tiles: TilesOption = None,
    q_tiles: QTilesOption = None,
    sigma: SigmaOption = 1,
    seqlen: SeqlenOption = None,
    batch: BatchOption = 1,
    heads: HeadsOption = 2,
    causal: CausalOption = False,
    block_m: BlockMOption = 64,
    block_n: BlockNOption = 128,
    sms: SmsOption = None,
    compute: ComputeOption = 4.0,
    reduce: ReduceOption = 1.0,
    sync: SyncOption = 0.0,
    order: OrderOption = "canonical",
    schedule: Annotated[list[str] | None, typer.Option(help="Only this schedule; may be repeated.")] = None,
    table: Annotated[bool, typer.Option("--table", help="With --json: the tables of order and execution.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare schedules for a problem: makespan, lower bound, idle share, order hash."""
    options = ProblemOptions(tiles, q_tiles, sigma, seqlen, batch, heads, causal, block_m, block_n, sms)
    with usage_errors():
        tried = _tried(options, Costs(compute, reduce, sync), order, schedule)
    if as_json:
        print_json([_record(candidate, table) for candidate in tried])
        return
    shown = Table(title=f"c = {compute:g}, r = {reduce:g}, ℓ = {sync:g}; lower bound {tried[0].bound:g}")
    for heading in ("schedule", "makespan", "idle", "order hash", "note"):
        shown.add_column(heading, overflow="fold", justify="right" if heading in ("makespan", "idle") else "left")
    shortest = min(candidate.makespan for candidate in tried)
    for candidate in tried:
        trace = candidate.trace
        name = f"[bold green]{candidate.name}[/]" if candidate.makespan == shortest else candidate.name
        figures = ["—"] * 3
        if trace:
            figures = [f"{trace.makespan:g}", f"{trace.bubble_fraction:.1%}", trace.schedule.order_hash[:12]]
        shown.add_row(name, *figures, candidate.refusal)
    console_for(as_json).print(shown)


@app.command()
def gantt(
    out: Annotated[Path, typer.Option("--out", help="The picture: a .png or .svg file.", dir_okay=False)],
    tiles: TilesOption = None,
    q_tiles: QTilesOption = None,
    sigma: SigmaOption = 1,
    seqlen: SeqlenOption = None,
    batch: BatchOption = 1,
    heads: HeadsOption = 2,
    causal: CausalOption = False,
    block_m: BlockMOption = 64,
    block_n: BlockNOption = 128,
    sms: SmsOption = None,
    compute: ComputeOption = 4.0,
    reduce: ReduceOption = 1.0,
    sync: SyncOption = 0.0,
    order: OrderOption = "canonical",
    schedule: Annotated[list[str] | None, typer.Option(help="Only this schedule; may be repeated.")] = None,
) -> None:
    """Draw schedules, one line a worker."""
    from octavo_dash.gantt import gantt as draw
    from octavo_shared.figures import save

    options = ProblemOptions(tiles, q_tiles, sigma, seqlen, batch, heads, causal, block_m, block_n, sms)
    with usage_errors():
        tried = _tried(options, Costs(compute, reduce, sync), order, schedule)
        traces = [candidate.trace for candidate in tried if candidate.trace]
        if not traces:
            raise ValueError("; ".join(candidate.refusal for candidate in tried))
        save(draw(traces), out)
    console_for(False).print(f"{out}", soft_wrap=True)


@app.command()
def verify(
    max_tiles: Annotated[int, typer.Option(help="Key tiles up to this number.", min=1)] = 19,
    max_heads: Annotated[int, typer.Option(help="Heads up to this number.", min=1)] = 4,
    workers: WorkersOption = 2,
    as_json: JsonOption = False,
) -> None:
    """Validate every schedule over a grid of problems; exit status 1 if one that is returned is invalid."""
    from joblib import Parallel, delayed

    from octavo_dash.verification import Verdict, grid
    from octavo_dash.verification import verify as verify_problem

    console = console_for(as_json)
    problems = list(grid(range(1, max_tiles + 1), range(1, max_heads + 1)))
    chunks = [problems[i : i + 64] for i in range(0, len(problems), 64)]

    console.print(f"{len(problems):,} problems, every schedule under both orders")

    def verify_chunk(chunk: list[Problem]) -> Verdict:
        verdict = Verdict()
        for problem in chunk:
            verdict.add(verify_problem(problem))
        return verdict

    total = Verdict()
    with usage_errors():
        results = Parallel(n_jobs=workers, return_as="generator")(delayed(verify_chunk)(chunk) for chunk in chunks)
        for verdict in track(results, "validating", len(chunks), console=console):
            total.add(verdict)
    if as_json:
        print_json({"valid": total.valid, "refused": dict(total.refused), "invalid": total.invalid})
    else:
        counts = (
            f"{total.valid:,} schedules valid",
            f"{len(total.invalid)} invalid",
            f"{total.refused.total():,} refused",
        )
        console.print(", ".join(counts))
        for reason, count in total.refused.most_common():
            console.print(f"  {count:,} × {reason}")
        for text in total.invalid[:10]:
            console.print(f"  [bold red]invalid[/] {text}")
    raise typer.Exit(int(bool(total.invalid)))


@app.command()
def determinism(
    runs: Annotated[int, typer.Option(help="Runs of each.", min=2)] = 20,
    seqlen: Annotated[int, typer.Option(help="Tokens.", min=1)] = 1024,
    heads: HeadsOption = 4,
    heads_kv: Annotated[int | None, typer.Option(help="Key heads; as many as query heads if left out.", min=1)] = None,
    head_dim: Annotated[int, typer.Option(help="Head dimension.")] = 64,
    causal: CausalOption = False,
    threads: Annotated[int, typer.Option(help="Threads, on a CPU.", min=1)] = 4,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "float32",
    as_json: JsonOption = False,
) -> None:
    """Run backward passes again and again and compare bits; exit status 1 if a schedule's bits change."""
    from octavo_dash.determinism import check_determinism
    from octavo_dash.throughput import Backward, Workload

    console = console_for(as_json)
    with usage_errors():
        place = resolve_device(device)
        torch.set_num_threads(threads)
        workload = Workload(1, seqlen, heads, head_dim, causal, heads_kv, resolve_dtype(dtype), place)
        backward = Backward(workload, seed)
        rows = []
        for name in (*backward.schedules(tuple(RULES)), "atomic mode"):
            atomic = name == "atomic mode"

            def run(name: str = name, atomic: bool = atomic) -> dict[str, torch.Tensor]:
                gradients = backward.run("auto" if atomic else name, deterministic=not atomic)
                return dict(zip(("dq", "dk", "dv"), gradients, strict=True))

            for tensor, result in check_determinism(run, runs, place).items():
                rows.append({"schedule": name, "tensor": tensor, **result.__dict__})
    if as_json:
        print_json(rows)
    else:
        shown = Table("schedule", "tensor", "bits equal", "max |Δ|", "bit patterns", title=f"{workload}, {runs} runs")
        for row in rows:
            equal = "[green]yes[/]" if row["bit_equal"] else "[yellow]no[/]"
            figures = (f"{row['max_abs_diff']:.1e}", str(row["n_patterns"]))
            shown.add_row(row["schedule"], row["tensor"], equal, *figures)
        console.print(shown)
    raise typer.Exit(int(any(not row["bit_equal"] for row in rows if row["schedule"] != "atomic mode")))


@app.command()
def calibrate(
    seqlen: Annotated[int, typer.Option(help="Tokens.", min=1)] = 2048,
    heads: HeadsOption = 4,
    head_dim: Annotated[int, typer.Option(help="Head dimension.")] = 64,
    repeats: Annotated[int, typer.Option(help="Runs of each schedule.", min=1)] = 5,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Measure c, r and ℓ on this machine, and how well they predict."""
    from octavo_dash.calibrate import calibrate_device

    console = console_for(as_json)
    with usage_errors():
        result = calibrate_device(resolve_device(device), seqlen, heads, head_dim, repeats=repeats, seed=seed)
    costs = result.costs
    if as_json:
        rows = zip(result.schedules, result.measured, result.predicted, strict=True)
        print_json(
            {
                "compute": costs.compute,
                "reduce": costs.reduce,
                "sync": costs.sync,
                "schedules": [{"schedule": s, "measured": m, "predicted": p} for s, m, p in rows],
            }
        )
        return
    shown = Table("schedule", "measured", "predicted", title="in milliseconds")
    for name, measured, predicted in zip(result.schedules, result.measured, result.predicted, strict=True):
        shown.add_row(name, f"{1e3 * measured:.3f}", f"{1e3 * predicted:.3f}")
    console.print(shown)
    console.print(f"c = {1e6 * costs.compute:.2f} µs, r = {1e6 * costs.reduce:.2f} µs, ℓ = {1e6 * costs.sync:.2f} µs")
    ratio = 1.0 / max(costs.reduce, 1e-12)
    console.print(f"--compute {costs.compute * ratio:.3g} --reduce 1 --sync {costs.sync * ratio:.3g}")


@app.command()
def bench(
    seqlen: Annotated[int, typer.Option(help="Tokens.", min=1)] = 2048,
    heads: HeadsOption = 8,
    head_dim: Annotated[int, typer.Option(help="Head dimension.")] = 64,
    repeats: Annotated[int, typer.Option(help="Pairs of runs for each comparison.", min=1)] = 7,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Time backward passes against the atomic mode and PyTorch, alternately in one run."""
    from octavo_dash.throughput import Workload, comparisons

    console = console_for(as_json)
    rows: list[dict[str, Any]] = []
    with usage_errors():
        place = resolve_device(device)
        dtype = torch.bfloat16 if place.startswith("cuda") else torch.float32
        for causal in (False, True):
            workload = Workload(1, seqlen, heads, head_dim, causal, None, dtype, place)
            for result in comparisons(workload, repeats=repeats):
                figures = {"ours": result.ours, "peer": result.peer, "speedup": round(result.speedup, 3)}
                rows.append({"case": result.case, **figures, **result.figures})
                console.print(f"{result.case}: {result.ours} is {result.speedup:.2f}× as fast as {result.peer}")
    if as_json:
        print_json(rows)


if __name__ == "__main__":
    app()
