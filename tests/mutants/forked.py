"""Tests in children of one process that has loaded the libraries, but never the package.

`mutants.judge` starts it. A line of standard input is a request, in JSON: the runs (arguments of pytest and the most
processor seconds), the environment, the seconds until the child is stopped, and the file for what pytest prints. The
child runs one after another until one fails, so that it loads the package once. The answer is a line, too: how each
run ended, with its processor seconds, and the tests that failed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pathlib
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

__all__ = ["COULD_NOT_RUN", "NEVER_ENDS", "STOPPED", "answer"]

_LIBRARIES = ("numpy", "hypothesis", "PIL.Image")
"""What most test files load first, and no mutant changes."""

NEVER_ENDS = "ran out of processor time"
STOPPED = "stopped"

_BROKEN = 97
"""How a child exits that could not start pytest; one that a mutant ends has some other status."""

COULD_NOT_RUN = f"exit status {_BROKEN}"


class _Followed:
    """Writes down which test runs and which fails, since a crash leaves nothing else.

    Kernels that are run come before kernels that are inspected, which notice less and compile longer.
    """

    def __init__(self, journal: pathlib.Path) -> None:
        self._journal = journal.open("a")

    def write(self, **entry: Any) -> None:
        self._journal.write(json.dumps(entry) + "\n")
        self._journal.flush()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: item.get_closest_marker("emulation") is None)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.write(test=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.write(failed=report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.write(failed=report.nodeid)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run the tests of a request in a child; what it wrote down until it ended."""
    journal = pathlib.Path(request["output"] + ".journal")
    journal.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        os.setsid()
        code = _BROKEN
        try:
            _run(request, journal)
            code = 0
        except BaseException:  # noqa: BLE001 - the child ends here, and nobody else could say why
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    status = _waited_for(child, request["limit"])
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    entries = [json.loads(line) for line in lines if line.endswith("}")]
    return {"ended": _ending(status), "runs": list(_runs(entries))}


def _run(request: dict[str, Any], journal: pathlib.Path) -> None:
    """What the child does."""
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(request["environment"])
    followed = _Followed(journal)
    for run in request["runs"]:
        before = _processor_seconds()
        _allow(run["most"])
        followed.write(run=run["name"])
        code = int(pytest.main(run["arguments"], plugins=[followed]))
        followed.write(code=code, seconds=round(_processor_seconds() - before, 2))
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and request["first"]:
            return


def _allow(seconds: float | None) -> None:
    """End this process by SIGXCPU when it has used so many more: time of the processor, which no load makes longer."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    used = sum(os.times()[:2])
    soft = resource.RLIM_INFINITY if seconds is None else int(used + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _processor_seconds() -> float:
    """Of this process and of those that it waited for."""
    return sum(os.times()[:4])


def _waited_for(child: int, limit: float) -> int | None:
    """The status of a child; None where it had to be stopped, with all that it started."""
    last = time.monotonic() + limit
    while time.monotonic() < last:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            _stop_group(child)
            return status
        time.sleep(0.05)
    _stop_group(child)
    os.waitpid(child, 0)
    return None


def _stop_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _ending(status: int | None) -> str:
    """Empty where the child ended by itself."""
    if status is None:
        return STOPPED
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return NEVER_ENDS if number == signal.SIGXCPU else signal.Signals(number).name
    return "" if os.WEXITSTATUS(status) == 0 else f"exit status {os.WEXITSTATUS(status)}"


def _runs(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The journal, run by run; one that did not end has no code."""
    run: dict[str, Any] | None = None
    for entry in entries:
        if "run" in entry:
            if run is not None:
                yield run
            run = {"name": entry["run"], "code": None, "seconds": None, "test": "", "failed": []}
        elif run is not None and "failed" in entry:
            run["failed"].append(entry["failed"])
        elif run is not None:
            run.update(entry)
    if run is not None:
        yield run


def main() -> None:
    """Answer requests until standard input ends."""
    for library in _LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
