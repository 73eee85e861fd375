"""The taps of Pillow's filters along axes that were seen before, and of several new ones at once."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Final

from .resize_arithmetic import Interpolation
from .resize_taps import AxisGeometry, AxisTaps, pillow_taps_of

__all__ = ["AXES", "Axes"]

_Key = tuple[Interpolation, bool, AxisGeometry]


class Axes:
    """Taps by filter, type of the weights and geometry; of more than `most` axes the oldest are given up."""

    def __init__(self, most: int) -> None:
        """Begin with none."""
        self._most = most
        self._known: dict[_Key, AxisTaps] = {}
        self._evicting = Lock()

    def taps(self, interpolation: Interpolation, geometries: Sequence[AxisGeometry], *, fixed: bool) -> list[AxisTaps]:
        """The taps of each geometry, as `pillow_taps` returns them; those of one result size are computed together."""
        found = {axis: self._known.get((interpolation, fixed, axis)) for axis in geometries}
        missing: dict[int, list[AxisGeometry]] = {}
        for axis, taps in found.items():
            if taps is None:
                missing.setdefault(axis.target, []).append(axis)
        made: dict[AxisGeometry, AxisTaps] = {axis: taps for axis, taps in found.items() if taps is not None}
        for axes in missing.values():
            made |= zip(axes, pillow_taps_of(interpolation, axes, fixed=fixed), strict=True)
        if missing:
            with self._evicting:
                self._known |= {(interpolation, fixed, axis): made[axis] for axes in missing.values() for axis in axes}
                for key in list(self._known)[: -self._most]:
                    del self._known[key]
        return [made[axis] for axis in geometries]


AXES: Final = Axes(512)
"""The axes of all resizes, some 10 KiB each for 224 pixels: sizes of images recur, and random boxes do not."""
