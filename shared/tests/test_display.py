import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console
from samples import claim, demo, fails, holds, paper_of

from octavo_shared.claims import Finding, Scale, Setting, Status
from octavo_shared.display import Interrupted, run_claims, run_demo, summary


def console(**changes):
    return Console(file=StringIO(), width=80, **changes)


def shown(screen):
    """What was written, without colours and without moves of the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.file.getvalue())


def joined(text):
    """What a column of folded cells says, however it was folded."""
    return "".join(text.split())


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "file"])
def test_demo_shows_each_finding(paper, terminal):
    screen = console(force_terminal=terminal)
    findings = run_demo(paper, Setting(), screen)
    assert findings[0].value == "1 & 2"
    assert [finding.holds for finding in findings] == [True, None]
    for word in ("On sample", "a first <thing>", "1 & 2", "[red]not markup[/red]", "✓", "nothing to judge"):
        assert word in shown(screen)


def test_finding_that_is_not_as_it_should_be_is_marked():
    screen = console()
    run_demo(paper_of(demo=lambda setting: iter([Finding("what", "value", False)])), Setting(), screen)
    assert "✗ what: value" in shown(screen)


def test_plain_lines_come_as_the_findings_do():
    screen = console()

    def watched(setting):
        yield Finding("first", "1")
        assert "first: 1" in shown(screen)
        yield Finding("second", "2")

    assert len(run_demo(paper_of(demo=watched), Setting(), screen)) == 2


def test_interrupted_demo_carries_its_findings():
    def interrupted(setting):
        yield from demo(setting)
        raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        run_demo(paper_of(demo=interrupted), Setting(), console())
    assert [finding.what for finding in caught.value.results] == ["a first <thing>", "a second"]


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "file"])
def test_claims_are_shown_whole_on_eighty_columns(paper, terminal):
    long = claim(
        "a-name-that-is-longer-than-its-column-is-wide",
        fails,
        statement="A statement of many words, " * 8 + "which ends here.",
        source="Appendix C.4, Proposition 17",
        relation="same order over seeds",
    )
    screen = console(force_terminal=terminal)
    run_claims([(paper_of(long), [long])], Setting(), screen)
    lines = shown(screen).splitlines()
    table = [line for line in lines if len(line) == 80]
    assert "…" not in shown(screen)
    first_column = joined(" ".join(line[1:24] for line in table))
    assert joined(long.name) in first_column
    assert joined(long.statement) in first_column


def test_outcomes_come_back_by_paper_in_order(paper):
    other = paper_of(claim("one", holds), slug="other")
    screen = console()
    [(first, outcomes), (second, more), (third, none)] = run_claims(
        [(paper, paper.claims), (other, other.claims), (other, ())], Setting(), screen
    )
    assert (first, second, third) == (paper, other, other)
    assert [outcome.status for outcome in outcomes] == [Status.HOLDS, Status.FAILS, Status.NOT_RUN, Status.ERROR]
    assert [outcome.claim.name for outcome in more] == ["one"]
    assert none == []
    assert "sample: 1 holds, 1 does not hold, 1 not run, 1 error" in shown(screen)
    assert "broken: OSError: <disc> & all" in shown(screen)
    assert "Traceback (most recent call last)" in shown(screen)


def test_interruption_keeps_what_was_measured_and_says_what_was_not():
    def interrupted(setting):
        raise KeyboardInterrupt

    first = paper_of(claim("one", holds), claim("two", interrupted), slug="first")
    second = paper_of(claim("three", holds), slug="second")
    screen = console()
    with pytest.raises(Interrupted) as caught:
        run_claims([(first, first.claims), (second, second.claims)], Setting(), screen)
    [(_, outcomes), (_, others)] = caught.value.results
    assert [outcome.status for outcome in outcomes + others] == [Status.HOLDS, Status.NOT_RUN, Status.NOT_RUN]
    assert others[0].finding.note == "interrupted before it was measured"
    assert "first: 1 holds, 1 not run" in shown(screen)


def test_time_left_counts_what_will_be_measured_here():
    far = replace(claim("far", holds, Scale.GPU), seconds=3600.0)
    first, last = (replace(claim(name, holds), seconds=90.0) for name in ("first", "last"))
    paper = paper_of(first, far, last)
    screen = console(force_terminal=True)
    run_claims([(paper, paper.claims)], Setting(), screen)
    left = [60 * int(minutes) + int(rest) for minutes, rest in re.findall(r"(\d+):(\d\d) left", shown(screen))]
    # Three minutes to begin with. The first claim took much less than it said, so the last should as well.
    assert 170 < max(left) <= 180
    assert left[-1] == 0


def test_summary_counts_in_words(paper):
    [(_, outcomes)] = run_claims([(paper, paper.claims)], Setting(), console())
    assert summary(outcomes[:1] * 2 + outcomes[1:2] * 2 + outcomes[3:] * 2) == "2 hold, 2 do not hold, 2 errors"
    assert summary([]) == "no claims"
