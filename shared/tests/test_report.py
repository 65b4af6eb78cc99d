from html.parser import HTMLParser

import pytest
from samples import claim, demo, paper_of

from octavo_shared.claims import Finding, Setting, measure
from octavo_shared.figures import figures
from octavo_shared.report import Section, write_report

VOID = {"meta", "link", "img", "br", "hr"}


class Page(HTMLParser):
    """A page as its elements with their attributes, and its text; each element has to be closed in order."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self._open = [], "", []
        self.feed(text)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if "style" not in self._open:
            self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def page_of(folder, *sections, title="A title"):
    return Page(write_report(folder / "page.html", sections, title).read_text(encoding="utf-8"))


@pytest.fixture
def full(paper, tmp_path):
    outcomes = [measure(each, Setting()) for each in paper.claims]
    return page_of(tmp_path, Section(paper, list(demo(Setting())), outcomes))


def test_every_claim_is_told_with_all_that_belongs_to_it(full, paper):
    for told in paper.claims:
        assert full.text.count(told.statement) == 1
        assert f"{told.source} · {told.scale}" in full.text
    for words in ("1.28×", "should be: ≥", "1.09× ± 0.03", "two cores leave no more", "needs a CUDA device"):
        assert words in full.text


def test_each_status_is_counted_and_said_as_plainly_as_the_others(full):
    statuses = [attributes["class"] for attributes in full.all("span") if "status" in attributes.get("class", "")]
    # One in the table and one beside the statement.
    for kind in ("fails", "idle", "error"):
        assert statuses.count(f"status {kind}") == 2
    assert statuses.count("status holds") == 3  # and one of the demonstration
    assert "1 holds, 1 does not hold, 1 not run, 1 error" in full.text
    top = full.text[: full.text.index("On sample")]
    for status in ("holds", "does not hold", "not run", "error"):
        assert f"{status}1" in top


def test_error_has_its_reason_and_its_traceback(full):
    assert len(full.all("details")) == 1
    assert full.text.count("Traceback (most recent call last)") == 1
    assert "OSError: <disc> & all" in full.text


def test_page_needs_nothing_else(full):
    assert not full.all("script")
    assert not full.all("iframe")
    assert [link["href"] for link in full.all("link")] == ["data:,"]
    assert all(image["src"].startswith("data:image/") for image in full.all("img"))
    outside = [link["href"] for link in full.all("a") if not link["href"].startswith("#")]
    assert outside == ["https://example.org/paper"]


def test_links_within_the_page_lead_somewhere(full):
    places = {attributes["id"] for _, attributes in full.elements if "id" in attributes}
    inside = [link["href"][1:] for link in full.all("a") if link["href"].startswith("#")]
    assert len(inside) >= 4
    assert set(inside) <= places


def test_figures_say_what_they_show(full):
    texts = [image["alt"] for image in full.all("img")]
    assert texts == [
        "Figure: a first <thing>: 1 & 2",
        "Figure: The statement of good. Ours: seeds (0, 1, 2)",
    ]


def test_content_cannot_become_markup(tmp_path):
    evil = '<script>alert("1")</script>'
    finding = Finding(evil, evil, True, evil)
    paper = paper_of(claim("one", lambda setting: finding, statement=evil, source=evil, paper=evil, relation=evil))
    page = page_of(tmp_path, Section(paper, [finding], [measure(paper.claims[0], Setting())]), title=evil)
    assert not page.all("script")
    assert page.text.count(evil) >= 10


def test_large_figures_are_embedded_as_pixels(tmp_path):
    def busy(points):
        picture, (axes,) = figures(1, width=9)
        axes.plot(range(points), [(7 * i) % 13 for i in range(points)], "o")
        return picture

    found = [Finding("few", "1", figure=busy(10)), Finding("many", "1", figure=busy(20_000))]
    page = page_of(tmp_path, Section(paper_of(), found))
    kinds = [image["src"].split(";")[0] for image in page.all("img")]
    assert kinds == ["data:image/svg+xml", "data:image/png"]
    assert [attributes.get("class") for attributes in page.all("figure")] == ["wide", "wide"]


def test_findings_that_are_not_as_they_should_be_are_counted(tmp_path):
    wrong = Section(paper_of(slug="one"), [Finding("a", "1", False), Finding("b", "2", True)])
    page = page_of(tmp_path, wrong, Section(paper_of(slug="two")))
    assert "2 findings, 1 not as it should be" in page.text
    assert "not as it should be" in page.text
    assert "Nothing was measured." in page.text


def test_failed_writing_leaves_what_was_there(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("before")

    class Torn:
        def savefig(self, *arguments, **settings):
            raise OSError("no space left")

        def get_figwidth(self):
            return 5.0

    section = Section(paper_of(), [Finding("a", "1", figure=Torn())])
    with pytest.raises(OSError, match="no space left"):
        write_report(path, [section], "A title")
    assert [found.name for found in tmp_path.iterdir()] == ["page.html"]
    assert path.read_text() == "before"


def test_folder_is_made(tmp_path):
    assert write_report(tmp_path / "a" / "b.html", [], "Nothing").is_file()
