"""Windows of pictures into a batch on any device: what lies on the CPU and goes to a GPU is sent in one piece."""

from __future__ import annotations

from collections.abc import Sequence

from stridedgpu.api.crops import gather_crops
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.selection import remote_backend_named
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import packed_strides

__all__ = ["write_windows"]

Numbers = Sequence[float] | float | None

_CHANNELS_LAST = (0, 2, 3, 1)


def write_windows(
    images: Sequence[StridedTensor],
    origins: Sequence[tuple[int, int]],
    batch: StridedTensor,
    *,
    flip: Sequence[bool],
    scale: Numbers = None,
    bias: Numbers = None,
    channels: Sequence[int] | None = None,
) -> None:
    """`gather_crops` of images (C, H, W) of one type and channel count, into `batch`, from wherever they are.

    A window lies inside its image. Raises as `gather_crops` does.
    """
    if batch.device != "cpu":
        images, origins = _sent(images, origins, batch)
    gather_crops(images, origins, batch.sizes[2:], flip=flip, scale=scale, bias=bias, channels=channels, out=batch)


def _sent(
    images: Sequence[StridedTensor], origins: Sequence[tuple[int, int]], batch: StridedTensor
) -> tuple[list[StridedTensor], list[tuple[int, int]]]:
    """The images on the batch's device, and where their windows begin there.

    Of those on the CPU only the windows go, packed into pinned memory and copied at once: a copy for each picture would
    cost more than its bytes, and of a photograph most is not in its window.
    """
    near = [place for place, image in enumerate(images) if image.device == "cpu"]
    sent = [image if image.device == "cpu" else image.to_device(batch.device) for image in images]
    starts = list(origins)
    if near:
        windows = _uploaded([images[place] for place in near], [origins[place] for place in near], batch)
        for place, window in zip(near, windows, strict=True):
            sent[place], starts[place] = window, (0, 0)
    return sent, starts


def _uploaded(images: list[StridedTensor], origins: list[tuple[int, int]], batch: StridedTensor) -> StridedTensor:
    """One window of each image as a batch on the device, its channels where the first image has them."""
    first = images[0]
    sizes = (len(images), first.sizes[0], *batch.sizes[2:])
    is_interleaved = 0 < first.strides[0] < first.strides[2]
    order = _CHANNELS_LAST if is_interleaved else None
    packed = Layout(sizes, packed_strides(sizes, order))
    memory = remote_backend_named(batch.device).allocate_staging(packed.element_count * first.itemsize)
    staged = StridedTensor(memory, packed, first.element.name, dims="NCHW")
    gather_crops(images, origins, sizes[2:], out=staged)
    return staged.relayout(layout="NHWC" if is_interleaved else "NCHW", device=batch.device)
