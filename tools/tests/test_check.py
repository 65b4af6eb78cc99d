"""Each rule of the contract: a whole package keeps it, and each departure is found and said."""

import pytest

from octavo_tools.check.contract import MEMBER_RULES, PACKAGE_RULES
from octavo_tools.new import About, write_package
from octavo_tools.workspace import read_workspace

ABOUT = About("scratch", "A title", "https://example.org/paper", "Sums", "numpy")


@pytest.fixture
def package(place):
    """A new package, as `octavo new` writes it."""
    folder = write_package(read_workspace(place.root), ABOUT)
    place.publish("scratch", "octavo_scratch.claims:PAPER")
    return folder


def breaches(place):
    member = read_workspace(place.root).members["scratch"]
    return [breach for rule in MEMBER_RULES + PACKAGE_RULES for breach in rule(member)]


def replace(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_new_package_keeps_all_rules(place, package):
    assert breaches(place) == []
    done = place.octavo("check")
    assert done.returncode == 0, done.stdout
    assert "breaches: 0, in 1 of the" in done.stdout


METADATA = [
    ('name = "octavo-scratch"', 'name = "octavo-scatch"', "project.name is 'octavo-scatch'"),
    ('license = "Apache-2.0"', 'license = "MIT"', "project.license is 'MIT'"),
    ('requires-python = ">=3.11"', "", "project.requires-python is None"),
    ('readme = "README.md"', "", "project.readme is None"),
    ('description = "Sums"', "", "there is no description"),
    ("test = [", "tests = [", "there is no extra 'test'"),
    (', "gpu: needs a CUDA device"', "", "does not know the marker 'gpu'"),
    ('"slow: more than a few seconds", ', "", "does not know the marker 'slow'"),
    ('octavo-scratch = "octavo_scratch.cli:app"', "", "there is no command octavo-scratch"),
    ('scratch = "octavo_scratch.claims:PAPER"', 'scratch = "octavo_scratch.claims"', "the entry points octavo.papers"),
    ('Paper = "https://example.org/paper"', "", "the paper's address is missing"),
    ("--jaxtyping-packages", "--other", "the tests do not enforce the array annotations"),
    ("numpy>=1.26", "numpy==1.26", "'numpy==1.26' in dependencies is a pin"),
    ("numpy>=1.26", "numpy", "'numpy' in dependencies has no lower bound"),
    ("pytest>=8", "pytest @ https://example.org/x.whl", "in test is a pin"),
    ("numpy>=1.26", "numpy>>1", "is no requirement"),
]


@pytest.mark.parametrize(("old", "new", "problem"), METADATA, ids=[case[2][:40] for case in METADATA])
def test_metadata(place, package, old, new, problem):
    replace(package / "pyproject.toml", old, new)
    found = breaches(place)
    assert [breach for breach in found if problem in breach.problem and breach.remedy], found


@pytest.mark.parametrize(
    "name",
    [
        "src/octavo_scratch/py.typed",
        "src/octavo_scratch/cli.py",
        "src/octavo_scratch/claims.py",
        "tests/test_cli.py",
        "tests/test_readme.py",
        "README.md",
    ],
)
def test_missing_file(place, package, name):
    (package / name).unlink()
    assert [breach.problem for breach in breaches(place)] == [f"{name} is missing"]


def test_benchmarks(place, package):
    replace(package / "benchmarks" / "bench_summation.py", "def comparisons", "def compare_them")
    assert [b.problem for b in breaches(place)] == ["benchmarks/bench_summation.py defines no function comparisons"]
    (package / "benchmarks" / "bench_summation.py").unlink()
    assert [b.problem for b in breaches(place)] == ["benchmarks/ holds no bench_*.py"]


@pytest.mark.parametrize(
    "section", ["Install", "Quickstart", "Method", "Claims", "API", "Command line", "Limits and d"]
)
def test_readme_sections(place, package, section):
    replace(package / "README.md", f"## {section}", f"## Not {section}")
    assert f"README.md has no section '{section}" in "".join(breach.problem for breach in breaches(place))


def test_quickstart_without_python(place, package):
    replace(package / "README.md", "```python", "```text")
    assert [breach.problem for breach in breaches(place)] == ["the quickstart shows no Python"]


INIT = [
    ('"""Sums."""\n\nVERSION = 1', '"""Sums."""', "neither an import nor __all__"),
    ('"""Sums."""\n\n\ndef helper():\n    pass\n\n', '"""Sums."""', "neither an import nor __all__"),
    ('EVERYTHING = ["compensated_sum"]', '__all__ = ["compensated_sum"]', "has no __all__"),
]


@pytest.mark.parametrize(("new", "old", "problem"), INIT, ids=["constant", "function", "no-all"])
def test_public_api(place, package, new, old, problem):
    replace(package / "src/octavo_scratch/__init__.py", old, new)
    assert any(problem in breach.problem for breach in breaches(place))


@pytest.mark.parametrize(
    "line",
    [
        "import octavo_other",
        "from octavo_other.claims import PAPER",
        "import octavo_tools",
        "def later():\n    from octavo_other import thing",
        "import importlib\nimportlib.import_module('octavo_other.thing')",
    ],
)
@pytest.mark.parametrize("file", ["src/octavo_scratch/summation.py", "tests/test_cli.py"])
def test_isolation(place, package, line, file):
    path = package / file
    path.write_text(path.read_text() + f"\n{line}\n")
    (breach,) = breaches(place)
    assert breach.rule == "isolation"
    assert f"{file}:" in breach.problem
    assert "imports octavo_" in breach.problem


@pytest.mark.parametrize(
    ("slug", "line", "expected"),
    [
        ("shared", "import octavo_scratch", 1),
        ("shared", "import octavo_tools", 1),
        ("tools", "import octavo_scratch", 1),
        ("tools", "import octavo_shared", 0),
    ],
)
def test_isolation_of_shared_and_tools(place, slug, line, expected):
    place.write(f"{slug}/pyproject.toml", f'[project]\nname = "octavo-{slug}"\n')
    place.write(f"{slug}/src/octavo_{slug}/x.py", line + "\n")
    member = read_workspace(place.root).members[slug]
    found = [breach for rule in MEMBER_RULES for breach in rule(member) if breach.rule == "isolation"]
    assert len(found) == expected


def test_invalid_python(place, package):
    (package / "tests" / "test_cli.py").write_text("def (\n")
    assert [breach.problem for breach in breaches(place)] == ["tests/test_cli.py is not valid Python"]


def test_what_only_running_finds(place, package):
    """Dependencies, the entry point and the quickstart, each wrong in its way, in one run of the command."""
    replace(package / "pyproject.toml", '"rich>=13"', '"rich>=13", "psutil>=6"')
    replace(
        package / "src/octavo_scratch/summation.py", "import numpy as np\n", "import junitparser\nimport numpy as np\n"
    )
    replace(package / "benchmarks/bench_summation.py", "import math\n", "import math\nimport jinja2\n")
    replace(package / "src/octavo_scratch/claims.py", 'slug="scratch"', 'slug="scrunch"')
    replace(package / "README.md", "== 2.0", "== 3.0")
    done = place.octavo("check", "scratch")
    assert done.returncode == 1
    for problem in (
        "'psutil' defined as a dependency but not used",
        "'junitparser' imported but",
        "benchmarks/bench_summation.py:4: 'jinja2' imported but",
        "has the slug 'scrunch' where 'scratch' is expected",
        "the README's Python does not run",
        "→ ",
    ):
        assert problem in done.stdout, done.stdout


def test_entry_point_that_raises_or_is_missing(place, package):
    replace(package / "src/octavo_scratch/claims.py", "PAPER = Paper(", "raise OSError('no disc')\nPAPER = Paper(")
    done = place.octavo("check")
    assert done.returncode == 1
    assert "[entry-point] OSError: no disc" in done.stdout
    (place.root / "site/octavo_scratch-1.dist-info/entry_points.txt").unlink()
    assert "[entry-point] no paper is installed under 'scratch'" in place.octavo("check").stdout


def test_broken_pyproject_and_the_others(place, package):
    place.write("packages/broken/pyproject.toml", "[project\n")
    done = place.octavo("check")
    assert done.returncode == 1
    assert "broken [metadata] broken/pyproject.toml cannot be read" in done.stdout
    assert "breaches: 1, in 2 of the" in done.stdout


def test_unknown_package(place, package):
    done = place.octavo("check", "scrtch")
    assert done.returncode == 2
    assert "it has scratch" in done.stdout
