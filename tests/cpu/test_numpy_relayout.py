"""The blocks of `NumpyRelayout`: with blocks of a few elements, so that small arrays have many edges."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
from harness.emulator.exact_conversion import converted
from harness.guarded_memory import bits_of, guarded, seeds
from harness.profiles import examples
from harness.strategies import element_types, layouts_of, tensor_sizes
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu import Layout
from stridedgpu.devices.cpu.numpy_loops import relayout as numpy_relayout
from stridedgpu.devices.cpu.numpy_loops.relayout import NumpyRelayout

# The largest axis that is looped over in Python, the elements of a block, and the extents of a tile.
BLOCKS = {
    "one element": (0, 1, (1, 1)),
    "no looped axis": (0, 7, (3, 2)),
    "pairs looped": (2, 6, (2, 3)),
    "tiles of 5 by 4": (2, 64, (5, 4)),
    "all axes looped": (16, 2, (1, 2)),
}


every_block_size = pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS.keys())


@contextmanager
def blocks_of(block):
    names = ("small_axis", "block_elements", "tile", "least_looped", "small_tensor")
    with pytest.MonkeyPatch.context() as patch:
        for name, number in zip(names, (*block, 1, 0), strict=True):
            patch.setattr(numpy_relayout, f"_{name.upper()}", number)
        yield


def run(source, out, **conversion):
    """What a plan does in the block sizes of now."""
    move = NumpyRelayout(sg.plan_relayout(source, out, device="cpu", **conversion).plan.problem)
    starts = [tensor.layout.first_offset * tensor.itemsize for tensor in (source, out)]
    move(source.buffer.bytes[starts[0] :], out.buffer.bytes[starts[1] :])
    return move


@every_block_size
@settings(max_examples=examples(150))
@given(st.data(), element_types(), seeds)
def test_bits(block, data, element, seed):
    sizes = data.draw(tensor_sizes(0, 5, least=data.draw(st.sampled_from((0, 1, 1, 1))), max_size=9))
    source, source_memory = guarded(data.draw(layouts_of(sizes)), element, seed)
    out, memory = guarded(data.draw(layouts_of(sizes, broadcast=False)), element, seed + 1)
    expected = memory.copy()
    bits_of(out.layout, out.itemsize, expected)[...] = bits_of(source.layout, source.itemsize, source_memory)
    with blocks_of(block):
        run(source, out)
    assert memory.tobytes() == expected.tobytes()


@every_block_size
@settings(max_examples=examples(150))
@given(st.data(), st.booleans(), st.booleans(), seeds)
def test_conversions_with_channels(block, data, with_table, with_constants, seed):
    sizes = (data.draw(st.integers(1, 2)), data.draw(st.integers(1, 5)), *data.draw(tensor_sizes(2, 2, max_size=9)))
    table = data.draw(st.lists(st.integers(0, sizes[1] - 1), min_size=1, max_size=6)) if with_table else None
    channels = list(range(sizes[1])) if table is None else table
    wanted = (sizes[0], len(channels), *sizes[2:])
    words = np.random.default_rng(seed).normal(0, 300, 400).astype(np.float32).view(np.uint32)
    source, source_memory = guarded(data.draw(layouts_of(sizes)), "float32", seed, words)
    out, memory = guarded(data.draw(layouts_of(wanted, broadcast=False)), "int16", seed + 1)
    constants = {}
    if with_constants:
        constants = {"scale": [1.5 * (place + 1) for place in range(len(channels))], "bias": 0.25}
    expected = memory.copy()
    read = bits_of(source.layout, 4, source_memory)
    written = bits_of(out.layout, 2, expected)
    for place, channel in enumerate(channels):
        scale = constants["scale"][place] if constants else None
        part = converted("float32", "int16", read[:, channel].reshape(-1), scale, constants.get("bias"))
        written[:, place] = part.reshape(read[:, channel].shape)
    with blocks_of(block):
        run(source, out, channels=table, **constants)
    assert memory.tobytes() == expected.tobytes()


@every_block_size
def test_a_looped_table_of_channels_that_move_as_bits(block):
    source = sg.asarray(np.arange(5 * 21, dtype=np.uint8).reshape(21, 5), dims="WC")
    out = sg.empty((4, 21), "uint8", layout="WC")
    with blocks_of(block):
        run(source, out, channels=(4, 0, 0, 2))
    assert np.array_equal(out.numpy(), source.numpy()[[4, 0, 0, 2]])


@pytest.mark.parametrize("sizes", [(300, 151, 3), (300, 151, 17), (70, 36, 600), (1100, 700), (60000, 17), (16,) * 5])
@pytest.mark.parametrize("element", ["uint8", "float32", "complex128"])
def test_the_library_s_own_blocks(element, sizes):
    """Arrays of several blocks each way, with short axes looped over and in tiles."""
    source, memory = guarded(Layout(sizes), element, 0)
    words = bits_of(source.layout, source.itemsize, memory).transpose()
    out = sg.empty(words.shape, element, device="cpu")
    run(source.permute(range(len(sizes))[::-1]), out)
    assert bits_of(out.layout, out.itemsize, out.buffer.bytes).tobytes() == words.tobytes()


def test_small_tensors_are_moved_in_one_piece():
    """Python's loops would take longer than the elements."""
    source = sg.empty((16, 16, 16, 16), "uint8", device="cpu")
    move = run(source.permute((0, 3, 2, 1)), sg.empty((16, 16, 16, 16), "uint8", device="cpu"))
    assert len(list(move._blocks())) == 1


def test_a_short_axis_that_either_side_has_innermost_is_looped_over():
    """Python's loop leaves long rows to NumPy, which needs no staging buffer then."""
    source = sg.empty((300, 151, 3), "uint8", device="cpu")
    move = run(source.permute((2, 0, 1)), sg.empty((3, 300, 151), "uint8", device="cpu"))
    assert (move._looped, move._staged) == ({0}, False)
    assert len(list(move._blocks())) == 3


def test_blocks_are_staged_so_that_columns_spread_over_the_cache():
    source = sg.empty((1024, 1024), "float32", device="cpu")
    move = run(source.permute((1, 0)), sg.empty((1024, 1024), "float32", device="cpu"))
    stage = move._stage()
    steps = sorted(stage.strides)
    assert steps[0] == 4
    assert steps[1] % 128 == 64, "an odd number of cache lines"
