"""On a GPU: gathers, scatters and crops with the CPU's bits, their plans, and indices that are wrong."""

from __future__ import annotations

import numpy as np
import pytest
from harness.gather_cases import random_layout

import stridedgpu as sg
from stridedgpu.devices.cuda.status import cuda_status

STATUS = cuda_status()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(STATUS.device_count == 0, reason=str(STATUS.reason))]

DEVICE = "cuda"
ITEMS = {1: "uint8", 2: "uint16", 4: "float32", 8: "float64", 16: "complex128"}


def tensor_of(rng, sizes, dtype, *, output=False):
    """Random bits in a random layout, on the CPU."""
    layout = random_layout(rng, sizes, output=output)
    memory = rng.integers(0, 100, layout.span * np.dtype(dtype).itemsize, np.uint8)
    return sg.StridedTensor(memory, layout, dtype)


def there(tensor):
    """The same bytes in the same layout on the GPU."""
    held = sg.asarray(np.asarray(tensor.buffer.bytes)).to_device(DEVICE)
    return sg.StridedTensor(held.buffer, tensor.layout, tensor.element)


def indices_of(rng, sizes, most, number):
    lowest = 0 if number.startswith("u") else -most
    return sg.asarray(rng.integers(lowest, most, sizes).astype(number))


@pytest.mark.parametrize("number", ["int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize("itemsize", ITEMS)
@pytest.mark.parametrize("name", ["gather", "gather_elements", "gather_nd"])
def test_gathers_have_the_bits_of_the_cpu(name, itemsize, number):
    rng = np.random.default_rng(itemsize)
    for sizes in ((500, 64), (70, 30, 33), (1000,), (9, 300, 7)):
        data = tensor_of(rng, sizes, ITEMS[itemsize])
        shape = (600, *sizes[1:]) if name == "gather_elements" else (40, 5, 1) if name == "gather_nd" else (300, 2)
        indices = indices_of(rng, shape, sizes[0], number)
        run, plan = getattr(sg, name), getattr(sg, f"plan_{name}")
        expected = run(data, indices)
        operands = (there(data), indices.to_device(DEVICE))
        for mode in ("raise", "clip", "wrap", "deferred"):
            if mode in ("raise", "deferred") or number.startswith("u"):
                assert run(*operands, mode=mode).numpy().tobytes() == expected.numpy().tobytes()
        out = tensor_of(rng, expected.sizes, ITEMS[itemsize], output=True)
        into = there(out)
        plan(*operands, out=into)(*operands, into)
        assert into.numpy().tobytes() == expected.numpy().tobytes()


@pytest.mark.parametrize("itemsize", ITEMS)
@pytest.mark.parametrize("tuples", [False, True], ids=["elements", "tuples"])
def test_scatters_have_the_bits_of_the_cpu(tuples, itemsize):
    rng = np.random.default_rng(itemsize)
    data = tensor_of(rng, (500, 64), ITEMS[itemsize])
    if tuples:
        run, indices = sg.scatter_nd, sg.asarray(rng.permutation(500)[:200, None].astype(np.int32))
    else:
        keys = rng.random((500, 64)).argsort(0)[:300]
        run, indices = sg.scatter_elements, sg.asarray(keys - 500 * (keys % 2))
    updates = tensor_of(rng, (200 if tuples else 300, 64), ITEMS[itemsize])
    expected = run(data, indices, updates, unique=True)
    found = run(there(data), indices.to_device(DEVICE), there(updates), unique=True)
    assert found.numpy().tobytes() == expected.numpy().tobytes()


def test_elements_named_twice_are_refused_in_the_words_of_the_cpu():
    data, updates = sg.zeros((1000, 8), "float32", device="cpu"), sg.zeros((3, 8), "float32", device="cpu")
    twice = sg.asarray(np.array([[5], [999], [-1]]))
    messages = []
    for operands in ((data, twice, updates), tuple(each.to_device(DEVICE) for each in (data, twice, updates))):
        with pytest.raises(IndexError) as caught:
            sg.scatter_nd(*operands, unique=True)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("number", ["int32", "uint64"])
def test_the_first_wrong_index_is_named(number):
    data = sg.zeros((50, 6), "float32", device=DEVICE)
    indices = np.zeros((100, 300), number)
    indices[70, 20], indices[70, 3], indices[99, 299] = 50, 2**31 - 1, 51
    with pytest.raises(IndexError, match=r"indices\[70, 3\] = 2147483647 is out of range for axis 0 of size 50"):
        sg.gather(data, indices)
    made = sg.gather(data, indices, mode="deferred")
    with pytest.raises(IndexError, match=r"indices\[70, 3\] = 2147483647"):
        made.numpy()


@pytest.mark.parametrize("target", [("NCHW", "float32"), ("NCHW", "float16"), ("NHWC", "float16"), ("NHWC", "uint8")])
@pytest.mark.parametrize("channels", [None, (2, 1, 0), (1,), (1, 1, 0)], ids=str)
def test_crops_have_the_bits_of_the_cpu(target, channels):
    layout, dtype = target
    rng = np.random.default_rng(3)
    photos = [rng.integers(0, 256, (*rng.integers(200, 400, 2), 3), np.uint8) for _ in range(12)]
    count = 3 if channels is None else len(channels)
    arithmetic = {} if dtype == "uint8" else {"scale": [1 / 57.0 + n for n in range(count)], "bias": -2.0}
    keywords = {"layout": layout, "dtype": dtype, "channels": channels, "fill": (1, 2, 3), **arithmetic}
    origins, flip = rng.integers(-50, 300, (12, 2)), rng.random(12) < 0.5
    for size in ((224, 224), (64, 37)):
        expected = sg.gather_crops(photos, origins, size, dims="HWC", flip=flip, **keywords)
        images = [sg.asarray(photo, dims="HWC").to_device(DEVICE) for photo in photos]
        found = sg.gather_crops(images, origins, size, flip=flip, **keywords)
        assert found.numpy().tobytes() == expected.numpy().tobytes()
