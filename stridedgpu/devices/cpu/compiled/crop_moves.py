"""Windows of a batch: at one place of all images they are one move, and inside the images a list by machine code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from struct import unpack
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.buffer import address_of
from stridedgpu.devices.cpu.policy import policy
from stridedgpu.devices.cpu.thread_count import get_num_threads
from stridedgpu.devices.interface import DirectLaunch
from stridedgpu.planning.crop_windows import Crop, CropProblem, overhang
from stridedgpu.values.layout import Layout

from .crop_batch import ENTRY_FIELDS, LIST_FIELDS, list_text
from .crop_recipes import CropRecipes
from .crop_walks import bordered_walk, inside_walk
from .jit import CompiledFunction, LoopError, compiled, python_function
from .relayout import moving
from .worker_pool import run_shared

__all__ = ["BatchMoves", "run_entries"]

_ORIGIN_BYTES: Final = 16
"""Bytes of a row and a column."""


class BatchMoves:
    """Windows of batches laid out alike, none of them mirrored; a `DirectCrops`.

    `image` is the first image's layout, and images are `step` bytes apart.
    """

    def __init__(
        self, problem: CropProblem, recipes: CropRecipes, loop: CompiledFunction, image: Layout, step: int
    ) -> None:
        """Prepare what lists windows inside; moves are planned on first use."""
        self._problem, self._loop, self._image, self._step = problem, loop, image, step
        count, _, height, width = problem.target.layout.sizes
        self._count, self._size, self._nbytes = count, (height, width), problem.bytes_moved
        self._is_quick = count > 1 and self._nbytes < policy().crops.moved_bytes
        self._moves: dict[tuple[int, int, int, int], DirectLaunch | None] = {}
        self._last: tuple[bytes, int, DirectLaunch] = b"", 0, _no_move
        (_, down, right), (_, rows, columns), itemsize = image.strides, image.sizes, recipes.itemsize
        self._down, self._right, self._first = down * itemsize, right * itemsize, image.offset * itemsize
        self._can_list = height <= rows and width <= columns
        if not self._can_list:
            return
        self._kind = recipes.kind(Crop(image, (0, 0)))
        (part,) = self._kind.parts
        self._begins = self._first + part.source, part.target
        pitch = problem.target.layout.strides[0] * problem.conversion.target.itemsize
        rooms, steps = (rows - height, columns - width), (self._down, self._right, step, pitch)
        self._parameters = (ctypes.c_int64 * LIST_FIELDS)(*rooms, *steps, part.band, part.rows, part.bands)
        self._fields = ctypes.addressof(self._parameters)
        self._list, self._alone = _listing(), loop.alone

    def __call__(self, source: int, target: int, origins: NDArray[np.int64]) -> bool:
        """Write every window; see `DirectCrops`."""
        places = origins.tobytes()
        known, offset, move = self._last
        if places == known:
            move(source + offset, target)
            return True
        is_one = places == places[:_ORIGIN_BYTES] * self._count
        try:
            if is_one and self._is_quick:
                return self._at_once(source, target, places)
            if self._can_list and self._run_list(source, target, origins):
                return True
            return is_one and self._at_once(source, target, places)
        except LoopError:
            return False

    def _run_list(self, source: int, target: int, origins: NDArray[np.int64]) -> bool:
        """Write windows one by one, if all are inside."""
        entries, count = np.empty(1 + self._count * ENTRY_FIELDS, np.int64), self._count
        (read, written), place = self._begins, address_of(entries)
        self._list(address_of(origins), place, self._fields, source + read, target + written, count)
        if entries.item(0):
            return False
        if self._nbytes < policy().crops.shared_bytes:
            self._alone(0, 0, place + 8, 0, count)
        else:
            run_entries(self._loop, entries[1:].reshape(-1, ENTRY_FIELDS), self._nbytes)
        return True

    def _at_once(self, source: int, target: int, places: bytes) -> bool:
        """Write windows that all begin at one place by one move, if there is one; it is kept for the next call."""
        y, x = unpack("=2q", places[:_ORIGIN_BYTES])
        crop = Crop(self._image, (y, x))
        beyond = overhang(crop, self._size)
        try:
            move = self._moves[beyond]
        except KeyError:
            if len(self._moves) >= policy().crops.most_recipes:
                self._moves.clear()
            move = self._moves[beyond] = self._planned(crop, is_inside=not any(beyond))
        if move is None:
            return False
        offset = self._first + y * self._down + x * self._right
        move(source + offset, target)
        self._last = places, offset, move
        return True

    def _planned(self, crop: Crop, *, is_inside: bool) -> DirectLaunch | None:
        """Plan the move of windows like this one, from the pixel at their origin and the batch's lowest element.

        None where a window needs more than one move.
        """
        problem, memory = self._problem, None
        if is_inside:
            walk = inside_walk(problem, self._image, self._step)
        else:
            bordered = bordered_walk(problem, crop, self._count, self._step)
            if bordered is None:
                return None
            walk, memory = bordered
        return moving(walk, problem.bytes_moved, policy().crops.shared_bytes, memory)


def _no_move(_source: int, _target: int) -> None:
    """The placeholder before the first move; never called."""
    raise AssertionError("no batch has origins without bytes")


@lru_cache(maxsize=1)
def _listing() -> Callable[..., None]:
    """`list_text` as a function of its arguments."""
    loop = compiled(list_text)
    return python_function(loop.address, 6)


def run_entries(loop: CompiledFunction, entries: NDArray[np.int64], nbytes: int) -> None:
    """Run a kernel over a list of entries; the caller keeps the memory that the entries point to alive."""
    limits = policy().crops
    if nbytes < limits.shared_bytes:
        loop.alone(0, 0, address_of(entries), 0, len(entries))
        return
    pieces = -(-limits.least_entries // len(entries))
    if pieces > 1 and get_num_threads() > 1:
        # Each entry's bands from number 0 on, in about as many pieces.
        steps = [(*fixed, bands, -(-bands // pieces)) for *fixed, _, bands in entries.tolist()]
        cut = [
            (*fixed, first, min(first + step, bands))
            for *fixed, bands, step in steps
            for first in range(0, bands, step)
        ]
        entries = np.array(cut, np.int64)
    run_shared(loop, 0, 0, address_of(entries), len(entries), nbytes=nbytes)
