"""Element conversion in `conversion.cuh`: every pair of types, on the values where conversions go wrong, to the bit."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from harness.emulator import machine_code
from harness.emulator.exact_conversion import (
    COMPONENTS,
    FLOATS,
    INTEGERS,
    REALS,
    compute_type,
    converted,
    edge_elements,
    itemsize,
    numpy_type,
)
from harness.emulator.marks import emulated, every_architecture, inspected
from harness.emulator.runner import Buffer, Job, Program, Record

from stridedgpu.devices.cuda.sources import joined_source

KERNEL = r"""
template <typename Conversion>
__global__ void convert_elements(const typename Conversion::Source* source, typename Conversion::Target* target,
                                 sg::Affine<typename Conversion::Compute> affine, unsigned count) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) {
        target[i] = Conversion::apply(source[i], affine);
    }
}
"""

VECTOR_KERNEL = r"""
template <typename Conversion, int N>
__global__ void convert_vectors(const typename Conversion::Source* source, typename Conversion::Target* target,
                                sg::Affine<typename Conversion::Compute> affine) {
    using Source = sg::Vector<typename Conversion::Source, N>;
    const unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) * N;
    sg::store(target + i, Conversion::apply(sg::load<Source>(source + i), affine));
}
"""

# Scale and bias: an ordinary normalisation; subnormal products and sums; what makes NaN from 0 and from infinity.
INFINITY = float("inf")
AFFINE = ((1 / 255, -0.485), (2.0**-140, 3 * 2.0**-149), (-1.0, 0.0), (INFINITY, -INFINITY), (float("nan"), 1.0))
MODES = {"scale": (True, False), "bias": (False, True), "scale and bias": (True, True)}


def kernel(source: str, target: str, scale: bool = False, bias: bool = False, rounding: str = "nearest") -> str:
    names = [f"sg::{'boolean' if name == 'bool' else name}" for name in (source, target)]
    flags = f"{str(scale).lower()}, {str(bias).lower()}, sg::Rounding::{rounding}"
    return f"convert_elements<sg::Conversion<{names[0]}, {names[1]}, {flags}>>"


def kernels_from(source: str) -> list[str]:
    """Every kernel that converts from a type."""
    if source in COMPONENTS:
        return [kernel(source, target) for target in COMPONENTS]
    names = [kernel(source, target) for target in (*REALS, *COMPONENTS)]
    names += [kernel(source, target, *flags) for target in REALS for flags in MODES.values()]
    names += [kernel(source, target, True, True, "truncate") for target in INTEGERS]
    if source in FLOATS:
        names += [kernel(source, target, rounding="truncate") for target in INTEGERS]
    return names


# A program for each kind of source: few, since each has its fixed time; not one, so that processes can share them.
QUICK = ("uint8", "float32")
"""The sources of the default run."""

KINDS = (
    QUICK,
    tuple(name for name in ("bool", *INTEGERS) if name not in QUICK),
    tuple(name for name in (*FLOATS, *COMPONENTS) if name not in QUICK),
)


def source_param(name: str):
    """A source whose conversions run in the emulator, in the default run or in CI's."""
    return pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)


@functools.cache
def program(kind: tuple[str, ...]) -> Program:
    names = [name for source in kind for name in kernels_from(source)]
    return Program.compile(joined_source("conversion.cuh") + KERNEL, names)


def run_conversions(source: str, jobs: list[Job]) -> list[bytes]:
    [kind] = [kind for kind in KINDS if source in kind]
    return [result[1] for result in program(kind).run(jobs)]


def job(name, elements, source, target, scale=0.0, bias=0.0):
    compute = compute_type(source, target)
    affine = Record(np.array([scale, bias], compute).tobytes())
    count = elements.nbytes // itemsize(source)
    arguments = (Buffer(elements), Buffer(bytes(count * itemsize(target))), affine, np.uint32(count))
    return Job(name, (2,), (32,), arguments, label=f"{source} to {target}")


def assert_same_bits(result: bytes, expected: np.ndarray, elements: np.ndarray, what: str) -> None:
    got = np.frombuffer(result, expected.dtype)
    wrong = np.flatnonzero(got != expected)
    shown = [f"{elements[i]:#x} -> {got[i]:#x}, not {expected[i]:#x}" for i in wrong[:5]]
    assert not shown, f"{what}: {len(wrong)} of {len(expected)} wrong: {'; '.join(shown)}"


@emulated
@pytest.mark.parametrize("source", [source_param(name) for name in REALS])
def test_casts(source):
    elements = edge_elements(source)
    cases = [(target, "nearest") for target in REALS]
    cases += [(target, "truncate") for target in INTEGERS if source in FLOATS]
    jobs = [job(kernel(source, target, rounding=rounding), elements, source, target) for target, rounding in cases]
    for (target, rounding), result in zip(cases, run_conversions(source, jobs), strict=True):
        expected = converted(source, target, elements, rounding=rounding)
        assert_same_bits(result, expected, elements, f"{source} to {target}, {rounding}")


@emulated
@pytest.mark.parametrize("source", [source_param(name) for name in REALS])
def test_scale_and_bias(source):
    elements = edge_elements(source)[::3]
    cases = [
        (target, mode, flags, rounding, affine)
        for target in REALS
        for mode, flags in MODES.items()
        for rounding in ("nearest", "truncate")
        for affine in AFFINE
        if rounding == "nearest" or (target in INTEGERS and all(flags))
    ]
    jobs = [
        job(kernel(source, target, *flags, rounding), elements, source, target, *affine)
        for target, _, flags, rounding, affine in cases
    ]
    for (target, mode, flags, rounding, affine), result in zip(cases, run_conversions(source, jobs), strict=True):
        scale, bias = (value if present else None for value, present in zip(affine, flags, strict=True))
        expected = converted(source, target, elements, scale, bias, rounding)
        assert_same_bits(result, expected, elements, f"{source} to {target}, {mode} {affine}, {rounding}")


# Whole vectors, where small elements are converted a word at a time

SMALL = ("uint8", "int8", "uint16", "int16", "float16", "bfloat16")
VECTOR_SOURCES = ("uint8", "bfloat16", "float32")
MORE_VECTOR_SOURCES = ("int8", "int16", "uint16", "float16", "bool", "int32", "uint32", "float64")
VECTOR_TARGETS = (*SMALL, "float32")


def vector_kernel(scalar: str, length: int, no_nan: bool) -> str:
    conversion = scalar.removeprefix("convert_elements<").removesuffix(">")
    return f"convert_vectors<{conversion.removesuffix('>')}{', sg::Nan::ignore' * no_nan}>, {length}>"


def vector_cases(source: str) -> list[tuple[str, str, tuple[float, float] | None, str]]:
    """For each target a cast alone, and scale and bias: the kernel, the target, the constants and the rounding."""
    found = []
    for number, target in enumerate(VECTOR_TARGETS):
        rounding = "truncate" if target in ("uint16", "int8") and source in FLOATS else "nearest"
        length = min((8, 4, 16)[number % 3], 32 // max(itemsize(source), itemsize(target)))
        found.append((vector_kernel(kernel(source, target, rounding=rounding), length, False), target, None, rounding))
        for affine in AFFINE:
            no_nan = source not in FLOATS and target in FLOATS and bool(np.isfinite(affine).all())
            made = vector_kernel(kernel(source, target, True, True, rounding), length, no_nan)
            found.append((made, target, affine, rounding))
    return found


@functools.cache
def vector_program(sources: tuple[str, ...]) -> Program:
    names = sorted({name for source in sources for name, *_ in vector_cases(source)})
    return Program.compile(joined_source("conversion.cuh") + VECTOR_KERNEL, names)


@emulated
@pytest.mark.slow
@pytest.mark.parametrize("source", [*VECTOR_SOURCES, *MORE_VECTOR_SOURCES])
def test_vectors_are_converted_as_their_elements_are(source):
    elements = edge_elements(source)
    # NaN apart from each other, among numbers, and in every place of a vector.
    elements = np.concatenate([elements, np.random.default_rng(3).permutation(np.repeat(elements, 2))])
    elements = np.ascontiguousarray(np.resize(elements, -(-elements.size // 512) * 512))
    cases = vector_cases(source)
    jobs = []
    for name, target, affine, _ in cases:
        constants = Record(np.array(affine or (0.0, 0.0), compute_type(source, target)).tobytes())
        length = int(name.rpartition(" ")[2].removesuffix(">"))
        arguments = (Buffer(elements, 32), Buffer(bytes(elements.size * itemsize(target)), 32), constants)
        jobs.append(Job(name, (elements.size // length // 32,), (32,), arguments, label=f"{source} to {target}"))
    sources = VECTOR_SOURCES if source in VECTOR_SOURCES else MORE_VECTOR_SOURCES
    results = [result[1] for result in vector_program(sources).run(jobs)]
    for (_, target, affine, rounding), result in zip(cases, results, strict=True):
        expected = converted(source, target, elements, *(affine or (None, None)), rounding)
        assert_same_bits(result, expected, elements, f"{source} to {target}, {affine}, {rounding}")


# The arithmetic of libraries, whose steps end in a division

STEPPED = [
    ("uint8", "float32", "divide", 255),
    ("uint8", "float32", "torchvision_v2", 1 / 255),
    ("uint8", "float32", "transformers", None),
    ("uint8", "float32", "transformers_pil", 0.1),
    *(
        (source, target, "divide", unit)
        for source, unit in (("uint8", 255), ("int8", 127), ("uint16", 65535), ("uint16", 4095), ("int16", 32767))
        for target in ("float32", "float16", "uint8")
    ),
    *(
        (source, target, arithmetic, unit)
        for source, target in (("uint8", "float16"), ("int8", "float32"), ("uint16", "uint8"), ("float16", "float32"))
        for arithmetic, unit in (("torchvision_v2", 1 / 127), ("transformers", None), ("transformers_pil", 1 / 127.5))
    ),
]
"""Source, target, arithmetic and the number of its first step, which a program has in its code."""

DIVISORS = ((0.229, -0.485), (0.26130258, -0.4578275), (-3.0, 1e-40), (1e-44, 0.25))
"""The divisor and the bias: those of ImageNet and CLIP, and what leads to subnormal numbers and infinity."""


def stepped_kernel(source: str, target: str, arithmetic: str, unit: float | None) -> str:
    nans = "ignore" if target in FLOATS and source not in FLOATS else "keep"
    steps = f"sg::Nan::{nans}, sg::Arithmetic::{arithmetic}"
    if unit is not None:
        steps += f", {int(np.float64(unit).view(np.uint64))}ull"
    return f"{kernel(source, target, True, True).removesuffix('>>')}, {steps}>>"


def first_step(values: Any, arithmetic: str, unit: float | None) -> Any:
    """Values in float32 before the bias."""
    if arithmetic == "transformers_pil":
        return (values.astype(np.float64) * unit).astype(np.float32)
    numbers = values.astype(np.float32)
    if arithmetic == "transformers":
        return numbers
    return numbers / np.float32(unit) if arithmetic == "divide" else numbers * np.float32(unit)


@emulated
@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(STEPPED[:4], id="uint8 to float32"),
        pytest.param(STEPPED[4:], id="the other types", marks=pytest.mark.slow),
    ],
)
def test_every_small_number_takes_the_steps_of_its_arithmetic(cases):
    """All 256 or 65,536 values, one by one and in vectors: each step rounded to float32."""
    scalar = {case: stepped_kernel(*case) for case in cases}
    vector = {case: vector_kernel(name, 4, False) for case, name in scalar.items()}
    source = joined_source("conversion.cuh") + KERNEL + VECTOR_KERNEL
    jobs, expected = [], []
    for case in cases:
        values = np.arange(1 << 8 * itemsize(case[0]), dtype=f"uint{8 * itemsize(case[0])}").view(case[0])
        if case[0] in FLOATS:
            values = np.resize(values[np.isfinite(values)], 1 << 15)
        for divisor, bias in DIVISORS:
            with np.errstate(all="ignore"):
                numbers = (first_step(values, *case[2:]) + np.float32(bias)) / np.float32(divisor)
                whole = numbers if case[1] in FLOATS else np.clip(np.rint(numbers), 0, 255)
            expected += [whole.astype(case[1])] * 2
            constants = Record(np.array([divisor, bias], "f").tobytes())
            made = bytes(values.size * itemsize(case[1]))
            arguments = (Buffer(values, 32), Buffer(made, 32), constants)
            jobs.append(Job(scalar[case], (2,), (32,), (*arguments, np.uint32(values.size)), label=str(case)))
            jobs.append(Job(vector[case], (values.size // 128,), (32,), arguments, label=str(case)))
    program = Program.compile(source, sorted({*scalar.values(), *vector.values()}))
    for job_, numbers, result in zip(jobs, expected, program.run(jobs), strict=True):
        assert result[1] == numbers.tobytes(), job_.label


@inspected
@every_architecture
def test_divisions_stay_in_registers_and_keep_subnormals(architecture):
    names = [vector_kernel(stepped_kernel(*case), 4, False) for case in STEPPED[:6]]
    code = machine_code.compile_kernels(joined_source("conversion.cuh") + VECTOR_KERNEL, names, architecture)
    for name in names:
        assert (code[name].local_accesses, code[name].stack_bytes, code[name].flushing) == (0, 0, []), name


@emulated
@pytest.mark.parametrize("target", COMPONENTS)
@pytest.mark.parametrize("source", [source_param(name) for name in REALS])
def test_real_to_complex(source, target):
    elements = edge_elements(source)
    [result] = run_conversions(source, [job(kernel(source, target), elements, source, target)])
    real = converted(source, COMPONENTS[target], elements)
    expected = np.stack([real, np.zeros_like(real)], axis=1).reshape(-1)
    assert_same_bits(result, expected, np.repeat(elements, 2), f"{source} to {target}")


@emulated
@pytest.mark.parametrize("target", COMPONENTS)
@pytest.mark.parametrize("source", [source_param(name) for name in COMPONENTS])
def test_complex_to_complex(source, target):
    parts = edge_elements(COMPONENTS[source])
    elements = np.concatenate([parts, parts[::-1]])
    [result] = run_conversions(source, [job(kernel(source, target), elements, source, target)])
    expected = converted(COMPONENTS[source], COMPONENTS[target], elements)
    assert_same_bits(result, expected, elements, f"{source} to {target}")


@emulated
@pytest.mark.parametrize("target", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("source", [source_param(name) for name in ("float16", "bfloat16")])
def test_every_half_agrees_with_the_casts_of_ml_dtypes(source, target):
    elements = np.arange(1 << 16, dtype=np.uint16)
    [result] = run_conversions(source, [job(kernel(source, target), elements, source, target)])
    got = np.frombuffer(result, numpy_type(target))
    with np.errstate(all="ignore"):
        values = elements.view(numpy_type(source))
        expected = values.astype(numpy_type(target))
        numbers = ~np.isnan(values.astype(np.float32))
    assert got[numbers].tobytes() == expected[numbers].tobytes()


def test_the_oracle_agrees_with_numpy_where_numpy_defines_the_result():
    between_floats = itertools.permutations(["float16", "float32", "float64"], 2)
    for source, target in [*between_floats, *itertools.product(INTEGERS, ["float32", "float64"])]:
        elements = edge_elements(source)
        values = elements.view(source)
        if "float16" in (source, target):  # NumPy converts float16 in software, which leaves a NaN signaling
            elements = elements[~np.isnan(values)]
            values = elements.view(source)
        with np.errstate(all="ignore"):
            expected = values.astype(target).view(f"uint{8 * itemsize(target)}")
        assert_same_bits(converted(source, target, elements).tobytes(), expected, elements, f"{source} to {target}")


@inspected
@pytest.mark.slow
@every_architecture
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"from {kind[-1]} and its like")
def test_conversions_stay_in_registers_and_keep_subnormals(kind, architecture):
    names = [name for source in kind for name in kernels_from(source) if "true, false" not in name]
    names = [name for name in names if "false, true" not in name]
    code = machine_code.compile_kernels(joined_source("conversion.cuh") + KERNEL, names, architecture)
    for name in names:
        assert (code[name].local_accesses, code[name].stack_bytes, code[name].flushing) == (0, 0, []), name


@inspected
def test_the_inspection_sees_arithmetic_that_flushes_subnormals():
    source = "__global__ void product(float* x) { x[0] = x[0] * x[1]; }"
    assert machine_code.compile_kernels(source, ["product"], "sm_90")["product"].flushing


@inspected
@every_architecture
def test_hot_conversions_are_few_instructions(architecture):
    """Per element, of a thread's 8: what a normalising relayout can spend and still run at memory speed.

    From floats, half of it is for vectors that hold a NaN, and is jumped over.
    """
    source = joined_source("conversion.cuh") + VECTOR_KERNEL
    most = {
        ("uint8", "float16", False): 5,
        ("uint8", "bfloat16", False): 7.5 if architecture == "sm_75" else 5,  # sm_75 rounds to bfloat16 in integers
        ("uint8", "float32", True): 6.5,
        ("uint8", "float16", True): 7,
        ("float32", "float16", False): 13,
        ("float32", "bfloat16", False): 14.5 if architecture == "sm_75" else 10,
        ("float16", "float32", False): 11,
        ("float32", "uint8", False): 3.5,
        ("float32", "uint8", True): 5.5,
    }
    names = {
        case: vector_kernel(kernel(*case[:2], case[2], case[2]), 8, case[2] and case[0] not in FLOATS) for case in most
    }
    code = machine_code.compile_kernels(source, list(names.values()), architecture)
    counts = {case: code[name].instructions / 8 for case, name in names.items()}
    assert {case: count for case, count in counts.items() if count > most[case]} == {}
