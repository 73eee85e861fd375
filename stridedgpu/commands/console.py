"""What commands print: tables, and a counter for long work, which no pipe gets."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

_LONG_SECONDS: Final = 0.5


def one_line(message: str) -> str:
    """A message with its line breaks replaced."""
    return " ".join(message.split())


def print_table(rows: Sequence[tuple[str, str]]) -> None:
    """Print labels and texts, one row below the other."""
    width = max(len(label) for label, _ in rows)
    for label, text in rows:
        print(f"  {label:{width}}  {one_line(text)}")


@contextmanager
def progress(total: int, what: str, *, after_seconds: float = _LONG_SECONDS) -> Iterator[Callable[[], None]]:
    """A function to call at each of `total` steps; on a terminal it counts them, from `after_seconds` on."""
    began = time.monotonic()
    done, shown = 0, ""

    def step() -> None:
        nonlocal done, shown
        done += 1
        if shown or (sys.stderr.isatty() and time.monotonic() - began >= after_seconds):
            shown = f"\r{what} {done}/{total}"
            sys.stderr.write(shown)
            sys.stderr.flush()

    try:
        yield step
    finally:
        if shown:
            sys.stderr.write("\r" + " " * len(shown) + "\r")
            sys.stderr.flush()
