"""`bounded_cache`: caches that are bounded by the bytes of what they keep, all of them together.

A service sees sizes of images without end, and what was prepared for one size seldom serves the next. Bytes are counted
when something is made. A generation that has its bytes ends, in all caches at once:

    of this generation          `functools.cache` answers, and no line of this module runs
    of the generation before    it moves into this one, with its bytes
    older, or never made        it is made

There is no lock: a fork could leave it locked to its child, and a handler of a signal could wait for it for ever.
Threads that end a generation at the same time forget more than they must.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache, update_wrapper
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

_P = ParamSpec("_P")
_R = TypeVar("_R")
_V = TypeVar("_V")

OWN_BYTES: Final = 2048
"""What an entry has besides arrays, about: its key, the objects of a plan, and parameters of a loop."""


class Generation:
    """The bytes that are counted: `nbytes` of this generation, which ends at `most_bytes`, and `ever` of all."""

    __slots__ = ("ever", "most_bytes", "nbytes")

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.nbytes = self.ever = 0


GENERATION: Final = Generation(16 << 20)
"""All caches keep two generations: 32 MiB, and the largest thing that a call makes."""

_turns: Final[list[Callable[[], None]]] = []
"""What begins a new generation in each cache."""


def count_bytes(nbytes: int) -> None:
    """Count bytes that belong to what is being made; a generation that has too many ends before them."""
    generation = GENERATION
    generation.ever += nbytes
    generation.nbytes += nbytes
    if generation.nbytes > generation.most_bytes:
        generation.nbytes = nbytes
        for turn in _turns:
            turn()


def array_bytes(kept: object) -> int:
    """The bytes of the arrays in nested tuples and lists."""
    if isinstance(kept, (tuple, list)):
        return sum(map(array_bytes, kept))
    nbytes: int = getattr(kept, "nbytes", 0)
    return nbytes


class BoundedTable(Generic[_V]):
    """Values by hashable keys, with the bytes of each: those of this generation and those of the one before."""

    __slots__ = ("_before", "_now", "_turned")

    def __init__(self, turned: Callable[[], None] | None = None) -> None:
        """An empty table for the rest of the process; `turned` is called when a generation begins."""
        self._now: dict[Hashable, tuple[_V, int]] = {}
        self._before: dict[Hashable, tuple[_V, int]] = {}
        self._turned = turned
        _turns.append(self.turn)

    def get(self, key: Hashable) -> _V | None:
        """The value, which this generation then has; None if neither has it."""
        entry = self._now.get(key)
        if entry is None:
            entry = self._before.pop(key, None)
            if entry is None:
                return None
            self._now[key] = entry
            count_bytes(entry[1])
        return entry[0]

    def keep(self, key: Hashable, value: _V, nbytes: int) -> None:
        """Keep a value, whose bytes have been counted."""
        self._now[key] = value, nbytes

    def turn(self) -> None:
        """Begin a generation, and forget the one before the last."""
        self._before, self._now = self._now, {}
        if self._turned is not None:
            self._turned()

    def forget(self) -> None:
        """Forget all."""
        self.turn()
        self._before = {}


class BoundedCache:
    """A cached function, `call`, and what makes it `forget`."""

    __slots__ = ("call", "forget")

    def __init__(self, function: Callable[..., Any]) -> None:
        def missing(*arguments: Hashable, **named: Hashable) -> Any:
            key = (arguments, *named.items()) if named else arguments
            result = table.get(key)
            if result is None:
                before = GENERATION.ever
                result = function(*arguments, **named)
                count_bytes(OWN_BYTES)
                table.keep(key, result, GENERATION.ever - before)
            return result

        found = cache(missing)
        table = BoundedTable[Any](found.cache_clear)
        self.call: Any = update_wrapper(found, function)
        self.forget = table.forget


def bounded_cache(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Cache results by hashable arguments, as `functools.cache`, in the memory that all such caches share.

    A result that has arrays counts them by `count_bytes` while it is made.
    """
    return cast("Callable[_P, _R]", BoundedCache(function).call)
