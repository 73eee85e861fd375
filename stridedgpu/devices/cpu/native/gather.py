"""Gathers, scatters and checks of indices on the native library: a compiled kernel's parameters as the library's.

One or two functions of the library stand for what is compiled for each kernel: one resolves a chunk of indices of a
type and a mode, the other moves runs of some length.

    rows of 100 bytes by int32, clipped    "resolve" int32, clipped        "runs" of two times 64 bytes that overlap
    elements of float32 by int64           "elements" of 4 bytes by int64, checked
    the same of rows of 100                "positions" of 4 bytes          "lookup" of 4 bytes in 4 pairs of registers
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stridedgpu.devices.cpu.compiled.gather_elements import GatherElements
from stridedgpu.devices.cpu.compiled.gather_loop import Gather

from .calls import CompiledFunction
from .library import function
from .registers import LINE_BYTES

if TYPE_CHECKING:
    from stridedgpu.devices.cpu.compiled.gather import GatherCall
    from stridedgpu.devices.cpu.compiled.gather_indices import IndexKind
    from stridedgpu.devices.cpu.compiled.gather_registers import RowsInRegisters
    from stridedgpu.devices.cpu.compiled.index_check import IndexCheckCall

_MOST_POSITIONS: Final = 1024
"""Positions in registers that are resolved together."""

_TOGETHER_BYTES: Final = 2048
"""Bytes of the elements of groups that are resolved together. With four times as many, int64 in 14 MB took 1.6 times
as long: rows are read in bursts between those of indices."""

_LARGEST_SPAN: Final = 1 << 30
"""Bytes up to which offsets have 32 bits."""

_LONG_ROW: Final = 128
"""Indices of a row from which on a call for each is worth it."""

_EXACT: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Bytes of the runs that are a constant of their function, in the order of the library's table."""

_ONCE: Final = (1, 0, 0, 0, 1, 1)
"""A loop of one step: its size, its strides, its block, and the number of blocks."""


def gather_loop(call: GatherCall, level: str) -> tuple[CompiledFunction, tuple[int, ...]]:
    """The loop of a gather or scatter, and its parameters behind the address of the indices."""
    kernel, fields = call.kernel, call.parameters
    if isinstance(kernel, Gather):
        # Sizes and strides on the indexed side: of `b`, and of the rows around it.
        width, row, follows, components = fields[9], fields[17], int(kernel.follows), kernel.components
        axes = fields[len(fields) - 3 * components :]
        resolve = _resolve(kernel.index, level, axes)
        transfer = _transfer(level, fields[1], scatters=kernel.scatters)
    elif isinstance(kernel, GatherElements):
        total, width, along, row, size, stride, block, blocks, *outer = fields
        follows, components, axes = 1, 1, (size, stride, 0)
        dense = total, kernel.run, along, kernel.index.nbytes, block, blocks
        fields = (kernel.run, kernel.run, 1, *_ONCE, *dense, *_ONCE, *outer, *axes)
        resolve = transfer = 0
        if kernel.index.mode == "wrap" or (kernel.scatters and kernel.index.mode == "clip"):
            resolve = _resolve(kernel.index, level, axes)
            transfer = _transfer(level, kernel.run, scatters=kernel.scatters)
    else:
        return _in_registers(call, kernel, level)
    elements = 0 if resolve or isinstance(kernel, Gather) else _elements(kernel, level)
    own = resolve, transfer, elements, width, row, follows, int(kernel.scatters), components, kernel.rank
    return CompiledFunction(function(level, "gather")), (*own, *fields)


def _elements(kernel: GatherElements, level: str) -> int:
    """The function that moves single elements."""
    size, index = kernel.run.bit_length() - 1, kernel.index
    # Checked indices have the same bits with a sign and without.
    kind = 2 + _type(index) if index.mode == "clip" else _type(index) % 2
    return function(level, "elements", 24 + 2 * size + kind if kernel.scatters else 6 * size + kind)


def _transfer(level: str, run: int, *, scatters: bool = False) -> int:
    """The function that moves runs of so many bytes."""
    return function(level, "runs", _length(run, halves=scatters) + 17 * scatters)


def _length(run: int, *, halves: bool) -> int:
    """The place of the function that moves runs of so many bytes.

    With `halves` a line is two: scattered in the last-level cache, lines of AVX-512 took 2.4 times as long as halves.
    """
    if run in _EXACT and not (halves and run == LINE_BYTES):
        return _EXACT.index(run)
    if run <= 2 * LINE_BYTES:
        return 9 + (run - 1).bit_length() - 2
    return 15 if run <= 4 * LINE_BYTES else 16


def _resolve(index: IndexKind, level: str, axes: tuple[int, ...]) -> int:
    """The function that resolves indices of a kind, for axes of so many elements and bytes, and bytes into a tuple."""
    small = all(size <= 1 << 31 for size in axes[::3]) and all(0 <= stride < 1 << 32 for stride in axes[1::3])
    return function(level, "resolve", (_type(index) * 3 + _mode(index)) * 2 + small)


def _type(index: IndexKind) -> int:
    """The place of the indices' type: int32, int64, uint32, uint64."""
    return (index.nbytes == 8) + 2 * (not index.signed)


def _mode(index: IndexKind) -> int:
    return {"clip": 1, "wrap": 2}.get(index.mode, 0)


def _in_registers(call: GatherCall, kernel: RowsInRegisters, level: str) -> tuple[CompiledFunction, tuple[int, ...]]:
    """The loop over rows in registers."""
    index, position_bytes, rank = kernel.index, kernel.position_bytes, kernel.rank
    _, _, step, _, _, _, index_step, count, _, blocks, *_ = call.parameters
    first = 12 + 4 * rank
    fields, own = call.parameters[:first], call.parameters[first : first + kernel.repeated]
    together = 1
    if not kernel.repeated and blocks == 1 and index_step * step == count * index.nbytes:
        together = max(1, min(_MOST_POSITIONS, _TOGETHER_BYTES // kernel.run) // count)
    places = b""
    if kernel.grouped:
        # The places of one group's elements, for each of the groups that are resolved together.
        words = call.parameters[first + kernel.repeated :]
        places = b"".join(word.to_bytes(8, "little") for word in words)[: count * position_bytes] * together
        places += bytes(-len(places) % 8)
    numbers = tuple(int.from_bytes(places[at : at + 8], "little", signed=True) for at in range(0, len(places), 8))
    has_upper = kernel.run == 1 and position_bytes == 2
    place = 4 if has_upper else position_bytes.bit_length() - 1
    looked_up = 4 if has_upper else kernel.run.bit_length() - 1
    pairs = 0 if kernel.registers == 1 else -(-kernel.registers // 2)
    return CompiledFunction(function(level, "gather in registers")), (
        function(level, "positions", (_type(index) * 2 + _mode(index)) * 5 + place),
        function(level, "lookup", looked_up * 9 + pairs),
        *(kernel.run, position_bytes, index.nbytes, kernel.registers, kernel.parts, int(kernel.repeated)),
        *(int(kernel.grouped), together, rank),
        *fields,
        *own,
        *numbers,
    )


def check_loop(call: IndexCheckCall, level: str) -> tuple[CompiledFunction, tuple[int, ...]]:
    """The loop of a check of indices, and its parameters."""
    kernel, fields = call.kernel, call.parameters
    axes = fields[10 : 10 + 3 * kernel.components]
    resolve = mark = 0
    (_, row, *_), (count, step, *_) = fields[:5], fields[5:10]
    long = row == count * step or count >= _LONG_ROW
    if kernel.marks and long and kernel.components == 1 and kernel.index.packed and call.marks <= _LARGEST_SPAN:
        mark = function(level, "elements", 24 + _type(kernel.index) % 2)
    elif kernel.marks:
        resolve = _resolve(kernel.index, level, axes)
    own = resolve, mark, kernel.components, kernel.rank
    return CompiledFunction(function(level, "index check", _type(kernel.index))), (*own, *fields)
