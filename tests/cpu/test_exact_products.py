"""Products by the sum of two floats that stand for divisions and for products in float64."""

from __future__ import annotations

import numpy as np
import pytest
from harness.native_loops import CLASSES

import stridedgpu as sg
from stridedgpu.devices.cpu.native.exact_products import are_exact, divisor_factors
from stridedgpu.devices.cpu.policy import Policy, using
from stridedgpu.values.arithmetic import NORMALISATIONS
from stridedgpu.values.conversion import conversion_options
from stridedgpu.values.dtypes import ELEMENT_TYPES

DIVIDED = ("divide", "transformers", "transformers-pil", "torchvision-v2")


def made(source="uint8", target="float32", **options):
    return conversion_options(dtype=target, **options).conversion(ELEMENT_TYPES[source], 3, ELEMENT_TYPES[source])


@pytest.fixture(autouse=True)
def a_stated_processor():
    with using(Policy.of(CLASSES["AVX2"])):
        yield


@pytest.mark.parametrize("name", NORMALISATIONS)
@pytest.mark.parametrize("arithmetic", DIVIDED)
def test_usual_figures_are_exact(name, arithmetic):
    assert are_exact(made(normalize=name, arithmetic=arithmetic))


def test_only_bytes_are_known_by_all_of_their_values():
    for source, target in (("uint16", "float32"), ("float32", "float32"), ("int8", "float32")):
        assert not are_exact(made(source, target, normalize="imagenet", arithmetic="transformers"))
    assert not are_exact(made(target="float64", normalize="imagenet", arithmetic="divide"))
    assert not are_exact(made(normalize="imagenet"))


def test_processors_without_fused_products_divide():
    conversion = made(normalize="imagenet", arithmetic="transformers")
    for name, expected in (("no AVX2", False), ("AVX2", True), ("AVX-512", True), ("AArch64", True)):
        with using(Policy.of(CLASSES[name])):
            assert are_exact(conversion) == expected


HALF_WAY = 1 + 2.0**-24 + 2.0**-50
"""Above the middle between two floats by less than two floats hold: their sum is the middle."""

OTHERS = {
    "half-way": (made(scale=HALF_WAY, arithmetic="transformers-pil"), False),
    "just above": (made(scale=1 + 2.0**-24 + 2.0**-44, arithmetic="transformers-pil"), True),
    "infinite": (made(mean=0.5, std=2.0**-140, arithmetic="transformers"), False),
    "tiny": (made(mean=0.5, std=2.0**120, arithmetic="transformers"), False),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_two_floats_do_not_hold_is_computed_as_it_is_stated(name):
    conversion, expected = OTHERS[name]
    assert are_exact(conversion) == expected


@pytest.mark.parametrize("factor", [HALF_WAY, 1 / 255, 1 + 2.0**-24 + 2.0**-44, 1 / 3])
def test_every_byte_has_the_bits_of_numpy(factor):
    pixels = np.tile(np.arange(256, dtype=np.uint8), (64, 64, 1))
    found = sg.relayout(pixels, dtype="float32", scale=factor, arithmetic="transformers-pil").numpy()
    assert np.array_equal(found, (pixels.astype(np.float64) * factor).astype(np.float32))


def test_factors_of_divisions():
    divisors = np.array([0.5, 3.0, 57.375], np.float32)
    high, low = divisor_factors(divisors)
    exact = 1 / divisors.astype(np.float64)
    assert np.abs(high.astype(np.float64) + low - exact).max() < 2.0**-48
    assert (low[0], low[1] != 0) == (0, True)
