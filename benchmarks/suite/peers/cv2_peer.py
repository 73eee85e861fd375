"""OpenCV: `split`, `merge`, `transpose` and `dnn.blobFromImages`, an image at a time, for what they know."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.suite.work import Array, Move, Work
from stridedgpu.devices.cpu.thread_count import get_num_threads

from .peer import Call, CannotDoError, in_place

__all__ = ["Cv2Peer"]


class Cv2Peer:
    """OpenCV on the CPU, allowed as many threads as the library has."""

    name = "cv2"
    waits = True

    def __init__(self) -> None:
        """Import OpenCV."""
        self._cv2: Any = import_module("cv2")
        self._cv2.setNumThreads(get_num_threads())
        self.version = str(self._cv2.__version__)

    def call(self, work: Work) -> Call:
        """The work, ready to be done. Raises `CannotDoError`."""
        if not isinstance(work, Move):
            raise CannotDoError("has no gather, and no crops of a batch with a deviation a channel")
        workload = work.workload
        source, target = work.source.numpy(), work.target.numpy()
        if workload.target_type == "float16":
            raise CannotDoError("has no float16 here")
        if workload.call != "out" or workload.window or workload.broadcast or workload.measures == "call":
            raise CannotDoError("has no such operation on a batch")
        orders = (workload.source_order, workload.target_order)
        if orders == ("WH", "HW"):
            turned = source.T
            return in_place(self._cv2.transpose, turned, target)
        if orders == ("NHWC", "NWHC"):
            return self._turned(source, target)
        if source.ndim != 4 or source.shape[1] > 4 or orders[0] == orders[1]:
            raise CannotDoError("has no such operation")
        if orders == ("NHWC", "NCHW"):
            return self._split(work, source, target)
        return self._merge(source, target)

    def host(self, work: Work, result: Array) -> Array:  # noqa: ARG002 - its axes are canonical
        """The array itself."""
        return result

    def _split(self, work: Move, source: Array, target: Array) -> Call:
        frames = list(source.transpose(0, 2, 3, 1))
        if work.workload.scale is not None:
            (factor,) = work.workload.scale
            return lambda: self._cv2.dnn.blobFromImages(frames, factor)

        def split() -> None:
            for frame, planes in zip(frames, target, strict=True):
                self._cv2.split(frame, list(planes))

        return split

    def _merge(self, source: Array, target: Array) -> Call:
        frames = target.transpose(0, 2, 3, 1)

        def merge() -> None:
            for planes, frame in zip(source, frames, strict=True):
                self._cv2.merge(list(planes), frame)

        return merge

    def _turned(self, source: Array, target: Array) -> Call:
        frames, turned = source.transpose(0, 2, 3, 1), target.transpose(0, 3, 2, 1)

        def turn() -> None:
            for frame, into in zip(frames, turned, strict=True):
                self._cv2.transpose(frame, into)

        return turn
