"""Machine code that a wheel brings: the commonest kernels, compiled for each architecture, in one zip file.

    sm_90/<SHA-256 of the compiler's options, the source and the kernel's name>

An entry is the kernel's symbol, a zero byte, and the cubin. The hash covers all that the compiler is given: a changed
source or option finds no entry. Where the file or the entry is missing or damaged, the kernel is compiled at its first
use. A checkout has no such file until `benchmarks/kernel_cubins.py` writes it.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import zipfile
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Final, NamedTuple

FILE_NAME: Final = "cubins.zip"
"""The zip file's name, in the folder of this module."""

OPTIONS: Final = ("-std=c++20",)
"""What the library asks of the compiler."""

CUPYS_OPTIONS: Final = ("-default-device", "-ftz=true")
"""What CuPy adds: without the first, NVRTC takes some lambdas for functions of the host.

NVRTC 12 refuses an option that is given twice.
"""

RUNS_ON: Final[Mapping[int, tuple[int, ...]]] = MappingProxyType(
    {80: (80, 86, 89), 90: (90,), 100: (100, 103), 120: (120, 121)}
)
"""The compute capabilities that run the machine code of an architecture.

A GPU runs the code of earlier minor versions of its major version, Tegra's aside. Source: CUDA C++ Programming Guide,
"Binary Compatibility".
"""


class Cubin(NamedTuple):
    """A compiled kernel: the name of its symbol, and the machine code with it."""

    symbol: str
    code: bytes

    def packed(self) -> bytes:
        """The bytes of an entry."""
        return self.symbol.encode() + b"\0" + self.code

    @classmethod
    def unpacked(cls, entry: bytes) -> Cubin:
        """What `packed` made of a compiled kernel."""
        symbol, _, code = entry.partition(b"\0")
        return cls(symbol.decode(), code)


def entry_name(source: str, name: str, architecture: int) -> str:
    """The entry of the instantiation `name` of a source, compiled for an architecture.

    >>> entry_name("template <int n> __global__ void empty() {}", "empty<1>", 90)[:6]
    'sm_90/'
    """
    text = "\0".join((*OPTIONS, *CUPYS_OPTIONS, source, name))
    return f"sm_{architecture}/{hashlib.sha256(text.encode()).hexdigest()}"


def stored_cubin(source: str, name: str, capability: int) -> Cubin | None:
    """The kernel's machine code for a GPU of a compute capability; None where it has to be compiled.

    The zip file is opened for each kernel, since an upgrade may replace it while a process runs.
    """
    architecture = next((one for one, capabilities in RUNS_ON.items() if capability in capabilities), None)
    if architecture is None:
        return None
    try:
        with _archive().open("rb") as file, zipfile.ZipFile(file) as archive:
            return Cubin.unpacked(archive.read(entry_name(source, name, architecture)))
    except Exception:  # noqa: BLE001 - a damaged file names any method of compression, whose errors have types of their own
        return None


def _archive() -> Traversable:
    return importlib.resources.files(__package__).joinpath(FILE_NAME)
