"""`octavo test` on real packages: what passes, fails, hangs, is empty, is broken."""

import re
import xml.etree.ElementTree as ElementTree

from conftest import assert_lines

GREEN = "import pytest\n\ndef test_a():\n    pass\n\ndef test_b():\n    pytest.skip('not today')\n"
RED = "def test_a():\n    pass\n\ndef test_b():\n    left = 'apples'\n    assert left == 'pears'\n"
HANGS = "import time\n\ndef test_a():\n    time.sleep(600)\n"
MARKED = "import pytest\n\n@pytest.mark.slow\ndef test_a():\n    pass\n"


def last_line(done):
    return done.stdout.splitlines()[-1]


def test_all_pass(place):
    place.package("one", GREEN)
    place.package("two", GREEN)
    done = place.octavo("test")
    assert done.returncode == 0, done.stdout
    assert re.fullmatch(r"=+ 2 passed, 2 skipped in \d+\.\d\ds =+", last_line(done))
    assert sorted(path.name for path in (place.root / "test-results").iterdir()) == ["junit.xml"]
    suites = ElementTree.parse(place.root / "test-results" / "junit.xml").getroot().findall("testsuite")
    assert sorted(suite.get("name") for suite in suites) == ["one", "two"]


def test_works_from_inside_a_package(place):
    folder = place.package("one", GREEN)
    assert place.octavo("test", cwd=folder / "tests").returncode == 0


def test_failing_package(place):
    place.package("good", GREEN)
    place.package("bad", RED)
    done = place.octavo("test")
    assert done.returncode == 1
    assert_lines(done.stdout, good="passed", bad="failed")
    assert re.fullmatch(r"=+ 1 failed, 2 passed, 1 skipped in \d+\.\d\ds =+", last_line(done))
    assert "assert 'apples' == 'pears'" in done.stdout
    assert "assert 'apples' == 'pears'" in (place.root / "test-results" / "bad.log").read_text()
    root = ElementTree.parse(place.root / "test-results" / "junit.xml").getroot()
    assert (root.get("tests"), root.get("failures")) == ("4", "1")


def test_hanging_package_is_named_and_the_others_finish(place):
    place.package("good", GREEN)
    place.package("hangs", HANGS)
    done = place.octavo("test", "--timeout", "3")
    assert done.returncode == 1
    assert_lines(done.stdout, good="passed", hangs="timed out after 3 s")
    assert "time.sleep(600)" not in done.stdout
    assert 'test_hangs.py", line 4 in test_a' in done.stdout, "the log must show where it hung"
    assert " 1 passed, 1 skipped, 1 error in " in last_line(done)
    root = ElementTree.parse(place.root / "test-results" / "junit.xml").getroot()
    assert root.get("errors") == "1"


def test_no_test_collected_fails(place):
    place.package("good", GREEN)
    place.package("empty")
    done = place.octavo("test")
    assert done.returncode == 1
    assert_lines(done.stdout, empty="no tests were collected")


def test_marks(place):
    place.package("quick", GREEN)
    place.package("slow", MARKED)
    assert_lines(place.octavo("test").stdout, slow="no tests were collected")
    done = place.octavo("test", "-m", "slow")
    assert done.returncode == 0, done.stdout
    assert_lines(done.stdout, quick="2 deselected", slow="1 passed")
    assert "2 passed" in last_line(place.octavo("test", "-m", ""))


def test_broken_pyproject_is_named_and_the_others_are_tested(place):
    place.package("good", GREEN)
    place.write("packages/broken/pyproject.toml", "[project\n")
    done = place.octavo("test")
    assert done.returncode == 1
    assert_lines(done.stdout, good="passed", broken="broken/pyproject.toml cannot be read: Expected ']'")
    assert place.octavo("test", "good").returncode == 0


def test_folder_without_pyproject(place):
    (place.root / "packages" / "left-over").mkdir()
    done = place.octavo("test")
    assert done.returncode == 1
    assert "left-over/pyproject.toml does not exist" in done.stdout


def test_unknown_slug(place):
    place.package("one", GREEN)
    done = place.octavo("test", "uno")
    assert done.returncode == 2
    assert "'uno'" in done.stdout
    assert "it has one" in done.stdout


def test_wrong_values(place):
    place.package("one", GREEN)
    assert place.octavo("test", "--workers", "0").returncode == 2
    assert place.octavo("test", "--timeout", "soon").returncode == 2
    done = place.octavo("test", "--changed", "no-such-commit")
    assert done.returncode == 2, done.stdout


def test_crashing_process_counts_as_an_error(place):
    place.package("crash", "import os\n\ndef test_a():\n    os.kill(os.getpid(), 9)\n")
    done = place.octavo("test")
    assert done.returncode == 1
    assert_lines(done.stdout, crash="killed by signal 9")
    assert " 1 error in " in last_line(done)
