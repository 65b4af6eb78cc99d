"""Claims are measured, and could come out otherwise."""

import pytest

from octavo_dash import claims
from octavo_dash.claims import PAPER
from octavo_shared.claims import Scale, Setting, Status, measure

EXACT = [claim for claim in PAPER.claims if claim.scale is Scale.EXACT]


@pytest.mark.parametrize("claim", EXACT, ids=lambda claim: claim.name)
def test_exact_claims_hold(claim):
    outcome = measure(claim, Setting(seeds=(0,)))
    assert outcome.status is Status.HOLDS, outcome.finding
    assert outcome.finding.value


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name",
    ["deterministic-deviation", "atomic-deviation-full", "atomic-deviation-causal", "schedules-agree", "numerics"],
)
def test_desk_claims_hold(name):
    [claim] = PAPER.select([name])
    assert measure(claim, Setting()).status is Status.HOLDS


def test_a_wrong_formula_would_be_found(monkeypatch):
    right = claims.closed_form
    monkeypatch.setattr(claims, "closed_form", lambda *a: None if right(*a) is None else right(*a) + 1)
    [claim] = PAPER.select(["shift-is-optimal"])
    assert measure(claim, Setting(seeds=(0,))).status is Status.FAILS


def test_gpu_claims_are_not_run_on_a_cpu():
    gpu = PAPER.select(scales=[Scale.GPU])
    assert len(gpu) == 4
    assert {measure(claim, Setting(device="cpu")).status for claim in gpu} == {Status.NOT_RUN}
