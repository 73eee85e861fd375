"""Packed formats of raw sensors: where the bits of each sample lie in the bytes of a group, as a table.

    mipi-raw10   b0 b1 b2 b3 | b4     the upper 8 bits of four samples, then the lower 2 of each, the first lowest
    mipi-raw12   b0 b1 | b2           the upper 8 bits of two samples, then the lower 4 of each
    mono10p      b0 b1 b2 b3 b4       four samples of 10 bits, one after the other from the lowest bit on
    mono12p      b0 b1 b2             two samples of 12 bits, likewise
    mono12packed b0 | b1 | b2         the upper 8 bits of the first, the lower 4 of both, the upper 8 of the second

Sources: MIPI Alliance, CSI-2, "RAW10" and "RAW12", and the kernel's `V4L2_PIX_FMT_SRGGB10P` and `SRGGB12P`; EMVA,
"Pixel Format Naming Convention" (Mono10p, Mono12p); AIA, "GigE Vision" (Mono12Packed).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .errors import LayoutError


@dataclass(frozen=True, slots=True)
class BitField:
    """Bits of one byte of a group as bits of a sample: `((byte >> right) & mask) << left`."""

    byte: int
    right: int
    mask: int
    left: int


@dataclass(frozen=True, slots=True)
class RawFormat:
    """Groups of `nbytes` bytes with the samples of `bits` bits; each sample is two fields that do not overlap."""

    name: str
    bits: int
    nbytes: int
    samples: tuple[tuple[BitField, BitField], ...]

    @property
    def count(self) -> int:
        """The samples of a group."""
        return len(self.samples)


def raw_format(name: object) -> RawFormat:
    """The format of this name. Raises `LayoutError` for an unknown name."""
    known = RAW_FORMATS.get(name) if isinstance(name, str) else None
    if known is None:
        raise LayoutError(f"format={name!r} is unknown; the packed formats are {', '.join(RAW_FORMATS)}.")
    return known


def _mipi(name: str, bits: int) -> RawFormat:
    """The upper 8 bits of each sample, then one byte with the lower bits of all."""
    low = bits - 8
    count = 8 // low
    fields = ((BitField(number, 0, 255, low), BitField(count, low * number, 2**low - 1, 0)) for number in range(count))
    return RawFormat(name, bits, count + 1, tuple(fields))


def _from_lowest(name: str, bits: int) -> RawFormat:
    """Samples one after the other from the lowest bit of the first byte on."""
    count = 8 // (bits - 8)
    fields = []
    for number in range(count):
        byte, shift = divmod(bits * number, 8)
        first = 8 - shift
        fields.append((BitField(byte, shift, 2**first - 1, 0), BitField(byte + 1, 0, 2 ** (bits - first) - 1, first)))
    return RawFormat(name, bits, count * bits // 8, tuple(fields))


_TWELVE_PACKED: Final = RawFormat(
    "mono12packed",
    12,
    3,
    ((BitField(0, 0, 255, 4), BitField(1, 0, 15, 0)), (BitField(2, 0, 255, 4), BitField(1, 4, 15, 0))),
)

RAW_FORMATS: Final[dict[str, RawFormat]] = {
    row.name: row
    for row in (
        _mipi("mipi-raw10", 10),
        _mipi("mipi-raw12", 12),
        _from_lowest("mono10p", 10),
        _from_lowest("mono12p", 12),
        _TWELVE_PACKED,
    )
}
"""Every packed format by its name."""
