"""How much memory Linux has for this process.

Linux grants an allocation that it has no memory for, and ends a process when the pages are written. So an allocation
that cannot be filled is refused here, before it is made. Windows refuses by itself, and macOS extends its swap files.

What is left is what no process holds: caches of files count as free, since the system gives them up. The smallest of
the machine's memory and of the limits of the process' control groups decides. Swap counts in full.

Sources: the kernel's Documentation/filesystems/proc.rst (meminfo) and Documentation/admin-guide/cgroup-v2.rst,
cgroup-v1/memory.rst.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from stridedgpu.values.errors import DeviceError

LARGE_BYTES: Final = 1 << 30
"""Bytes from which on an allocation is compared with what is left: reading that takes less than 1 ms."""

_RESIDENT: Final = ("AnonPages", "Shmem", "Hugetlb")
"""The machine's memory that processes hold."""

_GROUPS: Final = {
    "": ("sys/fs/cgroup", "memory.max", ("anon", "shmem")),
    "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes", ("total_rss", "total_shmem")),
}
"""By controller, none in version 2: where groups are mounted, the file of a limit, and what counts towards it."""


def check_memory_left(device: str, nbytes: int) -> None:
    """Raise `DeviceError` if so many bytes of a device, whose memory is the CPU's, could not be filled."""
    left = memory_left()
    if left is not None and nbytes > left:
        raise DeviceError(
            f"{device} has no {nbytes} bytes of memory left to allocate: {left} are free. Work on fewer items "
            "at once, on smaller ones, or with a narrower dtype."
        )


def memory_left(root: str = "") -> int | None:
    """Bytes that no process holds; None where the system whose files are in the folder `root` does not say."""
    machine = _numbers(f"{root}/proc/meminfo")
    total = machine.get("MemTotal")
    if total is None:
        return None
    left = total - sum(machine.get(name, 0) for name in _RESIDENT)
    return max(min((left, *_left_in_groups(root, total))), 0) + machine.get("SwapFree", 0)


def _left_in_groups(root: str, total: int) -> Iterator[int]:
    """What is left in each control group of this process with a limit below `total`; it binds the groups inside, too.

    A container sees its own group at the mount, whatever path its processes are listed with.
    """
    for line in _lines(f"{root}/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        for controller in {*controllers.split(",")} & _GROUPS.keys():
            mount, limit, counted = _GROUPS[controller]
            parts = path.strip("/").split("/")
            for depth in range(len(parts) + 1):
                group = "/".join((root, mount, *parts[:depth]))
                for most in _lines(f"{group}/{limit}"):
                    if most.isdecimal() and int(most) < total:
                        used = _numbers(f"{group}/memory.stat")
                        yield int(most) - sum(used.get(name, 0) for name in counted)


def _numbers(file: str) -> Mapping[str, int]:
    """The numbers of lines `NAME: NUMBER kB` or `NAME NUMBER`, in bytes."""
    fields = (line.split() for line in _lines(file))
    known = (words for words in fields if len(words) > 1 and words[1].isdecimal())
    return {name.rstrip(":"): int(number) << 10 * len(unit) for name, number, *unit in known}


def _lines(path: str) -> list[str]:
    """The lines of a file; none where it cannot be read."""
    with suppress(OSError), open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123 - avoids `Path`
        return file.read().splitlines()
    return []
