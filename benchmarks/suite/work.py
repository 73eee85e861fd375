"""A workload on a device: its tensors, what must come out, and our own calls.

The tensors are filled once, alike on every device, and peers look at the same memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import stridedgpu as sg
from stridedgpu.operations.channel_blocks import parse_order

from .workloads import Crops, Embed, Relayout, Scale, Workload

__all__ = ["Array", "CropWork", "Move", "Pick", "Work", "make_work", "our_call"]

Array = NDArray[Any]

_SEED = 7


@dataclass(frozen=True, slots=True)
class Move:
    """A relayout: `target` is where the result goes, unless each call allocates one with `channels` channels.

    Both have axes in canonical order. `channels` counts those that are filled up with zeros.
    """

    workload: Relayout
    source: sg.StridedTensor
    target: sg.StridedTensor
    channels: int | None

    @property
    def bytes_moved(self) -> int:
        """What must be read, each stored element once, and written, zeros included."""
        stored = self.source.sizes if not self.workload.broadcast else self.source.sizes[1:2]
        read = int(np.prod(stored)) * self.source.itemsize
        written = int(np.prod(self.target.sizes)) * self.target.itemsize
        if self.channels is not None:
            written = written // self.target.sizes[1] * self.channels
        return read + written

    @property
    def kernel(self) -> str:
        """The name of the plan's kernel."""
        return sg.plan_relayout(self.source, self.target, scale=self.workload.scale, bias=self.workload.bias).kernel

    def expected(self) -> Array:
        """What comes out, by NumPy, in the arithmetic that the library promises."""
        values = _normalised(self.source.numpy(), self.workload).astype(self.target.dtype)
        if self.channels is None:
            return values
        count, channels, *rest = values.shape
        fillers = np.zeros((count, self.channels - channels, *rest), values.dtype)
        return np.concatenate((values, fillers), axis=1)


@dataclass(frozen=True, slots=True)
class Pick:
    """Rows of `data` by `indices` into `target`."""

    workload: Embed
    data: sg.StridedTensor
    indices: sg.StridedTensor
    target: sg.StridedTensor

    @property
    def bytes_moved(self) -> int:
        """Every row read and written, every index read."""
        return 2 * self.target.nbytes + self.indices.nbytes

    @property
    def kernel(self) -> str:
        """The name of the plan's kernel."""
        return sg.plan_gather(self.data, self.indices).kernel

    def expected(self) -> Array:
        """What comes out, by NumPy."""
        return np.take(self.data.numpy(), self.indices.numpy(), axis=0)


@dataclass(frozen=True, slots=True)
class CropWork:
    """Windows of `frames` at `origins`, mirrored where `flips` says so, into `target` (NCHW)."""

    workload: Crops
    frames: sg.StridedTensor
    origins: Array
    flips: Array
    target: sg.StridedTensor

    @property
    def sources(self) -> list[sg.StridedTensor]:
        """The frame of each window, axes C, H, W."""
        return [self.frames[number % self.frames.sizes[0]] for number in range(len(self.origins))]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of a window."""
        return self.target.sizes[2], self.target.sizes[3]

    @property
    def bytes_moved(self) -> int:
        """Every pixel of a window read and written once."""
        return self.target.nbytes // self.target.itemsize * (1 + self.target.itemsize)

    @property
    def kernel(self) -> str:
        """The name of the plan's kernel."""
        how = self.workload
        return sg.plan_gather_crops(self.sources, self.size, scale=how.scale, bias=how.bias, out=self.target).kernel

    def expected(self) -> Array:
        """What comes out, by NumPy."""
        frames = self.frames.numpy()
        height, width = self.size
        windows = np.stack(
            [
                frames[number % len(frames), :, top : top + height, left : left + width][:, :, :: -1 if flip else 1]
                for number, ((top, left), flip) in enumerate(zip(self.origins, self.flips, strict=True))
            ]
        )
        return _normalised(windows, self.workload).astype(self.target.dtype)


Work = Move | Pick | CropWork


def make_work(workload: Workload, scale: Scale, device: str, seed: int = _SEED) -> Work:
    """The workload's tensors on a device, inputs filled."""
    random = np.random.default_rng(seed)
    sizes = workload.sizes[scale]
    if isinstance(workload, Embed):
        return _pick(workload, sizes, device, random)
    if isinstance(workload, Crops):
        return _crops(workload, sizes, device, random)
    return _move(workload, sizes, device, random)


def our_call(work: Work) -> Callable[[], object]:
    """The library's own way, ready to be called; what it returns is the result where a call allocates it."""
    if isinstance(work, Pick):
        return lambda: sg.gather(work.data, work.indices, out=work.target)
    if isinstance(work, CropWork):
        sources, scale, bias = work.sources, work.workload.scale, work.workload.bias
        return lambda: sg.gather_crops(
            sources, work.origins, work.size, flip=work.flips, scale=scale, bias=bias, out=work.target
        )
    workload, source, target = work.workload, work.source, work.target
    options: dict[str, Any] = {"scale": workload.scale, "bias": workload.bias}
    if workload.call == "plan":
        plan = sg.plan_relayout(source, target, **options)
        return lambda: plan(source, target)
    if workload.call == "out":
        return lambda: sg.relayout(source, out=target, **options)
    order, wanted = workload.target_order, workload.target_type
    return lambda: sg.relayout(source, layout=order, dtype=wanted, **options)


def _move(workload: Relayout, sizes: tuple[int, ...], device: str, random: np.random.Generator) -> Move:
    stored = (1, sizes[1], 1, 1) if workload.broadcast else sizes
    itemsize = np.dtype(workload.source_type).itemsize
    pitch = None
    if workload.extra_row_bytes:
        row = sizes[-1] * (sizes[1] if workload.source_order.endswith("C") else 1) * itemsize
        pitch = row + workload.extra_row_bytes
    held = sg.empty(stored, workload.source_type, layout=workload.source_order, row_pitch_bytes=pitch, device=device)
    _fill(held, random)
    source = held[(..., *workload.window)] if workload.window else held
    source = source.broadcast_to(sizes) if workload.broadcast else source
    order = parse_order(workload.target_order)
    target = sg.empty(source.sizes, workload.target_type, layout=workload.target_order, device=device)
    channels = None if order.multiple == 1 else -(-sizes[1] // order.multiple) * order.multiple
    return Move(workload, source, target, channels)


def _pick(workload: Embed, sizes: tuple[int, ...], device: str, random: np.random.Generator) -> Pick:
    rows, width = sizes
    data = sg.empty((rows, width // 4), "float32", device=device)
    _fill(data, random)
    indices = random.permutation(rows).astype(workload.index_type)
    target = sg.empty(data.sizes, "float32", device=device)
    return Pick(workload, data, sg.asarray(indices, device=device, copy=True), target)


def _crops(workload: Crops, sizes: tuple[int, ...], device: str, random: np.random.Generator) -> CropWork:
    *batch, count, side = sizes
    frames = sg.empty(batch, "uint8", layout="NHWC", device=device)
    _fill(frames, random)
    origins = np.stack([random.integers(0, batch[axis] - side, count) for axis in (2, 3)], axis=1)
    target = sg.empty((count, batch[1], side, side), workload.target_type, layout="NCHW", device=device)
    return CropWork(workload, frames, origins, np.arange(count) % 2 == 1, target)


def _fill(tensor: sg.StridedTensor, random: np.random.Generator) -> None:
    """Whole numbers of 0..255, which every element type holds exactly."""
    tensor[...] = random.integers(0, 256, tensor.sizes, np.uint8)


def _normalised(values: Array, how: Relayout | Crops) -> Array:
    """Product rounded, then sum rounded, in float32; elements that are only moved stay as they are."""
    if how.scale is None:
        return values
    shape = [1] * values.ndim
    if len(how.scale) > 1:
        shape[1] = len(how.scale)
    computed = values.astype(np.float32)
    computed *= np.array(how.scale, np.float32).reshape(shape)
    if how.bias is not None:
        computed += np.array(how.bias, np.float32).reshape(shape)
    return computed
