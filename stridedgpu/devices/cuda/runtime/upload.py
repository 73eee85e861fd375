"""Uploads: runs of pageable memory to a device through page-locked pieces, without a wait for the device.

    source, pageable   ->   pieces of the ring   ->   target, on the device
            CPU's worker pool           copy engine, in stream order

A piece is filled while the copy engine reads those before it. On return the source may be changed. Memory that is
page-locked already is read where it lies, and waited for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import memmove
from functools import lru_cache
from itertools import accumulate, product
from time import perf_counter_ns
from typing import Final, NamedTuple

import cupy

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.device import CpuDevice
from stridedgpu.devices.cpu.plan import CpuPlan
from stridedgpu.devices.cuda.planning.policy import policy
from stridedgpu.devices.verbose import copy_line, is_verbose
from stridedgpu.planning.pitched_copy import Runs
from stridedgpu.planning.relayout_problem import relayout_problem
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .pinned_ring import Piece, PinnedRing
from .streams import check_not_capturing, stream_handle
from .transfer import FROM_OR_TO_THE_HOST, allocate_pinned, copy_runs, copy_with_host, cuda_failures

__all__ = ["Uploads"]

_STEP: Final = 64
"""Bytes: each run of a piece begins at a cache line of the processor that fills it."""

_UNREGISTERED: Final = 0
"""`cudaMemoryTypeUnregistered`: pageable memory."""


class Uploads:
    """The uploads to one device, and their ring."""

    def __init__(self, number: int) -> None:
        """Nothing is allocated before the first upload."""
        limits = policy().memory
        self._number = number
        self._name = f"cuda:{number}"
        self.piece_bytes = limits.upload_bytes
        self._ring = PinnedRing(limits.uploads, limits.least_upload_bytes)

    def send(
        self, source: Buffer, source_start: int, target: Buffer, target_start: int, runs: Runs, stream: object
    ) -> None:
        """Copy runs from the CPU, in stream order; the source may be changed on return."""
        start = perf_counter_ns()
        way = self._sent(source, source_start, target, target_start, runs, stream)
        if is_verbose():
            spent = perf_counter_ns() - start
            nbytes = runs.width * runs.height * runs.copies
            sys.stderr.write(copy_line(self._name, "upload", way, nbytes, spent / 1000) + "\n")

    @contextmanager
    def staging(self, nbytes: int) -> Iterator[Buffer]:
        """A piece of the ring to fill and send; where it is too small, or there is none, memory of its own."""
        piece = None
        if nbytes <= self.piece_bytes:
            with cupy.cuda.Device(self._number):
                piece = self._ring.take(nbytes)
        if piece is None:
            yield allocate_pinned(nbytes)
            return
        try:
            yield piece.buffer(nbytes)
        finally:
            self._ring.give(piece)

    def _sent(
        self, source: Buffer, source_start: int, target: Buffer, target_start: int, runs: Runs, stream: object
    ) -> str:
        """Copy, and name the way that the bytes took."""
        read, written = source.address + source_start, target.address + target_start
        with cupy.cuda.Device(self._number), cuda_failures(source.device, target.device):
            handle = stream_handle(stream, self._number)
            check_not_capturing(handle, FROM_OR_TO_THE_HOST)
            if isinstance(source.owner, Piece):
                try:
                    copy_runs(read, written, runs, handle, uploads=True)
                finally:
                    source.owner.sent(handle)
                return "staged"
            is_pageable = cupy.cuda.runtime.pointerGetAttributes(read).type == _UNREGISTERED
            groups = _groups(runs, self.piece_bytes) if is_pageable else ()
            if is_pageable and all(self._sent_together(source, source_start, written, one, handle) for one in groups):
                return "pinned_ring"
        copy_with_host(source, source_start, target, target_start, runs, stream)
        return "pageable" if is_pageable else "page_locked"

    def _sent_together(
        self, source: Buffer, source_start: int, target: int, rectangles: list[_Rectangle], handle: int
    ) -> bool:
        """Send rectangles by one piece; False, and nothing is sent, if there is none."""
        *offsets, nbytes = accumulate((_stepped(one.width * one.height) for one in rectangles), initial=0)
        piece = self._ring.take(nbytes)
        if piece is None:
            return False
        try:
            for one, offset in zip(rectangles, offsets, strict=True):
                _fill(piece.buffer(nbytes), offset, source, source_start + one.read, one)
            try:
                for one, offset in zip(rectangles, offsets, strict=True):
                    packed = Runs(one.width, one.height, one.width, one.target_pitch)
                    copy_runs(piece.address + offset, target + one.written, packed, handle, uploads=True)
            finally:
                piece.sent(handle)
        finally:
            self._ring.give(piece)
        return True


class _Rectangle(NamedTuple):
    """`height` runs of `width` bytes; where they begin on each side, and their pitches there."""

    read: int
    written: int
    width: int
    height: int = 1
    source_pitch: int = 0
    target_pitch: int = 0


def _groups(runs: Runs, most: int) -> Iterator[list[_Rectangle]]:
    """The runs as rectangles, in groups of up to `most` bytes, a multiple of the step."""
    group: list[_Rectangle] = []
    nbytes = 0
    for one in _rectangles(runs, most):
        size = _stepped(one.width * one.height)
        if group and nbytes + size > most:
            yield group
            group, nbytes = [], 0
        group.append(one)
        nbytes += size
    yield group


def _rectangles(runs: Runs, most: int) -> Iterator[_Rectangle]:
    """The runs as rectangles of up to `most` bytes."""
    width, height, pitches = runs.width, runs.height, (runs.source_pitch, runs.target_pitch)
    if width <= most:
        rows = min(height, most // width)
        for read, written in runs.places:
            for row in range(0, height, rows):
                start = read + row * pitches[0], written + row * pitches[1]
                yield _Rectangle(*start, width, min(rows, height - row), *pitches)
        return
    for read, written in runs.places:
        for row, column in product(range(height), range(0, width, most)):
            begins = read + row * pitches[0] + column, written + row * pitches[1] + column
            yield _Rectangle(*begins, min(most, width - column))


def _stepped(nbytes: int) -> int:
    """Bytes up to the next step."""
    return nbytes + -nbytes % _STEP


def _fill(target: Buffer, target_start: int, source: Buffer, source_start: int, runs: _Rectangle) -> None:
    """Pack runs into a piece; Python's lock is released."""
    if runs.height == 1 and runs.width < policy().memory.filled_alone_bytes:
        memmove(target.address + target_start, source.address + source_start, runs.width)
        return
    pack = _CPU.prepare(_packing(runs.width, runs.height, runs.source_pitch))
    pack(source, source_start, target, target_start, None)


@lru_cache(maxsize=256)
def _packing(width: int, height: int, pitch: int) -> CpuPlan:
    """The plan of the CPU's loops that pack runs of bytes, by its worker pool."""
    byte = ELEMENT_TYPES["uint8"]
    pitched = Layout((width,)) if height == 1 else Layout((height, width), (pitch, 1))
    source = TensorSpec.of(pitched, byte, base_alignment=1)
    target = TensorSpec.of(Layout(pitched.sizes), byte, base_alignment=_STEP)
    return _CPU.plan(relayout_problem(source, target, conversion(byte, byte), None))


_CPU: Final = CpuDevice()
