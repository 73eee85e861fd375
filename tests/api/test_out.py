"""`out=` is a tensor, or any array whose memory can be shared and written."""

from __future__ import annotations

import array

import numpy as np
import pytest
from harness.profiles import examples
from harness.strategies import layouts_of, tensor_sizes
from hypothesis import given, settings, strategies as st

import stridedgpu as sg

PIXELS = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
TABLE = np.arange(12, dtype=np.int64).reshape(4, 3)
ROWS = np.array([[2, 0, 1]])

CALLS = {
    "relayout": (lambda out: sg.relayout(PIXELS, dims="HWC", scale=2, out=out), (3, 4, 4), "float32"),
    "tensor.relayout": (lambda out: sg.asarray(PIXELS, dims="HWC").relayout(scale=2, out=out), (3, 4, 4), "float32"),
    "resize": (lambda out: sg.resize(PIXELS, (2, 2), dims="HWC", out=out), (3, 2, 2), "uint8"),
    "letterbox": (lambda out: sg.letterbox([PIXELS], (2, 4), dims="HWC", out=out), (1, 3, 2, 4), "uint8"),
    "gather": (lambda out: sg.gather(TABLE, [3, 1], out=out), (2, 3), "int64"),
    "gather_elements": (lambda out: sg.gather_elements(TABLE, ROWS, out=out), (1, 3), "int64"),
    "gather_nd": (lambda out: sg.gather_nd(TABLE, [[3], [1]], out=out), (2, 3), "int64"),
    "scatter_elements": (lambda out: sg.scatter_elements(TABLE, ROWS, ROWS, out=out), (4, 3), "int64"),
    "scatter_nd": (lambda out: sg.scatter_nd(TABLE, [[2]], ROWS, out=out), (4, 3), "int64"),
    "gather_crops": (
        lambda out: sg.gather_crops([PIXELS], [[1, 1]], (2, 2), dims="HWC", out=out),
        (1, 3, 2, 2),
        "uint8",
    ),
    "a frame": (
        lambda out: sg.relayout(sg.Frame.over("gray", PIXELS.reshape(6, 8), (6, 8)), out=out),
        (3, 6, 8),
        "uint8",
    ),
}


@pytest.mark.parametrize("call, sizes, dtype", CALLS.values(), ids=CALLS.keys())
def test_an_array_is_written_where_it_lies(call, sizes, dtype):
    expected = call(sg.empty(sizes, dtype, device="cpu")).numpy()
    given = np.full(sizes, 77, dtype)
    made = call(given)
    assert np.array_equal(given, expected)
    assert made.operand.address == given.ctypes.data, "what is returned is a tensor over the array's memory"


@settings(max_examples=examples(60))
@given(st.data())
def test_an_array_of_any_strides_gets_the_elements_and_nothing_besides(data):
    sizes = data.draw(tensor_sizes(max_rank=4, max_elements=200))
    layout = data.draw(layouts_of(sizes, broadcast=False))
    layout = layout.shifted(-layout.first_offset)
    memory = np.full(layout.span + 4, -1.0, np.float32)
    steps = [4 * stride for stride in layout.strides]
    out = np.ndarray(sizes, np.float32, memory, 4 * layout.offset, steps)
    values = np.arange(out.size, dtype=np.int16).reshape(sizes)
    sg.relayout(values, scale=0.5, out=out)
    assert np.array_equal(out, values * np.float32(0.5))
    out[...] = -1
    assert (memory == -1).all()


REFUSED = {
    "a list": ([[0.0] * 4] * 4, sg.LayoutError, "out is a list, whose memory cannot be shared"),
    "bytes": (bytes(192), sg.BindingError, "out is read-only"),
    "other sizes": (np.zeros((4, 4, 3), np.float32), sg.LayoutError, r"out has sizes \(4, 4, 3\)"),
    "swapped bytes": (np.zeros((3, 4, 4), ">f4"), sg.ElementTypeError, "byte order"),
    "the source itself": (PIXELS.transpose(2, 0, 1), sg.BindingError, "shares memory"),
    "an object": (object(), sg.ElementTypeError, "not array-like"),
}


@pytest.mark.parametrize("out, kind, message", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_written_is_refused_in_a_sentence(out, kind, message):
    with pytest.raises(kind, match=message):
        sg.relayout(PIXELS, dims="HWC", out=out)


def test_whatever_has_the_buffer_protocol_is_written():
    out = array.array("f", bytes(4 * 48))
    sg.relayout(sg.asarray(PIXELS.reshape(48)), out=out)
    assert out.tolist() == list(range(48))


@pytest.mark.interop
def test_arrays_of_jax_never_change():
    jnp = pytest.importorskip("jax.numpy")
    with pytest.raises(sg.BindingError, match="an array of JAX, which never change"):
        sg.relayout(PIXELS, dims="HWC", out=jnp.zeros((3, 4, 4)))


@pytest.mark.interop
def test_a_torch_tensor_is_written_where_it_lies():
    torch = pytest.importorskip("torch")
    out = torch.zeros((3, 4, 4))
    sg.relayout(PIXELS, dims="HWC", mean=0.5, std=0.5, out=out)
    assert np.array_equal(out.numpy(), sg.relayout(PIXELS, dims="HWC", dtype="float32", mean=0.5, std=0.5).numpy())


# mean= and std= of relayout


@pytest.mark.parametrize("dtype, most", [("uint8", 255), ("uint16", 65535), ("int16", 32767), ("float32", 1)])
def test_mean_and_std_are_scale_and_bias_in_units_of_the_source(dtype, most):
    source = np.arange(48).reshape(4, 4, 3).astype(dtype)
    mean, std = np.array([0.1, 0.2, 0.3]), np.array([0.5, 0.25, 0.2])
    made = sg.relayout(source, dims="HWC", dtype="float32", mean=mean, std=std)
    wanted = sg.relayout(source, dims="HWC", dtype="float32", scale=1 / (most * std), bias=-mean / std)
    assert np.array_equal(made.numpy(), wanted.numpy())
    method = sg.asarray(source, dims="HWC").relayout(dtype="float32", mean=mean, std=std)
    assert np.array_equal(made.numpy(), method.numpy())


def test_mean_and_std_of_a_frame():
    frame = sg.Frame.over("gray", PIXELS.reshape(6, 8), (6, 8))
    made = sg.relayout(frame, dtype="float32", mean=0.5, std=0.5)
    assert np.array_equal(made.numpy(), sg.relayout(frame, dtype="float32", scale=1 / 127.5, bias=-1).numpy())


@pytest.mark.parametrize("count", [10, 200_000], ids=["small", "large"])
@pytest.mark.parametrize("mode", [None, "raise", "clip"])
def test_a_stream_means_nothing_on_the_cpu(count, mode):
    """Whichever loops run, and before they do."""
    data, out = sg.asarray(np.ones(count, np.float32)), sg.zeros((count,), "float32", device="cpu")
    given = (data,) if mode is None else (data, sg.asarray(np.zeros(count, np.int64)))
    plan = sg.plan_relayout(data, out) if mode is None else sg.plan_gather(*given, mode=mode, out=out)
    for _ in range(2):
        with pytest.raises(sg.DeviceError, match="stream=7 has no meaning on the CPU"):
            plan(*given, out, stream=7)
    assert not out.numpy().any()
    plan(*given, out, stream=None)
    assert out.numpy().all()
