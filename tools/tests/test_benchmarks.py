"""`octavo bench` on real benchmark files: the ratio, the history, the change since the last run."""

import json

import pytest

from octavo_tools.history import Run, append, change, last_run

BENCH = """
import time
from octavo_shared.timing import compare


def comparisons(device):
    for count in (20_000, 200_000):
        quick, thorough = lambda: sum(range(count)), lambda: [sum(range(count)) for _ in range(20)]
        yield compare(f"{count} terms", ("once", quick), ("twenty times", thorough), repeats=3)
"""


def history(folder):
    return [json.loads(line) for line in (folder / "benchmarks/results/bench_sum-cpu.jsonl").read_text().splitlines()]


@pytest.fixture
def bench(place):
    folder = place.package("one")
    place.write("packages/one/benchmarks/bench_sum.py", BENCH)
    return folder


def test_ratio_history_and_change(place, bench):
    first = place.octavo("bench")
    assert first.returncode == 0, first.stdout
    (run,) = history(bench)
    assert [c["case"] for c in run["comparisons"]] == ["20000 terms", "200000 terms"]
    for comparison in run["comparisons"]:
        assert 5 < comparison["speedup"] < 80
        assert len(comparison["ours_seconds"]) == len(comparison["peer_seconds"]) == 3
    assert run["machine"].endswith("cores")
    assert "one/bench_sum: 20000 terms: once" in first.stdout

    second = place.octavo("bench", "one")
    assert second.returncode == 0
    assert len(history(bench)) == 2
    assert "%" in second.stdout
    assert "%" not in first.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BENCH + "    raise RuntimeError('out of breath')\n", "out of breath"),
        ("value = 1\n", "defines no function comparisons(device)"),
        ("def comparisons(device):\n    return iter(())\n", "yielded no comparison"),
    ],
    ids=["raises", "no-function", "empty"],
)
def test_benchmark_that_breaks_down_is_named_and_not_recorded(place, bench, text, message):
    place.write("packages/one/benchmarks/bench_sum.py", text)
    place.package("two")
    place.write("packages/two/benchmarks/bench_sum.py", BENCH)
    done = place.octavo("bench")
    assert done.returncode == 1
    assert message in done.stdout
    assert not (bench / "benchmarks" / "results").exists()
    assert len(history(place.root / "packages" / "two")) == 1


def test_benchmark_for_another_device_is_left_out(place, bench):
    place.write("packages/one/benchmarks/bench_gpu.py", 'DEVICES = ("cuda",)\nraise RuntimeError("not here")\n')
    done = place.octavo("bench")
    assert done.returncode == 0, done.stdout
    assert "bench_gpu" not in done.stdout


def test_hanging_benchmark(place, bench):
    place.write("packages/one/benchmarks/bench_sum.py", "import time\ntime.sleep(600)\n")
    done = place.octavo("bench", "--timeout", "2")
    assert done.returncode == 1
    assert "one/bench_sum: timed out after 2 s" in done.stdout


def test_unknown_device(place, bench):
    done = place.octavo("bench", "--device", "abacus")
    assert done.returncode == 2
    assert "'abacus'" in done.stdout


def test_only_the_same_machine_and_case_are_compared(tmp_path):
    file = tmp_path / "results" / "bench_x-cpu.jsonl"
    record = {"case": "a", "ours": "o", "peer": "p", "speedup": 2.0}
    append(file, Run("2026-01-01", "abc", "here", [record]))
    append(file, Run("2026-01-02", "abd", "there", [record | {"speedup": 9.0}]))
    before = last_run(file, "here")
    assert before == Run("2026-01-01", "abc", "here", [record])
    assert change(before, record | {"speedup": 3.0}) == pytest.approx(0.5)
    assert change(before, record | {"case": "b"}) is None
    assert change(last_run(file, "elsewhere"), record) is None
