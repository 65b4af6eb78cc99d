"""The report in Chromium: nothing to scroll sideways, all figures there, no complaint."""

import shutil

import pytest
from samples import claim, curve, demo, fails, paper_of

from octavo_shared.claims import Finding, Setting, measure
from octavo_shared.figures import figures
from octavo_shared.report import Section, write_report

CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def report(paper, tmp_path):
    def long_value(setting):
        picture, _ = figures(3, width=10, height=6)
        return Finding("", "0123456789abcdef" * 12, True, "a/path/without/a/single/space" * 8, picture)

    hard = paper_of(
        claim(
            "a-name-of-many-words-that-goes-on-and-on-and-on-and-on", long_value, statement="W" * 150, paper="x" * 90
        ),
        claim("other", fails, source="Appendix" * 12, relation="≥" * 80),
        slug="hard",
    )
    sections = [
        Section(
            each,
            [*demo(Setting()), Finding("figure", "one", figure=curve())],
            [measure(c, Setting()) for c in each.claims],
        )
        for each in (paper, hard)
    ]
    return write_report(tmp_path / "page.html", sections, "A title that takes more than one line on a telephone")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 700, 900, 1280])
def test_page(browser, report, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.append(request.url) if request.url.startswith("http") else None)
    page.goto(report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    sizes = page.evaluate("[...document.images].map(i => [i.naturalWidth, i.getBoundingClientRect().width])")
    assert len(sizes) == 6
    assert all(natural > 0 and drawn > 150 for natural, drawn in sizes)
    assert complaints == []
    ink, paper = page.evaluate("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
    lightness = [sum(int(part) for part in colour[4:-1].split(",")) for colour in (ink, paper)]
    assert (lightness[0] > lightness[1]) == (scheme == "dark")
    # On a narrow screen a row of a table is a card, with no heads of columns.
    assert page.locator("thead").first.is_visible() == (width > 640)
    assert page.locator("tr td.name").first.is_visible()
    page.close()
