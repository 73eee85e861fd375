"""Crops on the native library: rows with a border, and the loops over lists of windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from stridedgpu.devices.cpu.policy import policy

from .calls import CompiledFunction, python_function
from .library import function
from .pool import LoopCall

if TYPE_CHECKING:
    from stridedgpu.devices.cpu.compiled.crop_kernels import BorderedRows

    from .kernel_call import KernelCall

_ENTRIES: Final = 0
_BORDERED: Final = 1
"""The places of the library's loops."""

_LIST_ARGUMENTS: Final = 6


def entries_loop() -> CompiledFunction | None:
    """The loop over a list of windows; None without the library."""
    level = policy().native_level
    return None if level is None else CompiledFunction(function(level, "crops", _ENTRIES))


def list_function() -> Callable[..., None] | None:
    """What lists windows inside their images, as `list_text` does; None without the library."""
    level = policy().native_level
    return None if level is None else python_function(function(level, "crop list"), _LIST_ARGUMENTS)


def bordered_loop(call: KernelCall, level: str, owner: object) -> LoopCall:
    """The loop of a call of `BorderedRows`, on a level of the library; it keeps an `owner` of more memory alive."""
    kernel: BorderedRows = call.kernel  # type: ignore[assignment]
    inner, outer, tables = call.grid()
    fields = [*call.more, int(kernel.dense), kernel.merged, 0, 0, 0, *inner, len(call.outer), *outer]
    offsets = call.source_offset, call.target_offset
    loop = CompiledFunction(function(level, "crops", _BORDERED))
    return LoopCall.of(loop, fields, call.items, offsets, (tables, owner))
