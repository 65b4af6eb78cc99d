"""`octavo list`, `octavo claims` and `octavo demo` over real packages: some whole, some not."""

import json

import pytest

CLAIMS = """
from octavo_shared.claims import Claim, Finding, Paper, Scale


def check(setting):
    return Finding("", f"{sum(setting.seeds)}", sum(setting.seeds) < LIMIT)


def demo(setting):
    yield Finding("the sum of the seeds", f"{sum(setting.seeds)}", LIMIT > 0)


def claim(name, scale):
    return Claim(name, f"The {name} sum stays small.", "Table 1", "2", "<", scale, 0.1, check)


LIMIT = 10
PAPER = Paper(
    "SLUG", "On the paper SLUG", "https://example.org/SLUG", "small sums", "numpy",
    (claim("first", Scale.EXACT), claim("second", Scale.DESK), claim("third", Scale.GPU)), demo,
)
"""

CPU = ("--device", "cpu")
"""Looking for a GPU would import torch, which takes two seconds each time."""


def claims_of(slug, **changes):
    text = CLAIMS.replace("SLUG", slug)
    for old, new in changes.items():
        text = text.replace(f"{old} = 10", f"{old} = {new}")
    return text


def words(text):
    """The words on the screen, whatever the width of the table: cells are wrapped."""
    return " ".join(text.replace("│", " ").replace("┃", " ").split())


@pytest.fixture
def three(place):
    place.package("good", claims=claims_of("good"))
    place.package("torn", claims="import a_module_that_no_machine_has\n")
    place.package("absent")
    return place


def test_list_shows_what_loads_and_names_what_does_not(three):
    done = three.octavo("list")
    assert done.returncode == 1
    assert "On the paper good" in words(done.stdout)
    assert "3 not measured" in words(done.stdout)
    assert "torn cannot be loaded: ModuleNotFoundError: No module named 'a_module_that_no_machine_has'" in done.stdout
    assert "absent is not installed" in done.stdout


def test_list_keeps_the_state_of_the_claims(place):
    place.package("good", claims=claims_of("good"))
    assert place.octavo("claims", *CPU, "--scale", "exact").returncode == 0
    assert "1 holds, 2 not measured" in words(place.octavo("list").stdout)
    # The sum of seeds 7, 8, 9 is above the limit.
    assert place.octavo("claims", *CPU, "--scale", "desk", "--seed", "7").returncode == 1
    assert "1 holds, 1 does not hold, 1 not measured" in words(place.octavo("list").stdout)
    place.octavo("claims", *CPU)
    done = place.octavo("list")
    assert done.returncode == 0
    assert "2 hold, 1 not run" in words(done.stdout)


def test_damaged_record_is_measured_anew(place):
    place.package("good", claims=claims_of("good"))
    place.write(".octavo/claims.json", "{")
    assert "3 not measured" in words(place.octavo("list").stdout)


def test_claims_of_all_that_load(three):
    done = three.octavo("claims", *CPU, "--json")
    assert done.returncode == 1
    text = done.stdout
    found = json.loads(text[text.index("{") : text.rindex("}") + 1])
    assert [(row["name"], row["status"]) for row in found["claims"]] == [
        ("first", "holds"),
        ("second", "holds"),
        ("third", "not run"),
    ]
    assert set(found["not_loaded"]) == {"torn", "absent"}
    assert three.octavo("claims", *CPU, "good").returncode == 0


def test_claims_report_and_failure(place):
    place.package("high", claims=claims_of("high", LIMIT="1"))
    done = place.octavo("claims", *CPU, "--report", "page")
    assert done.returncode == 1
    assert "does not hold" in words(done.stdout)
    page = (place.root / "page" / "index.html").read_text()
    assert "On the paper high" in page
    assert "does not hold" in page


def test_demo_writes_the_report_and_says_where(three):
    done = three.octavo("demo", *CPU, "good")
    assert done.returncode == 0, done.stdout
    path = three.root / "octavo-report" / "index.html"
    assert done.stdout.splitlines()[-1] == f"report: {path}"
    assert "the sum of the seeds" in path.read_text()
    assert three.octavo("demo", *CPU, "--out", "elsewhere").returncode == 1
    assert (three.root / "elsewhere" / "index.html").is_file()


def test_demo_that_breaks_down_or_comes_out_wrong(place):
    place.package("low", claims=claims_of("low", LIMIT="0"))
    place.package("breaks", claims=claims_of("breaks").replace("yield", "raise OSError('no disc')\n    yield"))
    done = place.octavo("demo", *CPU)
    assert done.returncode == 1
    assert "breaks broke down in its demonstration: OSError: no disc" in done.stdout
    assert "On the paper low" in (place.root / "octavo-report" / "index.html").read_text()
    assert place.octavo("demo", *CPU, "low").returncode == 1


@pytest.mark.parametrize(
    "arguments",
    [("demo", "nobody"), ("claims", "nobody"), ("claims", "--scale", "huge"), ("demo", "--device", "abacus")],
    ids=" ".join,
)
def test_usage_errors(three, arguments):
    assert three.octavo(*arguments).returncode == 2
