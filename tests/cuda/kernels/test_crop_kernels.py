"""The CUDA kernel of batched crops: executed under sanitizers beside the CPU, compiled, inspected."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import struct
from typing import Any

import numpy as np
import pytest
from harness.emulator import machine_code
from harness.emulator.chosen import few
from harness.emulator.exact_conversion import REALS
from harness.emulator.launched import check_launches, check_widths, unspilled
from harness.emulator.marks import emulated, inspected
from harness.emulator.runner import Buffer, Job, Pointer, Record
from harness.gather_cases import SMALL_GPU, random_layout
from harness.kernel_names import policy_of
from harness.plans import chosen_crops

from stridedgpu import Layout, LayoutError, packed_strides
from stridedgpu.devices.buffer import Buffer as Bytes
from stridedgpu.devices.cpu.numpy_loops.crops import run_crops
from stridedgpu.devices.cuda.crops import RECORD_BYTES, CropChoice, crop_records, crops_launch
from stridedgpu.devices.cuda.gpu import REFERENCE_GPU, GpuProperties
from stridedgpu.devices.cuda.policy import policy, using
from stridedgpu.problems.crop_windows import Crop, Crops, source_steps
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.tensor_spec import TensorSpec

# The emulator knows which bytes of an argument are addresses, not which bytes of a buffer are: the records travel as an
# argument, where each image can be a buffer of its own with poison around it.
WRAPPER = """
struct Records { sg::CropSample samples[3]; };
template <typename Parameters> auto samples_of(Parameters& p, int) -> decltype((p.samples)) { return p.samples; }
template <typename Parameters> auto samples_of(Parameters& p, long) -> decltype((p.common.samples)) {
    return p.common.samples;
}
template <auto Kernel> struct WithRecords;
template <typename Parameters, void (*Kernel)(Parameters)> struct WithRecords<Kernel> {
    static void run(Parameters parameters, Records records) {
        samples_of(parameters, 0) = records.samples;
        Kernel(parameters);
    }
};
"""


@dataclasses.dataclass(eq=False)
class Case:
    """One batch of crops with its memory, from a seed."""

    source: str
    target: str
    order: str | None
    source_order: str | None
    seed: int
    arithmetic: dict[str, Any] = dataclasses.field(default_factory=dict)
    channels: tuple[int, ...] | None = None
    channel_count: int = 3
    size: tuple[int, int] = (7, 9)
    samples: int = 3
    index_bits: int | None = None
    gpu: GpuProperties = REFERENCE_GPU
    largest: int = 20
    row_pitch_bytes: int | None = None

    @functools.cached_property
    def crops(self):
        rng = np.random.default_rng(self.seed)
        crops = []
        for _ in range(self.samples):
            sizes = (self.channel_count, *(int(size) for size in rng.integers(1, self.largest, 2)))
            if self.source_order is None:
                layout = random_layout(rng, sizes)
            elif self.source_order == "HWX":
                layout = Layout(sizes, (1, 4 * sizes[2] + int(rng.integers(4)), 4))
            else:
                layout = Layout(sizes, packed_strides(sizes, self.source_order))
            origin = tuple(int(place) for place in rng.integers(-10, 16, 2))
            crops.append(Crop(layout, origin, bool(rng.random() < 0.4)))
        if self.seed % 3 == 0:
            crops[0] = crops[0]._replace(origin=(2**63 - 1, -(2**63)))
        return crops

    @functools.cached_property
    def choice(self) -> CropChoice:
        rng = np.random.default_rng(self.seed + 1)
        source, target = element_type(self.source), element_type(self.target)
        made = conversion(source, target, channels=self.channels, source_channels=self.channel_count, **self.arithmetic)
        sizes = (self.samples, self.channel_count if self.channels is None else len(self.channels), *self.size)
        if self.order is None:
            layout = random_layout(rng, sizes, output=True)
        else:
            pitch = self.row_pitch_bytes
            layout = Layout.padded(sizes, self.order, target.itemsize, row_pitch_bytes=pitch)
        fill = rng.integers(0, 256, self.channel_count * source.itemsize, np.uint8).tobytes()
        if source.name.startswith("float"):
            fill = np.linspace(-2, 2, self.channel_count).astype(source.name).tobytes()
        side = TensorSpec(layout, target, 16)
        choice = chosen_crops(side, source_steps([crop.layout for crop in self.crops]), made, fill)
        return choice if self.index_bits is None else dataclasses.replace(choice, index_bits=self.index_bits)

    @functools.cached_property
    def memories(self):
        """Bytes of each source, and of the batch beforehand."""
        rng = np.random.default_rng(self.seed + 2)
        element = element_type(self.source)
        sources = []
        for crop in self.crops:
            if element.kind == "f":
                values = rng.normal(0, 100, crop.layout.span).astype(element.name).view(np.uint8)
            else:
                values = rng.integers(0, 256, crop.layout.span * element.itemsize, np.uint8)
            sources.append(values)
        batch = rng.integers(
            0, 256, self.choice.problem.target.layout.span * self.choice.problem.target.element.itemsize, np.uint8
        )
        return sources, batch

    @functools.cached_property
    def expected(self) -> bytes:
        """The batch's bytes as the CPU makes them."""
        sources, batch = self.memories
        written = batch.copy()
        run_crops(
            self.choice.problem,
            self.crops,
            [(Bytes.of(source), 0) for source in sources],
            (Bytes.of(written), 0),
        )
        return written.tobytes()

    @functools.cached_property
    def launch(self):
        return crops_launch(self.choice, self.gpu)

    def job(self, order: str) -> Job:
        sources, batch = self.memories
        itemsize = self.choice.problem.conversion.source.itemsize
        crops = Crops.of(*zip(*self.crops, strict=True))
        records = crop_records(crops, np.zeros(len(crops), np.int64), self.size, itemsize).reshape(-1, RECORD_BYTES)
        buffers = [Buffer(source, itemsize if n else 16) for n, source in enumerate(sources)]
        pointers = [
            (n * RECORD_BYTES + 8 * place, Pointer(buffer, at))
            for n, (buffer, record) in enumerate(zip(buffers, records, strict=True))
            for place, at in enumerate(struct.unpack_from("<3q", record))
        ]
        launch = self.launch
        places = [(8, Pointer(Buffer(batch, 16))), *((at, Pointer(Buffer(held))) for at, held in launch.tables)]
        arguments = (Record(launch.parameters, tuple(places)), Record(records.tobytes(), tuple(pointers)))
        return Job(self.entry, launch.grid, launch.block, arguments, 0, order, self.seed, label=repr(self))

    @property
    def entry(self) -> str:
        return f"WithRecords<&{self.launch.name}>::run"


def check_cases(cases: list[Case]) -> None:
    """Run the cases in all thread orders."""
    check_launches(cases, WRAPPER)


NORMALISED = {"scale": (1 / 58.0, 1 / 57.0, 1 / 57.5), "bias": (-2.1, -2.0, -1.8)}
KINDS = {
    "photographs normalised": ("uint8", "float32", "NCHW", "HWC", NORMALISED, None),
    "photographs to half": ("uint8", "float16", "NCHW", "HWC", NORMALISED, None),
    "photographs to planes": ("uint8", "uint8", "NCHW", "HWC", {}, None),
    "photographs, blue first": ("uint8", "float32", "NCHW", "HWC", NORMALISED, (2, 1, 0)),
    "one of three channels": ("uint8", "float16", "NCHW", "HWC", {"scale": 0.5}, (1,)),
    "one of three planes": ("uint8", "float32", "NHWC", "CHW", {}, (2,)),
    "two of four channels": ("uint8", "float16", "NCHW", "HWX", {"scale": (0.5, 0.25)}, (2, 0)),
    "four bytes a pixel": ("uint8", "float32", "NCHW", "HWX", NORMALISED, None),
    "16-bit photographs": ("uint16", "float32", "NCHW", "HWC", NORMALISED, None),
    "features to planes": ("float32", "float16", "NCHW", "HWC", {}, None),
    "one channel twice": ("uint8", "float32", "NCHW", "HWC", {}, (1, 1)),
    "planes normalised to half": ("uint8", "float16", "NCHW", "CHW", NORMALISED, None),
    "colours swapped": ("uint8", "uint8", "NHWC", "HWC", {}, (2, 1, 0)),
    "pixels copied": ("uint8", "uint8", "NHWC", "HWC", {}, None),
    "pixels normalised to half": ("uint8", "float16", "NHWC", "HWC", NORMALISED, None),
    "pixels without their fourth byte": ("uint8", "float32", "NHWC", "HWX", NORMALISED, (2, 1, 0)),
    "colours in disorder": ("uint8", "uint8", "NHWC", "HWC", {}, (1, 2, 0)),
    "two channels": ("uint16", "float32", "NHWC", "HWC", {}, (1, 0)),
    "planes copied": ("float32", "float32", "NCHW", "CHW", {}, None),
    "from any layout to any": ("uint8", "float32", None, None, NORMALISED, None),
    "any bits": ("complex128", "complex128", None, None, {}, (1, 1, 2, 0)),
}


WITH_WIDE_OFFSETS = ("photographs to half", "pixels normalised to half", "planes normalised to half", "any bits")


def cases_of(kind: str) -> list[Case]:
    """Windows of several sizes, offsets of both widths, and windows large enough for several rows a thread."""
    source, target, order, source_order, arithmetic, channels = KINDS[kind]
    cases = []
    for seed in range(8):
        case = Case(source, target, order, source_order, seed, arithmetic, channels)
        case.size = ((7, 9), (4, 16), (8, 8), (3, 32))[seed % 4]
        case.index_bits = 64 if seed == 5 else None
        if seed > 5:  # enough for several rows a thread
            case.size, case.largest, case.gpu = (43, 48), 70, SMALL_GPU
        cases.append(case)
    return cases


@emulated
def test_a_few_kernels_under_sanitizers_crop_as_the_cpu_does():
    check_cases(few((case for kind in KINDS for case in cases_of(kind)), 3))


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_crops_under_sanitizers_are_those_of_the_cpu(kind):
    check_cases(cases_of(kind))


PITCHED = {
    **{kind: KINDS[kind] for kind in ("photographs to half", "colours swapped", "two channels", "planes copied")},
    "from any layout to planes": ("uint8", "uint8", "NCHW", None, {}, None),
    "planes to pixels": ("uint8", "uint8", "NHWC", "CHW", {}, None),
}


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("kind", PITCHED)
def test_rows_of_whole_vectors_have_windows_that_end_within_one(kind):
    cases = []
    for seed, width in enumerate((101, 75)):
        source, target, order, source_order, arithmetic, channels = PITCHED[kind]
        case = Case(source, target, order, source_order, seed, arithmetic, channels, row_pitch_bytes=1024)
        case.size, case.largest = (3, width), 130
        cases.append(case)
    check_cases(cases)


@emulated
@pytest.mark.parametrize("kind", ["photographs to half", "pixels normalised to half"])
def test_no_word_behind_an_image_is_read_for_its_last_row(kind):
    """A thread's first row is words of the image, and its last one ends where the image does, within a word."""
    source, target, order, source_order, arithmetic, channels = KINDS[kind]
    case = Case(source, target, order, source_order, 1, arithmetic, channels, size=(44, 48), gpu=SMALL_GPU)
    layout = Layout((3, 44, 49), packed_strides((3, 44, 49), "HWC"))
    case.crops = [Crop(layout, (0, 1), flip) for flip in (False, True, False)]
    assert policy_of(case.launch.name)["rows"] == "2"
    check_cases([case])


TURNS = ("photographs to half", "pixels normalised to half", "planes normalised to half")


@emulated
@pytest.mark.parametrize("kind", [TURNS[0], *(pytest.param(kind, marks=pytest.mark.slow) for kind in TURNS[1:])])
def test_a_thread_takes_several_turns_of_its_rows(kind):
    """Of windows that have enough rows; the last turn has rows outside of the window."""

    def made(turns: int) -> Case:
        limits = dataclasses.replace(policy().crops, waves=1, most_turns=turns)
        with using(dataclasses.replace(policy(), crops=limits)):
            source, target, order, source_order, arithmetic, channels = KINDS[kind]
            case = Case(source, target, order, source_order, 3, arithmetic, channels)
            case.size, case.largest, case.gpu = (131, 48), 170, SMALL_GPU
            assert case.launch.grid
            return case

    once, case = made(1), made(3)
    assert case.launch.grid[0] < once.launch.grid[0]
    check_cases([case])


@emulated
@pytest.mark.slow
def test_many_channels_under_sanitizers():
    scale = tuple(float(c) for c in range(20))
    cases = [
        Case("uint8", "float32", order, "HWC", seed, {"scale": scale}, tuple(range(20))[::-1], 20)
        for seed, order in enumerate(("NCHW", "NHWC"))
    ]
    check_cases(cases)


def test_windows_without_elements_are_not_launched():
    choice = Case("uint8", "uint8", "NCHW", "HWC", 1, size=(0, 4)).choice
    with pytest.raises(LayoutError, match="nothing to launch"):
        crops_launch(choice, REFERENCE_GPU)


def compiled_cases() -> list[Case]:
    """Windows of a usual size, of every kind; and of odd widths in rows of whole vectors."""
    usual = [
        dataclasses.replace(Case(*KINDS[kind][:4], 1, KINDS[kind][4], KINDS[kind][5], size=(224, 224)), index_bits=bits)
        for kind, bits in [*((kind, 32) for kind in KINDS), *((kind, 64) for kind in WITH_WIDE_OFFSETS)]
    ]
    return usual + [odd_width(kind) for kind in PITCHED if kind in KINDS]


def odd_width(kind: str) -> Case:
    """Windows that end within a vector of their rows."""
    source, target, order, source_order, arithmetic, channels = KINDS[kind]
    return Case(source, target, order, source_order, 1, arithmetic, channels, size=(224, 221), row_pitch_bytes=4096)


@inspected
@pytest.mark.parametrize("kind", ["photographs to half", "colours swapped"])
def test_rows_of_whole_vectors_are_not_looked_at_for_their_end(kind):
    """All stores are whole vectors; of an odd width there are single elements, too, and more instructions."""
    source, target, order, source_order, arithmetic, channels = KINDS[kind]
    exact = Case(source, target, order, source_order, 1, arithmetic, channels, size=(224, 224), row_pitch_bytes=4096)
    cases = [exact, odd_width(kind)]
    code = unspilled([case.launch for case in cases], "sm_90")
    whole, cut = (code[case.launch.name] for case in cases)
    width = 8 * exact.choice.store.nbytes
    assert set(whole.stores) == {width}
    assert set(cut.stores) > {width}
    assert whole.instructions < cut.instructions


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("architecture", machine_code.ARCHITECTURES)
def test_the_kernels_compile_without_spills_and_with_the_planned_widths(architecture):
    check_widths(compiled_cases(), architecture)


ORDERS_OF_BOTH = (("NCHW", "HWC"), ("NHWC", "HWC"), ("NCHW", "CHW"), ("NHWC", "HWX"), ("NCHW", "HWX"))
"""Of the target and of the sources: a kernel and a width of pixels each."""


@inspected
@pytest.mark.slow
@pytest.mark.parametrize("architecture", machine_code.ARCHITECTURES)
def test_every_pair_of_types_compiles_without_spills(architecture):
    """Every other pair on each architecture, with a kernel in its turn; the rest on the next."""
    turn = machine_code.ARCHITECTURES.index(architecture)
    cases = []
    for number, (source, target) in list(enumerate(itertools.product(REALS, repeat=2)))[turn % 2 :: 2]:
        order, source_order = ORDERS_OF_BOTH[(number + turn) % 5]
        arithmetic = NORMALISED if number % 3 else {}
        cases.append(Case(source, target, order, source_order, 1, arithmetic, size=(224, 224), samples=64))
    unspilled([case.launch for case in cases], architecture)
