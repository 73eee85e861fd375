"""On a GPU: what nvImageCodec, PyNvVideoCodec and TorchCodec decode into, converted in the order of streams."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.devices.cuda.status import cuda_status

PAGE = Path(__file__).parents[2] / "docs" / "frames.md"
STATUS = cuda_status()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(STATUS.device_count == 0, reason=str(STATUS.reason))]

RANDOM = np.random.default_rng(41)
SIZES = (20, 30)
PHOTOS = [RANDOM.integers(0, 256, (20 + number, 30, 3), np.uint8) for number in range(2)]
FRAMES = RANDOM.integers(0, 256, (2, *SIZES, 3), np.uint8)
OPTIONS = {"dtype": "float16", "scale": 1 / 255}


def planes(dtype=np.uint8):
    """Luma and pairs of chroma of one frame."""
    most = np.iinfo(dtype).max
    return RANDOM.integers(0, most, SIZES, dtype), RANDOM.integers(0, most, (SIZES[0] // 2, SIZES[1] // 2, 2), dtype)


def side_stream():
    """A stream that waits for others through events alone."""
    import cupy

    return cupy.cuda.Stream(non_blocking=True)


def read(result, stream):
    """The elements of a result once one stream has done all that it was given, and no other has been waited for."""
    stream.synchronize()
    return result.numpy()


def by_with(operation, stream):
    """The operation with the stream current."""
    with stream:
        return operation()


def by_argument(operation, stream):
    """The operation with `stream=`."""
    return operation(stream=stream)


each_way = pytest.mark.parametrize("on", [by_with, by_argument], ids=["current", "argument"])


# nvImageCodec

ON_PHOTOS = {
    "relayout": lambda images, **where: sg.relayout(images[0], dims="HWC", **OPTIONS, **where),
    "resize": lambda images, **where: sg.resize(images[0], (9, 8), dims="HWC", passes="horizontal", **where),
    "letterbox": lambda images, **where: sg.letterbox(images, (16, 16), dims="HWC", **where),
    "crops": lambda images, **where: sg.gather_crops(images, [[0, 1], [2, 3]], (8, 8), dims="HWC", **where),
    "gather": lambda images, **where: sg.gather(images[0], [3, 1], **where),
}


@each_way
@pytest.mark.parametrize("operation", ON_PHOTOS.values(), ids=ON_PHOTOS)
def test_images_of_nvimagecodec_are_waited_for(operation, on):
    from harness.decoders import NvImage

    decoding, working = side_stream(), side_stream()
    images = [NvImage(photo, decoding) for photo in PHOTOS]
    result = on(lambda **where: operation(images, **where), working)
    np.testing.assert_array_equal(read(result, working), operation(PHOTOS).numpy())


def test_an_image_of_nvimagecodec_is_taken_more_than_once():
    """Its capsule is taken once, and then it has the CUDA Array Interface left."""
    from harness.decoders import NvImage

    decoding, working = side_stream(), side_stream()
    image = NvImage(PHOTOS[0], decoding)
    with working:
        first = sg.asarray(image, dims="HWC")
        image._surface.fill(255 - PHOTOS[0])
        second = sg.relayout(image, dims="HWC")
    assert first.buffer.address == image._surface.address
    np.testing.assert_array_equal(read(second, working), (255 - PHOTOS[0]).transpose(2, 0, 1))


def test_an_image_of_nvimagecodec_lives_as_long_as_its_tensor():
    """Its capsule does not keep its memory."""
    import weakref

    from harness.decoders import NvImage

    decoding = side_stream()
    image = NvImage(PHOTOS[0], decoding)
    watched, tensor = weakref.ref(image), sg.asarray(image, dims="HWC")
    del image
    assert watched() is not None
    np.testing.assert_array_equal(tensor.numpy(), PHOTOS[0].transpose(2, 0, 1))
    del tensor
    assert watched() is None


def test_an_error_of_a_producer_without_an_interface_is_its_own():
    class Gone:
        def __dlpack_device__(self):
            return 2, 0

        def __dlpack__(self, stream=None):
            raise RuntimeError("the decoder was closed")

    with pytest.raises(RuntimeError, match="the decoder was closed"):
        sg.asarray(Gone())


# PyNvVideoCodec


@each_way
def test_a_frame_of_pynvvideocodec_is_waited_for(on):
    from harness.decoders import DecodedFrame

    luma, chroma = planes()
    decoding, working = side_stream(), side_stream()
    decoded = DecodedFrame(luma, chroma, decoding)
    with working:
        frame = sg.Frame.over("nv12", decoded, SIZES, matrix="bt709")
    result = on(lambda **where: sg.letterbox([frame], (32, 32), **OPTIONS, **where), working)
    wanted = sg.letterbox([sg.Frame("nv12", [luma, chroma], sizes=SIZES, matrix="bt709")], (32, 32), **OPTIONS)
    np.testing.assert_array_equal(read(result, working), wanted.numpy())


@pytest.mark.parametrize("default", [False, True], ids=["the decoder's stream", "the default stream"])
def test_plane_views_of_pynvvideocodec_are_planes(default):
    """They never name the decoder's stream: work is on it, or the decoder is on the default one."""
    import cupy
    from harness.decoders import DecodedFrame

    luma, chroma = planes()
    decoding = cupy.cuda.Stream.null if default else side_stream()
    working = side_stream() if default else decoding
    decoded = DecodedFrame(luma, chroma, decoding)
    with working:
        frame = sg.Frame("nv12", decoded.cuda(), sizes=SIZES)
        result = sg.relayout(frame, **OPTIONS)
    wanted = sg.relayout(sg.Frame("nv12", [luma, chroma], sizes=SIZES), **OPTIONS)
    np.testing.assert_array_equal(read(result, working), wanted.numpy())


def test_p016_of_pynvvideocodec_is_refused_by_its_strides_and_taken_by_its_address():
    from harness.decoders import DecodedFrame

    luma, chroma = planes(np.uint16)
    stream = side_stream()
    decoded = DecodedFrame(luma, chroma, stream)
    with stream:
        with pytest.raises(sg.LayoutError, match="must follow each other"):
            sg.Frame.over("p016", decoded, SIZES)
        with pytest.raises(sg.LayoutError, match="not whole elements of 2 bytes"):
            sg.Frame("p016", decoded.cuda(), sizes=SIZES)
        nbytes = luma.nbytes + chroma.nbytes
        memory = sg.from_pointer(decoded.GetPtrToPlane(0), (nbytes,), "uint8", owner=decoded, device="cuda:0")
        result = sg.relayout(sg.Frame.over("p016", memory, SIZES))
    wanted = sg.relayout(sg.Frame("p016", [luma, chroma], sizes=SIZES))
    np.testing.assert_array_equal(read(result, stream), wanted.numpy())


@pytest.mark.parametrize("protocol", ["interface", "capsule"])
@pytest.mark.parametrize("name, dtype", [("nv12", np.uint8), ("p010", np.uint16)])
def test_pitched_surfaces_and_their_planes_are_taken_by_either_protocol(name, dtype, protocol):
    """A surface of NVDEC: rows at a pitch, chroma behind the coded rows."""
    from harness.decoders import PitchedArray

    luma, chroma = planes(dtype)
    coded, pitch = 32, 48
    surface = np.zeros((coded * 3 // 2, pitch), dtype)
    surface[: SIZES[0], : SIZES[1]] = luma
    surface[coded : coded + SIZES[0] // 2, : SIZES[1]] = chroma.reshape(-1, SIZES[1])
    decoding, working = side_stream(), side_stream()
    whole = PitchedArray(surface, decoding, protocol)
    views = [
        PitchedArray.of_view(whole, surface[: SIZES[0], : SIZES[1]]),
        PitchedArray.of_view(whole, surface[coded : coded + SIZES[0] // 2, : SIZES[1]].reshape(-1, SIZES[1] // 2, 2)),
    ]
    itemsize = surface.itemsize
    wanted = sg.relayout(sg.Frame(name, [luma, chroma], sizes=SIZES)).numpy()
    with working:
        one = sg.Frame.over(name, whole, SIZES, plane_offsets_bytes=(0, coded * pitch * itemsize))
        other = sg.Frame(name, views, sizes=SIZES)
        results = [sg.relayout(frame) for frame in (one, other)]
    for result in results:
        np.testing.assert_array_equal(read(result, working), wanted)


# TorchCodec


@each_way
def test_frames_of_torchcodec_are_waited_for(on):
    from harness.decoders import Tensor, torch_double

    decoding, working = side_stream(), side_stream()
    with torch_double(decoding):
        frames = Tensor.of_frames(FRAMES)
        result = on(partial(sg.resize, frames, (8, 9), dims="NCHW", passes="horizontal"), working)
        made = read(result, working)
        del frames  # PyTorch's memory is freed before the stream that it is recorded on
    wanted = sg.resize(FRAMES, (8, 9), dims="NHWC", passes="horizontal")
    np.testing.assert_array_equal(made, wanted.numpy())


def test_frames_of_torchcodec_are_taken_on_pytorchs_own_stream():
    from harness.decoders import Tensor, torch_double

    decoding = side_stream()
    with torch_double(decoding):
        frames = Tensor.of_frames(FRAMES)
        tensor = sg.asarray(frames, dims="NCHW")
        assert (tensor.buffer.address, tensor.sizes) == (frames._surface.address, (2, 3, *SIZES))
        made = read(tensor.relayout(layout="NCHW"), decoding)
    np.testing.assert_array_equal(made, FRAMES.transpose(0, 3, 1, 2))


def test_a_step_takes_what_decoders_give():
    from harness.decoders import NvImage

    declared = {"resize": 12, "crop": 10, "normalize": "imagenet", "dims": "NHWC", "interpolation": "pillow-bicubic"}
    decoding, working = side_stream(), side_stream()
    images = [NvImage(photo, decoding) for photo in PHOTOS]
    step = sg.Preprocess(device="cuda", output="tensor", **declared)
    with working:
        results = step(images)
    wanted = sg.Preprocess(device="cpu", **declared)(PHOTOS)
    for result, one in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(read(result, working), one)


# The recipes of the page on video frames


def recipes():
    """The blocks of the page's section, by the module that they import; sizes are smaller, for the stand-in's sake."""
    section = PAGE.read_text(encoding="utf-8").partition("## Decoders on a GPU\n")[2]
    small = {"(640, 640)": "(32, 32)", "resize=256, crop=224": "resize=16, crop=14", "(224, 224)": "(9, 8)"}
    for block in re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE):
        yield re.sub("|".join(map(re.escape, small)), lambda found: small[found[0]], block)


RECIPES = list(recipes()) if PAGE.is_file() else []


def boxed(name, frames, matrix, scale):
    """What the recipes for PyNvVideoCodec make of each frame, on the CPU."""
    options = {"dtype": "float16", "scale": scale}
    return [
        sg.letterbox([sg.Frame(name, pair, sizes=SIZES, matrix=matrix)], (32, 32), **options).numpy() for pair in frames
    ]


def test_the_page_has_a_recipe_for_each_decoder():
    assert len(RECIPES) == 4


@pytest.mark.parametrize("block", RECIPES, ids=lambda block: re.search(r"PyNv|nvimgcodec|torchcodec", block)[0])
def test_the_recipes_make_what_the_cpu_makes(block, monkeypatch):
    from harness.decoders import decoding_modules, torch_double

    deep = "10-bits" in block
    frames = [planes(np.uint16 if deep else np.uint8) for _ in range(3)]
    for name, module in decoding_modules(frames, PHOTOS, FRAMES).items():
        monkeypatch.setitem(sys.modules, name, module)
    names, of_torch = {"__name__": "recipe"}, side_stream()
    with torch_double(of_torch):
        exec(compile(block, PAGE.name, "exec"), names)
        of_torch.synchronize()
    if "PyNvVideoCodec" in block:
        made = [batch.numpy() for batch in names["batches"]]
        wanted = boxed("p016", frames, "bt2020", 1 / 65535) if deep else boxed("nv12", frames, "bt709", 1 / 255)
    elif "nvimgcodec" in block:
        step = sg.Preprocess(resize=16, crop=14, normalize="imagenet", dtype="float16", device="cpu")
        made, wanted = [image.numpy() for image in names["batch"]], step(PHOTOS)
    else:
        made = names["batch"].numpy()
        wanted = sg.resize(FRAMES, (9, 8), dims="NHWC", dtype="float16", normalize="imagenet", layout="NHWC").numpy()
    for result, one in zip(made, wanted, strict=True):
        np.testing.assert_array_equal(result, one)
