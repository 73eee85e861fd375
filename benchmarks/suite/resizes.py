"""Works of resizes: batches of images, or of frames of a video format, resized and normalised."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import numpy as np

import stridedgpu as sg
from stridedgpu.values.interpolation import Passes

__all__ = ["BATCH", "NORMALISED", "RESIZES", "ResizeWork"]

BATCH: Final = 64
"""Images of a batch."""

NORMALISED: Final[Mapping[str, Any]] = {"scale": (1 / 58.0, 1 / 57.0, 1 / 57.5), "bias": (-2.1, -2.0, -1.8)}


@dataclass(frozen=True)
class ResizeWork:
    """A batch of images of one size, or of frames of a format, resized and normalised to float16 planes."""

    interpolation: str
    source: tuple[int, int]
    target: tuple[int, int] = (224, 224)
    order: str = "NCHW"
    element: str = "float16"
    format: str | None = None
    passes: Passes = "horizontal"

    @property
    def options(self) -> Mapping[str, Any]:
        """How the resized pixels are converted."""
        return NORMALISED if self.element == "float16" else {}

    def frame(self, memory: Any) -> sg.Frame:
        """A frame of the format over some memory."""
        assert self.format is not None
        return sg.Frame.over(self.format, memory, self.source)

    @property
    def frame_bytes(self) -> int:
        """As much memory as a frame of any format needs."""
        return 3 * self.source[0] * self.source[1]

    def tensors(self, count: int, device: str, seed: int = 0) -> tuple[Any, sg.StridedTensor]:
        """A batch of random images, or a list of frames, and what it becomes."""
        rng = np.random.default_rng(seed)
        target = sg.empty((count, 3, *self.target), self.element, layout=self.order, device=device)
        if self.format is None:
            pixels = rng.integers(0, 256, (*self.source, 3), dtype=np.uint8)
            batch = sg.empty((count, 3, *self.source), "uint8", layout="NHWC", device=device)
            batch[...] = sg.asarray(pixels, dims="HWC").to_device(device)
            return batch, target
        bytes_of_one = rng.integers(0, 256, self.frame_bytes, dtype=np.uint8)
        memory = sg.empty((count, self.frame_bytes), "uint8", device=device)
        memory[...] = sg.asarray(bytes_of_one).to_device(device)
        return [self.frame(memory[number]) for number in range(count)], target

    def plan(self, images: Any, target: sg.StridedTensor) -> sg.PlannedResize:
        """The resize of these."""
        options: dict[str, Any] = {"interpolation": self.interpolation, **self.options}
        if self.interpolation.startswith("pillow"):
            options["passes"] = self.passes
        return sg.plan_resize(images, target, **options)

    @property
    def peers(self) -> Mapping[str, Callable[[sg.StridedTensor], Callable[[], object]]]:
        """Who does the same, by the name of the library; frames of a format they do not read."""
        return {"torch": self.call_of_torch, "torchvision": self.call_of_torchvision}

    def call_of_torch(self, images: sg.StridedTensor) -> Callable[[], object]:
        """The same by PyTorch: a cast, `interpolate` with antialias, and the normalisation.

        CUDA's antialias is for floats, and PyTorch has no rule of OpenCV's.
        """
        torch: Any = import_module("torch")
        interpolate = torch.nn.functional.interpolate
        batch = torch.from_dlpack(images)
        is_half = self.element == "float16" and batch.is_cuda  # PyTorch's CPU interpolates no float16
        element = torch.float16 if is_half else torch.float32
        finish = self._finish_of_torch(element, batch.device)
        return lambda: finish(
            interpolate(batch.to(element), self.target, mode=self._mode, antialias=self._has_antialias)
        )

    def call_of_torchvision(self, images: sg.StridedTensor) -> Callable[[], object]:
        """The same by torchvision's `resize` of uint8 tensors, which rounds to bytes, and the normalisation."""
        torch: Any = import_module("torch")
        functional: Any = import_module("torchvision.transforms.v2.functional")
        batch = torch.from_dlpack(images)
        element = torch.float16 if self.element == "float16" and batch.is_cuda else torch.float32
        finish = self._finish_of_torch(element, batch.device)
        mode = functional.InterpolationMode(self._mode)
        return lambda: finish(
            functional.resize(batch, list(self.target), interpolation=mode, antialias=self._has_antialias)
        )

    @property
    def _mode(self) -> str:
        return "bicubic" if "bicubic" in self.interpolation else "bilinear"

    @property
    def _has_antialias(self) -> bool:
        return self.interpolation.startswith("pillow")

    def _finish_of_torch(self, element: Any, device: Any) -> Callable[[Any], object]:
        """What follows a resize: the normalisation in a type of PyTorch's, or bytes."""
        torch: Any = import_module("torch")
        scale, bias = (
            torch.tensor(NORMALISED[name], dtype=element, device=device)[:, None, None] for name in ("scale", "bias")
        )
        if self.element != "float16":
            return lambda resized: resized.to(torch.uint8)
        return lambda resized: resized.to(element) * scale + bias


RESIZES: Final[Mapping[str, ResizeWork]] = {
    "500x375 bilinear": ResizeWork("pillow-bilinear", (375, 500)),
    "500x375 bicubic": ResizeWork("pillow-bicubic", (375, 500)),
    "500x375 rows first": ResizeWork("pillow-bilinear", (375, 500), passes="vertical"),
    "500x375 opencv": ResizeWork("opencv-linear", (375, 500)),
    "320x240 bilinear": ResizeWork("pillow-bilinear", (240, 320)),
    "224x224 to 448": ResizeWork("pillow-bilinear", (224, 224), (448, 448)),
    "1080p letterbox": ResizeWork("opencv-linear", (1080, 1920), (360, 640), "NHWC", "uint8"),
    "4K bilinear": ResizeWork("pillow-bilinear", (2160, 3840)),
    "NV12 to 640": ResizeWork("opencv-linear", (1080, 1920), (360, 640), format="nv12"),
    "I420 to 640": ResizeWork("opencv-linear", (1080, 1920), (360, 640), format="i420"),
    "YUYV to 640": ResizeWork("opencv-linear", (1080, 1920), (360, 640), format="yuyv"),
    "P010 to 640": ResizeWork("opencv-linear", (1080, 1920), (360, 640), format="p010"),
    "NV12 to 224": ResizeWork("pillow-bilinear", (1080, 1920), format="nv12"),
}
"""The works of resizes that are computed (`resize_model.py`) and measured (`kernels_alone.py`)."""
