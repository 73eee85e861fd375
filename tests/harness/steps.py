"""Work counted in lines of Python that run: a number that no machine changes, in place of a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["steps_within"]


@contextmanager
def steps_within(most: int) -> Iterator[None]:
    """Stop with an `AssertionError` once the functions that are called have run more than so many lines."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        if count > most:
            raise AssertionError(f"more than {most} lines of Python")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
