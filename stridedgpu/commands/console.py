"""What commands read and print: arguments, tables, and a counter for long work, which no pipe gets."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

T = TypeVar("T")

_LONG_SECONDS: Final = 0.5


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
