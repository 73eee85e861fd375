"""Divided normalisation in every kernel that converts: the emulator beside the NumPy device, to the bit."""

from __future__ import annotations

import itertools

import pytest
from harness.emulator.cases import LARGE, case, in_order
from harness.emulator.marks import emulated
from harness.emulator.planned import check_cases
from harness.resize_launches import ResizeCase, check_resizes

from stridedgpu.devices.cuda.relayout.choice import Family

IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225), "arithmetic": "divide"}
ONE_HALF = {"mean": 0.5, "std": 0.5, "arithmetic": "divide"}

ORDERS = {"pixels": (0, 2, 3, 1), "planes": (0, 1, 2, 3), "columns": (0, 1, 3, 2), "columns of pixels": (0, 3, 2, 1)}
"""Memory orders of the axes N, C, H, W."""


def relayouts(types: str = "uint8>float32"):
    """Three channels between each two memory orders, and one constant for all."""
    sizes = (2, 3, 40, 48)
    made = [
        case(in_order(sizes, one), in_order(sizes, other), types, axis=1, gpu=LARGE, **IMAGENET)
        for one, other in itertools.product(ORDERS.values(), repeat=2)
    ]
    return [*made, case(in_order(sizes, ORDERS["planes"]), in_order(sizes, ORDERS["planes"]), types, **ONE_HALF)]


def resizes(target: str = "float32"):
    """A filter, the four neighbours, and the nearest pixel."""
    return [
        ResizeCase(interpolation, target=target, order=order, seed=number, arithmetic=IMAGENET)
        for number, interpolation in enumerate(("pillow-bilinear", "opencv-linear", "pillow-nearest"))
        for order in ("NCHW", "NHWC")
    ]


@emulated
def test_pixels_become_planes():
    """The usual relayout."""
    check_cases(relayouts()[1:2])


@pytest.mark.slow
@emulated
@pytest.mark.parametrize("types", ["uint8>float32", "uint8>float16", "int16>float32", "uint8>float64"])
def test_every_pair_of_orders(types):
    """Each family that these are planned for."""
    cases = relayouts(types)
    assert {one.plan.family for one in cases} >= {Family.FLAT, Family.TRANSPOSE, Family.CHANNELS}
    check_cases(cases)


@pytest.mark.slow
@emulated
@pytest.mark.parametrize("target", ["float32", "float16"])
def test_resized_pixels(target):
    """Both kernels of resizes."""
    check_resizes(resizes(target))
