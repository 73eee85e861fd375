"""NumPy: assignments into views, expressions with their temporaries, `take`. One thread."""

from __future__ import annotations

import numpy as np

from benchmarks.suite.work import Array, CropWork, Move, Pick, Work
from benchmarks.suite.workloads import Crops, Relayout

from .peer import Call, factors

__all__ = ["NumpyPeer"]


class NumpyPeer:
    """NumPy on the CPU."""

    name = "numpy"
    version = np.__version__
    waits = True

    def call(self, work: Work) -> Call:
        """The work, ready to be done."""
        if isinstance(work, Move):
            return _padded(work) if work.channels is not None else _moved(work)
        return _picked(work) if isinstance(work, Pick) else _cropped(work)

    def host(self, work: Work, result: Array) -> Array:  # noqa: ARG002 - its axes are canonical
        """The array itself."""
        return result


def _moved(work: Move) -> Call:
    source, target, workload = work.source.numpy(), work.target.numpy(), work.workload
    if workload.call == "allocating":
        return lambda: np.ascontiguousarray(source)
    if workload.normalised is None:
        return lambda: np.copyto(target, source)

    def normalise() -> None:
        target[...] = _normalised(source, workload)

    return normalise


def _padded(work: Move) -> Call:
    source, workload, channels = work.source.numpy(), work.workload, work.channels
    count, _, height, width = source.shape
    pixels = source.transpose(0, 2, 3, 1)

    def pad() -> Array:
        made = np.zeros((count, height, width, channels or 0), workload.target_type)
        made[..., : pixels.shape[3]] = _normalised(pixels, workload)
        return made.transpose(0, 3, 1, 2)

    return pad


def _picked(work: Pick) -> Call:
    data, indices, target = work.data.numpy(), work.indices.numpy(), work.target.numpy()
    # With mode="raise" NumPy buffers `out`; the indices are in range.
    return lambda: np.take(data, indices, axis=0, out=target, mode="clip")


def _cropped(work: CropWork) -> Call:
    frames, target = work.frames.numpy(), work.target.numpy()
    height, width = work.size

    def crop() -> None:
        for number, ((top, left), flip) in enumerate(zip(work.origins, work.flips, strict=True)):
            window = frames[number % len(frames), :, top : top + height, left : left + width]
            target[number] = _normalised(window[:, :, ::-1] if flip else window, work.workload)

    return crop


def _normalised(values: Array, how: Relayout | Crops) -> Array:
    found = factors(how)
    if found is None:
        return values
    scale, bias = found
    if how.bias is None:
        return np.multiply(values, scale, dtype=np.float32)
    planes = np.multiply(values, scale, dtype=np.float32)
    planes += bias
    return planes
