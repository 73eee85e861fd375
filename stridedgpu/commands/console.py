"""What commands read and print: arguments, tables, and how far long work is."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

T = TypeVar("T")

_LONG_SECONDS: Final = 0.5
"""Work that ends before this has no bar."""

_REFRESH_SECONDS: Final = 0.1
_LINE_SECONDS: Final = 60.0
"""The least seconds between two states of a bar on a terminal, and between two lines elsewhere, such as in a log."""

_BAR_COLUMNS: Final = 30


def argument(
    read: Callable[[str], T], form: str, fits: Callable[[T], bool] = lambda _value: True
) -> Callable[[str], T]:
    """A parser of arguments, which `read` raises `ValueError` for or which do not fit; their error ends in `form`."""

    def parsed(text: str) -> T:
        with suppress(ValueError):
            value = read(text)
            if fits(value):
                return value
        raise argparse.ArgumentTypeError(f"{text!r} {form}")

    return parsed


def digits(text: str) -> int:
    """An integer of digits alone. Raises `ValueError` for anything else."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError
    return int(text)


figures: Final = argument(
    lambda text: tuple(map(float, text.split(","))), "is not one number, or several with commas between"
)


def one_line(message: str) -> str:
    """A message with its line breaks replaced."""
    return " ".join(message.split())


def print_table(rows: Sequence[tuple[str, str]], heading: str = "") -> None:
    """Print labels and texts, one row below the other, under a heading if there is one."""
    if heading:
        print(one_line(heading))
    width = max(len(label) for label, _ in rows)
    for label, text in rows:
        print(f"  {label:{width}}  {one_line(text)}")


@contextmanager
def progress(total: int, what: str, *, after_seconds: float = _LONG_SECONDS) -> Iterator[Callable[[], None]]:
    """A function to call at each of `total` steps, which says how many are done, how fast, and how long the rest takes.

    On a terminal it is a bar, from `after_seconds` on, that disappears at the end; elsewhere a line each minute.
    """
    stream = sys.stderr
    is_terminal = stream is not None and stream.isatty()  # None: it is closed
    interval = _REFRESH_SECONDS if is_terminal else _LINE_SECONDS
    began = time.monotonic()
    due = began + (after_seconds if is_terminal else interval)
    done, shown = 0, ""

    def step() -> None:
        nonlocal done, due, shown
        done += 1
        now = time.monotonic()
        if now < due or stream is None:
            return
        due = now + interval
        rate = done / max(now - began, 1e-9)
        text = f"{what} {done}/{total}, {rate:.3g} a second, {_duration((total - done) / rate)} left"
        if is_terminal:
            before, shown = shown, _bar(done / total, text)
            stream.write(f"\r{shown:{len(before)}}")
        else:
            stream.write(f"{text}\n")
        stream.flush()

    try:
        yield step
    finally:
        if shown:
            stream.write("\r" + " " * len(shown) + "\r")
            stream.flush()


def _bar(share: float, text: str) -> str:
    """A bar and a text in the width of the terminal, where a longer line would begin another."""
    columns = shutil.get_terminal_size().columns - 1
    width = min(_BAR_COLUMNS, columns - len(text) - 3)
    bar = f"[{'#' * int(share * width):{width}}] " if width > 0 else ""
    return (bar + text)[:columns]


def _duration(seconds: float) -> str:
    """A time in two units at most.

    >>> [_duration(seconds) for seconds in (0.2, 59.5, 125, 3600, 90_000)]
    ['0 s', '1 min', '2 min', '1 h 0 min', '25 h 0 min']
    """
    minutes = round(seconds / 60)
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
