"""Conversions of NumPy blocks: every pair of types on the values where conversions go wrong, to the bit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from harness.emulator.exact_conversion import (
    COMPONENTS,
    FLOATS,
    INTEGERS,
    REALS,
    converted,
    edge_elements,
    itemsize,
)

from stridedgpu.devices.cpu.numpy_loops.conversion import convert_block, storage_dtype
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import ELEMENT_TYPES

INFINITY, NAN = float("inf"), float("nan")
# An ordinary normalisation; subnormal products and sums; -0.0; what makes NaN from 0 and from infinity; overflow.
AFFINE = (
    (1 / 255, -0.485),
    (2.0**-140, 3 * 2.0**-149),
    (-1.0, 0.0),
    (1.0, -0.0),
    (INFINITY, -INFINITY),
    (NAN, 1.0),
    (3e38, 3e38),
)


def stored(name, words):
    """Words of an element's size, as the block that holds such elements."""
    return words.view(storage_dtype(ELEMENT_TYPES[name], opaque=False))


def assert_converts(source, target, words, expected, *, scale=None, bias=None, rounding="nearest"):
    made = conversion(ELEMENT_TYPES[source], ELEMENT_TYPES[target], scale=scale, bias=bias, rounding=rounding)
    block = stored(source, words.copy())
    values = [None if value is None else np.array([value], made.compute.name) for value in (scale, bias)]
    result = convert_block(block, made, *values)
    assert block.tobytes() == words.tobytes(), "the source was written"
    assert result.dtype == storage_dtype(ELEMENT_TYPES[target], opaque=False)
    got = np.ascontiguousarray(result).view(expected.dtype)
    wrong = np.flatnonzero(got != expected)
    shown = [f"{words[i]:#x} -> {got[i]:#x}, not {expected[i]:#x}" for i in wrong[:5]]
    assert not shown, f"{source} -> {target}, {scale=}, {bias=}, {rounding}: {len(wrong)} wrong: {'; '.join(shown)}"


@pytest.mark.parametrize("source", REALS)
def test_casts(source):
    words = edge_elements(source)
    for target in REALS:
        if target != source:
            assert_converts(source, target, words, converted(source, target, words))


@pytest.mark.parametrize("source", FLOATS)
def test_casts_toward_zero(source):
    words = edge_elements(source)
    for target in INTEGERS:
        expected = converted(source, target, words, rounding="truncate")
        assert_converts(source, target, words, expected, rounding="truncate")


def scaled(source):
    """Each target with each pair of constants: the scale alone, the bias alone, and both."""
    for target, (scale, bias) in itertools.product(REALS, AFFINE):
        for arguments in ({"scale": scale}, {"bias": bias}, {"scale": scale, "bias": bias}):
            yield target, arguments


@pytest.mark.parametrize("source", REALS)
def test_scale_and_bias_of_a_few(source):
    words = edge_elements(source)[::5]
    for target, arguments in itertools.islice(scaled(source), REALS.index(source) % 5, None, 5):
        assert_converts(source, target, words, converted(source, target, words, **arguments), **arguments)


@pytest.mark.slow
@pytest.mark.parametrize("source", REALS)
def test_scale_and_bias(source):
    words = edge_elements(source)[::5]
    for target, arguments in scaled(source):
        assert_converts(source, target, words, converted(source, target, words, **arguments), **arguments)


@pytest.mark.parametrize("source", REALS)
def test_scale_and_bias_toward_zero(source):
    words = edge_elements(source)[::4]
    arguments = {"scale": 0.7, "bias": -0.25, "rounding": "truncate"}
    for target in INTEGERS:
        assert_converts(source, target, words, converted(source, target, words, **arguments), **arguments)


@pytest.mark.parametrize("target", COMPONENTS)
@pytest.mark.parametrize("source", REALS)
def test_real_to_complex(source, target):
    words = edge_elements(source)
    part = converted(source, COMPONENTS[target], words)
    made = conversion(ELEMENT_TYPES[source], ELEMENT_TYPES[target])
    got = convert_block(stored(source, words), made).view(part.dtype)
    assert got[0::2].tobytes() == part.tobytes()
    assert not got[1::2].any(), "an imaginary part is not +0.0"


@pytest.mark.parametrize("source, target", list(itertools.permutations(COMPONENTS, 2)))
def test_complex_to_complex(source, target):
    parts = edge_elements(COMPONENTS[source])
    parts = np.concatenate([parts, parts[::-1], parts[: len(parts) % 2]])
    made = conversion(ELEMENT_TYPES[source], ELEMENT_TYPES[target])
    got = convert_block(parts.view(source), made)
    assert got.tobytes() == converted(COMPONENTS[source], COMPONENTS[target], parts).tobytes()


@pytest.mark.parametrize(
    "target",
    [
        "float32",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("float64", "uint8", "int16", "another half")),
    ],
)
@pytest.mark.parametrize("source, other", [("float16", "bfloat16"), ("bfloat16", "float16")])
def test_every_half_of_65536(source, other, target):
    words = np.arange(1 << 16, dtype=np.uint16)
    target = other if target == "another half" else target
    assert_converts(source, target, words, converted(source, target, words))


@pytest.mark.parametrize(
    "source, target", list(itertools.product(INTEGERS, (*INTEGERS, "float16", "float32", "float64")))
)
def test_agrees_with_numpy_where_nothing_saturates(source, target):
    """NumPy has one answer for numbers that the target can hold."""
    if source == target:
        return
    numbers = edge_elements(source).view(source)
    if target in INTEGERS:
        limits = np.iinfo(target)
        numbers = numbers[[limits.min <= number <= limits.max for number in numbers.tolist()]]
    assert len(numbers) > 20
    made = conversion(ELEMENT_TYPES[source], ELEMENT_TYPES[target])
    with np.errstate(over="ignore"):
        expected = numbers.astype(target)
    assert convert_block(numbers, made).tobytes() == expected.tobytes()


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
@pytest.mark.parametrize("target", [*INTEGERS, "float16", "float32", "float64"])
def test_floats_agree_with_numpy_where_nothing_saturates(source, target):
    if source == target:
        return
    numbers = edge_elements(source).view(source)
    numbers = numbers[np.isfinite(numbers)]
    if target in INTEGERS:
        limits = np.iinfo(target)
        wide = numbers.astype(np.float64)
        numbers = numbers[(np.trunc(wide) >= float(limits.min)) & (wide < float(limits.max))]
    assert len(numbers) > 20
    made = conversion(ELEMENT_TYPES[source], ELEMENT_TYPES[target], rounding="truncate")
    with np.errstate(all="ignore"):
        expected = numbers.astype(target)
    assert convert_block(numbers, made).tobytes() == expected.tobytes()


@pytest.mark.parametrize("target", ["uint8", "bfloat16", "float64"])
@pytest.mark.parametrize("scale", [None, 2.0])
def test_blocks_may_be_strided_and_of_any_rank(target, scale):
    memory = np.random.default_rng(0).normal(0, 100, (6, 7, 8)).astype(np.float32)
    views = [memory[::2, ::-1, 1::3].transpose(2, 0, 1), memory[2, 3, 4, ...], memory[:, 3, 5], memory[:0]]
    made = conversion(ELEMENT_TYPES["float32"], ELEMENT_TYPES[target], scale=scale)
    for view in views:
        words = np.ascontiguousarray(view).reshape(-1).view(np.uint32)
        got = convert_block(view, made, None if scale is None else np.array([scale], made.compute.name))
        assert got.shape == view.shape
        expected = converted("float32", target, words, scale)
        assert np.ascontiguousarray(got).tobytes() == expected.tobytes()


def test_storage_holds_the_bits_of_every_type():
    for element in ELEMENT_TYPES.values():
        assert storage_dtype(element, opaque=True).itemsize == element.itemsize
        if element.kind != "o":
            assert storage_dtype(element, opaque=False).itemsize == itemsize(element.name)
