"""`octavo gpu`, on a machine that may have a GPU or not: what is marked is collected, and nothing exceeds its time."""

import re
import subprocess
import sys
import time

import pytest
from rich.console import Console

from octavo_tools.gpu import Row, gpu_name, run_pieces

SKIPS = """
import pytest


@pytest.mark.gpu
def test_device():
    pytest.skip("a test that always skips")
"""
NEEDS_MORE = "import a_module_that_no_machine_has\n\ndef test_a():\n    pass\n"
HANGS = "import time\nimport pytest\n\n@pytest.mark.gpu\ndef test_device():\n    time.sleep(600)\n"


def test_marked_tests_are_collected_and_the_others_not_even_imported(place):
    folder = place.package("marked", SKIPS)
    (folder / "tests" / "test_other.py").write_text(NEEDS_MORE)
    file = folder / "pyproject.toml"
    file.write_text(file.read_text() + 'addopts = ["--an-option-of-a-plugin-that-is-not-here"]\n')
    place.package("unmarked", NEEDS_MORE)
    done = place.octavo("gpu", "--out", "results")
    assert done.returncode == 0, done.stdout
    assert "marked tests: 1 skipped" in done.stdout
    table = (place.root / "results" / "gpu.md").read_text()
    assert re.search(r"^\| marked tests \| 1 skipped \| \d+\.\d \|$", table, flags=re.MULTILINE)
    if not gpu_name(place.env):
        assert "no CUDA device here" in done.stdout
        assert "no CUDA device here" in table


@pytest.mark.slow
def test_hanging_piece_is_named_and_the_next_runs(place):
    place.package("hangs", HANGS)
    place.package("marked", SKIPS)
    # The first may take more than its equal share, here all of it, and then there is none for the second.
    start = time.monotonic()
    done = place.octavo("gpu", "--minutes", "0.1")
    assert done.returncode == 1
    assert time.monotonic() - start < 40
    assert "hangs tests: timed out after" in done.stdout
    assert "marked tests: not run: no time left" in done.stdout


def test_what_one_piece_leaves_is_there_for_the_next():
    given = []

    def piece(seconds):
        given.append(seconds)
        return [Row("piece", "done", 0.0, False)]

    rows = run_pieces({"a": piece, "b": piece, "c": piece, "d": piece}, time.monotonic() + 1000, Console(quiet=True))
    assert [row.outcome for row in rows] == ["done"] * 4
    assert [round(seconds) for seconds in given] == [750, 1000, 1000, 1000]


def test_no_time_left():
    rows = run_pieces({"a": lambda seconds: [Row("a", "done", 0.0, False)]}, time.monotonic(), Console(quiet=True))
    assert rows == [Row("a", "not run: no time left", 0.0, True)]


def test_runs_where_little_is_installed():
    """The GPU machine has typer, rich and pytest; nothing else that the runner uses may be imported on the way."""
    absent = ["junitparser", "psutil", "jinja2", "deptry", "matplotlib", "jaxtyping", "sklearn"]
    program = (
        f"import sys\nfor name in {absent}: sys.modules[name] = None\n"
        "import octavo_tools.cli, octavo_tools.gpu, octavo_tools.benchmark_process\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
