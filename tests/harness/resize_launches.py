"""Resizes for the tests of kernels: batches of images with their memory, and the emulator beside the CPU."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from stridedgpu.devices.cpu.numpy_loops.resize import resize_windows
from stridedgpu.devices.cuda.gpu import REFERENCE_GPU, GpuProperties, KernelLaunch
from stridedgpu.devices.cuda.resize import ResizeChoice, ResizeSample, choose_resize, resize_launch, resize_records
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.problems.resize_problem import ResizeProblem, ResizeRule, ResizeWindow
from stridedgpu.problems.resize_taps import WindowTaps
from stridedgpu.values.conversion import conversion_options
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.interpolation import Passes, interpolation_named
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import packed_strides, round_up
from stridedgpu.values.tensor_spec import TensorSpec

from .emulator.runner import ORDERS, Buffer, EmulationError, Job, Pointer, Program, Record

__all__ = [
    "NORMALISED",
    "LaunchedResize",
    "ResizeCase",
    "check_fault_is_caught",
    "check_resizes",
    "launches_of",
    "program_each",
]

NORMALISED = {"scale": (1 / 58.0, 1 / 57.0, 1 / 57.5), "bias": (-2.1, -2.0, -1.8)}


class LaunchedResize:
    """One batch of resized images, planned for a GPU and launched in the emulator.

    `memories` are the bytes of each image, from its lowest element on, and of the batch beforehand; `resized` are
    those of the batch as it must become. Each image's memory begins at a multiple of `source_alignment` bytes, or with
    0 where the one before it ends.
    """

    problem: ResizeProblem
    windows: list[ResizeWindow]
    memories: tuple[list[Any], Any]
    resized: Any
    gpu: GpuProperties
    seed: int
    source_alignment: int = 0

    @functools.cached_property
    def choice(self) -> ResizeChoice:
        """For a GPU."""
        return choose_resize(self.problem, self.gpu)

    def expected(self, samples: Sequence[ResizeSample]) -> Any:
        """The batch's bytes after these samples alone."""
        written = self.memories[1].copy()
        numbers = [sample.number for sample in samples]
        self._batch(written)[numbers] = self._batch(self.resized)[numbers]
        return written

    def _batch(self, memory: Any) -> Any:
        layout, itemsize = self.problem.target.layout, self.problem.target.element.itemsize
        strides = [stride * itemsize for stride in layout.strides]
        return as_strided(memory.view(f"V{itemsize}")[layout.offset :], layout.sizes, strides)

    @functools.cached_property
    def groups(self) -> list[list[ResizeSample]]:
        """The samples of each launch, whose addresses count from the first image's memory."""
        itemsize = self.problem.conversion.source.itemsize
        together: dict[Any, list[ResizeSample]] = {}
        at = 0
        for number, (window, memory) in enumerate(zip(self.windows, self.memories[0], strict=True)):
            taps = self.problem.taps(window)
            together.setdefault((taps.arithmetic, taps.columns_first), []).append(
                ResizeSample(window, taps, at, number, self.problem.visible(window))
            )
            at += round_up(memory.size, self.source_alignment or itemsize)
        return list(together.values())

    @functools.cached_property
    def launches(self) -> list[KernelLaunch]:
        """One for each group."""
        found = [taps_of(samples) for samples in self.groups]
        return [resize_launch(self.choice.for_taps(taps), taps) for taps in found]

    @property
    def launch(self) -> KernelLaunch:
        """The first one."""
        return self.launches[0]

    def job(self, number: int, order: Any) -> Job:
        """The launch with this number, for the emulator."""
        launch, itemsize = self.launches[number], self.problem.conversion.source.itemsize
        sources, batch = self.memories
        alignment = self.source_alignment or itemsize
        first = [np.pad(source, (0, -source.size % alignment)) for source in sources[:-1]]
        places = [
            (0, Pointer(Buffer(resize_records(self.groups[number], itemsize), 16))),
            (8, Pointer(Buffer(batch, 16))),
            (16, Pointer(Buffer(np.concatenate([*first, sources[-1]]), alignment))),
            *((at, Pointer(Buffer(held))) for at, held in launch.tables),
        ]
        argument = Record(launch.parameters, tuple(places))
        return Job(
            launch.name, launch.grid, launch.block, (argument,), launch.shared_bytes, order, self.seed, repr(self)
        )


@dataclasses.dataclass(eq=False)
class ResizeCase(LaunchedResize):
    """One batch of resized images with its memory, from a seed.

    The first image is taken whole and fills its window; of the others a part goes into a part. `fractions` has boxes
    begin and end within pixels. With a `source_alignment`, rows begin at multiples of so many bytes. Every other image
    runs from bottom to top, some are mirrored.
    """

    interpolation: str
    source: str = "uint8"
    target: str = "uint8"
    order: str = "NCHW"
    source_order: str = "HWC"
    seed: int = 0
    passes: Passes = "horizontal"
    arithmetic: dict[str, Any] = dataclasses.field(default_factory=dict)
    channels: tuple[int, ...] | None = None
    channel_count: int = 3
    size: tuple[int, int] = (11, 17)
    samples: int = 2
    largest: int = 40
    fractions: bool = False
    source_alignment: int = 0
    premultiplies: bool = False
    gpu: GpuProperties = REFERENCE_GPU

    @functools.cached_property
    def windows(self) -> list[ResizeWindow]:
        """The images."""
        rng = np.random.default_rng(self.seed)
        return [self._window(rng, number) for number in range(self.samples)]

    def _window(self, rng: np.random.Generator, number: int) -> ResizeWindow:
        extents = [int(size) for size in rng.integers(1, self.largest, 2)]
        sizes = (self.channel_count, *extents)
        strides = list(packed_strides(sizes, self.source_order))
        if self.source_order == "HWC":
            strides[1] = round_up(strides[1] + int(rng.integers(0, 5)), self.source_alignment or 1)
        layout = Layout(sizes, tuple(strides))
        if number % 2:
            layout = layout.sliced((slice(None), slice(None, None, -1), slice(None)))
        flip = bool(rng.random() < 0.4)
        if number == 0:
            return ResizeWindow(layout, (0.0, 0.0, float(extents[0]), float(extents[1])), (0, 0, *self.size), flip)
        lows = [int(rng.integers(0, size)) for size in extents]
        highs = [int(rng.integers(low + 1, size + 1)) for low, size in zip(lows, extents, strict=True)]
        inset = 0.25 if self.fractions else 0.0
        parts = [int(rng.integers(1, size + 1)) for size in self.size]
        origin = [int(rng.integers(0, size - part + 1)) for size, part in zip(self.size, parts, strict=True)]
        box = (lows[0] + inset, lows[1] + inset, highs[0] - inset, highs[1] - inset)
        return ResizeWindow(layout, box, (*origin, *parts), flip)

    @functools.cached_property
    def problem(self) -> ResizeProblem:
        """What is planned."""
        rng = np.random.default_rng(self.seed + 1)
        source, target = element_type(self.source), element_type(self.target)
        options = conversion_options(channels=self.channels, **self.arithmetic)
        made = options.conversion(source, self.channel_count, target)
        sizes = (self.samples, self.channel_count if self.channels is None else len(self.channels), *self.size)
        layout = Layout(sizes, packed_strides(sizes, self.order))
        channel, column = ({window.layout.strides[axis] for window in self.windows} for axis in (0, 2))
        steps = (channel.pop() if len(channel) == 1 else 0, column.pop() if len(column) == 1 else 0)
        fill = rng.integers(0, 100, self.channel_count).astype(self.source).tobytes()
        rule = ResizeRule(interpolation_named(self.interpolation), self.passes, self.premultiplies)
        return ResizeProblem(TensorSpec(layout, target, 16), made, rule, self.channel_count, steps, fill)

    @functools.cached_property
    def memories(self) -> tuple[list[Any], Any]:
        """Bytes of each image, and of the batch beforehand."""
        rng = np.random.default_rng(self.seed + 2)
        sources = []
        for window in self.windows:
            span = window.layout.span
            if self.source.startswith("float"):
                values = rng.normal(0, 100, span).astype(self.source)
                values[rng.random(span) < 0.5] = -0.0  # sums of these alone show what they begin with
                sources.append(values.view(np.uint8))
            else:
                sources.append(rng.integers(0, 256, span * np.dtype(self.source).itemsize, np.uint8))
        layout, element = self.problem.target.layout, self.problem.target.element
        return sources, rng.integers(0, 256, layout.span * element.itemsize, np.uint8)

    @functools.cached_property
    def resized(self) -> Any:
        """The batch's bytes as the CPU makes them."""
        sources, batch = self.memories
        written = batch.copy()
        resize_windows(self.problem, self.windows, sources, written)
        return written


def taps_of(samples: Iterable[ResizeSample]) -> list[WindowTaps]:
    """The taps of each."""
    return [sample.taps for sample in samples]


def launches_of(cases: Iterable[LaunchedResize]) -> Iterator[KernelLaunch]:
    """All launches of the cases."""
    for case in cases:
        yield from case.launches


Programs = Callable[[str, Sequence[str]], Mapping[str, Program]]
"""The programs of kernels, by the names of these, from the source and the names."""


def one_program(source: str, kernels: Sequence[str]) -> dict[str, Program]:
    """All kernels in one program: the quickest to build."""
    return dict.fromkeys(kernels, Program.compile(source, kernels))


def program_each(source: str, kernels: Sequence[str]) -> dict[str, Program]:
    """A program for each kernel: those of other cases are found in the emulator's cache."""
    return {kernel: Program.compile(source, [kernel]) for kernel in kernels}


def check_resizes(
    cases: Sequence[LaunchedResize],
    orders: Sequence[Any] = ORDERS,
    source_of: Any = joined_source,
    programs: Programs = one_program,
) -> None:
    """Run the cases in all thread orders; `source_of` makes one text from the names of sources."""
    names: dict[tuple[str, ...], set[str]] = {}
    for launch in launches_of(cases):
        names.setdefault(launch.sources, set()).add(launch.name)
    for sources, kernels in names.items():
        runs: dict[Program, list[tuple[LaunchedResize, int, Any]]] = {}
        built = programs(source_of(*sources), sorted(kernels))
        for case in cases:
            for number, launch in enumerate(case.launches):
                if launch.sources == sources:
                    runs.setdefault(built[launch.name], []).extend((case, number, order) for order in orders)
        for program, listed in runs.items():
            results = program.run([case.job(number, order) for case, number, order in listed])
            for (case, number, order), (_, written, *_) in zip(listed, results, strict=True):
                got, want = np.frombuffer(written, np.uint8), case.expected(case.groups[number])
                wrong = np.flatnonzero(got != want)
                assert not wrong.size, (
                    f"{order}: {wrong.size} of {got.size} bytes wrong, from {wrong[:5]} on {got[wrong[:5]]} "
                    f"and not {want[wrong[:5]]}\n{case}\n{case.choice.describe()}\n{case.windows}"
                )


def check_fault_is_caught(kernel: str, fault: tuple[str, str], cases: Sequence[LaunchedResize]) -> None:
    """Run the cases on a kernel with the second text in place of the first: bytes must be wrong, or the run stops.

    Those of one instantiation run together, one instantiation after another until the fault is caught.
    """
    right, wrong = fault
    text = joined_source(kernel)
    assert text.count(right) == 1, f"the kernel no longer has {right!r}"
    together: dict[frozenset[str], list[LaunchedResize]] = {}
    for case in cases:
        together.setdefault(frozenset(launch.name for launch in case.launches), []).append(case)
    for some in together.values():
        try:
            check_resizes(some, source_of=lambda *_: text.replace(right, wrong))
        except (AssertionError, EmulationError) as caught:
            assert not str(caught).startswith("g++ refused"), caught
            return
    pytest.fail("no case shows the fault")
