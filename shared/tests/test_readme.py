from pathlib import Path

from mktestdocs import check_md_file


def test_readme_runs_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_md_file(Path(__file__).parents[1] / "README.md", memory=True)
    assert (tmp_path / "octavo-report" / "halves.html").is_file()
