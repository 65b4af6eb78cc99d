"""However `octavo` is ended, nothing that it started goes on."""

import signal
import subprocess
import time

import psutil
import pytest

SLEEPER = """
import pathlib, subprocess, sys, time

def test_a():
    # One child stays in our session, one leaves it, and one is a daemon whose parent is gone.
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    here = pathlib.Path(__file__).parent
    children = [subprocess.Popen(sleep), subprocess.Popen(sleep, start_new_session=True)]
    daemon = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], stdout=2, start_new_session=True).pid)"
    out = subprocess.run([sys.executable, "-c", daemon, *sleep], stdout=subprocess.PIPE, text=True).stdout
    (here / "pids.part").write_text(" ".join(map(str, [*(c.pid for c in children), int(out)])))
    (here / "pids.part").rename(here / "pids")
    time.sleep(600)
"""


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_signal_leaves_nothing_running(place, number):
    folder = place.package("sleeps", SLEEPER)
    runner = subprocess.Popen(place.command("test"), cwd=place.root, env=place.env, stdout=subprocess.PIPE, text=True)
    try:
        wait_for((folder / "tests" / "pids").is_file)
        pids = [int(word) for word in (folder / "tests" / "pids").read_text().split()]
        pids += [child.pid for child in psutil.Process(runner.pid).children(recursive=True)]
        assert len(pids) > 3
        assert not any(gone(pid) for pid in pids)
        runner.send_signal(number)
        assert runner.wait(20) == 128 + number
        wait_for(lambda: all(gone(pid) for pid in pids), 10)
    finally:
        runner.kill()


def test_timeout_leaves_nothing_running(place):
    folder = place.package("sleeps", SLEEPER)
    done = place.octavo("test", "--timeout", "4")
    assert done.returncode == 1
    assert "timed out after 4 s" in done.stdout
    pids = [int(word) for word in (folder / "tests" / "pids").read_text().split()]
    wait_for(lambda: all(gone(pid) for pid in pids), 10)
