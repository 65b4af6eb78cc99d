import pytest

from octavo_shared.files import written_whole


def test_file_is_written(tmp_path):
    with written_whole(tmp_path / "page.html") as beside:
        assert beside.suffix == ".html"
        beside.write_text("whole")
        assert not (tmp_path / "page.html").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert (tmp_path / "page.html").read_text() == "whole"
    assert (tmp_path / "page.html").stat().st_mode & 0o444 == 0o444


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_interrupted_write_leaves_what_was_there_and_nothing_else(tmp_path, error):
    path = tmp_path / "page.html"
    path.write_text("before")

    def write_half():
        with written_whole(path) as beside:
            beside.write_text("half")
            raise error

    with pytest.raises(error):
        write_half()
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert path.read_text() == "before"


def test_folder_must_exist(tmp_path):
    where = tmp_path / "nowhere" / "a.html"
    with pytest.raises(FileNotFoundError, match=r"cannot write a\.html: there is no folder .*nowhere"):
        written_whole(where).__enter__()
