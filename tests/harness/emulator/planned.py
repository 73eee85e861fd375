"""Runs plans as a GPU would, in the emulator, and checks every byte of the target and around it.

    check_cases([Case(source, target, made)])

goes the whole way: the planner, the launch of the plan's family, the kernel in all thread orders. The source's memory
ends where its slack ends, and is aligned to what its side guarantees and no more. The target's is filled with a pattern
beforehand, which is still there wherever no element lies, unless the padding is owned.

Expected are the values of the NumPy device, and for elements that move as bits also those of NumPy's own indexing.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from stridedgpu.devices.cpu.numpy_loops.relayout import NumpyRelayout
from stridedgpu.devices.cuda.gpu import REFERENCE_GPU, GpuProperties, KernelLaunch
from stridedgpu.devices.cuda.relayout.choice import RelayoutChoice
from stridedgpu.devices.cuda.relayout.families import choose_relayout, relayout_launch as cuda_launch
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.problems.relayout_problem import relayout_problem
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

from .runner import ORDERS, Buffer, Job, Pointer, Program, Record

Bytes = npt.NDArray[np.uint8]
Order = Literal["forward", "reversed", "random"]

_NAMES_PER_PROGRAM = 24
"""A program has some seconds of its own to compile, and then each kernel; processes may share the programs out."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One relayout, from sides to bytes; `index_bits` may be more than the plan would have.

    With `filler`, the target's memory ends so many elements later.
    """

    source: TensorSpec
    target: TensorSpec
    conversion: Conversion
    channel_axis: int | None = None
    gpu: GpuProperties = REFERENCE_GPU
    seed: int = 0
    index_bits: int | None = None
    filler: int = 0

    @functools.cached_property
    def plan(self) -> RelayoutChoice:
        problem = relayout_problem(self.source, self.target, self.conversion, self.channel_axis, self.filler)
        plan = choose_relayout(problem, self.gpu.widest_access)
        return plan if self.index_bits is None else dataclasses.replace(plan, index_bits=self.index_bits)

    @functools.cached_property
    def launch(self) -> KernelLaunch:
        return cuda_launch(self.plan, self.gpu)

    @functools.cached_property
    def source_bytes(self) -> Bytes:
        return _random_bytes(_buffer_bytes(self.source), self.seed)

    @functools.cached_property
    def pattern(self) -> Bytes:
        """What the target's memory holds beforehand."""
        filler = self.filler * self.target.element.itemsize
        return _random_bytes(_buffer_bytes(self.target) + filler, self.seed + 1)

    @functools.cached_property
    def expected(self) -> Bytes:
        """The target's memory afterwards, with the pattern between the elements."""
        target = self.pattern.copy()
        NumpyRelayout(self.plan.problem)(self.source_bytes, target)
        if self.conversion.is_bitwise_copy:
            indexed = self._indexed()
            assert indexed.tobytes() == target.tobytes(), f"the NumPy device is wrong: {self}"
        return target

    def _indexed(self) -> Bytes:
        """The same by NumPy's indexing alone, without a planner."""
        target = self.pattern.copy()
        read = _elements(self.source_bytes, self.source)
        if self.conversion.channels is not None:
            read = read.take(self.conversion.channels, axis=self.channel_axis)
        _elements(target, self.target)[...] = read
        self._filler(target)[...] = np.zeros((), f"V{self.target.element.itemsize}")
        return target

    @functools.cached_property
    def is_element(self) -> npt.NDArray[np.bool_]:
        """Which bytes of the target's memory belong to elements, or to zeros behind them."""
        mask = np.zeros(self.pattern.size, np.uint8)
        whole = np.frombuffer(b"\1" * self.target.element.itemsize, f"V{self.target.element.itemsize}")
        _elements(mask, self.target)[...] = whole[0]
        self._filler(mask)[...] = whole[0]
        return mask.astype(bool)

    def _filler(self, memory: Bytes) -> npt.NDArray[Any]:
        """The zeros over the target's memory, as opaque bytes."""
        layout, axis = self.target.layout, self.channel_axis
        if axis is None:
            return np.empty(0, f"V{self.target.element.itemsize}")
        sizes = (*layout.sizes[:axis], self.filler, *layout.sizes[axis + 1 :])
        start = layout.offset + layout.sizes[axis] * layout.strides[axis]
        return _elements(memory, dataclasses.replace(self.target, layout=Layout(sizes, layout.strides, start)))

    def job(self, order: Order, launch: KernelLaunch | None = None) -> Job:
        """The launch, or another one in its place, for the emulator."""
        launch = self.launch if launch is None else launch
        buffers = [Buffer(self.source_bytes, self.source.alignment), Buffer(self.pattern, self.target.alignment)]
        pointers = [(8 * number, Pointer(buffer)) for number, buffer in enumerate(buffers)]
        pointers += [(position, Pointer(Buffer(table))) for position, table in launch.tables]
        return Job(
            launch.name,
            launch.grid,
            launch.block,
            (Record(launch.parameters, tuple(pointers)),),
            launch.shared_bytes,
            order,
            self.seed,
            label=repr(self),
        )

    def check(self, result: bytes, order: str) -> None:
        """Raise `AssertionError` if the target's memory is not what it has to be."""
        got = np.frombuffer(result, np.uint8)
        differs = got != self.expected
        if self.target.owns_padding:
            differs &= self.is_element
        wrong = np.flatnonzero(differs)
        if wrong.size:
            where = [f"byte {at} is {got[at]:#x}, not {self.expected[at]:#x}" for at in wrong[:6]]
            outside = np.count_nonzero(~self.is_element[wrong])
            raise AssertionError(
                f"{order} order: {wrong.size} bytes wrong, {outside} of them in no element: {'; '.join(where)}\n"
                f"{self.launch.name} of {self}\n{self.plan.describe()}"
            )


def check_cases(
    cases: Iterable[Case], orders: Sequence[Order] = ORDERS, source_of: Callable[..., str] = joined_source
) -> None:
    """Check relayouts in all thread orders, with as few programs as may be.

    `source_of` makes one text from the names of sources; cases without elements are left out.
    """
    for program, together in _programs(cases, source_of):
        jobs = [(case, order) for case in together for order in orders]
        results = program.run([case.job(order) for case, order in jobs])
        for (case, order), (_, result, *_) in zip(jobs, results, strict=True):
            case.check(result, order)


def _programs(cases: Iterable[Case], source_of: Callable[..., str]) -> Iterator[tuple[Program, list[Case]]]:
    """Programs with the kernels of the cases, each with the cases that it can run."""
    families: dict[tuple[str, ...], dict[str, list[Case]]] = {}
    for case in cases:
        if 0 not in case.plan.problem.sizes:
            families.setdefault(case.launch.sources, {}).setdefault(case.launch.name, []).append(case)
    for sources, kernels in families.items():
        names = sorted(kernels)
        for start in range(0, len(names), _NAMES_PER_PROGRAM):
            chosen = names[start : start + _NAMES_PER_PROGRAM]
            yield Program.compile(source_of(*sources), chosen), [case for name in chosen for case in kernels[name]]


def _buffer_bytes(side: TensorSpec) -> int:
    return side.layout.span * side.element.itemsize + side.slack_bytes


def _random_bytes(count: int, seed: int) -> Bytes:
    return np.random.default_rng(seed).integers(0, 256, count, np.uint8)


def _elements(memory: Bytes, side: TensorSpec) -> npt.NDArray[Any]:
    """The elements of a side over its memory, as opaque bytes."""
    itemsize = side.element.itemsize
    first = memory[side.layout.offset * itemsize :]
    whole = first[: first.size // itemsize * itemsize].view(f"V{itemsize}")
    return as_strided(whole, side.layout.sizes, [stride * itemsize for stride in side.layout.strides])
