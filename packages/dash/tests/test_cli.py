"""The command, as a user types it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import golden
import pytest
from typer.testing import CliRunner

from octavo_dash.cli import app


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def plan(*arguments):
    result = run("plan", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return {row["schedule"]: row for row in json.loads(result.stdout)}


@pytest.mark.parametrize(("n", "heads"), golden.MAKESPANS)
def test_plan_gives_the_golden_makespans(n, heads):
    rows = {causal: plan("--tiles", n, "--heads", heads, *(["--causal"] * causal)) for causal in (False, True)}
    found = tuple(rows[causal][name]["makespan"] for name, causal in golden.COLUMNS)
    assert found == golden.MAKESPANS[n, heads]


@pytest.mark.parametrize(("n", "heads", "c", "r", "name", "causal", "makespan"), golden.OTHER_COSTS)
def test_plan_gives_the_golden_makespans_of_other_costs(n, heads, c, r, name, causal, makespan):
    rows = plan("--tiles", n, "--heads", heads, "-c", c, "-r", r, "--schedule", name, *(["--causal"] * causal))
    assert rows[name]["makespan"] == makespan


@pytest.mark.parametrize(("n", "m", "heads", "sigma", "name", "causal", "makespan"), golden.OTHER_SHAPES)
def test_plan_gives_the_golden_makespans_of_other_shapes(n, m, heads, sigma, name, causal, makespan):
    size = ("--tiles", n, "--heads", heads, "--sigma", sigma, *(["--q-tiles", m] if m else []))
    assert plan(*size, "--schedule", name, *(["--causal"] * causal))[name]["makespan"] == makespan


@pytest.mark.parametrize(("n", "heads", "sync", "name", "causal", "makespan"), golden.LATENCY)
def test_plan_gives_the_golden_makespans_with_latency(n, heads, sync, name, causal, makespan):
    rows = plan("--tiles", n, "--heads", heads, "-l", sync, "--schedule", name, *(["--causal"] * causal))
    assert rows[name]["makespan"] == makespan


@pytest.mark.parametrize(
    ("arguments", "name", "work", "orders"),
    [
        (("--tiles", 8, "--sms", 4), "symmetric_shift", golden.SYMMETRIC_8, golden.SYMMETRIC_8_ORDER),
        (
            ("--tiles", 4, "--sigma", 2, "--sms", 2),
            "symmetric_shift",
            golden.SYMMETRIC_4_SIGMA_2,
            golden.SYMMETRIC_4_SIGMA_2_ORDER,
        ),
    ],
)
def test_plan_gives_the_golden_order_tables(arguments, name, work, orders):
    row = plan(*arguments, "--heads", 1, "--causal", "--schedule", name, "--table")[name]
    assert tuple(tuple((kv, q) for _, kv, q in tasks) for tasks in row["exec"]) == work
    by_tile = sorted(row["order"], key=lambda entry: entry["q"])
    assert tuple(tuple(entry["kv"]) for entry in by_tile) == orders


def test_plan_prints_a_table_with_reasons_for_refusals():
    result = CliRunner(env={"COLUMNS": "250"}).invoke(app, ["plan", "--seqlen", "2048", "--heads", "16"])
    assert result.exit_code == 0
    assert "causal mask with equal lengths" in result.output


def test_gantt_writes_a_picture(tmp_path):
    out = tmp_path / "schedule.svg"
    result = run("gantt", "--tiles", 4, "--causal", "--out", out)
    assert result.exit_code == 0, result.output
    assert b"<svg" in out.read_bytes()


def test_verify_counts_schedules_and_finds_none_invalid():
    result = run("verify", "--max-tiles", 1, "--max-heads", 1, "--workers", 1, "--json")
    assert result.exit_code == 0, result.output
    counts = json.loads(result.stdout)
    assert counts["invalid"] == []
    assert counts["valid"] > 100


def test_determinism_tells_schedules_from_the_atomic_mode():
    result = run("determinism", "--runs", 4, "--seqlen", 256, "--causal", "--device", "cpu", "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert {row["schedule"] for row in rows} >= {"shift", "symmetric_shift", "atomic mode"}
    assert all(row["bit_equal"] for row in rows if row["schedule"] != "atomic mode")


def test_calibrate_measures_costs():
    result = run("calibrate", "--seqlen", 256, "--heads", 2, "--repeats", 1, "--device", "cpu", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["compute"] > 0


def test_bench_gives_ratios():
    result = run("bench", "--seqlen", 128, "--heads", 1, "--repeats", 1, "--device", "cpu", "--json")
    assert result.exit_code == 0, result.output
    assert {row["peer"] for row in json.loads(result.stdout)} == {"atomic mode", "torch SDPA backward"}


def test_claims_are_listed_and_measured(tmp_path):
    listed = run("claims", "--list")
    assert listed.exit_code == 0
    assert "shift-is-optimal" in listed.output
    measured = run("claims", "latency", "cost-of-determinism", "--device", "cpu", "--out", tmp_path, "--json")
    assert measured.exit_code == 0, measured.output
    statuses = {row["name"]: row["status"] for row in json.loads(measured.stdout)}
    assert statuses == {"latency": "holds", "cost-of-determinism": "not run"}
    assert {path.name for path in tmp_path.iterdir()} == {"dash.html", "dash-latency.png", "dash-latency.svg"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", "--tiles", "8", "--seqlen", "64"), "give one of them"),
        (("plan", "--schedule", "fastest"), "no schedule 'fastest'; there are ascending"),
        (("plan", "--order", "any"), "--order must be canonical or wave; got 'any'"),
        (("plan", "--compute", "-1"), "compute must be a finite number of at least 0; got -1.0"),
        (("plan", "--tiles", "0"), "Invalid value for '--tiles'"),
        (("plan", "--tiles", "many"), "Invalid value for '--tiles'"),
        (("gantt", "--out", "nowhere/at/all.png"), "there is no folder nowhere/at"),
        (("gantt", "--out", "picture.pdf"), "as .png or .svg; got 'picture.pdf'"),
        (("gantt", "--schedule", "symmetric_shift", "--out", "x.png"), "causal mask with equal lengths"),
        (("determinism", "--head-dim", "48"), "head_dim must be one of"),
        (("determinism", "--dtype", "int8"), "--dtype must be one of float16"),
        (("determinism", "--device", "tpu"), "--device must be auto, cpu, cuda or cuda:N; got 'tpu'"),
        (("determinism", "--heads-kv", "3"), "heads of q must be a multiple of those of k; got 4 and 3"),
        (("claims", "no-such-claim"), "dash has no claim named no-such-claim; it has ascending-full"),
        (("nonsense",), "No such command 'nonsense'"),
    ],
)
def test_wrong_arguments_end_with_status_2_and_say_what_is_wrong(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


@pytest.mark.slow
def test_an_interruption_leaves_nothing_running():
    command = [sys.executable, "-m", "octavo_dash.cli", "verify", "--workers", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert "problems" in process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    deadline = time.monotonic() + 30
    while running(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)  # workers notice that their parent is gone
    assert running(process.pid) == []


def running(group):
    """Processes of a group that have not ended, from the kernel's table."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, process_group = path.read_text().rpartition(")")[2].split()[:3]
            if int(process_group) == group and state != "Z":
                found.append(path.parent.name)
    return found
