"""The thresholds of relayouts on the CPU, a part of its policy: see `policy.py` for where their values come from."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["RelayoutPolicy"]

_KB: Final = 1024
_MB: Final = 1024 * 1024


class RelayoutPolicy(NamedTuple):
    """Relayout: items, non-temporal stores, prefetching, and the extents of the three kernels."""

    shared_bytes: int = 384 * _KB
    """Bytes moved from which on threads share a call: 400 KB took 0.75 to 0.8 of one thread's time, 1 MB 0.6, and 200
    KB 1.0 to 1.3."""

    items: int = 256
    """Approximate number of items of a large move."""

    item_bytes: range = range(128 * _KB, _MB)
    """Range of bytes of one item: smaller ones do not amortise their start, and larger ones are no faster."""

    shared_items: int = 8
    """Items, at least, of a call that threads share: 320 and 400 KB took 0.9 of the time in three, and 0.8 in eight."""

    streamed_bytes: int = 20 * _MB
    """Bytes moved from which on one thread writes rows, pixels and aligned transposes by non-temporal stores: five
    eighths of the last-level cache. Several threads do from twice as many on: two cores at times write past the caches
    no faster than one. Without: 0.78 to 0.9 of the speed of what is streamed, and 0.32 at worst."""

    short_strip: int = 16
    """Elements of the shorter side of strips of 2 to 8 bytes below which blocks take their place. Without: 0.72."""

    short_side: int = 32
    """The same of other transposes. Up to as many, a loop lies in a block as a whole, and its size is a constant of the
    kernel. With 16: 0.77 to 0.96, and 0.49 at worst."""

    long_row_bytes: int = 8 * _KB
    """Bytes of a target row from which on it is streamed at any address; shorter rows only as whole cache lines. Rows
    at any address never streamed: 0.8 to 0.98, and 0.32 at worst."""

    rows_ahead: int = 2
    """Rows from the current row to the prefetched one, where rows lie apart. Without: 0.42 to 0.67."""

    step_bytes: int = 128
    """Bytes of one step along a row of the wider side: two cache lines."""

    cached_bytes: int = 16 * _MB
    """Bytes moved that stay in the last-level cache: half of it. From there on rows are moved in the order of the
    source, where they follow one another, and not in that of the target (never: 0.6, and 0.34 at worst; always: 0.71 to
    0.76, and 0.3). Above, no transpose with scratch memory is done in blocks, nor a step of 32 bytes of pixels (at any
    size: 0.7 to 1.2, and 0.38; never: 0.5 to 0.9, and 0.4)."""

    strided_tile: tuple[int, int] = (256, 512)
    """Rows and elements of a tile of strided rows: adjacent rows share cache lines. Whole rows: 0.8 to 1, and 0.4."""

    tile_bytes: int = _KB
    """Bytes of a source line that a transpose reads before it continues with the next; half as many of a target."""

    backward_ahead_bytes: int = 8 * _KB
    """Bytes between a row that is read backward and what is prefetched of it, where stores pass the caches, or the
    row's length if that is less. Where a row begins, the next one's end is prefetched. Without: 0.82 to 0.89."""

    line_ahead_bytes: int = 256
    """Bytes between the read and the prefetched part of a transpose's source line. Without: 0.84, and 0.37 at worst."""

    longest_pixel: int = 16
    """Elements of the largest pixel interleaved in registers. With 4 or 8: 0.68 at worst."""

    least_pixels: int = 4
    """Pixels from which on a row fills a vector; shorter rows do not count as pixels."""

    most_gaps: int = 2
    """Most length of a pixel with its gaps, relative to its channels or to 4. With 1: 0.91, and 0.34 at worst."""

    long_channels: int = 8
    """Channels from which on a transpose takes fewer shuffles than interleaving. Without: 0.52 to 0.57."""

    def bytes_of_item(self, nbytes: int) -> int:
        """Approximate bytes of one item of a move of `nbytes`."""
        wanted = max(self.item_bytes.start, min(nbytes // self.items, self.item_bytes.stop))
        return wanted if nbytes < self.shared_bytes else min(wanted, nbytes // self.shared_items)
