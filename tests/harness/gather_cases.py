"""Gathers and scatters with their memory, from seeds, and what a kernel that is executed has to make of them."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
from harness.emulator.runner import ORDERS, Buffer, Job, Pointer, Program, Record
from harness.index_oracle import gather_nd_by_definition

from stridedgpu import Layout
from stridedgpu.devices.cuda.gather import (
    LAUNCH_NUMBER_AT,
    REPORT,
    choose_gather,
    gather_launch,
    launch_number,
    wrong_index,
)
from stridedgpu.devices.cuda.gpu import REFERENCE_GPU, GpuProperties
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.problems.gather_problem import elements_problem, gather_problem, tuples_problem
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.tensor_spec import TensorSpec

SMALL_GPU = GpuProperties("one multiprocessor", 90, 1, 227 * 1024, 16)
WORDS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}
RULE = 7
LAUNCH = launch_number(3, RULE)
MODES = ("raise", "clip", "wrap", "deferred")
NUMBERS = ("int32", "int64", "uint32", "uint64")


def random_layout(rng, sizes, *, output=False, packed=False):
    """A layout with its lowest element at 0: permuted, padded, flipped and, for inputs, repeated; or packed."""
    if packed:
        return Layout(sizes)
    strides, step = [0] * len(sizes), int(rng.integers(1, 3))
    for axis in rng.permutation(len(sizes))[::-1] if rng.random() < 0.5 else range(len(sizes))[::-1]:
        if not output and rng.random() < 0.15:
            continue
        strides[axis] = step if rng.random() < 0.7 else -step
        step = step * max(sizes[axis], 1) + int(rng.integers(0, 4) * (rng.random() < 0.4))
    layout = Layout(sizes, strides)
    return layout.shifted(-layout.first_offset)


def bits_of(memory, side):
    """The elements of a side over its bytes."""
    itemsize = side.element.itemsize
    return np.ndarray(
        side.layout.sizes,
        WORDS[itemsize],
        memory,
        side.layout.offset * itemsize,
        [stride * itemsize for stride in side.layout.strides],
    )


def place_of(value, size, mode):
    """The place that an index means, and whether it is wrong."""
    wrong = not -size <= value < size
    if mode == "wrap":
        return value % size, wrong
    if mode == "clip":
        return min(max(value, 0), size - 1), wrong
    return min(max(value + size if value < 0 else value, 0), size - 1), wrong


@dataclasses.dataclass(eq=False)
class Case:
    """One gather or scatter with its memory, from a seed."""

    operation: str
    sizes: tuple[int, ...]
    index_sizes: tuple[int, ...]
    axis: int
    itemsize: int
    number: str
    mode: str
    seed: int
    packed: bool = False
    alignment: int = 16
    index_bits: int | None = None
    gpu: GpuProperties = REFERENCE_GPU
    wrong: bool = True
    row_pitch: int | None = None
    indexed_pitch: int | None = None
    tuples_apart: bool = False

    @property
    def scatters(self):
        return self.operation.startswith("scatter")

    @property
    def tuples(self):
        return self.operation.endswith("nd")

    @functools.cached_property
    def rng(self):
        return np.random.default_rng(self.seed)

    @functools.cached_property
    def dense_sizes(self):
        if self.operation == "gather":
            return (*self.sizes[: self.axis], *self.index_sizes, *self.sizes[self.axis + 1 :])
        if self.tuples:
            return (*self.index_sizes[:-1], *self.sizes[self.axis + self.index_sizes[-1] :])
        return self.index_sizes

    @functools.cached_property
    def sides(self):
        """The indexed side, the indices and the dense side."""
        element, rng = element_type(WORDS[self.itemsize]), self.rng
        indexed = random_layout(rng, self.sizes, output=self.scatters, packed=self.packed)
        index = random_layout(rng, self.index_sizes, output=self.scatters, packed=self.packed)
        dense = random_layout(rng, self.dense_sizes, output=not self.scatters, packed=self.packed)
        if self.row_pitch is not None:
            dense = Layout.padded(self.dense_sizes, None, 1, row_pitch_bytes=self.row_pitch)
        if self.indexed_pitch is not None:
            indexed = Layout.padded(self.sizes, None, 1, row_pitch_bytes=self.indexed_pitch)
        if self.tuples_apart:
            index = Layout(self.index_sizes, (1, self.index_sizes[0]))
        aligned = max(self.alignment, self.itemsize)
        return (
            TensorSpec(indexed, element, aligned),
            TensorSpec(index, element_type(self.number), max(self.alignment, np.dtype(self.number).itemsize)),
            TensorSpec(dense, element, aligned),
        )

    @property
    def axes(self):
        return range(self.axis, self.axis + (self.index_sizes[-1] if self.tuples else 1))

    @functools.cached_property
    def plan(self):
        indexed, index, dense = self.sides
        if self.operation == "gather":
            problem = gather_problem(indexed, index, dense, self.axis)
        elif self.tuples:
            problem = tuples_problem(indexed, index, dense, self.axis, scatters=self.scatters)
        else:
            problem = elements_problem(indexed, index, dense, self.axis, scatters=self.scatters)
        plan = choose_gather(dataclasses.replace(problem, mode=self.mode), self.gpu.widest_access)
        return plan if self.index_bits is None else dataclasses.replace(plan, index_bits=self.index_bits)

    @functools.cached_property
    def launch(self):
        return gather_launch(self.plan, self.gpu)

    @functools.cached_property
    def memories(self):
        """Bytes of the indexed side, the indices and the dense side."""
        rng = self.rng
        indexed, index, dense = (
            rng.integers(0, 256, side.layout.span * side.element.itemsize, np.uint8) for side in self.sides
        )
        limits = np.iinfo(self.number)
        size = min(self.sizes[axis] for axis in self.axes)
        numbers = index.view(self.number)
        numbers[:] = rng.integers(0 if limits.min == 0 else -size, size, numbers.size)
        if self.scatters:
            self._make_distinct(numbers)
        elif self.wrong and numbers.size:
            bad = [limits.min, limits.max, size, max(limits.min, -size - 1), 3 * size + 1, limits.max - 5]
            for _ in range(int(rng.integers(0, 4))):
                numbers[rng.integers(numbers.size)] = bad[rng.integers(len(bad))]
            if rng.random() < 0.1:
                numbers[:] = bad[rng.integers(len(bad))]
        return indexed, index, dense

    def _make_distinct(self, numbers):
        """Indices that name no element twice, since a GPU does not promise which of several wins."""
        values = bits_of(numbers.view(np.uint8), self.sides[1]).view(self.number)
        if self.tuples:
            count = int(np.prod(self.index_sizes[:-1]))
            shape = tuple(self.sizes[axis] for axis in self.axes)
            chosen = self.rng.permutation(int(np.prod(shape)))[:count]
            tuples = np.stack(np.unravel_index(chosen, shape), -1).reshape(self.index_sizes)
            values[...] = tuples
        else:
            keys = self.rng.random(
                (*self.index_sizes[: self.axis], self.sizes[self.axis], *self.index_sizes[self.axis + 1 :])
            )
            values[...] = np.argsort(keys, self.axis).take(range(self.index_sizes[self.axis]), self.axis)

    @functools.cached_property
    def places(self):
        """The index values, where they lead, and the first wrong one as the report has it."""
        values = bits_of(self.memories[1], self.sides[1]).view(self.number)
        places = np.empty(values.shape, np.int64)
        first = None
        for number, at in enumerate(np.ndindex(values.shape)):
            component = at[-1] if self.tuples else 0
            places[at], wrong = place_of(int(values[at]), self.sizes[self.axes[component]], self.mode)
            if wrong and first is None:
                first = (number // (len(self.axes) if self.tuples else 1), component, int(values[at]))
        return places, first

    @functools.cached_property
    def expected(self):
        """The written side's bytes afterwards."""
        indexed, _, dense = self.memories
        places, _ = self.places
        read, written = bits_of(indexed, self.sides[0]), dense.copy()
        if self.scatters:
            written = indexed.copy()
            into, updates = bits_of(written, self.sides[0]), bits_of(dense, self.sides[2])
            if self.tuples:
                for at in np.ndindex(places.shape[:-1]):
                    into[tuple(places[at])] = updates[at]
            else:
                window = tuple(slice(None) if a == self.axis else slice(n) for a, n in enumerate(self.index_sizes))
                np.put_along_axis(into[window], places, updates, self.axis)
            return written
        if self.operation == "gather":
            found = read.take(places, self.axis)
        elif self.tuples:
            found = gather_nd_by_definition(read, places, self.axis)
        else:
            window = tuple(slice(None) if a == self.axis else slice(n) for a, n in enumerate(self.index_sizes))
            found = np.take_along_axis(read[window], places, self.axis)
        bits_of(written, self.sides[2])[...] = found
        return written

    def job(self, order):
        indexed, index, dense = (
            Buffer(memory, side.alignment) for memory, side in zip(self.memories, self.sides, strict=True)
        )
        report = Buffer(bytes(REPORT.size), 8)
        pair = (dense, indexed) if self.scatters else (indexed, dense)
        pointers = tuple((8 * n, Pointer(buffer)) for n, buffer in enumerate((*pair, index, report)))
        launch = self.launch
        parameters = bytearray(launch.parameters)
        parameters[LAUNCH_NUMBER_AT : LAUNCH_NUMBER_AT + 4] = LAUNCH.to_bytes(4, "little")
        record = Record(bytes(parameters), pointers)
        return Job(launch.name, launch.grid, launch.block, (record,), 0, order, self.seed, label=repr(self))

    def check(self, results):
        _, written, _, report = results
        assert written == self.expected.tobytes(), f"{self}\n{self.plan.describe()}"
        found = wrong_index(report, signed=self.number.startswith("i"))
        _, first = self.places
        if self.mode != "deferred" or first is None:
            assert found is None, self
        else:
            position, component, value = first
            number = position * len(self.axes) + component
            assert (found.rule, found.number, found.value) == (RULE, number, value), self


def check_cases(cases):
    """Run the cases in all thread orders, with as few programs as may be."""
    kernels: dict[tuple[str, ...], dict[str, list[Case]]] = {}
    for case in cases:
        kernels.setdefault(case.launch.sources, {}).setdefault(case.launch.name, []).append(case)
    for sources, named in kernels.items():
        program = Program.compile(joined_source(*sources), sorted(named))
        jobs = [(case, order) for together in named.values() for case in together for order in ORDERS]
        for (case, _), results in zip(jobs, program.run([case.job(order) for case, order in jobs]), strict=True):
            case.check(results)


def inner_case(rows: int, number: str, mode: str, itemsize: int, seed: int) -> Case:
    return Case("gather", (rows, 40), (700,), 1, itemsize, number, mode, seed, packed=True)
