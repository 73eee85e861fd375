"""A batch beside NumPy's loops: every bit of its images.

The library carries out every operation by NumPy, too, which is what its native loops and kernels are tested with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.cpu.policy import policy, using
from stridedgpu.preprocess.images import Pixels
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.preprocess.worker import Call
from stridedgpu.values.errors import StridedGpuError


class NumpyStep:
    """A step that NumPy's loops carry out, on the CPU."""

    def __init__(self, step: Preprocess[Any]) -> None:
        self._step, self._near = step, replace(step, device="cpu")
        self._policy = policy()._replace(native=False)

    def check_bits(self, image: StridedTensor, pixels: Pixels, key: str, number: int) -> None:
        """Raise `StridedGpuError` if an image of the step differs from NumPy's: wrong pixels are never handed out."""
        with using(self._policy):
            [expected] = self._near._worker.images([pixels], Call([key], self._step.epoch), stacked=True).images
        if image.numpy().tobytes() != expected.numpy().tobytes():
            raise StridedGpuError(
                f"image {number} of the batch differs from NumPy's: a fault in stridedgpu, please report it. "
                "Nothing was written."
            )
