import json
import subprocess

import pytest
import typer
from typer.testing import CliRunner

from octavo_shared.claims import Setting
from octavo_shared.cli import add_paper_commands, resolve_device, resolve_dtype, setting_of, usage_errors


@pytest.fixture
def run(paper, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    add_paper_commands(app, paper)
    return lambda *arguments: CliRunner().invoke(app, arguments)


def one_line(text):
    return " ".join(text.split())


def test_claims_that_hold(run, tmp_path):
    result = run("claims", "good", "far", "--device", "cpu")
    assert result.exit_code == 0
    assert "1 holds, 1 not run" in result.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["bad", "broken"])
def test_claim_that_does_not_hold_or_errs(run, name):
    assert run("claims", name).exit_code == 1


def test_unknown_claim(run):
    result = run("claims", "nobody")
    assert result.exit_code == 2
    assert "sample has no claim named nobody; it has good, bad, far, broken" in result.stderr


def test_claims_as_json(run):
    result = run("claims", "--json", "--seed", "7", "--device", "cpu")
    assert result.exit_code == 1
    rows = json.loads(result.stdout)
    assert [(row["name"], row["status"]) for row in rows] == [
        ("good", "holds"),
        ("bad", "does not hold"),
        ("far", "not run"),
        ("broken", "error"),
    ]
    assert rows[0]["ours"] == "seeds (7, 8, 9)"
    assert rows[0]["statement"] == "The statement of good."
    assert "1 holds" in result.stderr


def test_claims_of_a_scale(run):
    result = run("claims", "--list", "--json", "--scale", "exact", "--scale", "gpu")
    assert [(row["name"], row["scale"]) for row in json.loads(result.stdout)] == [("good", "exact"), ("far", "gpu")]
    assert run("claims", "--scale", "huge").exit_code == 2


def test_list_measures_nothing(run):
    result = run("claims", "--list")
    assert result.exit_code == 0
    assert "broken Table 1, desk, about 1 s The statement of broken." in one_line(result.stdout)
    assert "OSError" not in result.stdout


def test_claims_with_out(run, tmp_path):
    result = run("claims", "--out", "deep/er", "--device", "cpu")
    names = {path.name for path in (tmp_path / "deep" / "er").iterdir()}
    assert names == {"sample.html", "sample-good.png", "sample-good.svg"}
    assert result.stdout.splitlines()[-1] == f"report: {tmp_path / 'deep' / 'er' / 'sample.html'}"


def test_demo_writes_the_report_and_says_where(run, tmp_path):
    result = run("demo")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == f"report: {tmp_path / 'octavo-report' / 'sample.html'}"
    assert [path.name for path in (tmp_path / "octavo-report").iterdir()] == ["sample.html"]
    run("demo", "--out", "here")
    names = {path.name for path in (tmp_path / "here").iterdir()}
    assert names == {"sample.html", "sample-demo-1.png", "sample-demo-1.svg"}


def test_demo_as_json(run):
    rows = json.loads(run("demo", "--json").stdout)
    assert rows[1] == {"what": "a second", "value": "nothing to judge", "holds": None, "note": ""}


@pytest.mark.parametrize("command", ["demo", "claims"])
@pytest.mark.parametrize("device", ["abacus", "cuda:x", "auto:1", "cuda:97"])
def test_device_that_is_unknown_or_absent(run, command, device):
    result = run(command, "--device", device)
    assert result.exit_code == 2
    assert device in result.stderr


@pytest.mark.parametrize("command", ["demo", "claims"])
def test_folder_that_cannot_be_one_is_refused_before_the_work(run, command, tmp_path):
    (tmp_path / "file").write_text("")
    result = run(command, "--out", "file/folder")
    assert result.exit_code == 2
    assert "file/folder" in result.stderr
    assert "first" not in result.stdout
    assert run(command, "--out", "file").exit_code == 2


def test_seed_below_zero(run):
    assert run("claims", "--seed", "-1").exit_code == 2


def start(words, folder, *arguments):
    return subprocess.run([*words, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_interrupted_claims_are_reported_as_far_as_they_came(command, tmp_path):
    check = """
    CALLS.append(setting)
    if len(CALLS) == 2:
        signal.raise_signal(signal.SIGINT)
    return Finding('', 'measured', True)
    """
    done = start(command(check=check), tmp_path, "claims", "--out", "here", "--device", "cpu", "--json")
    assert done.returncode == 130
    assert done.stderr.endswith("interrupted\n")
    assert [row["status"] for row in json.loads(done.stdout)] == ["holds", "not run", "not run"]
    page = (tmp_path / "here" / "sample.html").read_text()
    assert page.count("interrupted before it was measured") == 2
    assert "1 holds, 2 not run" in page


def test_interrupted_demo_is_reported_as_far_as_it_came(command, tmp_path):
    demo = "yield Finding('the first thing', '1', True)\nsignal.raise_signal(signal.SIGINT)\nyield Finding('b', '2')"
    done = start(command(demo=demo), tmp_path, "demo", "--device", "cpu")
    assert done.returncode == 130
    assert done.stderr == "interrupted\n"
    assert "the first thing" in (tmp_path / "octavo-report" / "sample.html").read_text()


def test_what_a_check_prints_stays_out_of_the_json(command, tmp_path):
    check = "print('{chatter')\nreturn Finding('', '1', True)"
    done = start(command(check=check), tmp_path, "claims", "first", "--json", "--device", "cpu")
    assert done.returncode == 0
    assert [row["name"] for row in json.loads(done.stdout)] == ["first"]
    assert "{chatter" in done.stderr


def test_demo_that_goes_wrong(command, tmp_path):
    assert start(command(demo="yield Finding('a', '1', False)"), tmp_path, "demo", "--device", "cpu").returncode == 1
    done = start(
        command(demo="yield Finding('a', '1')\nraise RuntimeError('lost')"), tmp_path, "demo", "--device", "cpu"
    )
    assert done.returncode == 1
    assert "lost" in done.stderr
    done = start(command(demo="import a_module_that_is_not_there\nyield"), tmp_path, "demo", "--device", "cpu")
    assert done.returncode == 2
    assert done.stderr == "error: No module named 'a_module_that_is_not_there'\n"


def test_setting():
    assert setting_of(4, "cpu") == Setting("cpu", (4, 5, 6))


def test_resolving():
    torch = pytest.importorskip("torch")
    assert resolve_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    assert resolve_dtype("bfloat16") is torch.bfloat16
    with pytest.raises(ValueError, match="one of float16, bfloat16, float32, float64; got 'int8'"):
        resolve_dtype("int8")


@pytest.mark.parametrize("error", [ValueError, FileNotFoundError, NotImplementedError])
def test_usage_errors_say_what_is_wrong_word_by_word(error, capsys):
    with pytest.raises(typer.Exit) as caught, usage_errors():
        raise error("tiles must be [1, 2], not [red]")
    assert caught.value.exit_code == 2
    assert capsys.readouterr().err == "error: tiles must be [1, 2], not [red]\n"


def test_usage_errors_leave_other_errors_alone():
    with pytest.raises(ZeroDivisionError), usage_errors():
        raise ZeroDivisionError
