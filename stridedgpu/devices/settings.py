"""The settings of the process that plans and launches depend on, besides the number of threads.

Verbose lines, and the policies of `using` blocks. Launches are cached by all of them: a module that plans for one
device need not be imported for the cache to know its policy.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .cpu.policy import Policy as CpuPolicy
    from .cuda.policy import Policy as CudaPolicy

__all__ = ["SETTINGS", "VERBOSE_VARIABLE"]

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
