"""Processes that run side by side, each with a time limit, and that never outlive the command that started them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TOKEN = "OCTAVO_JOB"
"""An environment variable that holds a token of the job's own: whatever inherits it belongs to the job."""


@dataclass(frozen=True)
class Job:
    """One command to run.

    Attributes:
        name: What it is called on the screen.
        command: The program and its arguments.
        cwd: Where it runs.
        log: The file that takes what it prints.
        timeout: Seconds that it may take.
        env: Its environment; ours where it is `None`.
    """

    name: str
    command: Sequence[str]
    cwd: Path
    log: Path
    timeout: float
    env: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Ended:
    """How a job ended: its exit status, the seconds it took, and whether it was stopped for taking too long."""

    job: Job
    status: int
    seconds: float
    timed_out: bool


@dataclass
class Running:
    """A job under way."""

    job: Job
    process: subprocess.Popen[bytes]
    start: float
    token: str

    @property
    def seconds(self) -> float:
        """The seconds since it began."""
        return time.monotonic() - self.start


@dataclass
class Watcher:
    """What a caller wants to hear: of each job that starts, of the passing of time, of each job that ends."""

    started: Callable[[Job], None] = lambda job: None
    tick: Callable[[Sequence[Running]], None] = lambda running: None
    ended: Callable[[Ended], None] = lambda ended: None


def cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_jobs(jobs: Sequence[Job], workers: int, watcher: Watcher | None = None) -> list[Ended]:
    """Runs the jobs, at most `workers` at a time, and returns how each ended, in the order of `jobs`.

    A job that takes longer than its timeout is stopped with everything it started; the others go on. However this
    function is left, nothing that it started is running afterwards.

    Raises:
        SystemExit: Ctrl-C, SIGTERM or SIGHUP asked us to end; the status is 128 and the signal's number, as in a shell.
        ValueError: `workers` is below one.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    watcher = watcher or Watcher()
    waiting = list(jobs)
    running: list[Running] = []
    ended: dict[int, Ended] = {}
    with _requests_to_end() as requests:
        try:
            while waiting or running:
                while waiting and len(running) < workers:
                    running.append(_start(waiting.pop(0)))
                    watcher.started(running[-1].job)
                for one in list(running):
                    end = _ended(one)
                    if end is not None:
                        running.remove(one)
                        ended[id(one.job)] = end
                        watcher.ended(end)
                watcher.tick(running)
                if requests:
                    raise SystemExit(128 + requests[0])
                if running:
                    time.sleep(0.05)
        finally:
            for one in running:
                _stop(one)
    return [ended[id(job)] for job in jobs]


@contextlib.contextmanager
def _requests_to_end() -> Iterator[list[int]]:
    """Collects the signals that ask this process to end, for the loop to act on between its steps.

    An exception raised by a signal could arrive after a process has started and before we know of it.
    """
    requests: list[int] = []
    numbers = [n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda n, frame: requests.append(n)) for number in numbers}
    try:
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _start(job: Job) -> Running:
    token = uuid.uuid4().hex
    # An octavo inside a job adds its token to ours, so that ending the outer job finds the inner one's children too.
    tokens = [token for token in (os.environ.get(TOKEN), token) if token]
    env = {**(os.environ if job.env is None else job.env), TOKEN: ":".join(tokens), "PYTHONUNBUFFERED": "1"}
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with job.log.open("ab") as log:
        process = subprocess.Popen(
            job.command,
            cwd=job.cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # A session of its own: Ctrl-C in the terminal reaches only us, and we can end the whole group.
            start_new_session=True,
        )
    return Running(job, process, time.monotonic(), token)


def _ended(one: Running) -> Ended | None:
    status = one.process.poll()
    timed_out = status is None and one.seconds > one.job.timeout
    if status is None and not timed_out:
        return None
    seconds = one.seconds
    if timed_out:
        # pytest answers SIGABRT with a traceback of every thread, which shows in the log where it hung.
        with contextlib.suppress(ProcessLookupError):
            one.process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            one.process.wait(1.0)
    _stop(one)
    return Ended(one.job, one.process.wait(), seconds, timed_out)


def _stop(one: Running) -> None:
    """Ends a job and everything that it started, also what has left its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(one.process.pid, signal.SIGKILL)
    one.process.wait()
    # A stray may start another while we look; each round finds what the last one missed.
    for _ in range(10):
        strays = _strays(one.token)
        if not strays:
            break
        for number in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        time.sleep(0.01)


def _strays(token: str) -> list[int]:
    try:
        import psutil
    except ImportError:  # a GPU machine's bare checkout: there the process group has to do
        return []
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if token in process.environ().get(TOKEN, "").split(":"):
                found.append(process.pid)
    return found
