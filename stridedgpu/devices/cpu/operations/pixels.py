"""Operations on pixels on the CPU: NumPy's loops and compiled ones of each, imported when they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final

from stridedgpu.devices.cpu.plan import CpuOperation
from stridedgpu.devices.cpu.policy import policy

__all__ = ["CHANNEL_MATRIX", "FRAMES", "RAW", "RESIZE", "SAMPLES"]


@dataclass(frozen=True, slots=True)
class _Function:
    """A function of the CPU's loops, whose module is imported with its first call. Plans pickle its name.

    `binds`: a call gives the function with its first argument, the problem.
    """

    module: str
    name: str
    binds: bool = False

    def __call__(self, *arguments: Any) -> Any:
        """Call or bind the function."""
        function = getattr(import_module(f"stridedgpu.devices.cpu.{self.module}"), self.name)
        return partial(function, *arguments) if self.binds else function(*arguments)


def _resize_bytes() -> int:
    return policy().promotion.resize_bytes


def _frame_bytes() -> int:
    return policy().promotion.frame_bytes


CHANNEL_MATRIX: Final = CpuOperation(
    _Function("numpy_loops.channel_matrix", "numpy_channel_matrix_kernel"),
    _Function("numpy_loops.channel_matrix", "mix_channels", binds=True),
    _Function("compiled.channel_matrix", "channel_matrix_kernel"),
    _Function("compiled.channel_matrix", "compiled_channel_matrix"),
    arguments=4,
    tells_why=True,
)

FRAMES: Final = CpuOperation(
    _Function("numpy_loops.frames", "numpy_frames_kernel"),
    _Function("numpy_loops.frames", "frame_loops", binds=True),
    _Function("compiled.frames", "frames_kernel"),
    _Function("compiled.frames", "compiled_frames"),
    arguments=3,
    at_once_bytes=_frame_bytes,
    tells_why=True,
)

SAMPLES: Final = CpuOperation(
    _Function("numpy_loops.frames", "numpy_samples_kernel"),
    _Function("numpy_loops.frames", "write_samples", binds=True),
    _Function("compiled.frame_encode", "samples_kernel"),
    _Function("compiled.frame_encode", "compiled_samples"),
    arguments=2,
    at_once_bytes=_frame_bytes,
    tells_why=True,
)

RAW: Final = CpuOperation(
    _Function("numpy_loops.raw", "numpy_raw_kernel"),
    _Function("numpy_loops.raw", "unpack_samples", binds=True),
    _Function("compiled.raw", "raw_kernel"),
    _Function("compiled.raw", "compiled_raw"),
    arguments=4,
    at_once_bytes=_frame_bytes,
    tells_why=True,
)

RESIZE: Final = CpuOperation(
    _Function("numpy_loops.resize", "numpy_resize_kernel"),
    _Function("numpy_loops.resize", "resize_located", binds=True),
    _Function("compiled.resize", "resize_kernel"),
    _Function("compiled.resize", "compiled_resize"),
    arguments=3,
    at_once_bytes=_resize_bytes,
    tells_why=True,
)
