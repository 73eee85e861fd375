"""After `warmup` of a call, that call imports nothing, the first time and any later one."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import numpy as np
import pytest
from harness.native_loops import needs_library

import stridedgpu as sg

BEGINNING: Final = """
import sys
import numpy as np
import stridedgpu as sg

def loaded():
    return {name for name in sys.modules if name.startswith(("stridedgpu", "PIL."))}

def check(call, *arguments, **options):
    assert sg.warmup(call, *arguments, **options) == ()
    modules = loaded()
    for _ in range(3):
        call(*arguments, **options)
    assert loaded() == modules

def count(warm, call, *arguments, **options):
    # warmed up by other arguments than those of the calls
    assert sg.warmup(*warm) == ()
    modules = loaded()
    for _ in range(3):
        call(*arguments, **options)
    assert loaded() == modules

photo = np.zeros((480, 640, 3), np.uint8)
ragged = [photo, np.zeros((300, 200, 3), np.uint8)]
planes = dict(dims="HWC", dtype="float32", scale=1 / 255)
nv12 = sg.Frame.over("nv12", bytes(480 * 640 * 3 // 2), (480, 640))
small, batch = sg.zeros((1, 3, 8, 8), "uint8", layout="NHWC"), sg.zeros((1, 3, 8, 8), "float32")
large, whole = sg.zeros((1, 3, 480, 640), "uint8"), sg.zeros((1, 3, 224, 224), "uint8")
table, rows = np.zeros((50, 64), np.float32), np.arange(9)
"""

CALLS: Final = {
    "letterbox": "sg.letterbox, photo, 320, **planes",
    "letterbox of images of several sizes": "sg.letterbox, ragged, 320, **planes",
    "letterbox of a frame": "sg.letterbox, [nv12], 320, dtype='float16', scale=0.5",
    "resize": "sg.resize, photo, (100, 120), passes='horizontal', **planes",
    "resize of few pixels": "sg.resize, photo[:9, :9], (5, 5), interpolation='opencv-area', **planes",
    "windows": "sg.gather_crops, ragged, [[0, 0], [5, 5]], (100, 120), **planes",
    "boxes": "sg.gather_crops, [photo], size=9, boxes=[(0, 0, 99, 99)], interpolation='opencv-linear', **planes",
    "a small relayout": "sg.relayout, photo[:8, :8], layout='CHW', **planes",
    "a few rows by index": "sg.gather, table, rows",
    "a step": "sg.Preprocess(resize=(64, 64), passes='horizontal', normalize='imagenet'), ragged",
    "a plan of a relayout": "sg.plan_relayout(small, batch, scale=0.5), small, batch",
    "a plan of a resize": "sg.plan_resize(large, whole, passes='horizontal'), large, whole",
}

BY_SIZES: Final = {
    "an operation by sizes": "count((boxes, SIZES[0], 320), sg.letterbox, photo, 320, **planes)",
    "sizes of a list": "count((boxes, SIZES, 320), sg.letterbox, ragged, 320, **planes)",
    "a descriptor": "count((sg.resize, deep.desc, (9, 9)), sg.resize, deep, (9, 9))",
    "a plan of a relayout": "count((plan,), plan, small, batch)",
    "a plan of a resize": "count((shrink,), shrink, large, whole)",
    "a plan of a gather": "count((pick,), pick, sg.asarray(table), sg.asarray(rows), sg.zeros((9, 64), 'float32'))",
    "a step": "count((step,), step, ragged)",
    "a step, of batches": "count((step,), step, np.ones((3, 500, 333, 3), np.uint8))",
    "a step of tall images": "count((tall,), tall, [np.ones((640, 300, 3), np.uint8)])",
    "a step of tiny images": "count((boxed,), boxed, [np.ones((15, 20, 3), np.uint8)])",
    "a step that draws": "count((drawn,), drawn, ragged, [1, 2])",
    "a letterbox step": "count((boxed,), boxed, [*ragged, photo[:90, :70]])",
    "a step of sizes": "count((boxed, SIZES), boxed, ragged)",
    **{
        f"{step}, then {name}": f"count(({step},), {step}, [{image}])"
        for name, image in {
            "an image of Pillow": "picture(640, 480)",
            "a large image of Pillow": "picture(3000, 2000)",
            "a JPEG": "stored('JPEG')",
            "a PNG": "stored('PNG')",
            "a WebP": "stored('WEBP')",
        }.items()
        for step in ("step", "boxed", "grey")
    },
    "a step, then an image of Pillow alone": "count((step,), step, picture(640, 480))",
    "an image processor": "count((clip,), clip, [photo, photo])",
    "an image processor, then an image of Pillow": "count((clip,), clip, [picture(640, 480)], return_tensors='np')",
    "an image processor, then a JPEG": "count((clip,), clip, stored('JPEG'))",
    "a step of planes": "count((planar,), planar, np.ones((2, 9, 70, 80), np.uint8))",
}
"""What is warmed up by something else than the arguments of its later calls."""

SIZED: Final = """
from functools import partial

def picture(width, height):
    from PIL import Image
    return Image.effect_noise((width, height), 50).convert("RGB")

def stored(kind):
    # of another process, in which Pillow has not been imported
    import subprocess
    lines = f"import io, sys; from PIL import Image; Image.new('RGB', (640, 480)).save(sys.stdout.buffer, {kind!r})"
    return subprocess.run([sys.executable, "-c", lines], check=True, stdout=subprocess.PIPE).stdout

clip = sg.image_processor({"image_processor_type": "CLIPImageProcessor"}, backend="pil")
grey = sg.Preprocess(mode="gray", resize=64, crop=64, passes="horizontal", normalize="siglip", device="cpu")
boxes = partial(sg.letterbox, **planes)
SIZES = [(480, 640, 3), (300, 200, 3)]
deep = sg.zeros((1, 1, 70, 80), "uint16")
plan = sg.plan_relayout(small, batch, scale=0.5)
shrink = sg.plan_resize(large, whole, passes="horizontal")
pick = sg.plan_gather(sg.asarray(table), sg.asarray(rows))
step = sg.Preprocess(resize=256, crop=224, passes="horizontal", normalize="imagenet", device="cpu")
drawn = sg.Preprocess(
    random_resized_crop=True, crop=64, flip=True, seed=1, key="key", passes="horizontal", normalize="clip", device="cpu"
)
tall = sg.Preprocess(resize=256, crop=224, passes="pillow-13", normalize="imagenet", device="cpu")
boxed = sg.Preprocess(letterbox=320, normalize="0..1", device="cpu")
planar = sg.Preprocess(
    dims="NCHW", channels=(8, 0), scale=0.5, resize=(32, 33), interpolation="opencv-linear", device="cpu"
)
"""

COMMON: Final = """
sg.warmup()
modules = loaded()
frame = np.ones((1080, 1920, 3), np.uint8)
sg.letterbox([frame], 640, **planes)
sg.resize(frame, (224, 224), passes="horizontal", **planes)
sg.gather_crops([frame], [[7, 9]], (224, 224), **planes)
assert loaded() == modules
"""


def run(lines: str) -> None:
    """Run a program in a process that has loaded nothing yet."""
    subprocess.run([sys.executable, "-c", BEGINNING + lines], check=True, timeout=600)


@needs_library
@pytest.mark.parametrize("name", CALLS)
def test_a_warm_call_imports_nothing(name: str) -> None:
    run(f"check({CALLS[name]})")


@needs_library
@pytest.mark.parametrize("name", BY_SIZES)
def test_sizes_a_plan_or_a_step_alone_warm_up_the_calls_to_come(name: str) -> None:
    run(SIZED + BY_SIZES[name])


@pytest.mark.parametrize(
    "declared",
    [
        {"resize": 40, "passes": "horizontal"},
        {"dims": "NHW", "layout": "NHW"},
        {"dims": "NDHWC", "layout": "NCDHW"},
        {"dims": "NC", "layout": "NC"},
        {"dims": "NCHW", "matrix": [[1, 2, 3, 4, 5]], "crop": 20},
        {"channels": (5, 0), "smaller": "pad", "crop": 9},
        {"mean": (0.1, 0.2, 0.3, 0.4), "std": 1},
        {"resize": 40, "max_size": 50, "crop": 30, "passes": "horizontal"},
        {"letterbox": 40, "clip": (0, 4095)},
        {"letterbox": 40, "clip": (-1000, 400)},
        {"pad": 2, "fill": 9, "clip": (-1000, 400), "crop": 20},
        {"pad": 2, "fill": 9, "maximum": 1e6, "normalize": "0..1", "crop": 20},
    ],
    ids=str,
)
def test_a_step_of_any_axes_and_channels_rehearses(declared) -> None:
    assert sg.warmup(sg.Preprocess(**declared, device="cpu")) == ()


def test_the_epochs_of_a_step_are_not_begun() -> None:
    step = sg.Preprocess(crop=8, seed=1, device="cpu", errors="skip")
    sg.warmup(step)
    assert (step.epoch, step.skipped) == (0, 0)
    assert step.begin_epoch() == 0


def test_a_plan_that_does_not_say_what_it_runs_on_needs_arguments() -> None:
    photo = sg.zeros((3, 8, 8), "uint8", dims="CHW", device="cpu")
    frame = sg.Frame.over("nv12", bytes(96), (8, 8))
    for plan in (
        sg.plan_gather_crops([photo], (4, 4)),
        sg.plan_resize(frame, sg.zeros((3, 4, 4), "uint8", dims="CHW", device="cpu"), passes="horizontal"),
    ):
        with pytest.raises(sg.LayoutError, match=r"does not say what it runs on: warmup\(plan, ...\) takes the arg"):
            sg.warmup(plan)


@needs_library
@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_call_is_warm_with_so_many_threads(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of threads is part of a launch's key: it is known before the first launch."""
    monkeypatch.setenv("STRIDEDGPU_THREADS", threads)
    run(f"check({CALLS['windows']})")


@needs_library
def test_the_common_calls_are_warm_without_arguments() -> None:
    run(COMMON)


def test_the_call_is_made_once_with_its_arguments_and_its_errors_are_raised() -> None:
    out = sg.zeros((3, 4, 4), "float32")
    photo = np.full((8, 8, 3), 100, np.uint8)
    assert sg.warmup(sg.letterbox, photo, 4, dims="HWC", scale=0.5, out=out) == ()
    assert (out.numpy() == 50).all()
    with pytest.raises(sg.LayoutError, match="passes='diagonal' is unknown"):
        sg.warmup(sg.resize, photo, 4, dims="HWC", passes="diagonal")
    with pytest.raises(TypeError, match="unexpected keyword argument 'value'"):
        sg.warmup(value=3)
    with pytest.raises(sg.LayoutError, match="Options of a conversion are for one pair"):
        sg.warmup(normalize="imagenet")


def test_a_pair_takes_every_option_of_a_plan() -> None:
    pixels = sg.BufferTensorDesc("uint8", (1, 3, 64, 64), (12288, 1, 192, 3))
    planes = sg.BufferTensorDesc("float32", (1, 3, 64, 64))
    plan = sg.plan_relayout(pixels, planes, normalize="imagenet")
    assert sg.warmup(pixels, planes, normalize="imagenet") == (plan.kernel,)


NUMBERS: Final = (0.25, 0.5, 0.75)
COMMON_RELAYOUTS: Final = (
    ("uint8", "NHWC", "float32", "NCHW", NUMBERS, NUMBERS),
    ("uint8", "NHWC", "float16", "NCHW", NUMBERS, NUMBERS),
    ("uint8", "NHWC", "uint8", "NCHW"),
    ("uint8", "NCHW", "uint8", "NHWC"),
    ("float32", "NHWC", "float32", "NCHW"),
    ("float16", "NHWC", "float16", "NCHW"),
    ("float32", "NCHW", "float16", "NCHW"),
)


@needs_library
def test_the_common_relayouts_are_those_that_the_docstring_names() -> None:
    kernels = []
    for source, before, target, after, *constants in COMMON_RELAYOUTS:
        numbers = dict(zip(("scale", "bias"), constants, strict=False))
        sides = sg.zeros((8, 3, 224, 224), source, layout=before), sg.empty((8, 3, 224, 224), target, layout=after)
        kernels.append(sg.plan_relayout(*sides, **numbers).kernel)
    assert sg.warmup(device="cpu") == tuple(dict.fromkeys(kernels))


@pytest.mark.parametrize(
    "call",
    [
        lambda plane: sg.warmup(plane, plane, plane),
        lambda plane: sg.warmup(plane, plane, src=plane),
        lambda plane: sg.warmup(h=3),
        lambda plane: sg.warmup(sg.plan_relayout(plane, plane), h=3),
    ],
    ids=["three sides", "a side twice", "an unknown option", "an option beside a plan"],
)
def test_wrong_arguments_are_those_of_warmup(call):
    with pytest.raises(TypeError, match=r"^warmup\(\) "):
        call(sg.BufferTensorDesc("uint8", (1, 3, 8, 8)))
