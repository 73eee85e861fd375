"""nvmath-python: its own layout copy, `internal.ndbuffer`, which puts operands of its operations in order.

It is not public; what it does is the closest to a relayout without a conversion that NVIDIA ships in Python.
"""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import stridedgpu as sg
from benchmarks.suite.work import Array, Move, Work

from .peer import Call, CannotDoError

__all__ = ["NvmathPeer"]


class NvmathPeer:
    """nvmath-python on a GPU, on the stream that CuPy uses."""

    name = "nvmath"
    waits = False

    def __init__(self) -> None:
        """Import nvmath-python and its buffers."""
        self.version = str(import_module("nvmath").__version__)
        self._buffers: Any = import_module("nvmath.internal.ndbuffer.ndbuffer")
        self._streams: Any = import_module("cupy").cuda

    def call(self, work: Work) -> Call:
        """The work, ready to be done. Raises `CannotDoError`."""
        if not isinstance(work, Move) or work.workload.normalised is not None:
            raise CannotDoError("copies between layouts only")
        if work.workload.call != "out" or work.source.dtype != work.target.dtype:
            raise CannotDoError("neither casts nor allocates here")
        source, target = self._wrapped(work.source), self._wrapped(work.target)
        copy_into, stream = self._buffers.copy_into, self._streams.get_current_stream().ptr
        holder = SimpleNamespace(obj=SimpleNamespace(handle=stream))

        def copy() -> None:
            copy_into(target, source, holder)

        return copy

    def host(self, work: Work, result: Array) -> Array:  # noqa: ARG002 - its axes are canonical
        """Nothing is ever returned."""
        return result

    def _wrapped(self, tensor: sg.StridedTensor) -> Any:
        return self._buffers.wrap_external(
            tensor,
            tensor.operand.address,
            tensor.dtype.name,
            tensor.sizes,
            tensor.strides,
            int(tensor.device.partition(":")[2]),
            tensor.itemsize,
        )
