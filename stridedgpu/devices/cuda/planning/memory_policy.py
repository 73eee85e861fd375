"""The policy of memory on its way to a device: sizes of records, uploads and tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["MemoryPolicy"]

_KB: Final = 1024


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    """Memory on its way to the device: records, uploads; and tables there. Sizes are not measured on a GPU."""

    pieces: int = 16
    """Records that may be on their way to the device; the next one waits for the first."""

    piece_bytes: int = 32 * _KB
    """The least bytes of page-locked memory for records: those of 400 windows of crops."""

    uploads: int = 8
    """Pieces of uploads that may be on their way to the device; the next one waits for the first. Page-locked memory
    for uploads is bounded by as many times the next number: 64 MB a device."""

    upload_bytes: int = 8 * _KB * _KB
    """Bytes of a piece of an upload. At 25 GB/s, what PCIe 4.0 x16 carries, the last one is on its way for 0.3 ms when
    the host is done; and packing it moves 16 MB, for which the CPU's policy wakes its workers."""

    least_upload_bytes: int = 64 * _KB
    """The least bytes of a piece of an upload, so that programs with small ones keep little memory page-locked."""

    filled_alone_bytes: int = _KB * _KB
    """Bytes of one run below which it is copied to its piece without a plan, as the CPU compiles from that size on."""

    retired_bytes: int = 64 * _KB * _KB
    """Bytes of retired tables on a device above which they are freed, after a wait: some thousand packed tiles of 10 to
    100 KB each."""
