"""On a GPU: a step whose launches are captured once, with the bits of the step for every geometry that is drawn."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from harness.frame_cases import surface

import stridedgpu as sg
from stridedgpu.devices.cuda.status import cuda_status

STATUS = cuda_status()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(STATUS.device_count == 0, reason=str(STATUS.reason))]

RANDOM = np.random.default_rng(13)


def photos(*sizes, dtype=np.uint8):
    """Images (H, W, 3) on the CPU."""
    return [RANDOM.integers(0, 256, (*size, 3)).astype(dtype) for size in sizes]


def there(images, layout="HWC"):
    """The same on the device."""
    return [sg.asarray(image, dims="HWC").relayout(layout=layout).to_device("cuda") for image in images]


def steps(**declared):
    """The step on the CPU and on the device."""
    return sg.Preprocess(device="cpu", **declared), sg.Preprocess(device="cuda", output="tensor", **declared)


def wanted(step, images, *arguments, **options):
    """What the step makes of images on the CPU, as one array."""
    return np.stack(step(images, *arguments, **options))


SIZES = ((20, 30), (24, 26), (20, 30))
DECLARED = {
    "crop": {"crop": 12, "normalize": "imagenet", "dtype": "float16"},
    "random crop": {"crop": 12, "seed": 3, "flip": True, "normalize": "imagenet"},
    "resize": {"resize": 16, "crop": 12, "normalize": "imagenet", "passes": "horizontal"},
    "letterbox": {"letterbox": 16, "dtype": "float16"},
    "random crop behind a resize": {"resize": 16, "crop": 12, "seed": 5, "flip": 0.5, "passes": "horizontal"},
}


@pytest.mark.parametrize("declared", DECLARED.values(), ids=DECLARED)
def test_every_call_has_the_bits_of_the_step(declared):
    near, far = steps(**declared)
    seeded = "seed" in declared
    images = photos(*SIZES)
    captured = far.captured(there(images), [0, 1, 2] if seeded else None)
    np.testing.assert_array_equal(captured().numpy(), wanted(near, images, [0, 1, 2] if seeded else None))
    for epoch in range(4):
        images = photos(*SIZES)
        keys = [3 * epoch + row for row in range(3)] if seeded else None
        result = captured(there(images), keys, epoch=epoch)
        assert result is captured.result
        np.testing.assert_array_equal(result.numpy(), wanted(near, images, keys, epoch=epoch))


def test_other_windows_are_drawn_in_the_same_images():
    near, far = steps(crop=8, seed=1, flip=True)
    images = photos(*SIZES)
    captured = far.captured(there(images), [0, 1, 2])
    for epoch in (0, 5, 5, 6):
        made = captured(keys=[7, 8, 9], epoch=epoch).numpy()
        np.testing.assert_array_equal(made, wanted(near, images, [7, 8, 9], epoch=epoch))


def test_without_arguments_new_pixels_are_read_where_the_images_were():
    near, far = steps(resize=16, crop=12, passes="horizontal")
    images = photos(*SIZES)
    devices = there(images)
    captured = far.captured(devices)
    for _ in range(3):
        images = photos(*SIZES)
        for device, image in zip(devices, images, strict=True):
            device[...] = sg.asarray(image, dims="HWC")
        np.testing.assert_array_equal(captured().numpy(), wanted(near, images))


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
@pytest.mark.parametrize("declared", [DECLARED["crop"], DECLARED["resize"], DECLARED["letterbox"]])
def test_images_of_the_same_sizes_elsewhere_are_read_without_the_step(declared, layout, monkeypatch):
    near, far = steps(**declared)
    captured = far.captured(there(photos(*SIZES), layout))
    monkeypatch.setattr(captured, "_run", None)
    for _ in range(3):
        images = photos(*SIZES)
        devices = there(images, layout)
        np.testing.assert_array_equal(captured(devices).numpy(), wanted(near, images))
        # The second image is the only one that moves.
        images[1] = photos(SIZES[1])[0]
        devices[1] = there(images[1:2], layout)[0]
        np.testing.assert_array_equal(captured(devices).numpy(), wanted(near, images))


def test_a_batch_elsewhere_is_read_without_the_step(monkeypatch):
    near, far = steps(crop=8)
    batches = [RANDOM.integers(0, 256, (4, 20, 30, 3), np.uint8) for _ in range(3)]
    devices = [sg.asarray(batch).to_device("cuda") for batch in batches]
    captured = far.captured(devices[0])
    monkeypatch.setattr(captured, "_run", None)
    for batch, device in zip(batches, devices, strict=True):
        np.testing.assert_array_equal(captured(device).numpy(), near(batch))


def test_images_of_other_alignment_are_placed_by_the_step():
    near, far = steps(crop=8)
    images = photos(*SIZES)
    captured = far.captured(there(images))
    for shift in (1, 0, 3):
        memories = [np.zeros(image.size + shift, np.uint8) for image in images]
        for memory, image in zip(memories, images, strict=True):
            memory[shift:] = image.reshape(-1)
        devices = [
            sg.StridedTensor(sg.asarray(memory).to_device("cuda").buffer, sg.Layout(image.shape, offset=shift), "uint8")
            for memory, image in zip(memories, images, strict=True)
        ]
        np.testing.assert_array_equal(captured(devices).numpy(), wanted(near, images))


def test_a_batch_is_captured():
    near, far = steps(crop=8, seed=2, layout="NHWC")
    batches = [RANDOM.integers(0, 256, (4, 20, 30, 3), np.uint8) for _ in range(3)]
    captured = far.captured(sg.asarray(batches[0]).to_device("cuda"), [0, 1, 2, 3])
    for number, batch in enumerate(batches):
        keys = list(range(number, number + 4))
        result = captured(sg.asarray(batch).to_device("cuda"), keys)
        np.testing.assert_array_equal(result.permute("NHWC").numpy(), near(batch, keys))


def test_whole_images_are_read_where_they_were_and_nowhere_else():
    near, far = steps(normalize="imagenet", dtype="float16")
    batch = RANDOM.integers(0, 256, (2, 8, 12, 3), np.uint8)
    memory = sg.asarray(batch).to_device("cuda")
    captured = far.captured(memory)
    memory[...] = 255 - batch
    np.testing.assert_array_equal(captured().numpy(), near(255 - batch))
    with pytest.raises(sg.LayoutError, match="reads the memory that it was captured with"):
        captured(memory)


def test_frames_that_are_resized_are_captured():
    near, far = steps(letterbox=24, dtype="float16")
    films = [[surface("nv12", (20, 30), 2 * film + number, gap=4).frame() for number in range(2)] for film in range(3)]
    captured = far.captured([frame.to_device("cuda") for frame in films[0]])
    for frames in films:
        result = captured([frame.to_device("cuda") for frame in frames])
        np.testing.assert_array_equal(result.numpy(), wanted(near, frames))


def test_images_of_a_decoder_are_waited_for():
    import cupy
    from harness.decoders import NvImage

    near, far = steps(resize=16, crop=12, passes="horizontal")
    captured = far.captured(there(photos(*SIZES)))
    decoding, working = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    images = photos(*SIZES)
    with working:
        result = captured([NvImage(image, decoding) for image in images])
    working.synchronize()
    np.testing.assert_array_equal(result.numpy(), wanted(near, images))
    captured(there(images))  # lets go of the decoder's images while its stream is there


def test_replays_on_several_streams_follow_each_other():
    import cupy

    near, far = steps(crop=8, seed=4)
    images = photos(*SIZES)
    captured = far.captured(there(images), [0, 1, 2])
    copies = []
    for epoch in range(4):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            copies.append((captured(keys=[0, 1, 2], epoch=epoch).relayout(), stream))
            # The copy is read before the next replay writes the result again.
            after = stream.record()
        cupy.cuda.get_current_stream().wait_event(after)
    for epoch, (copy, stream) in enumerate(copies):
        stream.synchronize()
        np.testing.assert_array_equal(copy.numpy(), wanted(near, images, [0, 1, 2], epoch=epoch))


def test_threads_share_a_captured_step():
    near, far = steps(crop=8, seed=4)
    images = photos(*SIZES)
    captured = far.captured(there(images), [0, 1, 2])
    threads = [threading.Thread(target=lambda epoch=epoch: captured(keys=[0, 1, 2], epoch=epoch)) for epoch in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sg.synchronize()
    made = captured.result.numpy()
    assert any((made == wanted(near, images, [0, 1, 2], epoch=epoch)).all() for epoch in range(6))


def test_the_step_itself_runs_beside_its_graph():
    """Only the captured step's own thread hands its launches over, and only while it is called."""
    near, far = steps(crop=8, seed=4)
    images = photos(*SIZES)
    devices = there(images)
    captured = far.captured(devices, [0, 1, 2])
    captured(keys=[3, 4, 5])
    other = far(devices, [6, 7, 8])
    for tensor, keys in ((captured.result, [3, 4, 5]), (other, [6, 7, 8])):
        made = tensor.numpy() if isinstance(tensor, sg.StridedTensor) else np.stack([row.numpy() for row in tensor])
        np.testing.assert_array_equal(made, wanted(near, images, keys))


KINDS = {
    "another type": (np.uint16, SIZES, "HWC"),
    "another memory layout": (np.uint8, SIZES, "CHW"),
    "much larger images": (np.uint8, ((300, 420), *SIZES[1:]), "HWC"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_images_that_take_other_launches_are_processed_without_the_graph(kind):
    dtype, sizes, layout = KINDS[kind]
    near, far = steps(resize=16, crop=12, passes="horizontal")
    first = photos(*SIZES)
    captured = far.captured(there(first))
    for _ in range(2):
        for _ in range(2):
            images = photos(*sizes, dtype=dtype)
            np.testing.assert_array_equal(captured(there(images, layout)).numpy(), wanted(near, images))
            np.testing.assert_array_equal(captured().numpy(), wanted(near, images))
        np.testing.assert_array_equal(captured(there(first)).numpy(), wanted(near, first))


def test_images_of_several_types_are_a_launch_each():
    near, far = steps(resize=16, crop=12, passes="horizontal")
    sets = [[*photos(SIZES[0], dtype=np.uint16), *photos(*SIZES[1:])] for _ in range(3)]
    captured = far.captured(there(sets[0]))
    for images in sets:
        np.testing.assert_array_equal(captured(there(images)).numpy(), wanted(near, images))


def test_an_image_whose_axes_are_not_named_is_no_image_that_names_them():
    _, far = steps(crop=12)
    devices = there(photos(*SIZES))
    captured = far.captured(devices)
    unnamed = sg.StridedTensor(devices[0].buffer, devices[0].layout, "uint8")
    with pytest.raises(sg.LayoutError, match="look like channels that come first"):
        captured([unnamed, *devices[1:]])


def test_a_node_takes_as_many_records_as_its_memory_holds():
    from types import SimpleNamespace

    from stridedgpu.devices.cuda.runtime.graphs import _Node

    kernel = SimpleNamespace(launch=1)
    node = _Node(kernel, SimpleNamespace(size=8), np.zeros(4, np.uint8), 4)
    assert node.takes(kernel, np.zeros(8, np.uint8))
    assert node.takes(SimpleNamespace(launch=1), np.zeros(8, np.uint8))
    assert not node.takes(kernel, np.zeros(9, np.uint8))
    assert not node.takes(SimpleNamespace(launch=2), np.zeros(8, np.uint8))


# Refusals

OTHERS = {
    "fewer images": (lambda images: images[:2], sg.LayoutError, "captured for a list of 3 images; a list of 2 came"),
    "a batch": (
        lambda _: sg.zeros((3, 3, 20, 30), "uint8", device="cuda"),
        sg.LayoutError,
        "a batch of 3 came",
    ),
    "images on the CPU": (lambda _: photos(*SIZES), sg.BindingError, "row 0 is on cpu"),
    "an image without pixels": (lambda _: there(photos((0, 5), *SIZES[1:])), sg.LayoutError, "nothing to resize"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_images_that_are_refused_change_nothing(name):
    chosen, error, words = OTHERS[name]
    near, far = steps(resize=16, crop=12, passes="horizontal")
    images = photos(*SIZES)
    devices = there(images)
    captured = far.captured(devices)
    with pytest.raises(error, match=words):
        captured(chosen(devices))
    np.testing.assert_array_equal(captured().numpy(), wanted(near, images))
    captured.result[...] = 0
    np.testing.assert_array_equal(captured(keys=[0, 1, 2]).numpy(), wanted(near, images))


STEPS = {
    "errors": ({"crop": 8, "errors": "skip"}, sg.LayoutError, "errors='raise'"),
    "colours": ({"crop": 8, "seed": 1, "gain": (0.9, 1.1)}, sg.LayoutError, "gain= and offset="),
    "a seed without keys": ({"crop": 8, "seed": 1}, sg.LayoutError, "needs keys="),
    "a list without a window": ({}, sg.LayoutError, "results of sizes of their own"),
    "a matrix": ({"crop": 8, "matrix": [[0.3, 0.6, 0.1]], "dtype": "float32"}, sg.LayoutError, "memory besides"),
    "the CPU": ({"crop": 8, "device": "cpu"}, sg.DeviceError, "on a CUDA device, and this one is on cpu"),
    "annotations": ({"column": 0, "mask": 1, "crop": 8}, sg.LayoutError, "moves images alone"),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_no_graph_holds_is_refused(name):
    declared, error, words = STEPS[name]
    step = sg.Preprocess(**{"device": "cuda", "output": "tensor", **declared})
    with pytest.raises(error, match=words):
        step.captured(there(photos(*SIZES)))


def test_frames_that_are_not_resized_and_no_images_are_refused():
    _, far = steps(crop=8)
    frame = surface("nv12", (20, 30), 0).frame().to_device("cuda")
    with pytest.raises(sg.LayoutError, match="row 0 is a Frame"):
        far.captured([frame])
    for nothing in ([], 7):
        with pytest.raises(sg.LayoutError, match="one image or more"):
            far.captured(nothing)


def test_a_replay_is_refused_while_the_stream_is_captured():
    import cupy

    near, far = steps(crop=8)
    images = photos(*SIZES)
    captured = far.captured(there(images))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        with pytest.raises(sg.DeviceError, match="cannot be captured"):
            captured()
        stream.end_capture()
    np.testing.assert_array_equal(captured().numpy(), wanted(near, images))
