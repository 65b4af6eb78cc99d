import pytest

from octavo_shared.timing import Comparison, compare

SHORT, LONG = 20_000, 400_000


def count_to(limit):
    return lambda: sum(range(limit))


def test_the_faster_of_two_is_faster():
    result = compare("sums", ("short", count_to(SHORT)), ("long", count_to(LONG)))
    assert result.speedup > 2
    assert compare("sums", ("long", count_to(LONG)), ("short", count_to(SHORT))).speedup < 0.5
    assert (result.case, result.ours, result.peer) == ("sums", "short", "long")
    assert len(result.ours_seconds) == len(result.peer_seconds) == 7


def test_the_two_take_turns_and_warm_up_first():
    calls = []
    result = compare("turns", ("a", lambda: calls.append("a")), ("b", lambda: calls.append("b")), repeats=3, warmup=2)
    assert calls == ["a", "b"] * 5
    assert len(result.ours_seconds) == 3


def test_the_device_is_waited_for_on_both_sides_of_each_run():
    events = []
    compare(
        "waiting",
        ("a", lambda: events.append("a")),
        ("b", lambda: events.append("b")),
        repeats=1,
        warmup=0,
        synchronize=lambda: events.append("wait"),
    )
    assert events == ["wait", "a", "wait", "wait", "b", "wait"]


def test_speedup_is_the_median_over_pairs():
    assert Comparison("case", "ours", "peer", (1.0, 1.0, 2.0), (3.0, 100.0, 2.0)).speedup == 3.0


@pytest.mark.parametrize("repeats", [0, -1])
def test_at_least_one_pair(repeats):
    with pytest.raises(ValueError, match=f"repeats must be at least 1, not {repeats}"):
        compare("case", ("a", count_to(1)), ("b", count_to(1)), repeats=repeats)
