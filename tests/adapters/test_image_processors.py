"""Image processors beside transformers' own: the same keys, shapes, types and bits, for drawn images and options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness.processor_options import COUNTS, LEAST, NEEDED, OPTIONS
from harness.transformers_processors import differences, drawn_image, original, transformers_library

import stridedgpu as sg
from stridedgpu.adapters.image_processors.declaration import KINDS

pytestmark = pytest.mark.interop

BACKENDS = ("torchvision", "pil")
NAMES = [name for name, kind in KINDS.items() if not kind.is_video]

"""Options beside the defaults of each class; each is set when the processor is made, and once more in a call."""

CASES = [(name, {**NEEDED.get(name, {}), **options}) for name in NAMES for options in [{}, *OPTIONS.get(name, [])]]
PAIRS = [(name, backend) for name in NAMES for backend in KINDS[name].backends]


def compared(ours: Any, theirs: Any, images: Any, **call: Any) -> list[str]:
    """Where the two differ, for each kind of tensors; what transformers cannot stack is refused here, too."""
    lines = []
    for tensors in (None, "np", "pt"):
        try:
            wanted = theirs(images, return_tensors=tensors, **call)
        except (ValueError, RuntimeError):
            with pytest.raises((ValueError, TypeError), match=r"\w"):
                ours(images, return_tensors=tensors, **call)
            continue
        except NameError:  # ViLT's masks, by torchvision and without return_tensors="pt"
            continue
        lines += differences(ours(images, return_tensors=tensors, **call), wanted, str(tensors))
    return lines


@pytest.mark.parametrize("name", KINDS)
def test_defaults_are_those_of_transformers(name):
    theirs = original(name, "torchvision")
    for key, ours in KINDS[name].defaults.items():
        # Classes without backends take `default_to_square` of their base, and do not read it.
        if key in KINDS[name].called or (key == "default_to_square" and KINDS[name].backends == ("pil",)):
            continue
        default = getattr(theirs, key, None)
        if hasattr(default, "keys"):
            default = {side: value for side, value in dict(default).items() if value is not None}
        assert np.array_equal(default, ours) or default == ours, key


@pytest.mark.parametrize(
    "name, options, backend",
    [
        pytest.param(name, options, backend, id=f"{name}-{number}-{backend}")
        for number, (name, options) in enumerate(CASES)
        for backend in KINDS[name].backends
    ],
)
def test_images_have_the_bits_of_transformers(name, options, backend):
    theirs = original(name, backend, **options)
    ours = sg.image_processor(theirs)
    draw = np.random.default_rng([17, *name.encode()])
    for count in COUNTS.get(KINDS[name].form, (1, 3)):
        images = [drawn_image(draw, LEAST.get(name, 40)) for _ in range(count)]
        assert compared(ours, theirs, images) == []


@pytest.mark.slow
@pytest.mark.parametrize("name, backend", PAIRS)
def test_many_drawn_images_have_the_bits_of_transformers(name, backend):
    theirs = original(name, backend, **NEEDED.get(name, {}))
    ours = sg.image_processor(theirs)
    draw = np.random.default_rng([23, *name.encode()])
    for _ in range(12):
        counts = COUNTS.get(KINDS[name].form, (1, 2, 3))
        images = [drawn_image(draw, 2 * LEAST.get(name, 15), 900) for _ in range(draw.choice(counts))]
        assert compared(ours, theirs, images) == []


ODD = ((1, 40), (40, 1), (2, 300), (3, 500), (20, 4100), (700, 11), (7, 5), (1, 1))


@pytest.mark.slow
@pytest.mark.parametrize("name, backend", [pair for pair in PAIRS if pair[0] not in LEAST])
def test_odd_images_are_taken_where_transformers_takes_them(name, backend):
    theirs = original(name, backend, **NEEDED.get(name, {}))
    ours = sg.image_processor(theirs)
    draw = np.random.default_rng([29, *name.encode()])
    for size in ODD:
        images = [draw.integers(0, 256, (*size, 3), np.uint8)] * COUNTS.get(KINDS[name].form, (1,))[0]
        call = {"return_tensors": "np", "input_data_format": "channels_last"}
        if "input_data_format" in KINDS[name].only:
            call["input_data_format"] = None
        try:
            wanted = theirs(images, **call)
        except Exception:  # noqa: BLE001 - whatever transformers raises
            continue
        try:
            found = ours(images, **call)
        except sg.LayoutError as refusal:
            assert "torch resizes floats to one column with a defect" in str(refusal)
            continue
        assert differences(found, wanted, str(size)) == []


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "name, size",
    [
        ("CLIPImageProcessor", (900, 3)),
        ("ChameleonImageProcessor", (15, 2999)),
        ("BitImageProcessor", (2, 800)),
        ("MobileNetV2ImageProcessor", (1, 4200)),
        ("VideoMAEImageProcessor", (300, 1)),
    ],
)
def test_a_window_of_an_extreme_shape_has_the_bits_of_transformers(name, size, backend):
    theirs = original(name, backend)
    image = np.random.default_rng(19).integers(0, 256, (*size, 3), np.uint8)
    assert compared(sg.image_processor(theirs), theirs, [image], input_data_format="channels_last") == []


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["CLIPImageProcessor", "DetrImageProcessor", "Qwen2VLImageProcessor"])
def test_options_of_a_call_have_the_same_effect(name, backend):
    theirs = original(name, backend)
    ours = sg.image_processor(theirs)
    draw = np.random.default_rng(5)
    images = [drawn_image(draw), drawn_image(draw)]
    for options in OPTIONS[name]:
        call = {key: value for key, value in options.items() if key not in ("min_pixels", "max_pixels")}
        assert compared(ours, theirs, images, **call) == []


@pytest.mark.parametrize(
    "name, call",
    [
        ("VideoLlavaImageProcessor", {"return_legacy_image_output": False}),
        ("Emu3ImageProcessor", {"do_pad": False}),
        ("Emu3ImageProcessor", {"min_pixels": 1, "max_pixels": 999, "spatial_factor": 2}),
        ("PPOCRV5ServerRecImageProcessor", {"size": {"height": 40, "width": 60}, "max_image_width": 70}),
    ],
    ids=str,
)
def test_options_that_a_call_or_a_declaration_alone_states_have_the_same_effect(name, call):
    draw = np.random.default_rng(5)
    images = [drawn_image(draw), drawn_image(draw)]
    for options in ({}, call):
        theirs, ours = (
            original(name, KINDS[name].backends[0], **options),
            sg.image_processor({"image_processor_type": name, **options}),
        )
        assert compared(ours, theirs, images) == []
        assert compared(ours, theirs, images, **call) == []


@pytest.mark.parametrize(
    "name, mode",
    [
        *((name, mode) for name in ("VideoLlavaImageProcessor", "Emu3ImageProcessor") for mode in ("L", "RGB", "RGBA")),
        ("VivitImageProcessor", "RGB"),
    ],
)
def test_classes_without_backends_take_images_of_pillow_and_arrays(name, mode):
    image = pytest.importorskip("PIL.Image")
    theirs = original(name, "pil", do_normalize=False)
    ours = sg.image_processor(theirs)
    assert ours.backend == "pil"
    photo = image.fromarray(drawn_image(np.random.default_rng(9), 300)).convert(mode)
    pixels = np.atleast_3d(np.asarray(photo))
    arrays = [pixels, np.ascontiguousarray(pixels.transpose(2, 0, 1))] if mode != "RGBA" else []  # refused there
    for given in (photo, *arrays):
        assert compared(ours, theirs, [given]) == []


@pytest.mark.parametrize("source", ["object", "dict", "file", "folder"])
def test_a_processor_comes_from_an_object_a_dict_and_a_file(source, tmp_path):
    theirs = original("CLIPImageProcessor", "torchvision", size={"shortest_edge": 64}, crop_size=48)
    theirs.save_pretrained(tmp_path)
    given = {
        "object": theirs,
        "dict": theirs.to_dict(),
        "file": tmp_path / "preprocessor_config.json",
        "folder": str(tmp_path),
    }[source]
    images = [drawn_image(np.random.default_rng(3))]
    assert compared(sg.image_processor(given), theirs, images) == []


def test_a_dict_has_the_bits_of_the_backend_that_is_named():
    declared = original("ViTImageProcessor", "pil").to_dict()
    images = [drawn_image(np.random.default_rng(3))]
    for backend in BACKENDS:
        theirs = original("ViTImageProcessor", backend)
        assert compared(sg.image_processor(declared, backend=backend), theirs, images) == []
    assert sg.image_processor(declared).backend == "torchvision"


MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", MODES)
def test_modes_of_pillow_become_rgb_as_in_transformers(mode, backend):
    image = pytest.importorskip("PIL.Image")
    theirs = original("CLIPImageProcessor", backend, do_center_crop=False, size={"shortest_edge": 30})
    ours = sg.image_processor(theirs)
    draw = np.random.default_rng(9)
    pixels = np.dstack([drawn_image(draw, 40, 60)[:40, :40], draw.integers(0, 256, (40, 40, 1), np.uint8)])
    photo = image.fromarray(pixels)
    shown = photo.convert("RGB").convert(mode) if mode in ("CMYK", "YCbCr", "1", "P") else photo.convert(mode)
    assert compared(ours, theirs, [shown]) == []
    if mode == "P":
        shown.info["transparency"] = 3
        assert compared(ours, theirs, [shown]) == []


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["CLIPImageProcessor", "ViTImageProcessor"])
def test_encoded_images_are_those_of_a_path_or_of_the_opened_image(name, backend, tmp_path):
    image = pytest.importorskip("PIL.Image")
    theirs = original(name, backend)
    as_files, opened = (sg.image_processor(theirs, as_files=one) for one in (True, False))
    draw = np.random.default_rng(21)
    path = tmp_path / "photo.png"
    for mode, orientation in [*(("RGB", orientation) for orientation in range(1, 9)), ("RGBA", 6), ("L", 1), ("P", 3)]:
        exif = image.Exif()
        exif[0x0112] = orientation
        photo = image.fromarray(draw.integers(0, 256, (50, 70, 4), np.uint8))
        (photo if mode == "RGBA" else photo.convert("RGB").convert(mode)).save(path, exif=exif)
        # Its torchvision backend decodes a path by torchvision.io, upright and RGB as well.
        wanted = theirs(transformers_library().image_utils.load_image(str(path)), return_tensors="pt")
        assert differences(as_files(path.read_bytes(), return_tensors="pt"), wanted) == []
        if mode == "RGB" or name == "CLIPImageProcessor":
            wanted = theirs(image.open(path), return_tensors="pt")
            assert differences(opened(path.read_bytes(), return_tensors="pt"), wanted) == []


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_arrays_of_other_channels_become_rgb_as_in_transformers(channels, backend):
    theirs = original("SiglipImageProcessor", backend, size={"height": 20, "width": 30})
    ours = sg.image_processor(theirs)
    draw = np.random.default_rng(11)
    image = draw.integers(0, 256, (50, 60, channels), np.uint8)
    assert compared(ours, theirs, [image]) == []
    assert compared(ours, theirs, [np.ascontiguousarray(image.transpose(2, 0, 1))]) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_images_come_as_arrays_tensors_batches_and_lists_of_lists(backend):
    transformers_library()
    torch = pytest.importorskip("torch")
    image = pytest.importorskip("PIL.Image")
    theirs = original("CLIPImageProcessor", backend, size={"shortest_edge": 40}, crop_size=32)
    ours = sg.image_processor(theirs)
    draw = np.random.default_rng(13)
    batch = draw.integers(0, 256, (3, 50, 60, 3), np.uint8)
    planes = np.ascontiguousarray(batch.transpose(0, 3, 1, 2))
    for images in (
        batch[0],
        batch,
        planes,
        planes[0],
        list(planes),
        torch.from_numpy(planes),
        list(torch.from_numpy(batch)),
        image.fromarray(batch[0]),
        [image.fromarray(one) for one in batch],
        [[batch[0], batch[1]], [batch[2]]],
        (batch[0], batch[1]),
        [batch[:2], batch[2:]],
    ):
        assert compared(ours, theirs, images) == []
    assert compared(ours, theirs, planes[0], input_data_format="channels_first") == []


NESTED = {
    "Idefics2ImageProcessor": {"size": {"shortest_edge": 30, "longest_edge": 60}, "do_image_splitting": True},
    "Idefics3ImageProcessor": {"size": {"longest_edge": 150}, "max_image_size": {"longest_edge": 60}},
    "MllamaImageProcessor": {"size": 60},
    "GraniteDoclingImageProcessor": {"size": 60, "max_patches": 6},
    "LlavaOnevisionImageProcessor": {
        "size": {"height": 60, "width": 60},
        "image_grid_pinpoints": [[60, 120], [120, 60]],
    },
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_pages_are_turned_and_without_margins(backend):
    options = {"size": {"height": 96, "width": 128}, "do_align_long_axis": True}
    theirs = original("NougatImageProcessor", backend, **options)
    draw = np.random.default_rng(37)
    pages = [
        np.pad(drawn_image(draw, 60, 90), ((9, 30), (50, 7), (0, 0)), constant_values=white) for white in (255, 240)
    ]
    pages.append(np.full((60, 80, 3), 200, np.uint8))
    assert compared(sg.image_processor(theirs), theirs, pages) == []
    tall = np.pad(drawn_image(draw, 90, 120), ((90, 0), (0, 0), (0, 0)), constant_values=3)
    if backend == "pil":
        assert compared(sg.image_processor(theirs), theirs, [tall]) == []
    else:
        with pytest.raises(sg.LayoutError, match="turn the page, or give backend='pil'"):
            sg.image_processor(theirs)(tall)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", [{"height": 50, "width": 60}, {"shortest_edge": 40}], ids=repr)
def test_gray_pairs_keep_their_values_beside_coloured_ones(backend, size):
    theirs = original("SuperGlueImageProcessor", backend, size=size)
    draw = np.random.default_rng(41)
    coloured, photo = drawn_image(draw), drawn_image(draw)
    gray = np.repeat(photo[:, :, :1], 3, axis=2)
    for pairs in ([gray, gray], [[gray, photo], [gray, gray]], [[coloured, coloured], [photo, photo]]):
        assert compared(sg.image_processor(theirs), theirs, pairs) == []


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NESTED)
def test_lists_of_images_stay_lists(name, backend):
    theirs = original(name, backend, **NESTED[name])
    ours = sg.image_processor(theirs)
    draw = np.random.default_rng(19)
    images = [[drawn_image(draw), drawn_image(draw)], [drawn_image(draw)]]
    assert compared(ours, theirs, images) == []
    assert compared(ours, theirs, [[drawn_image(draw)]]) == []


@pytest.mark.parametrize(
    "name, backend, options",
    [
        ("PPOCRV5ServerDetImageProcessor", "torchvision", {"limit_side_len": 40}),
        *(
            (name, backend, options)
            for name, backend in (
                ("EfficientNetImageProcessor", "torchvision"),
                ("EfficientNetImageProcessor", "pil"),
                ("DINOv3ViTImageProcessor", "torchvision"),
            )
            for options in ({}, {"do_normalize": False}, {"image_mean": 0.5, "image_std": 0.25})
        ),
    ],
    ids=repr,
)
def test_three_means_make_three_channels_of_a_grey_image(name, backend, options):
    theirs = original(name, backend, **options)
    image = np.random.default_rng(29).integers(0, 256, (1, 50, 60), np.uint8)
    assert compared(sg.image_processor(theirs), theirs, [image, image[:, :40]]) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_lists_of_images_are_rows_in_fuyu(backend):
    theirs = original("FuyuImageProcessor", backend, size={"height": 90, "width": 70})
    draw = np.random.default_rng(19)
    images = [[drawn_image(draw), drawn_image(draw)], [drawn_image(draw), drawn_image(draw)]]
    assert compared(sg.image_processor(theirs), theirs, images) == []


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("channels", [1, 4])
def test_images_of_one_and_four_channels_stay_so_where_nothing_converts_them(channels, backend):
    options = {"size": {"height": 20, "width": 24}, "do_normalize": False}
    theirs = original("ViTImageProcessor", backend, **options)
    image = np.random.default_rng(29).integers(0, 256, (channels, 50, 60), np.uint8)
    assert compared(sg.image_processor(theirs), theirs, [image]) == []
