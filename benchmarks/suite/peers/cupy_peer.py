"""CuPy: assignments into views, expressions, `take`, on the same stream as the library."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.suite.work import Array, CropWork, Move, Pick, Work
from benchmarks.suite.workloads import Crops, Relayout

from .peer import Call, factors

__all__ = ["CupyPeer"]


class CupyPeer:
    """CuPy on a GPU."""

    name = "cupy"
    waits = False

    def __init__(self) -> None:
        """Import CuPy."""
        self._cupy: Any = import_module("cupy")
        self.version = str(self._cupy.__version__)

    def call(self, work: Work) -> Call:
        """The work, ready to be done."""
        if isinstance(work, Move):
            return self._padded(work) if work.channels is not None else self._moved(work)
        return self._picked(work) if isinstance(work, Pick) else self._cropped(work)

    def host(self, work: Work, result: Any) -> Array:  # noqa: ARG002 - its axes are canonical
        """An array's values, on the host."""
        array: Array = self._cupy.asnumpy(result)
        return array

    def _moved(self, work: Move) -> Call:
        cupy, workload = self._cupy, work.workload
        source, target = cupy.asarray(work.source), cupy.asarray(work.target)
        if workload.call == "allocating":
            return lambda: cupy.ascontiguousarray(source)
        found = self._factors(workload)

        def move() -> None:
            target[...] = self._normalised(source, found)

        return move

    def _padded(self, work: Move) -> Call:
        cupy, workload = self._cupy, work.workload
        source, found = cupy.asarray(work.source), self._factors(workload)
        count, channels, height, width = source.shape

        def pad() -> Any:
            made = cupy.zeros((count, height, width, work.channels), workload.target_type)
            pixels = made.transpose(0, 3, 1, 2)
            pixels[:, :channels] = self._normalised(source, found)
            return pixels

        return pad

    def _picked(self, work: Pick) -> Call:
        cupy = self._cupy
        data, indices, target = (cupy.asarray(tensor) for tensor in (work.data, work.indices, work.target))

        def pick() -> None:
            cupy.take(data, indices, axis=0, out=target)

        return pick

    def _cropped(self, work: CropWork) -> Call:
        cupy = self._cupy
        frames, target, found = cupy.asarray(work.frames), cupy.asarray(work.target), self._factors(work.workload)
        height, width = work.size

        def crop() -> None:
            for number, ((top, left), flip) in enumerate(zip(work.origins, work.flips, strict=True)):
                window = frames[number % len(frames), :, top : top + height, left : left + width]
                target[number] = self._normalised(window[:, :, ::-1] if flip else window, found)

        return crop

    def _factors(self, how: Relayout | Crops) -> tuple[Any, Any] | None:
        found = factors(how)
        return None if found is None else (self._cupy.asarray(found[0]), self._cupy.asarray(found[1]))

    def _normalised(self, values: Any, found: tuple[Any, Any] | None) -> Any:
        if found is None:
            return values
        scale, bias = found
        return self._cupy.multiply(values, scale, dtype="float32") + bias
