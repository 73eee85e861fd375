"""What commands print: tables, and a progress bar for long work.

The bar is rich's where rich is installed, a plain counter where it is not, and none in a pipe.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

LONG_SECONDS = 0.5


def one_line(message: str) -> str:
    """A message with its line breaks replaced."""
    return " ".join(message.split())


def print_table(rows: Sequence[tuple[str, str]]) -> None:
    """Print labels and texts, one row below the other."""
    width = max(len(label) for label, _ in rows)
    for label, text in rows:
        print(f"  {label:{width}}  {one_line(text)}")


@contextmanager
def progress(total: int, what: str, *, after_seconds: float = LONG_SECONDS) -> Iterator[Callable[[], None]]:
    """A function to call at each of `total` steps; on a terminal a bar appears after `after_seconds`."""
    began = time.monotonic()
    with ExitStack() as shown:
        done = 0
        show: Callable[[int], None] | None = None

        def step() -> None:
            nonlocal done, show
            done += 1
            if show is None and sys.stderr.isatty() and time.monotonic() - began >= after_seconds:
                show = shown.enter_context(_bar(total, what))
            if show is not None:
                show(done)

        yield step


def _bar(total: int, what: str) -> AbstractContextManager[Callable[[int], None]]:
    try:
        import rich.progress  # noqa: F401 - imported here, used below
    except ModuleNotFoundError:
        return _plain_counter(total, what)
    return _rich_bar(total, what)


@contextmanager
def _rich_bar(total: int, what: str) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def _plain_counter(total: int, what: str) -> Iterator[Callable[[int], None]]:
    def show(done: int) -> None:
        sys.stderr.write(f"\r{what} {done}/{total}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write("\r" + " " * len(f"{what} {total}/{total}") + "\r")
        sys.stderr.flush()
