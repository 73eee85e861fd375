"""`Target`: a processor as a value, which the policy and the planner of kernels are handed alike.

Nothing in it names a vendor or a model: an architecture, the instruction sets that kernels may use, the size of the
last-level cache and the number of cores. `Target.here` asks the processor itself (CPUID, not what an operating system
or a compiler's library says of it, which emulators and debuggers leave as it was), and `STRIDEDGPU_CPU` leaves
instruction sets out, as ONEDNN_MAX_CPU_ISA and NPY_DISABLE_CPU_FEATURES do. `Target.stated` is any other processor.

The levels of x86-64 are those of its ABI: https://gitlab.com/x86-psABIs/x86-64-ABI.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from stridedgpu.values.errors import StridedGpuError

from .native.library import architecture, levels, library, why_unavailable
from .thread_count import usable_cores

VARIABLE: Final = "STRIDEDGPU_CPU"
"""The environment variable with the instruction sets that native loops may use: a level of x86-64, or "native"."""

_KB: Final = 1024
_MB: Final = 1024 * 1024

_V1: Final = frozenset({"sse2"})
_V2: Final = _V1 | {"cx16", "popcnt", "sahf", "sse3", "ssse3", "sse4.1", "sse4.2"}
_V3: Final = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
_V4: Final = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}

LEVELS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {"x86-64": _V1, "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}
)
"""The instruction sets of each level, by clang's names."""

NATIVE_LEVELS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {"neon": frozenset({"neon"}), "v4": _V4 | {"avx512vbmi", "avx512vbmi2", "avx512vnni"}, "v3": _V3}
)
"""The instruction sets that each level of the native library needs, the best level first; setup.py compiles them."""


class Target(NamedTuple):
    """A processor; the size of its last-level cache is in bytes.

    >>> Target.stated("x86-64-v3", cores=8).features >= {"avx2", "f16c"}
    True
    """

    architecture: str
    features: frozenset[str]
    cores: int = 2
    last_level_bytes: int = 32 * _MB

    @classmethod
    def stated(cls, level: str, more: Collection[str] = (), **sizes: int) -> Target:
        """A processor that need not be here: a level of x86-64 with more instruction sets, or "aarch64".

        `sizes` are `cores` and `last_level_bytes`; without them two cores with 32 MB.
        """
        if level == "aarch64":
            return cls("aarch64", frozenset({"neon", *more}), **sizes)
        return cls("x86_64", LEVELS[level] | {*more}, **sizes)

    @classmethod
    def here(cls) -> Target:
        """The processor that this process runs on, as far as `STRIDEDGPU_CPU` lets it be used.

        Raises `StridedGpuError` if that is neither a level nor "native", or names a level on another architecture.
        """
        name = os.environ.get(VARIABLE, "").strip() or "native"
        features, last_level_bytes = _machine()
        if name != "native":
            if name not in LEVELS:
                raise StridedGpuError(f"{VARIABLE}={name[:20]!r} is no processor; it is {', '.join(LEVELS)} or native.")
            if architecture() != "x86_64":
                raise StridedGpuError(
                    f"{VARIABLE}={name} is a level of x86-64, and this processor is {architecture()!r}; native is all "
                    "that it has."
                )
            features &= LEVELS[name]
        return cls(architecture(), features, usable_cores(), last_level_bytes)

    @property
    def level(self) -> str:
        """The level of x86-64 that the instruction sets contain, or "generic"."""
        if self.architecture != "x86_64":
            return "generic"
        return max((name for name, sets in LEVELS.items() if sets <= self.features), default="x86-64")

    @property
    def native_level(self) -> str | None:
        """The best level of the native library for this processor; None if it has none, or cannot run here."""
        return _native_level(self) if why_unavailable() is None else None

    @property
    def fuses(self) -> bool:
        """Whether one instruction multiplies and adds."""
        return self.architecture != "x86_64" or "fma" in self.features

    @property
    def words(self) -> str:
        """The processor in a line: its level, and what it has beyond.

        >>> Target.stated("x86-64-v4", ["avx512vbmi"]).words
        'x86-64-v4 with avx512vbmi'
        """
        if self.architecture != "x86_64":
            return self.architecture
        beyond = sorted(self.features - LEVELS[self.level])
        return self.level + (f" with {', '.join(beyond)}" if beyond else "")

    @property
    def lacks(self) -> str | None:
        """What the native library needs and this processor has not, in words; None if it has all."""
        if any(sets <= self.features for sets in NATIVE_LEVELS.values()):
            return None
        if self.architecture != "x86_64":
            return f"the native library is for x86-64 and AArch64, and this is {self.architecture!r}"
        missing = " and ".join(sorted(name.upper() for name in _V3 - self.features))
        return f"the native library needs {missing}, which this processor has not, or {VARIABLE} leaves out"

    def runs_on(self, other: Target) -> bool:
        """Whether what this processor can run, another can."""
        return self.architecture == other.architecture and self.features <= other.features


@lru_cache(maxsize=64)
def _native_level(target: Target) -> str | None:
    if target.architecture != architecture() or not target.features <= _machine()[0]:
        return None
    names = (name for name, sets in NATIVE_LEVELS.items() if sets <= target.features and name in levels())
    return next(names, None)


class _Bit(NamedTuple):
    """A bit of CPUID's answer to a leaf and subleaf, in register EAX to EDX (0 to 3)."""

    leaf: int
    register: int
    bit: int


_BITS: Final[Mapping[str, _Bit]] = MappingProxyType(
    {
        **{
            name: _Bit(1, 2, bit)
            for name, bit in {
                "sse3": 0, "ssse3": 9, "fma": 12, "cx16": 13, "sse4.1": 19, "sse4.2": 20, "movbe": 22, "popcnt": 23,
                "avx": 28, "f16c": 29,
            }.items()
        },
        **{
            name: _Bit(7, 1, bit)
            for name, bit in {
                "bmi": 3, "avx2": 5, "bmi2": 8, "avx512f": 16, "avx512dq": 17, "avx512cd": 28, "avx512bw": 30,
                "avx512vl": 31,
            }.items()
        },
        **{
            name: _Bit(7, 2, bit)
            for name, bit in {
                "avx512vbmi": 1, "avx512vbmi2": 6, "gfni": 8, "avx512vnni": 11, "avx512bitalg": 12,
                "avx512vpopcntdq": 14,
            }.items()
        },
        **{name: _Bit(0x80000001, 2, bit) for name, bit in {"sahf": 0, "lzcnt": 5}.items()},
    }
)  # fmt: skip
"""Where CPUID says so: Intel's Software Developer's Manual, volume 2A, and AMD's Architecture Programmer's Manual."""

_SAVES_REGISTERS: Final = _Bit(1, 2, 27)
"""OSXSAVE: the operating system says in a register of its own (XCR0) which vector registers it saves."""

_SAVED_YMM: Final = 0x06
_SAVED_ZMM: Final = 0xE6
"""The bits of XCR0 for registers of 256 bits, and for those of 512 with their masks."""


@lru_cache(maxsize=1)
def _machine() -> tuple[frozenset[str], int]:
    """This machine's instruction sets and the bytes of its last-level cache, which take half a millisecond to read."""
    return _features_here(), _last_level_bytes()


def _features_here() -> frozenset[str]:
    """The instruction sets of this processor that its operating system supports."""
    here, loaded = architecture(), library()
    if loaded is None or here not in {"aarch64", "x86_64"}:
        return LEVELS["x86-64"] if here == "x86_64" else frozenset()
    if here == "aarch64":
        return frozenset({"neon"})
    loaded.stridedgpu_saved_registers.restype = ctypes.c_uint64

    def cpuid(leaf: int) -> tuple[int, ...]:
        words = (ctypes.c_uint32 * 4)()
        loaded.stridedgpu_cpuid(leaf, 0, words)
        return tuple(words)

    return features_of(cpuid, loaded.stridedgpu_saved_registers)


def features_of(cpuid: Callable[[int], tuple[int, ...]], saved: Callable[[], int]) -> frozenset[str]:
    """The instruction sets by what `cpuid` answers of a leaf (EAX to EDX), and by XCR0, which says what is `saved`.

    A hypervisor may hide a set and leave others that build on it: sets without their foundation do not count.
    """
    last = {0: cpuid(0)[0], 0x80000000: cpuid(0x80000000)[0]}
    leaves = {leaf: cpuid(leaf) for leaf in (1, 7, 0x80000001) if leaf <= last[leaf & 0x80000000]}

    def has(place: _Bit) -> bool:
        return bool(leaves.get(place.leaf, (0,) * 4)[place.register] >> place.bit & 1)

    features = {"sse2", *(name for name, place in _BITS.items() if has(place))}
    registers = saved() if has(_SAVES_REGISTERS) else 0
    if registers & _SAVED_YMM != _SAVED_YMM or "avx" not in features:
        features -= {"avx", "avx2", "f16c", "fma"}
    if registers & _SAVED_ZMM != _SAVED_ZMM or not {"avx2", "f16c", "fma", "avx512f"} <= features:
        features = {name for name in features if not name.startswith("avx512")}
    if "avx512bw" not in features:
        features -= {"avx512vbmi", "avx512vbmi2", "avx512bitalg"}
    return frozenset(features)


_CACHES: Final = "/sys/devices/system/cpu/cpu0/cache"
"""Where Linux describes the caches of the first core."""

_ASSUMED_BYTES: Final = 32 * _MB
"""The size of a last-level cache that no system reports."""


def _last_level_bytes() -> int:
    sizes = _sysfs_cache_bytes() or _sysconf_cache_bytes()
    return max(sizes.values(), default=_ASSUMED_BYTES)


def _sysfs_cache_bytes() -> dict[int, int]:
    """The sizes of the first core's caches by level, as Linux reports them; empty if there is no such directory."""
    sizes: dict[int, int] = {}
    try:
        caches = [entry.path for entry in os.scandir(_CACHES) if entry.name.startswith("index")]
    except OSError:
        return sizes
    for path in caches:
        try:
            level, kind, size = (_line(f"{path}/{name}") for name in ("level", "type", "size"))
        except OSError:
            continue
        number, unit = size[:-1], {"K": _KB, "M": _MB}.get(size[-1:], 0)
        if kind != "Instruction" and level.isdecimal() and number.isdecimal() and unit:
            sizes[int(level)] = int(number) * unit
    return sizes


def _line(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123 - importing `Path` takes 4 ms
        return file.read().strip()


def _sysconf_cache_bytes() -> dict[int, int]:
    """The same as `sysconf` reports them."""
    names = {1: "SC_LEVEL1_DCACHE_SIZE", 2: "SC_LEVEL2_CACHE_SIZE", 3: "SC_LEVEL3_CACHE_SIZE"}
    sizes = {}
    for level, name in names.items():
        try:
            size = os.sysconf(name)
        except (AttributeError, OSError, ValueError):
            continue
        if size > 0:
            sizes[level] = size
    return sizes
