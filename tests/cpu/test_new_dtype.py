"""The steps of "Add a dtype" in CONTRIBUTING.md, taken for an 8-bit float: every implementation then has its bits.

A rounding or an option that an implementation does not know is an error in each.

It has float16's exponent and two fraction bits, infinities and NaNs. The oracle works with exact integers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from itertools import product
from typing import get_args

import numpy as np
import pytest
from harness.cpu_paths import picking_by
from harness.emulator import exact_conversion, runner
from harness.emulator.exact_conversion import REALS, converted, edge_elements
from harness.emulator.runner import Buffer, EmulationError, Job, Program, Record
from harness.frame_cases import surface
from harness.native_loops import needs_library
from harness.random_calls import EXECUTIONS

import stridedgpu as sg
from stridedgpu.devices.cpu.native.elements import can_convert
from stridedgpu.devices.cpu.native.relayout import relayout_kernel
from stridedgpu.devices.cpu.numpy_loops import conversion as numpy_conversion
from stridedgpu.devices.cpu.numpy_loops.conversion import convert_block, storage_dtype
from stridedgpu.devices.cuda.parameters import conversion_argument, matrix_encoding, number_argument
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.problems.relayout_problem import relayout_problem
from stridedgpu.values import dtypes
from stridedgpu.values.conversion import Conversion, ConversionOptions, Rounding, conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES, ElementType, element_type
from stridedgpu.values.errors import DeviceError
from stridedgpu.values.layout import Layout
from stridedgpu.values.tensor_spec import TensorSpec

NEW = "float8"
WORDS = np.arange(256, dtype=np.uint8)


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """Step 1: a row in `ELEMENT_TYPES`, here and in the oracle."""
    monkeypatch.setitem(ELEMENT_TYPES, NEW, ElementType(NEW, "f", 1))
    dtypes._found_element_type.cache_clear()
    monkeypatch.setitem(exact_conversion._FORMATS, NEW, (5, 2))
    plain = exact_conversion.numpy_type
    monkeypatch.setattr(exact_conversion, "numpy_type", lambda name: np.dtype(np.uint8) if name == NEW else plain(name))


@pytest.fixture
def on_numpy(monkeypatch):
    """Step 2: NumPy's tables."""

    def decoded(block):
        bits = block.astype(np.uint16) << np.uint16(8)
        bits[(bits & 0x7FFF) > 0x7C00] |= 0x200
        return numpy_conversion._floats(bits.view(np.float16), ELEMENT_TYPES["float32"])

    def encoded(numbers):
        bits = numbers.view(np.uint32)
        magnitude = np.minimum(bits & np.uint32(0x7FFFFFFF), np.uint32(0x47800000))  # 65536 is infinite
        exponent = np.clip(magnitude & np.uint32(0x7F800000), np.uint32(113 << 23), np.uint32(142 << 23))
        magic = (exponent + np.uint32(21 << 23) | np.uint32(0x400000)).view(np.float32)
        rounded = (magnitude.view(np.float32) + magic - magic) * np.float32(2.0**-112)
        rest = np.where(np.isnan(numbers), 0x7E | bits >> 21 & 1, rounded.view(np.uint32) >> 21)
        return (bits >> 24 & 0x80 | rest).astype(np.uint8)

    monkeypatch.setitem(numpy_conversion._DECODED, NEW, decoded)
    monkeypatch.setitem(numpy_conversion._ENCODED, NEW, encoded)


CONVERSIONS = [(NEW, target) for target in REALS] + [(source, NEW) for source in REALS]
AFFINE = ((None, None), (1 / 255, -0.485), (3e38, None))


def words_of(source):
    return WORDS if source == NEW else edge_elements(source)


def cases(source, target):
    """The conversions between two types, and the words that they have to make."""
    for (scale, bias), rounding in product(AFFINE, get_args(Rounding)):
        if scale is not None and source == NEW:
            continue  # the oracle has no arithmetic on what NumPy lacks
        made = conversion(element_type(source), element_type(target), scale=scale, bias=bias, rounding=rounding)
        yield made, converted(source, target, words_of(source), scale, bias, rounding)


@pytest.mark.usefixtures("on_numpy")
@pytest.mark.parametrize("source, target", CONVERSIONS)
def test_numpy_has_its_bits(source, target):
    for made, wanted in cases(source, target):
        block = words_of(source).view(storage_dtype(made.source, opaque=False))
        constants = [
            None if values is None else numpy_conversion.constants(values, made.compute)
            for values in (made.scale, made.bias)
        ]
        got = convert_block(block, made, *constants)
        np.testing.assert_array_equal(got.view(wanted.dtype), wanted, str(made))


@pytest.mark.usefixtures("on_numpy")
def test_without_an_entry_native_loops_leave_it_to_numpy():
    assert not can_convert(conversion(element_type(NEW), element_type("float32")))
    assert not can_convert(conversion(element_type("uint8"), element_type(NEW)))
    numbers = np.arange(1000 * 700).astype(np.uint8).reshape(1000, 700)
    made = sg.relayout(sg.asarray(numbers), dtype=NEW)
    wanted = converted("uint8", NEW, WORDS)[numbers]
    assert made.buffer.bytes[: numbers.size].tobytes() == wanted.tobytes()


CUDA = r"""
namespace sg {
struct float8 { uint8 bits; };
template <> constexpr bool is_floating<float8> = true;

template <Nan N> __device__ __forceinline__ float32 decode(float8 x) {
    return decode<N>(float16{uint16(x.bits << 8)});
}

template <> struct NarrowFloat<float8> {
    template <Nan N> static __device__ __forceinline__ float8 from(float32 x) {
        const uint32 bits = bit_cast<uint32>(x), magnitude = bits & 0x7fffffffu;
        const uint8 sign = uint8(bits >> 24 & 0x80u);
        if (N == Nan::keep && is_nan(x)) return {uint8(sign | 0x7eu | (bits >> 21 & 1u))};
        if (magnitude >= 0x47700000u) return {uint8(sign | 0x7cu)};
        const int lost = magnitude < 0x38800000u ? 21 + 113 - int(magnitude >> 23) : 21;
        if (lost > 25) return {sign};
        const uint32 fraction = (magnitude & 0x7fffffu) | 0x800000u;
        const uint32 whole = (fraction + (1u << (lost - 1)) - 1u + (fraction >> lost & 1u)) >> lost;
        const uint32 exponent = magnitude < 0x38800000u ? 0u : (magnitude >> 23) - 113u;
        return {uint8(sign | ((exponent << 2) + whole))};
    }
    static constexpr float8 canonical_nan = {0x7e};
};
}  // namespace sg

template <typename Conversion>
__global__ void convert_elements(const typename Conversion::Source* source, typename Conversion::Target* target,
                                 sg::Affine<typename Conversion::Compute> affine, unsigned count) {
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) target[i] = Conversion::apply(source[i], affine);
}
"""


@pytest.mark.slow
@pytest.mark.emulation
@pytest.mark.skipif(runner.why_unavailable() is not None, reason=str(runner.why_unavailable()))
def test_kernels_have_its_bits():
    pairs = [(NEW, "float32"), (NEW, "uint8"), ("float32", NEW), ("float64", NEW), ("int32", NEW), ("uint8", NEW)]
    names, jobs, wanted = [], [], []
    for source, target in pairs:
        for made, expected in cases(source, target):
            flags = f"{str(made.scale is not None).lower()}, {str(made.bias is not None).lower()}"
            cast = f"sg::Conversion<sg::{source}, sg::{target}, {flags}, sg::Rounding::{made.rounding}>"
            names.append(f"convert_elements<{cast}>")
            words = words_of(source)
            affine = [0.0 if values is None else values[0] for values in (made.scale, made.bias)]
            with np.errstate(over="ignore"):
                constants = Record(np.array(affine, made.compute.name).tobytes())
            arguments = (Buffer(words), Buffer(bytes(expected.nbytes)), constants, np.uint32(len(words)))
            jobs.append(Job(names[-1], (1,), (32,), arguments, label=str(made)))
            wanted.append(expected)
    program = Program.compile(joined_source("conversion.cuh") + CUDA, sorted(set(names)))
    for job, result, expected in zip(jobs, program.run(jobs), wanted, strict=True):
        np.testing.assert_array_equal(np.frombuffer(result[1], expected.dtype), expected, job.label)


UNKNOWN = Conversion(ELEMENT_TYPES["float32"], ELEMENT_TYPES["uint8"], rounding="up")
SIDES = [TensorSpec(Layout((64, 64)), element, 1) for element in (UNKNOWN.source, UNKNOWN.target)]


def test_a_rounding_that_numpy_does_not_know_is_an_error():
    with pytest.raises(DeviceError, match=r"rounding='up': devices/cpu/numpy_loops/conversion\.py does not compute it"):
        convert_block(np.zeros(4, np.float32), UNKNOWN)


@needs_library
def test_a_rounding_that_native_loops_do_not_know_is_left_to_numpy():
    assert not can_convert(UNKNOWN)
    assert relayout_kernel(relayout_problem(*SIDES, UNKNOWN, None)) is None


def test_a_rounding_that_parameters_of_kernels_do_not_know_is_an_error():
    with pytest.raises(DeviceError, match=r"rounding='up': devices/cuda/parameters\.py does not compute it"):
        conversion_argument(UNKNOWN)


@dataclass(frozen=True, slots=True, eq=False)
class WithGamma(Conversion):
    """A conversion with an option that no loop computes yet."""

    gamma: float = 1.0


def gamma_of(source, target, **options):
    return WithGamma(ELEMENT_TYPES[source], ELEMENT_TYPES[target], **options)


def test_an_option_that_is_new_belongs_to_a_conversions_identity_and_parts():
    plain, other = gamma_of("uint8", "uint8"), gamma_of("uint8", "uint8", gamma=2.2)
    assert (plain.parts, other.parts) == (frozenset(), {"gamma"})
    assert (plain.is_bitwise_copy, other.is_bitwise_copy) == (True, False)
    assert plain != other
    assert len({plain, other, gamma_of("uint8", "uint8", gamma=2.2)}) == 2


IMAGE = np.arange(41 * 59 * 3, dtype=np.uint8).reshape(41, 59, 3)
SCALE = 0.71875  # no other test has it, and launches are cached
NEW_OPTION = {
    "relayout": lambda: sg.relayout(IMAGE, dtype="float32", scale=SCALE),
    "small": lambda: sg.relayout(IMAGE[:2, :3], dtype="float32", scale=SCALE),
    "matrix": lambda: sg.relayout(IMAGE, dims="HWC", matrix=[[SCALE, 0.5, 0.25]], dtype="float32"),
    "crops": lambda: sg.gather_crops(IMAGE[None], [(3, 4)], (20, 30), dims="NHWC", dtype="float32", scale=SCALE),
    "resize": lambda: sg.resize(IMAGE, (20, 30), dims="HWC", dtype="float32", scale=SCALE),
    "nearest": lambda: sg.resize(
        IMAGE, (20, 30), dims="HWC", interpolation="pillow-nearest", dtype="float32", scale=SCALE
    ),
    "frame": lambda: sg.relayout(surface("nv12", (42, 58), 1).frame(), dtype="float32", scale=SCALE),
}


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("name", NEW_OPTION)
def test_an_option_that_no_loop_computes_is_refused_with_the_place_that_lacks_it(monkeypatch, name, execution):
    plain = ConversionOptions.conversion

    def with_gamma(self, *arguments):
        made = plain(self, *arguments)
        options = {each.name: getattr(made, each.name) for each in fields(made) if each.init}
        return WithGamma(**options, gamma=2.2)

    monkeypatch.setattr(ConversionOptions, "conversion", with_gamma)
    place = r"gamma: devices/cpu/numpy_loops/conversion\.py does not compute it"
    with picking_by(execution), pytest.raises(DeviceError, match=place):
        NEW_OPTION[name]()


@pytest.mark.parametrize("options", [{}, {"scale": (0.5,)}, {"matrix": ((0.25, 0.5, 0.25),)}])
def test_an_option_that_kernels_do_not_compute_is_refused_with_the_place_that_lacks_it(options):
    made = gamma_of("uint8", "float32", gamma=2.2, **options)
    place = r"gamma: devices/cuda/parameters\.py does not compute it"
    with pytest.raises(DeviceError, match=place):
        conversion_argument(made)
    with pytest.raises(DeviceError, match=place):
        number_argument(matrix_encoding(made))


@pytest.mark.emulation
@pytest.mark.skipif(runner.why_unavailable() is not None, reason=str(runner.why_unavailable()))
def test_a_rounding_that_kernels_do_not_know_is_an_error():
    source = joined_source("conversion.cuh") + CUDA
    unknown = "convert_elements<sg::Conversion<sg::float32, sg::uint8, false, false, sg::Rounding(2)>>"
    with pytest.raises(EmulationError, match="a rounding without a function"):
        Program.compile(source, [unknown])


def test_every_rounding_has_an_entry_everywhere():
    roundings = set(get_args(Rounding))
    assert roundings == numpy_conversion._ROUNDINGS.keys()
    [members] = re.findall(r"enum class Rounding \{(.*?)\};", joined_source("conversion.cuh"))
    assert {name.strip() for name in members.split(",")} == roundings
