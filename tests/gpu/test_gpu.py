"""On a GPU: the CPU's bits from every family, type, conversion and width of offsets; transfers and full memory."""

from __future__ import annotations

import numpy as np
import pytest
from harness.emulator.exact_conversion import REALS, edge_elements
from harness.guarded_memory import guarded
from harness.profiles import examples
from harness.sample_tensors import SOURCES, frames, same_bits
from harness.strategies import element_types, layouts_of, tensor_sizes
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu import Layout
from stridedgpu.devices.cuda.status import cuda_status

STATUS = cuda_status()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(STATUS.device_count == 0, reason=str(STATUS.reason))]

two_gpus = pytest.mark.skipif(STATUS.device_count < 2, reason="needs two GPUs")


def on_gpu(tensor, memory):
    """The same tensor over the same bytes on the GPU, and these bytes as a tensor of their own."""
    held = sg.asarray(memory).to_device("cuda")
    return sg.StridedTensor(held.buffer, tensor.layout, tensor.element, dims=tensor.dims), held


def assert_same_memory(layouts, elements, seed, *, words=None, dims=None, **conversion):
    """Relayout between guarded memories on both devices, and compare every byte of the targets' memory."""
    source, source_memory = guarded(layouts[0], elements[0], seed, words)
    target, memory = guarded(layouts[1], elements[1], seed + 1)
    source = sg.StridedTensor(source.buffer, source.layout, source.element, dims=dims)
    device_source, _ = on_gpu(source, source_memory)
    device_target, held = on_gpu(target, memory)
    device_source.relayout(out=device_target, dtype=elements[1], **conversion)
    source.relayout(out=target, dtype=elements[1], **conversion)
    assert held.numpy().tobytes() == memory.tobytes()


# Bits

PACKED = Layout((4, 6, 32, 48))
LAYOUTS = {
    "flat": (PACKED, PACKED),
    "flat, odd": (Layout((1021,)), Layout((1021,), (1,), 3)),
    "rows": (Layout((5, 70, 333), (90 * 400, 400, 1)), Layout((5, 70, 333), (70 * 336, 336, 1))),
    "rows, odd pitch": (Layout((5, 70, 333), (70 * 337, 337, 1), 1), Layout((5, 70, 333), (70 * 335, 335, 1), 2)),
    "rows, repeated": (Layout((70, 333)).broadcast_to((4, 70, 333)), Layout((4, 70, 333))),
    "rows of one value": (Layout((70, 1)).broadcast_to((70, 333)), Layout((70, 333))),
    "rows, flipped": (Layout((70, 333)).sliced((slice(None, None, -1), slice(None, None, -1))), Layout((70, 333))),
    "transpose": (Layout((3, 200, 333)), Layout((3, 200, 333), (200 * 333, 1, 200))),
    "transpose, padded": (Layout((3, 200, 333), (200 * 352, 352, 1)), Layout((3, 200, 333), (333 * 208, 1, 208))),
    "transpose, small": (Layout((17, 19)), Layout((17, 19), (1, 17))),
    **{
        f"{order} of {channels}": pair if order == "NCHW" else pair[::-1]
        for channels in (1, 2, 3, 4, 5, 8, 16, 64, 256)
        for pair in [
            (
                Layout.padded((2, channels, 30, 50), "NHWC"),
                Layout.padded((2, channels, 30, 50), "NCHW"),
            )
        ]
        for order in ("NCHW", "NHWC")
    },
    "packed tile": (Layout((50, 3, 40, 5)), Layout((50, 3, 40, 5), (600, 1, 15, 3))),
    "generic": (Layout((20, 30, 40), (6000, 200, 3)), Layout((20, 30, 40), (2, 80, 2400))),
    "no elements": (Layout((0, 5)), Layout((0, 5))),
    "one element": (Layout(()), Layout(())),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("element", ["uint8", "float16", "float32", "int64", "complex128"])
def test_elements_move_as_bits(name, element):
    assert_same_memory(LAYOUTS[name], (element, element), 11)


@pytest.mark.parametrize("name", LAYOUTS)
def test_pixels_become_numbers(name):
    assert_same_memory(LAYOUTS[name], ("uint8", "float16"), 12, scale=1 / 255, bias=-0.5)


@settings(max_examples=examples(150))
@given(st.data(), element_types())
def test_any_layouts_give_the_cpus_bytes(data, element):
    sizes = data.draw(tensor_sizes(0, 6))
    layouts = data.draw(layouts_of(sizes)), data.draw(layouts_of(sizes, broadcast=False))
    assert_same_memory(layouts, (element, element), data.draw(st.integers(0, 2**31)))


CONVERSIONS = {"cast": {}, "truncate": {"rounding": "truncate"}, "scale and bias": {"scale": 0.3, "bias": -1.7}}


@pytest.mark.parametrize("target", REALS)
@pytest.mark.parametrize("source", REALS)
def test_every_pair_of_types_converts_to_the_cpus_bits(source, target):
    words = edge_elements(source)
    layout = Layout((len(words),))
    for conversion in CONVERSIONS.values():
        assert_same_memory((layout, layout), (source, target), 5, words=words, **conversion)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows, odd pitch", "transpose, padded", "NCHW of 3", "NHWC of 3", "packed tile"])
@pytest.mark.parametrize("target", REALS)
@pytest.mark.parametrize("source", REALS)
def test_every_pair_of_types_converts_in_every_family(source, target, name):
    words = edge_elements(source)
    for conversion in CONVERSIONS.values():
        assert_same_memory(LAYOUTS[name], (source, target), 6, words=words, **conversion)


@pytest.mark.parametrize("channels", [(2, 1, 0), (0,), (1, 1, 2, 0), (2, 0, 1)])
@pytest.mark.parametrize("orders", [("NHWC", "NCHW"), ("NCHW", "NHWC"), ("NHWC", "NHWC")])
def test_channels_are_chosen_and_scaled_one_by_one(orders, channels):
    layouts = Layout.padded((2, 3, 30, 50), orders[0]), Layout.padded((2, len(channels), 30, 50), orders[1])
    constants = [0.5, 0.25, 3.0, -1.0][: len(channels)]
    for target in ("uint8", "float32"):
        elements = ("uint8", target)
        assert_same_memory(layouts, elements, 7, dims="NCHW", channels=channels)
        assert_same_memory(layouts, elements, 7, dims="NCHW", channels=channels, scale=constants, bias=constants[::-1])


@pytest.mark.parametrize("layout", ["NCHW4", "NHWC4", "NHWC8", "NCHW32"])
def test_channels_are_filled_up_with_zeros(layout):
    source = frames((2, 20, 30, 3))
    filled = source.to_device("cuda").relayout(layout=layout, dtype="float16")
    assert same_bits(filled.numpy(), source.relayout(layout=layout, dtype="float16").numpy())


@pytest.mark.slow
def test_more_than_2_to_the_32_elements():
    rows, columns = 2**16 + 1, 2**16 + 16
    source = sg.empty((rows, columns), "uint8", device="cuda")
    source[...] = np.arange(columns).astype(np.uint8)
    source[-1, -3:] = np.array([7, 8, 9], np.uint8)
    for result in (source.copy(), source[::-1, ::-1].copy()[::-1, ::-1], source.permute((1, 0)).copy().permute((1, 0))):
        assert result[-1, -3:].numpy().tolist() == [7, 8, 9]
        assert same_bits(result[40000, 1000:3000].numpy(), np.arange(1000, 3000).astype(np.uint8))


FAR = {
    "rows": ((3, 70, 333), (0, 400, 1), None),
    "transpose": ((3, 200, 333), (0, 1, 200), None),
    "channels taken apart": ((2, 3, 30, 50), (0, 1, 150, 3), None),
    "channels put together": ((2, 3, 30, 50), (0, 1500, 50, 1), (4500, 1, 150, 3)),
    "generic": ((2, 30, 40), (0, 200, 3), (3200, 2, 80)),
}
"""Sizes, strides of the far side but for its first, and strides of the near side where it is not packed."""


@pytest.fixture
def _memory_returned():
    """CuPy's pool keeps what a test has used; each of several processes would keep 4 to 9 GB of the GPU."""
    import cupy

    yield
    cupy.get_default_memory_pool().free_all_blocks()


@pytest.mark.usefixtures("_memory_returned")
@pytest.mark.parametrize("name", FAR)
@pytest.mark.parametrize("element", ["uint8", "float16"])
def test_offsets_beyond_32_bits(name, element):
    sizes, (_, *inner), near = FAR[name]
    far = Layout(sizes, (2**32 // sizes[0], *inner))
    view = sg.StridedTensor(sg.empty((far.span,), element, device="cuda").buffer, far, element)
    source, target = (sg.StridedTensor(guarded(Layout(sizes, near), element, 1)[0].buffer, Layout(sizes, near), element)
                      for _ in range(2))  # fmt: skip
    there = source.to_device("cuda")
    assert sg.plan_relayout(there, view).index_bits == 64
    there.relayout(out=view)
    back = sg.StridedTensor(sg.empty((target.layout.span,), element, device="cuda").buffer, target.layout, element)
    view.relayout(out=back)
    assert same_bits(back.numpy(), source.numpy())


# Transfers and memory


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("dtype", [None, "float64", "uint8"])
def test_round_trips_keep_every_bit(name, dtype):
    source = SOURCES[name]()
    uploaded = source.relayout(dtype=dtype, device="cuda")
    assert same_bits(uploaded.numpy(), source.relayout(dtype=dtype).numpy())
    around = sg.full(tuple(size + 2 for size in source.sizes), 200, "float32", device="cuda")
    inside = tuple(slice(1, -1) for _ in source.sizes)
    around[inside] = source.numpy()
    expected = np.full(around.sizes, 200, np.float32)
    expected[inside] = source.numpy()
    assert same_bits(around.numpy(), expected)


@two_gpus
@pytest.mark.parametrize("name", SOURCES)
def test_tensors_cross_between_gpus(name):
    source = SOURCES[name]().relayout(device="cuda:0")
    assert same_bits(source.to_device("cuda:1").to_device("cuda:0").numpy(), SOURCES[name]().numpy())


def test_large_tensors_cross_in_pieces():
    values = np.random.default_rng(1).integers(0, 255, (3, 5000, 7001, 2), np.uint8)
    strided = sg.asarray(values)[:, :, ::2]
    assert same_bits(
        strided.relayout(dtype="float16", device="cuda").numpy(), strided.relayout(dtype="float16").numpy()
    )


@pytest.mark.parametrize("alignment", [32, 512, 4096])
def test_memory_has_the_alignment_asked_for(alignment):
    assert sg.empty((1001,), "uint8", alignment=alignment, device="cuda").buffer.address % alignment == 0


def test_full_memory_is_an_error_and_leaves_everything_as_it_was():
    import cupy

    existing = frames().to_device("cuda")
    # All of it, and not what is free: other processes of a test run may give memory back.
    _, total = cupy.cuda.runtime.memGetInfo()
    with pytest.raises(sg.DeviceError, match=r"cuda:0 has no \d+ bytes of memory left"):
        sg.empty((total + 2**30,), "uint8", device="cuda")
    with pytest.raises(sg.DeviceError, match=r"no \d+ bytes of memory left"):
        existing[:1, :1, :1, :1].broadcast_to((total + 2**30, 1, 1, 1)).copy()
    assert same_bits(existing.copy().numpy(), frames().numpy())
