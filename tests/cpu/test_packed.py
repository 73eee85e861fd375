"""Rows shorter than a cache line that are whole lines together: staged, converted and written past the caches."""

from __future__ import annotations

import pytest
from harness.native_loops import CLASSES, each_class, policy_with
from harness.relayout_moves import moved_kernel

from stridedgpu import Layout
from stridedgpu.devices.cpu import thread_count
from stridedgpu.devices.cpu.native.packed import Packed
from stridedgpu.devices.cpu.policy import Policy, using
from stridedgpu.values.conversion import conversion_options
from stridedgpu.values.dtypes import element_type

CLIP = {
    "mean": (0.48145466, 0.4578275, 0.40821073),
    "std": (0.26862954, 0.26130258, 0.27577711),
}


def patches(down, across, side, times=2, merge=2, channels=3):
    """The axes of Qwen2-VL's patches and their strides in planes of bytes, and the axis of channels."""
    height, width = down * merge * side, across * merge * side
    sizes = (down, across, merge, merge, channels, times, side, side)
    step = merge * side
    return Layout(sizes, (step * width, step, side * width, side, height * width, 0, width, 1)), 4


def frames(down, across, side):
    """The same of two frames one behind the other: nothing repeats."""
    still, axis = patches(down, across, side)
    strides = list(still.strides)
    strides[axis + 1] = still.sizes[axis] * still.strides[axis]
    return Layout(still.sizes, strides), axis


def made(source="uint8", target="float32", channels=3, **options):
    return conversion_options(dtype=target, **options).conversion(element_type(source), channels, element_type(source))


def kernel_of(source, conversion, channel_axis, target=None, seed=1):
    with policy_with(relayout={"streamed_bytes": 0}):
        return moved_kernel(source, target or Layout(source.sizes), conversion, channel_axis, seed=seed)


@each_class
@pytest.mark.parametrize("arithmetic", ["multiply", "divide", "transformers", "transformers-pil", "torchvision-v2"])
def test_patches_are_packed(processor, arithmetic):
    source, axis = patches(3, 5, 14)
    with using(Policy.of(processor)):
        kernel = kernel_of(source, made(arithmetic=arithmetic, **CLIP), axis)
    assert isinstance(kernel, Packed)
    assert (kernel.row, kernel.lines) == (14, 147)
    assert kernel.elements.by_products == (arithmetic != "multiply")


@pytest.fixture(autouse=True)
def a_stated_processor(request):
    if "processor" in request.fixturenames:
        yield
        return
    with using(Policy.of(CLASSES["AVX2"])):
        yield


MOVES = {
    "one scale": (patches(2, 3, 14), made(scale=0.5)),
    "a cast": (patches(2, 3, 14), made()),
    "to 16 bits": (patches(2, 3, 14), made(target="float16", **CLIP)),
    "to 64 bits": (patches(2, 3, 6), made(target="float64", **CLIP)),
    "of 16 bits": (patches(2, 3, 10), made("uint16", **CLIP)),
    "four channels": (patches(2, 3, 14, channels=4), made(channels=4, scale=(0.5, 1.0, 2.0, 4.0))),
    "nine copies": (patches(2, 2, 4, times=9), made(**CLIP)),
    "one patch": (patches(1, 1, 14), made(**CLIP)),
    "stacks of two frames": (frames(2, 3, 14), made(**CLIP)),
    "twenty channels": (patches(2, 3, 14, channels=20, times=1), made(channels=20, scale=tuple(range(1, 21)))),
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("seed", [1, 2, 3, 5, 6])
def test_every_byte_is_right(name, seed):
    (source, axis), conversion = MOVES[name]
    assert isinstance(kernel_of(source, conversion, axis, seed=seed), Packed)


def test_a_reversed_side_is_read_from_its_end():
    source, axis = patches(2, 3, 14)
    strides = list(source.strides)
    for number in (0, axis, 6):
        strides[number] = -strides[number]
    assert isinstance(kernel_of(Layout(source.sizes, strides), made(**CLIP), axis), Packed)


def test_patches_between_others_are_packed():
    """The target's rows of patches have gaps of whole lines, or of parts of one, which are written in the caches."""
    source, axis = patches(3, 4, 14)
    packed = Layout(source.sizes).strides
    for gap in (16, 8):
        target = Layout(source.sizes, (packed[0] + gap, *packed[1:]))
        assert isinstance(kernel_of(source, made(**CLIP), axis, target), Packed)


LEFT = {
    "whole lines": (patches(2, 3, 16), made(**CLIP)),
    "long rows": (patches(2, 3, 36), made(**CLIP)),
    "elements of one size": (patches(2, 3, 14), made("float32", scale=2.0)),
    "copies of bytes": (patches(2, 3, 14), made(target="uint8")),
    "no whole lines": (patches(1, 1, 7, times=1, merge=1), made(**CLIP)),
    "more than a tile": (patches(2, 3, 14, channels=40), made(channels=40, scale=tuple(range(1, 41)))),
    "a conversion of two moves": (patches(2, 3, 14), made("uint16", arithmetic="divide", **CLIP)),
}


@pytest.mark.parametrize("name", LEFT)
def test_others_are_left_to_other_kernels(name):
    (source, axis), conversion = LEFT[name]
    assert not isinstance(kernel_of(source, conversion, axis), Packed)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_write_past_the_caches_from_one_size_on(threads, monkeypatch):
    monkeypatch.setattr(thread_count, "_chosen", threads)
    source, axis = patches(3, 5, 14)
    nbytes = source.span + 4 * source.element_count
    for streamed_bytes, expected in ((nbytes, True), (nbytes + 1, False)):
        with policy_with(relayout={"streamed_bytes": streamed_bytes}):
            chosen = moved_kernel(source, Layout(source.sizes), made(**CLIP), axis)
        assert isinstance(chosen, Packed) == expected
