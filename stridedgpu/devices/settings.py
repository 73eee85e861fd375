"""Verbose lines, a setting of the process; the policies of `using` blocks, of each thread; environment variables.

Launches are cached by both: a module that plans for one device need not be imported for the cache to know its policy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from .cpu.policy import Policy as CpuPolicy
    from .cuda.policy import Policy as CudaPolicy

VERBOSE_VARIABLE: Final = "STRIDEDGPU_VERBOSE"
"""The environment variable that turns verbose lines on with "1"."""


class _Settings:
    """`verbose`: launches prepared from now on print their lines."""

    __slots__ = ("verbose",)

    def __init__(self) -> None:
        self.verbose = os.environ.get(VERBOSE_VARIABLE, "0") not in ("", "0")


SETTINGS: Final = _Settings()


class Policies(NamedTuple):
    """The policies of the `using` blocks around a call; None for a device's own."""

    cpu: CpuPolicy | None = None
    cuda: CudaPolicy | None = None


POLICIES: Final[ContextVar[Policies | None]] = ContextVar("stridedgpu_policies", default=None)
"""None outside of every block. Other threads, and other tasks of asyncio, have policies of their own."""


@contextmanager
def using_policies(*, cpu: CpuPolicy | None = None, cuda: CudaPolicy | None = None) -> Iterator[None]:
    """Plan by another policy inside the block; None leaves a device's as it is."""
    around = POLICIES.get() or Policies()
    before = POLICIES.set(Policies(cpu or around.cpu, cuda or around.cuda))
    try:
        yield
    finally:
        POLICIES.reset(before)


def variable(name: str) -> Callable[[], str | None]:
    """A function that returns the value of an environment variable, or None, in a tenth of `os.environ.get`'s time.

    That encodes the name in Python at each call, and raises and catches an exception for a variable that is not set.
    CPython keeps the encoded variables in a dictionary, which is read here. Where there is none, `os.environ.get` is.
    """
    key: Any = os.environ.encodekey(name)

    def value() -> str | None:
        environment: Any = os.environ
        try:
            stored = environment._data.get(key)
        except AttributeError:
            return os.environ.get(name)
        return None if stored is None else str(environment.decodevalue(stored))

    return value
