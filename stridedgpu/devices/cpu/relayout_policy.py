"""The thresholds of relayouts on the CPU, a part of its policy: see `policy.py` for where their values come from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
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

    streamed_bytes: int = 24 * _MB
    """Bytes moved from which on rows and pixels are written by non-temporal stores: three quarters of the cache.

    Cached stores took 1.3 to 2.4 times as long for 24 to 40 MB on a Xeon (Sapphire Rapids) whose 105 MB cache is shared
    with other virtual machines, and half as long in a quiet cache of 32 MB."""

    streamed_written: float = 0
    """Times `streamed_bytes` from which on where every byte moved is written, and in proportion where some are read,
    but never below `streamed_bytes`. On AMD's Zen 4 it is 2.6: a core writes past the caches at 29 GB/s whatever it
    reads, and cached stores took 0.6 to 1 of the time of copies below 25 MB, of uint8 to float32 below 42 MB."""

    streamed_shared_written: float = 0
    """The same where threads share a move. On AMD's Zen 4 it is 5.4: cached stores took 0.3 to 1 of the time of copies
    below 55 MB, of uint8 to float32 below 85 MB; two cores at times write past the caches no faster than one."""

    streamed_out_of_order: float = 1
    """Times these two where a source's rows are read backward, which are prefetched where stores pass the caches alone,
    or have gaps, which count as bytes moved. On AMD's Zen 4 it is 0.7: mirrored images of 30 MB took 0.6 to 1 of the
    time so on one thread, of 40 MB 0.7 to 1.1 on two, and every other pixel of 16 to 40 MB 0.6 to 0.8."""

    streamed_row_bytes: int = 256
    """Bytes of the shortest row that is: on the Xeon rows of 64 and 128 bytes took 1.1 to 1.8 times as long so, those
    of 256 bytes 0.9 to 1.3 times."""

    streamed_short_row_bytes: int = 256
    """The same where source rows follow one another. On AMD's Zen 4 it is a line of 64 bytes: patches of such rows took
    0.36 to 0.6 of the time for 30 to 105 MB so, heads of attention 0.7 to 0.86 for 60 MB, and rows that lie apart 1.2
    to 2.8 times as long."""

    streamed_tiles_bytes: int = 8 * _MB
    """The same for transposes, a quarter of the cache: the order of their evictions defeats the prefetcher. On AMD's
    Zen 4 it is 14 MB: strips and blocks took 0.4 to 1 of the time of streamed tiles in 23 of 27 cases of 8 to 14 MB,
    1.1 to 1.6 in the others, and up to 2.1 beyond."""

    streamed_crowds_bytes: int = 8 * _MB
    """The same where source lines are so many a power of two apart that they exclude each other from the nearest cache:
    streamed tiles, which read each line once, took 0.55 to 0.8 of the time of strips."""

    squares_bytes: int = 32 * _MB
    """Bytes moved below which unaligned elements of 1, 4 and 8 bytes are transposed in squares, in registers alone: on
    the Xeon 1.2 to 12 times as fast as tiles. Aligned lines are streamed instead."""

    byte_squares: bool = True
    """Whether elements of 1 byte are transposed in squares, too: on AMD's Zen 4 they took 1.1 to 1.2 times as long as
    tiles for 90 KB to 2 MB."""

    strips: bool = False
    """Whether elements of up to 8 bytes that move unchanged are transposed in strips along the source's lines. On AMD's
    Zen 4 that took 0.55 to 1 of the time of squares and tiles, and up to 1.1 where lines are 1 or 2 KB apart. Where
    target lines are not aligned they are of any size: 36 to 275 MB took 0.63 to 1 of the time of tiles in 21 of 22
    cases, and 1.2 in the other. It is not measured elsewhere."""

    least_strip: int = 28
    """Elements of a target line from which on: of a shorter one the last strip repeats much. From 28 on they took 0.75
    to 0.95 of the time of squares, and 0.2 to 0.5 where source lines lie a power of two apart; 20 took 1.2 to 1.5."""

    strip_columns: int = 128
    """Elements of source lines after which the next strip goes on, if target lines are no whole cache lines: two strips
    share some, which are in the first-level cache then. They took 0.8 to 0.95 of the time of whole lines."""

    short_strips_bytes: int = 8 * _MB
    """Bytes moved up to which; 16 MB and more took 1.1 to 1.4 times as long."""

    short_strips_element: int = 4
    """Bytes of an element from which on; of narrower ones as many are too few of a line's to be worth it."""

    small_matrix_bytes: int = 2 * _MB
    """Bytes that one matrix moves below which it is transposed so, however many there are: a core's cache holds it. On
    the Xeon, 49 MB of matrices of 10 KB to 1.4 MB took 0.4 to 1.15 of the time of tiles, 0.85 on average."""

    blocks_bytes: int = 8 * _MB
    """Bytes moved below which short runs are permuted in registers, in blocks: a quarter of the cache. On the Xeon,
    patches below took 0.07 to 1 of the time of the other kernels, larger ones 0.5 to 3 times as long."""

    cached_blocks_bytes: int = 8 * _MB
    """The same where the other kernel does not write past the caches. On AMD's Zen 4 there is no limit: 110 moves of 8
    to 250 MB took 0.04 to 1.1 of the time in blocks, within the three limits below, and up to 2.4 outside them."""

    few_pixels: int = 4
    """Pixels of the longest step of interleaved channels that is: for steps of 8 and 16, blocks took 1.3 times as long
    on AMD's Zen 4, for 4 and fewer 0.3 to 1."""

    narrow_side: int = 64
    """Elements of the longest short side of a transpose that is, if they have at most `narrow_side_bytes`: 100 took
    0.75 to 1.7, and more up to 2.4."""

    narrow_side_bytes: int = 128
    """Bytes of that side: 64 elements of 2 bytes took 0.5 to 0.9 of the time in blocks, of 4 bytes 1 to 1.6."""

    narrow_strip: int = 15
    """Elements of that side where strips are the other kernel, which is for elements of more than a byte: 9 and 13 took
    0.65 to 0.9 of the time in blocks, and 16 and 17 up to 1.7."""

    wide_strip: int = 17
    """Elements of that side from which on such strips are as fast as blocks for any size: of 17 to 23 they took 0.56 to
    0.8 of the time, and of 16 up to 1.6 below 8 MB."""

    wide_aligned_strip: int = 16
    """The same of elements of 4 bytes and more where target lines are whole cache lines: of 16 they took 0.72 to 1 of
    the time."""

    short_rows_bytes: int = 16 * _MB
    """Bytes moved below which rows of less than a cache line are: those of 32 bytes were 1.6 times as fast for 9 MB. On
    AMD's Zen 4 rows of 32 and 48 bytes took 0.4 to 0.9 of the time for 19 and 158 MB, and there is no limit."""

    long_pixels_bytes: int = 8 * _MB
    """The same for pixels of `long_channels` and more that are written past the caches, which other kernels take apart
    in registers: on AMD's Zen 4 blocks took 0.4 to 0.7 of the time for 12 to 24 MB, and up to 1.6 beyond."""

    least_side: int = 32
    """Elements of the shorter side from which on squares are as fast as blocks: of 9 to 17 they took 1.5 times as long.
    Up to as many, a loop lies in a block as a whole, and its size is a constant of the kernel."""

    long_row_bytes: int = 8 * _KB
    """Bytes of a target row from which on it is streamed at any address; shorter rows only as whole cache lines."""

    long_backward_row_bytes: int = 8 * _KB
    """The same for rows that are read backward. On AMD's Zen 4 it is 1 KB: rows of 5 KB took 0.7 of the time so, while
    forward rows of 1 to 7 KB took up to 1.7 times as long."""

    prefetched_bytes: int = _MB
    """Bytes moved from which on rows are prefetched to be read; fewer are mostly in a core's cache."""

    prefetched_targets_bytes: int = _MB
    """Bytes moved from which on conversions and pixels prefetch what they write: on the Xeon they took 0.7 to 1.05 of
    the time then, and 0.97 on average. On AMD's EPYC they took 1.04 to 1.08 of the time, and never do."""

    row_gap_bytes: int = _KB
    """Gap in bytes between rows that hardware prefetchers do not cross."""

    rows_ahead: int = 2
    """Rows from the current row to the prefetched one."""

    written_row_ahead_bytes: int = 512
    """Bytes between what a row or a plane writes and what is prefetched to be written: on the Xeon 256 to 2048 were
    alike."""

    unrolled_bytes: range = range(64, 2 * _KB + 1)
    """Bytes of the rows that are unrolled: from a cache line on. On the Xeon, rows of 64 B to 2 KB, 10 KB to 20 MB of
    them, took 0.65 to 1 of the time of a loop along each row; longer ones gain nothing."""

    paired_row_bytes: int = 0
    """Bytes of the longest row that is moved together with the source's next one. On AMD's Zen 4 it is 192 bytes: such
    rows of attention's heads within the cache took 0.56 to 1.02 of the time so, those of patches up to 1.1, and those
    of 256 and 512 bytes 0.88 to 1.05. Not measured elsewhere."""

    step_bytes: int = 128
    """Bytes of one step along a row of the wider side: two cache lines. On AMD's Zen 4 four, loaded before any is
    stored, took 0.91 to 0.96 of the time where both sides begin at nearly the same place of a page, and else 1."""

    narrowing_step_bytes: int = 64
    """The same where the source is the wider one: two lines took 1.02 to 1.13 of the time."""

    long_steps_bytes: int = 4 * _KB
    """Bytes of a target row from which on steps are that long. Shorter rows take a line of the target, and repeat less:
    on the Xeon rows of 0.3 to 2 KB took 0.6 to 0.97 of the time."""

    aligned_row_bytes: int = 256
    """Bytes of a target row from which on stores begin at lines: on the Xeon that took 0.8 to 0.95 of the time."""

    whole_lines_bytes: int = 512
    """Bytes of a target row below which rows of whole lines are taken as they lie: aligned they took 1.03 to 1.1."""

    least_rows: int = 8
    """Rows of an item below which the next loop is taken for them if it is more than twice as long: patches of 2 x 2
    pixels took 0.55 to 0.8 of the time by that, of 7 x 7 0.9. An item begins anew with each place in the others."""

    ordered_bytes: int = 1 << 62
    """Bytes moved from which on rows are moved in the order of the source, where they follow one another, and not in
    that of the target. On AMD's Zen 4 it is half of the cache: rows of 64 bytes to 8 KB, such as those of attention's
    heads, took 0.3 to 1.07 of the time for 16 to 100 MB so, and up to 2.1 for less. Not measured elsewhere."""

    ordered_ways_bytes: int = 1 << 62
    """The same where source rows are 4 KB apart, or a multiple of it, and target rows are not: on AMD's Zen 4 0.5 to
    1.05 of the time from 1.6 MB on."""

    scalars: int = 4
    """Elements of a step with scalar loads, scalar stores and no conversion."""

    least_row: int = 8
    """Elements from which on a strided target row becomes the inner loop."""

    strided_tile: tuple[int, int] = (256, 512)
    """Rows and elements of a tile of strided rows: adjacent rows share cache lines."""

    tile_bytes: int = _KB
    """Bytes of a source line that a transpose reads before it continues with the next; half as many of a target."""

    unaligned_tile_bytes: int = 4 * _KB
    """The same for unaligned targets: a line shared by two tiles is completed soon."""

    unaligned_line_bytes: Mapping[int, int] = MappingProxyType({1: 128, 2: 512, 4: 1024, 8: 1024, 16: 256})
    """Bytes of a tile's unaligned target line, by the bytes of an element."""

    odd_tile: int = 64
    """Rows of a tile of elements of odd sizes: whole cache lines for any size."""

    backward_ahead_bytes: int = 8 * _KB
    """Bytes between a row that is read backward and what is prefetched of it, where stores pass the caches, or the
    row's length if that is less. Where a row begins, the next one's end is prefetched. On AMD's Zen 4, mirrored pixels
    of 4 bytes took 0.44 to 0.6 of the time by that."""

    line_ahead_bytes: int = 256
    """Bytes between the read and the prefetched part of a transpose's source line."""

    written_ahead_bytes: int = 192
    """The same of a square's target line: on the Xeon, 0.2 to 0.8 of the time for 0.3 to 30 MB, and 1 below."""

    longest_pixel: int = 16
    """Elements of the largest pixel interleaved in registers."""

    longest_row_pixel: int = 4
    """The same of pixels of 16 bytes and more that have gaps and are converted: on AMD's Zen 4 those of 4 elements took
    0.46 to 1.03 of the time so, and of 8 and more 1.5 to 5. Reversed ones below a cache line took 0.24 to 0.9."""

    least_pixels: int = 4
    """Pixels from which on a row fills a vector; shorter rows do not count as pixels."""

    largest_step: int = 4
    """The largest stride of a plane in elements; the elements in between are read as well."""

    most_gaps: int = 2
    """Most length of a pixel with its gaps, relative to its channels or to 4; not measured."""

    most_repeated: float = 0.25
    """Share of a transpose's rows that its last tile may repeat; not measured."""

    long_channels: int = 8
    """Channels from which on a transpose takes fewer shuffles than interleaving."""

    def streams(self, nbytes: int, written: int, *, shared: bool, in_order: bool) -> bool:
        """Whether a move through `nbytes`, of which so many are written, is one to write by non-temporal stores.

        `in_order`: the source's rows are read forward, and all of what they span.
        """
        times = self.streamed_shared_written if shared else self.streamed_written
        if not in_order:
            times *= self.streamed_out_of_order
        return nbytes >= self.streamed_bytes * max(1, times * written / max(nbytes, 1))

    def bytes_of_item(self, nbytes: int) -> int:
        """Approximate bytes of one item of a move of `nbytes`."""
        wanted = max(self.item_bytes.start, min(nbytes // self.items, self.item_bytes.stop))
        return wanted if nbytes < self.shared_bytes else min(wanted, nbytes // self.shared_items)
