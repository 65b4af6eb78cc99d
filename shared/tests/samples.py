"""Claims that come out in each of the four ways, and papers that make them."""

from octavo_shared.claims import Claim, Finding, Paper, Scale
from octavo_shared.figures import figure


def curve():
    picture, axes = figure(width=5, height=3)
    axes.plot([1, 2, 3], [2, 1, 3])
    return picture


def holds(setting):
    return Finding("", f"seeds {setting.seeds}", True, "three seeds", curve())


def fails(setting):
    return Finding("", "1.09× ± 0.03", False, "two cores leave no more")


def breaks(setting):
    raise OSError("<disc> & all")


def undecided(setting):
    return Finding("", "some value")


def claim(name, check, scale=Scale.DESK, **changes):
    fields = {
        "statement": f"The statement of {name}.",
        "source": "Table 1",
        "paper": "1.28×",
        "relation": "≥",
        "seconds": 1.0,
        **changes,
    }
    return Claim(name, scale=scale, check=check, **fields)


def demo(setting):
    yield Finding("a first <thing>", "1 & 2", True, "[red]not markup[/red]", curve())
    yield Finding("a second", "nothing to judge")


def paper_of(*claims, slug="sample", demo=demo):
    return Paper(slug, f"On {slug}", "https://example.org/paper", "small sums", "numpy", claims, demo)
