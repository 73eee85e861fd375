"""output="torch": the results of a step and the batches of `load` as PyTorch's tensors over the same memory."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.preprocess.torch_loader import torch_tensors

OPTIONS = {"resize": 12, "crop": (10, 8), "normalize": "imagenet", "device": "cpu"}
IMAGES = [np.random.default_rng(row).integers(0, 256, (14 + row, 20, 3), dtype=np.uint8) for row in range(6)]


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is what this test is about", exc_type=ImportError)


@pytest.mark.interop
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_results_are_the_tensors_of_the_same_pixels(torch, layout, dtype):
    step = sg.Preprocess(**OPTIONS, layout=layout, dtype=dtype, output="torch")
    expected = np.stack(sg.Preprocess(**OPTIONS, layout="NCHW", dtype="float32")(IMAGES))
    batch = torch.stack(step(IMAGES))
    exact = torch.from_numpy(expected).to(getattr(torch, dtype))
    assert batch.dtype == exact.dtype
    assert torch.equal(batch, exact)
    whole = step(np.stack([IMAGES[0]] * 2))
    assert whole.is_contiguous(memory_format=torch.channels_last if layout == "NHWC" else torch.contiguous_format)
    assert torch.equal(whole[1], exact[0])


@pytest.mark.interop
def test_a_tensor_shares_the_memory_of_the_result(torch):
    tensor = sg.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    shared = torch_tensors({"a": tensor, "b": [tensor.numpy(), "text"], "c": np.array(["text"])})
    assert shared["a"].data_ptr() == shared["b"][0].data_ptr() == tensor.buffer.address
    assert shared["b"][1] == "text"
    assert isinstance(shared["c"], np.ndarray)


@pytest.mark.interop
def test_columns_and_what_belongs_to_images_are_tensors(torch):
    named = {"boxes": "boxes", "points": "points", "mask": "mask"}
    columns = {
        "image": IMAGES,
        "boxes": [np.array([[1.0, 2, 3, 4]], np.float32)] * 6,
        "points": [np.zeros((row, 2), np.float32) for row in range(6)],
        "mask": [image[..., 0] for image in IMAGES],
    }
    ours = sg.Preprocess("image", **OPTIONS, **named, output="torch")(columns)
    theirs = sg.Preprocess("image", **OPTIONS, **named)(columns)
    for name in columns:
        for one, other in zip(ours[name], theirs[name], strict=True):
            assert isinstance(one, torch.Tensor)
            assert np.array_equal(one.numpy(), other)


@pytest.mark.interop
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_loaded_batches_are_tensors_of_the_same_values(torch, layout):
    samples = [(image, row, f"{row}", np.zeros((row, 4), np.float32)) for row, image in enumerate(IMAGES)]
    declared = {**OPTIONS, "layout": layout, "boxes": 3}
    ours = list(sg.load(samples, sg.Preprocess(0, **declared, output="torch"), batch=4))
    theirs = list(sg.load(samples, sg.Preprocess(0, **declared, output="tensor"), batch=4))
    assert len(ours) == 2
    for (images, labels, names, boxes), (expected, numbers, texts, _) in zip(ours, theirs, strict=True):
        assert images.is_contiguous(memory_format=torch.channels_last if layout == "NHWC" else torch.contiguous_format)
        assert np.array_equal(images.numpy(), expected.numpy())
        assert labels.tolist() == numbers.tolist()
        assert names == texts
        assert [one.shape for one in boxes] == [(label, 4) for label in labels]


@pytest.mark.interop
def test_batches_on_a_gpu_become_tensors_in_the_thread_that_takes_them(torch, gpus, monkeypatch):
    seen = []

    def recorded(batch):
        seen.append((threading.current_thread().name, batch[0].device, batch[1].device))
        return batch

    monkeypatch.setattr("stridedgpu.preprocess.loader.torch_tensors", recorded)
    samples = [(image, row) for row, image in enumerate(IMAGES)]
    batches = list(sg.load(samples, sg.Preprocess(crop=8, output="torch"), batch=4, device="cuda:1"))
    assert len(batches) == 2
    assert seen == [(threading.current_thread().name, "cuda:1", "cuda:1")] * 2


def test_without_pytorch_the_first_call_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    step = sg.Preprocess(crop=4, output="torch", device="cpu")
    for call in (lambda: step(IMAGES), lambda: list(sg.load(IMAGES, step))):
        with pytest.raises(sg.DeviceError, match=r"output='torch' needs PyTorch, .* or output='numpy'"):
            call()


def test_a_step_whose_tensors_are_of_no_known_library_is_refused():
    with pytest.raises(sg.LayoutError, match="output='jax' is unknown; it is 'numpy', 'tensor' or 'torch'"):
        sg.Preprocess(output="jax")


@pytest.mark.interop
@pytest.mark.parametrize("dtype, instead", [(np.longdouble, "float64"), (np.dtype(">f4"), "float32")], ids=str)
def test_types_that_torch_lacks_are_refused_before_anything_is_written(torch, dtype, instead):
    del torch
    out = np.full((6, 3, 10, 8), 7, np.float32)
    step = sg.Preprocess("image", **OPTIONS, boxes="boxes", output="torch", layout="NCHW")
    columns = {"image": IMAGES, "boxes": [np.zeros((1, 4), dtype)] * 6}
    with pytest.raises(sg.ElementTypeError, match=rf"column 'boxes' holds .*astype\(np.{instead}\)"):
        step(columns, out=out)
    assert (out == 7).all()


@pytest.mark.interop
def test_a_loaded_column_of_long_doubles_is_refused(torch):
    del torch
    samples = [{"image": image, "weight": np.zeros(2, np.longdouble)} for image in IMAGES]
    with pytest.raises(sg.ElementTypeError, match="column 'weight' holds"):
        next(iter(sg.load(samples, sg.Preprocess("image", **OPTIONS, output="torch"), batch=3)))
