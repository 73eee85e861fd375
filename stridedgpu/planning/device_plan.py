"""`Accesses`: how wide a plan's loads, stores and offsets are, as it says it."""

from __future__ import annotations

from typing import Final, Protocol

from stridedgpu.devices.cuda.planning.widths import Width

__all__ = ["Accesses", "in_words", "index_bits"]

_LARGEST_32_BIT_OFFSET: Final = 2**31 - 1


def index_bits(reach: int) -> int:
    """The bits of the arithmetic for linear indices and offsets up to `reach`.

    >>> index_bits(2**31 - 1), index_bits(2**31)
    (32, 64)
    """
    return 32 if reach <= _LARGEST_32_BIT_OFFSET else 64


class _HasWidths(Protocol):
    @property
    def load(self) -> Width: ...
    @property
    def store(self) -> Width: ...


class Accesses:
    """A plan with the widths `load` and `store`, which say what limits them."""

    __slots__ = ()

    @property
    def load_bytes(self: _HasWidths) -> int:
        """Bytes of one load, where addresses that are known at run time only allow it."""
        return self.load.nbytes

    @property
    def store_bytes(self: _HasWidths) -> int:
        """Bytes of one store."""
        return self.store.nbytes

    @property
    def vector_bytes(self: _HasWidths) -> int:
        """The smaller of the two."""
        return min(self.load.nbytes, self.store.nbytes)

    def access_words(self: _HasWidths) -> list[str]:
        """Loads and stores in plain words, with what limits them."""
        return [in_words("loads", self.load), in_words("stores", self.store)]


def in_words(verb: str, width: Width) -> str:
    """One kind of access.

    >>> in_words("loads", Width(4, "rows start 12 B apart"))
    'loads 4 B (rows start 12 B apart)'
    """
    return f"{verb} {width.nbytes} B" + (f" ({width.limit})" if width.limit else "")
