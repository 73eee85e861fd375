"""A step on a GPU whose launches are captured in a CUDA graph: `Preprocess.captured`.

A call of a step chooses kernels, allocates the result, and launches, from Python. A captured step has chosen and
allocated; a call of it draws and places the windows, and a call without arguments launches the graph alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from stridedgpu.api.creation import asarray
from stridedgpu.api.frames import Frame
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.selection import device_named
from stridedgpu.values.errors import BindingError, DeviceError, LayoutError

from .declaration import Declaration, UserData
from .epochs import checked_epoch
from .worker import BatchResult, Call, Worker, is_sequence

if TYPE_CHECKING:
    from stridedgpu.devices.cuda.runtime.graphs import RecordedGraph


class CapturedPreprocess:
    """A step for so many images on one CUDA device, as a graph: see `Preprocess.captured`.

    `result` is the tensor that every call writes and returns, with axes N, C, H, W.
    """

    result: StridedTensor

    def __init__(self, step: Declaration, worker: Worker, images: UserData, keys: UserData, epoch: int) -> None:
        """Process the images once, as the step does, and capture the same launches."""
        self._step, self._worker, self._calls = step, worker, Lock()
        self._check_step(keys)
        self._is_list = isinstance(images, (list, tuple))
        self._count = len(images) if is_sequence(images) or hasattr(images, "__len__") else 0
        if not self._count:
            raise LayoutError("captured() takes a batch or a list of one image or more.")
        self._images, self._keys = self._read(images), keys
        first = self._run(Call(keys, epoch)).images
        assert isinstance(first, StridedTensor), "images of a list have a window of one size"
        self.result = first
        self._graph = self._captured(Call(keys, epoch, self.result.operand))

    def __call__(self, images: object = None, keys: object = None, *, epoch: int | None = None) -> StridedTensor:
        """Write `result`, in the order of the current stream, and return it.

        Without arguments the images are read where they were, with the windows of the call before. `images` are as many
        others on the same device; `keys` and `epoch` draw other windows, as in a call of the step. Images and windows
        for which the step chooses other kernels than the graph has are processed without the graph. The memory of the
        images is read when the stream gets there.

        Raises `LayoutError` for another number of images, `BindingError` for images elsewhere, `DeviceError` while the
        stream is captured, and what the step raises. The windows then stay as they were.
        """
        with self._calls:
            if images is not None or keys is not None or epoch is not None:
                self._place(images, keys, None if epoch is None else checked_epoch(epoch))
            self._graph.replay()
        return self.result

    def _place(self, images: UserData, keys: UserData, epoch: int | None) -> None:
        """Give the graph the records of other images, or of other windows in them."""
        if not self._graph.has_records:
            raise LayoutError(
                "This step moves whole images, by a launch that reads the memory that it was captured with: write new "
                "images there, and call it without arguments."
            )
        before = self._images, self._keys
        try:
            if images is not None:
                self._images = self._read(images)
                if self._step.seed is None and self._has_moved(before[0]):
                    return
            if keys is not None:
                self._keys = keys
            call = Call(self._keys, epoch, self.result.operand)
            self._graph.rewrite(lambda: self._run(call))
        except BaseException:
            self._images, self._keys = before
            raise

    def _has_moved(self, before: object) -> bool:
        """Whether the images differ from those before in their addresses alone, which the graph's records then have."""
        if not isinstance(before, list):
            pairs: list[tuple[UserData, UserData]] = [(before, self._images)] * self._count
        elif any(isinstance(image, Frame) for image in (*before, *self._images)):
            return False
        else:
            pairs = list(zip(before, self._images, strict=True))
        if any(one.dims != other.dims or one.operand.spec != other.operand.spec for one, other in pairs):
            return False
        distances = [other.buffer.address - one.buffer.address for one, other in pairs]
        return self._graph.move(np.array(distances, np.int64))

    def _run(self, call: Call) -> BatchResult:
        """The step's own call: for a list, or for a batch."""
        if isinstance(self._images, list):
            return self._worker.images(self._images, call)
        return self._worker.batch(self._images, call)

    def _captured(self, call: Call) -> RecordedGraph:
        """The graph of the call's launches. Raises `LayoutError` for a step that needs more memory than its result."""
        from stridedgpu.devices.cuda.runtime.graphs import RecordedGraph

        device: Any = device_named(self._worker.device)
        run: Callable[[], object] = lambda: self._run(call)  # noqa: E731 - one line, and named for the call below
        try:
            return RecordedGraph(self._worker.device, device.records, run)
        except DeviceError as refusal:
            raise LayoutError(
                f"This step needs memory besides its result, as matrix= does, and no graph allocates: {refusal}"
            ) from refusal

    def _read(self, images: UserData) -> StridedTensor | list[UserData]:
        """Images as tensors over their memory, behind the streams that produced it; frames as they are."""
        count = len(images)
        if isinstance(images, (list, tuple)) != self._is_list or count != self._count:
            kinds = ["a batch", "a list"]
            raise LayoutError(
                f"This step is captured for {kinds[self._is_list]} of {self._count} images; "
                f"{kinds[isinstance(images, (list, tuple))]} of {count} came."
            )
        if not self._is_list:
            batch = images if isinstance(images, StridedTensor) else asarray(images, dims=self._step.dims)
            self._check_device("The batch", batch.device)
            return batch
        if self._step.window is None:
            raise LayoutError(
                "Images of a list have results of sizes of their own: declare crop=, letterbox= or resize= to both "
                "sides, or capture a batch."
            )
        read: list[UserData] = []
        for row, image in enumerate(images):
            if isinstance(image, Frame) and not self._step.resizes:
                raise LayoutError(
                    f"row {row} is a Frame, whose window is a constant of its launch where nothing is resized: declare "
                    "resize=, random_resized_crop= or letterbox=."
                )
            read.append(image if isinstance(image, (Frame, StridedTensor)) else asarray(image))
            self._check_device(f"row {row}", read[-1].device)
        return read

    def _check_device(self, name: str, device: str) -> None:
        """Raise `BindingError` for memory that is not on the step's device."""
        if device != self._worker.device:
            raise BindingError(
                f"{name} is on {device}; a captured step reads images on {self._worker.device}: move them there with "
                "to_device."
            )

    def _check_step(self, keys: Sequence[object] | None) -> None:
        step, device = self._step, self._worker.device
        if not device.startswith("cuda:"):
            raise DeviceError(f"captured() is for a step on a CUDA device, and this one is on {device}: device='cuda'.")
        if step.errors == "skip":
            raise LayoutError("A captured step has a row for every image: declare errors='raise', which drops none.")
        if step.annotations:
            raise LayoutError("A captured step moves images alone: declare it without mask=, boxes= and points=.")
        if step.colours:
            raise LayoutError("gain= and offset= are constants of a launch, which a graph keeps: leave them out.")
        if step.seed is not None and keys is None:
            raise LayoutError("A captured step with a seed needs keys=, one for each image.")
