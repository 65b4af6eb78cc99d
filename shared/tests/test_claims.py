import pytest
from samples import breaks, claim, fails, holds, paper_of, undecided

from octavo_shared.claims import Scale, Setting, Status, measure


@pytest.mark.parametrize(
    ("check", "status"),
    [(holds, Status.HOLDS), (fails, Status.FAILS), (breaks, Status.ERROR), (undecided, Status.ERROR)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_measure(check, status):
    assert measure(claim("one", check), Setting()).status is status


def test_error_keeps_what_happened_and_where():
    note = measure(claim("one", breaks), Setting()).finding.note
    assert note.startswith("OSError: <disc> & all\n")
    assert "in breaks" in note


def test_check_without_a_verdict_is_an_error_that_names_the_claim():
    outcome = measure(claim("one", undecided), Setting())
    assert "'one' returned a finding without a verdict" in outcome.finding.note


def test_gpu_claim_needs_a_cuda_device():
    far = claim("far", holds, Scale.GPU)
    assert measure(far, Setting("cpu")).status is Status.NOT_RUN
    assert measure(far, Setting("cuda:1")).status is Status.HOLDS


def test_interruption_of_a_check_is_no_error_of_the_claim():
    def interrupted(setting):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(claim("one", interrupted), Setting())


def test_select(paper):
    assert [c.name for c in paper.select(scales=[Scale.DESK])] == ["bad", "broken"]
    assert [c.name for c in paper.select(["far", "good"])] == ["good", "far"]
    assert paper.select() == paper.claims
    with pytest.raises(ValueError, match="sample has no claim named nobody; it has good, bad, far, broken"):
        paper.select(["good", "nobody"])


def test_claims_of_a_paper_have_distinct_names():
    with pytest.raises(ValueError, match="'sample' must have distinct names; repeated: one"):
        paper_of(claim("one", holds), claim("two", holds), claim("one", fails))
