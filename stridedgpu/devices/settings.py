"""The settings of the process: verbose lines, the policies of `using` blocks, and environment variables.

Launches are cached by `SETTINGS`: a module that plans for one device need not be imported for the cache to know its
policy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .cpu.policy import Policy as CpuPolicy
    from .cuda.policy import Policy as CudaPolicy

__all__ = ["SETTINGS", "VERBOSE_VARIABLE", "variable"]

VERBOSE_VARIABLE: Final = "STRIDEDGPU_VERBOSE"
"""The environment variable that turns verbose lines on with "1"."""


class _Settings:
    """`verbose`: launches prepared from now on print their lines. Policies are None outside of a `using` block."""

    __slots__ = ("cpu_policy", "cuda_policy", "verbose")

    def __init__(self) -> None:
        self.verbose = os.environ.get(VERBOSE_VARIABLE, "0") not in ("", "0")
        self.cpu_policy: CpuPolicy | None = None
        self.cuda_policy: CudaPolicy | None = None


SETTINGS: Final = _Settings()


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
