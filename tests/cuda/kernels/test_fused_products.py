"""Unsigned integers multiplied by one fused instruction: the bits of a product, for every integer."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from harness.emulator import machine_code
from harness.emulator.marks import DEFAULT_ARCHITECTURE, emulated, inspected
from harness.emulator.runner import Buffer, Job, Program, Record
from hypothesis import given, strategies as st

from stridedgpu.devices.cuda.parameters import conversion_argument
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES

KERNEL = r"""
template <typename Conversion>
__global__ void convert_vectors(const typename Conversion::Source* source, typename Conversion::Target* target,
                                sg::Affine<typename Conversion::Compute> affine) {
    using Source = sg::Vector<typename Conversion::Source, 4>;
    const unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    sg::store(target + i, Conversion::apply(sg::load<Source>(source + i), affine));
}
"""

LARGEST = float(np.finfo(np.float32).max)
SCALES = (1 / 255, 0.017124754, 1.0, 2.0**-149, 1e-40, LARGEST / 2**23, 0.0, 3.0e-5)
BIASES = (None, -2.117904, 0.0, 1e-45)
NEGATIVE = (-0.017124754, -(2.0**-149), -LARGEST / 2**23, -0.0)

MADE = [(source, target) for source in ("uint8", "uint16") for target in ("float32", "float16", "uint8")]


def argument(source: str, target: str, scale: float | tuple[float, ...] | None, bias: float | None = None) -> str:
    """The conversion as a template argument."""
    count = len(scale) if isinstance(scale, tuple) else None
    types = (ELEMENT_TYPES[source], ELEMENT_TYPES[target])
    return conversion_argument(conversion(*types, scale=scale, bias=bias, source_channels=count))


def is_fused(*conversion: object) -> bool:
    return argument(*conversion).endswith(", sg::Arithmetic::fused>")


def constants() -> list[tuple[float, float | None]]:
    """Positive scales with and without a bias; negative ones, and minus zero, with a bias."""
    return [*itertools.product(SCALES, BIASES), *itertools.product(NEGATIVE, BIASES[1:])]


@emulated
def test_every_byte_has_the_bits_of_its_product():
    check(MADE[:1])


@emulated
@pytest.mark.slow
def test_every_integer_has_the_bits_of_its_product():
    check(MADE[1:])


def check(cases: list[tuple[str, str]]) -> None:
    """All 256 or 65,536 values: a product rounded to float32, then a sum rounded to float32."""
    jobs, expected = [], []
    for (source, target), (scale, bias) in itertools.product(cases, constants()):
        values = np.arange(1 << 8 * np.dtype(source).itemsize).astype(source)
        name = f"convert_vectors<{argument(source, target, scale, bias)}>"
        assert is_fused(source, target, scale, bias), (scale, bias)
        with np.errstate(all="ignore"):
            numbers = values.astype("f") * np.float32(scale)
            numbers = numbers if bias is None else numbers + np.float32(bias)
            numbers = numbers if target != "uint8" else np.clip(np.rint(numbers), 0, 255)
            expected.append(numbers.astype(target))
        affine = Record(np.array([scale, bias or 0.0], "f").tobytes())
        arguments = (Buffer(values, 32), Buffer(bytes(expected[-1].nbytes), 32), affine)
        jobs.append(Job(name, (values.size // 128,), (32,), arguments, label=f"{source} * {scale} + {bias}"))
    program = Program.compile(joined_source("conversion.cuh") + KERNEL, sorted({job.kernel for job in jobs}))
    for job, numbers, result in zip(jobs, expected, program.run(jobs), strict=True):
        assert result[1] == numbers.tobytes(), job.label


@given(st.integers(0, 65535), st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_the_sum_is_the_product_before_it_is_rounded(number, scale):
    """Both products are exact in float64, and so is their difference."""
    raised = float(2**23 + number) * scale - float(2**23) * scale
    assert raised == number * scale


CHOICES = {
    "the usual normalisation": (("uint8", "float16", (0.017, 0.0175, 0.0174), -2.1), True),
    "a scale alone": (("uint16", "float32", 1 / 65535), True),
    "a bias alone": (("uint8", "float32", None, 1.0), False),
    "a negative scale alone: zero times it is -0": (("uint8", "float32", -1.0), False),
    "a negative scale and a bias": (("uint8", "float32", -1.0, 2.0), True),
    "a negative scale and a bias of -0": (("uint8", "float32", -1.0, -0.0), False),
    "a scale of -0 alone": (("uint8", "float32", -0.0), False),
    "one negative scale among others": (("uint8", "float32", (1.0, -1.0, 1.0)), False),
    "a scale too large to be raised": (("uint8", "float32", LARGEST / 2**22), False),
    "an infinite scale": (("uint8", "float32", float("inf"), 1.0), False),
    "no number": (("uint8", "float32", float("nan"), 1.0), False),
    "a signed source": (("int8", "float32", 0.5, 1.0), False),
    "a wide source": (("uint32", "float32", 0.5), False),
    "wide numbers": (("uint8", "float64", 0.5), False),
}


@pytest.mark.parametrize("name", CHOICES)
def test_products_are_fused_where_their_bits_are_the_same(name):
    made, expected = CHOICES[name]
    assert is_fused(*made) == expected


@inspected
def test_an_element_takes_one_instruction_less():
    fused = f"convert_vectors<{argument('uint8', 'float32', 0.5, 1.0)}>"
    plain = fused.replace(", sg::Arithmetic::fused>", ">")
    source = joined_source("conversion.cuh") + KERNEL
    code = machine_code.disassembled(source, [fused, plain], DEFAULT_ARCHITECTURE)
    counts = {name: code[name].text.count(" FFMA ") for name in (fused, plain)}
    assert counts == {fused: 4, plain: 0}
    assert code[fused].text.count(" FADD ") == code[plain].text.count(" FADD ") - 4
