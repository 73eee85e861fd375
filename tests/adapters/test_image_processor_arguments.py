"""Image processors without transformers: sources, options that are refused, devices, steps and pickles."""

from __future__ import annotations

import io
import json
import pickle

import numpy as np
import pytest
from harness.processor_options import NEEDED

import stridedgpu as sg
from stridedgpu.adapters.image_processors.declaration import KINDS
from stridedgpu.adapters.image_processors.normalising import Normalising
from stridedgpu.values.layout import Layout

CLIP = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 24}, "crop_size": 20}


def images(*sizes, channels=3):
    draw = np.random.default_rng(7)
    return [draw.integers(0, 256, (*size, channels), np.uint8) for size in sizes]


def processor(name="CLIPImageProcessor", backend=None, **options):
    return sg.image_processor({"image_processor_type": name, **options}, backend=backend)


def test_older_files_name_the_class_and_the_options_otherwise():
    photos = images((30, 40), (50, 31))
    wanted = sg.image_processor(CLIP)(photos, return_tensors="np").pixel_values
    for older in (
        {**CLIP, "image_processor_type": "CLIPImageProcessorFast"},
        {**CLIP, "image_processor_type": None, "feature_extractor_type": "CLIPFeatureExtractor"},
        {**CLIP, "size": 24, "resample": 3, "do_rescale": None, "unknown": "ignored"},
    ):
        found = sg.image_processor(older)(photos, return_tensors="np").pixel_values
        assert np.array_equal(found, wanted), older
    detr = processor("DetrImageProcessor", size=40, max_size=60)
    assert detr(images((30, 60)), return_tensors="np").pixel_values.shape == (1, 3, 30, 60)
    assert "pixel_mask" not in processor("DetrImageProcessor", size=40, pad_and_return_pixel_mask=False)(photos[:1])
    assert processor("OwlViTImageProcessor", rescale=False).to_dict()["do_rescale"] is False
    nemotron = processor("NemotronH_Omni_Reasoning_V3ImageProcessor", norm_mean=[0.1, 0.2, 0.3]).to_dict()
    assert nemotron["image_mean"] == [0.1, 0.2, 0.3]
    square = processor(use_square_size=True).to_dict()
    assert square["size"] == {"height": 224, "width": 224}


def test_a_folder_has_a_file_of_its_own_or_one_for_all(tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(CLIP), encoding="utf-8")
    photos = images((30, 40))
    wanted = sg.image_processor(CLIP)(photos, return_tensors="np").pixel_values
    assert np.array_equal(sg.image_processor(tmp_path)(photos, return_tensors="np").pixel_values, wanted)
    nested = {"image_processor": {**CLIP, "size": {"shortest_edge": 30}}}
    (tmp_path / "processor_config.json").write_text(json.dumps(nested), encoding="utf-8")
    assert sg.image_processor(str(tmp_path)).to_dict()["size"] == {"shortest_edge": 30}
    assert sg.image_processor(tmp_path / "preprocessor_config.json").to_dict()["size"] == {"shortest_edge": 24}


@pytest.mark.parametrize(
    "source, words",
    [
        (3, "source=3 is no image processor"),
        (sg.Preprocess, "is no image processor"),
        ({"size": 224}, "source has no 'image_processor_type'"),
        ({"image_processor_type": "CLIPImageProzessor"}, "Did you mean CLIPImageProcessor"),
        ({"image_processor_type": "Molmo2ImageProcessor"}, "Molmo2ImageProcessor is not reproduced: it resizes floats"),
        *(
            ({"image_processor_type": f"{name}ImageProcessor"}, f"{name}ImageProcessor is not reproduced: {why}")
            for name, why in {
                "PPDocLayoutV3": "it resizes floats",
                "PPOCRV6SmallRec": "it resizes floats",
                "SLANeXt": "it resizes by a fixed-point",
                "VitPose": "it cuts boxes of people out of images by SciPy",
                "TimmWrapper": "timm makes its transforms",
                "Inkling2": "it lays transparent images over",
            }.items()
        ),
        ({"image_processor_type": "Owlv2ImageProcessor"}, "Owlv2ImageProcessor is not reproduced: it blurs"),
        ({"image_processor_type": "RfDetrImageProcessor"}, "RfDetrImageProcessor is not reproduced: it resizes floats"),
        ("/nowhere/at/all", "'/nowhere/at/all' is no file"),
    ],
)
def test_other_sources_are_refused_by_name(source, words):
    with pytest.raises(sg.LayoutError, match=words):
        sg.image_processor(source)


def test_files_that_hold_something_else_are_refused(tmp_path):
    path = tmp_path / "preprocessor_config.json"
    for text, words in (("{", "is not JSON"), ("[1]", "holds a list")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(sg.LayoutError, match=words):
            sg.image_processor(tmp_path)


@pytest.mark.parametrize(
    "name, options, words",
    [
        ("CLIPImageProcessor", {"resample": 4}, "resample=4 is not reproduced for backend='torchvision'"),
        ("CLIPImageProcessor", {"resample": "nearest"}, "resample='nearest' is not reproduced"),
        ("CLIPImageProcessor", {"size": {"shortest_edge": 0}}, "size=.* is no size"),
        ("CLIPImageProcessor", {"size": {"edge": 3}}, "size=.* is no size"),
        ("CLIPImageProcessor", {"size": {"longest_edge": 30}}, "of another kind"),
        ("CLIPImageProcessor", {"crop_size": {"shortest_edge": 3}}, "crop_size=.* must have height and width"),
        ("CLIPImageProcessor", {"image_mean": [0.5]}, "image_mean=.* has 1 values, and an image has 3 channels"),
        ("ViTImageProcessor", {"do_center_crop": True}, "do_center_crop=True needs crop_size"),
        ("ViTImageProcessor", {"do_pad": True, "pad_size": 100}, "pad_size=100 is smaller than an image of 224 x 224"),
        ("ConvNextImageProcessor", {"size": 224, "do_center_crop": True, "crop_size": 100}, "leave it out"),
        ("ConvNextImageProcessor", {"size": {"height": 9, "width": 9}}, "this processor takes shortest_edge"),
        ("LevitImageProcessor", {"size": {"longest_edge": 9}}, "of another kind"),
        ("PoolFormerImageProcessor", {"size": {"longest_edge": 9}}, "of another kind"),
        ("DPTImageProcessor", {"size": {"shortest_edge": 9}}, "of another kind"),
        ("DPTImageProcessor", {"do_pad": True}, "do_pad=True needs a size_divisor"),
        ("DetrImageProcessor", {"size": {"shortest_edge": 9}}, "of another kind"),
        ("LayoutLMv3ImageProcessor", {}, "apply_ocr=True is not reproduced: Tesseract .* give apply_ocr=False"),
        ("FlavaImageProcessor", {"return_image_mask": True}, "its masks are random; give return_image_mask=False"),
        ("TvpImageProcessor", {"pad_mode": "reflect"}, "pads are zeros; give pad_mode='constant'"),
        ("BridgeTowerImageProcessor", {"crop_size": 30}, "crop_size=30 must have shortest_edge"),
        ("BridgeTowerImageProcessor", {"size": 30, "size_divisor": 0}, "needs one of 1 or more"),
        (
            "ViltImageProcessor",
            {"size": {"height": 9, "width": 9}},
            "of another kind; this processor takes shortest_edge",
        ),
        ("TextNetImageProcessor", {"size": {"height": 9, "width": 9}}, "of another kind"),
        ("GLPNImageProcessor", {"size_divisor": 60}, "becomes 0 x 60"),
        ("Swin2SRImageProcessor", {"size_divisor": 0}, "do_pad=True needs a size_divisor"),
        ("EomtImageProcessor", {"size": {"height": 9, "width": 9}, "do_pad": True}, "of another kind"),
        ("SuperGlueImageProcessor", {"do_rescale": False}, "do_grayscale=True of bytes is not reproduced"),
        ("DonutImageProcessor", {"size": 30, "do_thumbnail": False}, "is larger than 30 x 30: do_thumbnail=True"),
        ("DonutImageProcessor", {"do_center_crop": True}, "pages are whole; give do_center_crop=None"),
        ("PerceiverImageProcessor", {"size": 300}, "size=300 is no part of crop_size"),
        ("VideoMAEImageProcessor", {"do_center_crop": False}, "A video has frames of the sizes"),
        ("DetrImageProcessor", {"do_pad": False}, "do_pad=True fills them up to one"),
        ("SamImageProcessor", {"size": 100}, "of another kind"),
        ("SamImageProcessor", {"do_center_crop": True, "crop_size": 30}, "do_center_crop=True is not reproduced"),
        ("PixtralImageProcessor", {"size": {"shortest_edge": 9}}, "of another kind"),
        ("Qwen2VLImageProcessor", {"size": {"shortest_edge": 9}}, "of another kind"),
        ("Qwen2VLImageProcessor", {"do_resize": False}, "no whole number of patches"),
        ("Siglip2ImageProcessor", {"do_resize": False}, "no whole number of patches"),
        ("Glm4vImageProcessor", {"size": 100}, "of another kind"),
        ("GotOcr2ImageProcessor", {"crop_to_patches": True, "do_resize": False}, "needs do_resize=True and a size"),
        ("Idefics2ImageProcessor", {"size": {"shortest_edge": 9}}, "of another kind"),
        ("Idefics2ImageProcessor", {"do_rescale": False, "do_normalize": False}, "do_pad=True of bytes"),
        ("LlavaNextImageProcessor", {"image_grid_pinpoints": []}, "for which no resolution keeps any"),
        ("LlavaNextImageProcessor", {"do_resize": False, "do_center_crop": False}, "tiles of several sizes"),
        (
            "FuyuImageProcessor",
            {"padding_mode": "edge"},
            "padding_mode='edge' and padding_value=1.0 are not reproduced",
        ),
        ("FuyuImageProcessor", {"padding_value": 0.5}, "padding_value=0.5 are not reproduced"),
        ("FuyuImageProcessor", {"do_resize": False, "size": 40}, "size=40 is smaller than an image of 50 x 60"),
        ("FuyuImageProcessor", {"do_pad": False}, "are no tensor: give each list as many images, and do_pad=True"),
        ("LlavaImageProcessor", {"do_pad": True, "image_mean": [0.5, 0.5, 1.5]}, "is no colour"),
        ("JanusImageProcessor", {"image_mean": 0.5}, "image_mean=0.5 is no colour"),
        ("JanusImageProcessor", {"size": {"height": 9, "width": 8}}, "takes height and width, which are the same"),
        ("DeepseekVLHybridImageProcessor", {"do_pad": False}, "needs do_resize=True and do_pad=True"),
        ("Apertus1p5ImageProcessor", {"size": 100}, "this processor takes min_pixels and max_pixels"),
        ("Gemma4ImageProcessor", {"max_soft_tokens": 100}, "max_soft_tokens=100 is not taken; it is one of 70, 140"),
        ("Gemma4ImageProcessor", {"do_resize": False}, "no whole number of patches"),
        ("Kimi_K25ImageProcessor", {"size": {"max_height": 9, "max_width": 8}}, "which are the same"),
        ("NeoMMEImageProcessor", {"size": 100}, "this processor takes min_pixels and max_pixels"),
        ("GlmImageImageProcessor", {"patch_size": 40}, "each side needs 80 pixels"),
        ("MuseGlimmerImageProcessor", {"do_resize": False}, "no whole number of patches"),
        ("MiniCPMV4_6ImageProcessor", {"do_resize": False}, "do_resize=False of MiniCPMV4_6ImageProcessor is not"),
        ("MiniCPMOcrImageProcessor", {"small_image_upsize": "adaptive"}, "reads letters by OpenCV: 'always' is"),
        ("Lfm2VlImageProcessor", {"min_tiles": 3, "max_tiles": 2}, "min_tiles=3 is more than max_tiles=2"),
        (
            "Lfm2VlImageProcessor",
            {"max_image_tokens": 16, "do_image_splitting": False},
            "and these are filled up to 64: raise max_image_tokens=16",
        ),
        ("Lfm2VlImageProcessor", {"do_pad": False, "min_image_tokens": 1}, "do_pad=True fills them up to one number"),
        ("MobileViTImageProcessor", {"rescale_factor": 0}, "do_rescale=True needs rescale_factor"),
        ("DINOv3ViTImageProcessor", {"resample": 1}, "resample=1 is not reproduced .* it is 2 or 3"),
        ("DINOv3ViTImageProcessor", {"rescale_factor": 2}, "rescale_factor=2 keeps bytes"),
        ("DINOv3ViTImageProcessor", {"do_rescale": False}, "needs do_rescale=True"),
        (
            "PPOCRV5ServerDetImageProcessor",
            {"limit_type": "least"},
            "limit_type='least' with limit_side_len=960 is unkn",
        ),
        ("VivitImageProcessor", {"do_rescale": False}, "offset=True needs do_rescale=True"),
        ("VivitImageProcessor", {"backend": "torchvision"}, "is none of VivitImageProcessor, whose only one is 'pil'"),
        ("DINOv3ViTImageProcessor", {"size": {"height": 9, "width": 1}}, "becomes 9 x 1, .* with a defect"),
    ],
)
def test_options_that_are_not_reproduced_are_refused_by_name(name, options, words):
    with pytest.raises(sg.LayoutError, match=words):
        processor(name, **options)(images((50, 60), (70, 40)), return_tensors="np")


def test_the_colour_of_a_mean_has_the_channels_of_the_images():
    janus = processor("JanusImageProcessor", do_normalize=False)
    with pytest.raises(sg.LayoutError, match="An image has 1 channels, and the colour around it 3"):
        janus(images((30, 40), channels=1))


def test_a_size_that_was_no_size_is_the_default():
    made = processor("MiniMaxM3VLImageProcessor", size=[672, 672])
    assert made.to_dict()["size"] == {"shortest_edge": 4 * 28 * 28, "longest_edge": 451584}


def test_pairs_and_pages_that_are_not_reproduced_are_refused():
    with pytest.raises(sg.LayoutError, match=r"groups of \[3\] images; give two images"):
        processor("LightGlueImageProcessor")(images((50, 60)) * 3)
    with pytest.raises(sg.LayoutError, match="needs images of 1 or 3 channels, and these have 4"):
        processor("LightGlueImageProcessor")(images((50, 60), channels=4) * 2)
    with pytest.raises(sg.LayoutError, match="A pair has images of the sizes"):
        processor("LightGlueImageProcessor", size={"shortest_edge": 20})(images((50, 60), (60, 50)))
    with pytest.raises(sg.LayoutError, match="for which Pillow reduces it first"):
        processor("NougatImageProcessor", "pil", do_crop_margin=False)(images((50, 400)))
    with pytest.raises(sg.LayoutError, match="needs RGB images, and one has 4 channels"):
        processor("NougatImageProcessor")(images((50, 60), channels=4))
    with pytest.raises(sg.LayoutError, match="as it is resized, becomes 0 x 60"):
        processor("DonutImageProcessor", size=60, do_resize=False)(images((2, 400)))


def test_what_a_call_takes_is_checked():
    clip = sg.image_processor(CLIP)
    photo = images((30, 40))[0]
    with pytest.raises(sg.LayoutError, match="images is empty"):
        clip([])
    with pytest.raises(sg.LayoutError, match=r"images\[0\] is of type str"):
        clip("photo.jpg")
    with pytest.raises(sg.LayoutError, match=r"images\[1\] \(4 bytes: 6a 75 6e 6b\) is not an image"):
        clip([photo, b"junk"])
    with pytest.raises(sg.LayoutError, match="both images and lists"):
        clip([photo, [photo]])
    with pytest.raises(sg.ElementTypeError, match=r"images\[1\] holds float32"):
        clip([photo, photo.astype(np.float32)])
    with pytest.raises(sg.LayoutError, match="neither the first nor the last axis has 1, 3 or 4 channels"):
        clip(np.zeros((20, 30, 5), np.uint8))
    with pytest.raises(sg.LayoutError, match="an image has two axes, or three"):
        clip([np.zeros((2, 2, 2, 20, 3), np.uint8)])
    with pytest.raises(sg.LayoutError, match="an image has pixels"):
        clip(np.zeros((0, 30, 3), np.uint8))
    with pytest.raises(sg.LayoutError, match="input_data_format='last' is unknown"):
        clip(photo, input_data_format="last")
    with pytest.raises(sg.LayoutError, match="return_tensors='tf' is unknown"):
        clip(photo, return_tensors="tf")
    with pytest.raises(sg.LayoutError, match="segmentation_maps= is not processed here"):
        clip(photo, segmentation_maps=[photo])
    with pytest.raises(TypeError, match="has no option 'do_flip'"):
        clip(photo, do_flip=True)
    with pytest.raises(sg.LayoutError, match="backend='slow' is unknown"):
        sg.image_processor(CLIP, backend="slow")
    with pytest.raises(sg.LayoutError, match=r"sizes \[\(3, 24, 32\), \(3, 32, 24\)\], which are no tensor"):
        clip(images((30, 40), (40, 30)), return_tensors="np", do_center_crop=False)
    assert clip(photo, disable_grouping=True, data_format="channels_first", segmentation_maps=None)


def test_results_have_attributes_and_are_written_once():
    clip = sg.image_processor(CLIP)
    photos = images((30, 40), (50, 31))
    for photo in photos:
        photo.flags.writeable = False
    first = clip(photos, return_tensors="np").pixel_values
    kept = first.copy()
    others = clip([photo[::-1] for photo in photos], return_tensors="np").pixel_values
    assert np.array_equal(first, kept)
    assert not np.array_equal(others, kept)
    with pytest.raises(AttributeError, match="there are pixel_values"):
        _ = clip(photos).pixels


RECURRING = {
    "Qwen2VLImageProcessor": {"patch_size": 4, "size": {"shortest_edge": 64, "longest_edge": 4096}},
    "Siglip2ImageProcessor": {"max_num_patches": 16},
    "Gemma4ImageProcessor": {"max_soft_tokens": 70},
    "MiniCPMV4_6ImageProcessor": {},
    "LlavaNextImageProcessor": {"size": 24, "crop_size": 24, "image_grid_pinpoints": [[24, 48], [48, 24]]},
    "Idefics3ImageProcessor": {},
    "VideoMAEImageProcessor": {"size": 24, "crop_size": 24},
}


@pytest.mark.parametrize("name", RECURRING)
def test_a_size_that_recurs_makes_no_layout_anew(name, monkeypatch):
    made, build = [], Layout.__init__

    def counted(layout, *parts, **named):
        made.append(parts)
        build(layout, *parts, **named)

    ours, photos = processor(name, **RECURRING[name]), images((30, 40), (30, 40))
    first = ours(photos, return_tensors="np")
    monkeypatch.setattr(Layout, "__init__", counted)
    second = ours(photos, return_tensors="np")
    assert made == []
    assert all(np.array_equal(second[key], first[key]) for key in first)


def test_bytes_stay_bytes_where_nothing_is_computed():
    photos = images((30, 40), (50, 31))
    for name in ("ViTImageProcessor", "Siglip2ImageProcessor"):
        found = processor(name, do_rescale=False, do_normalize=False)(photos, return_tensors="np").pixel_values
        assert found.dtype == np.uint8
    patches = {"do_rescale": False, "do_normalize": False}
    for backend, dtype in (("torchvision", np.uint8), ("pil", np.float32)):
        found = processor("Qwen2VLImageProcessor", backend, **patches)(photos, return_tensors="np").pixel_values
        assert found.dtype == dtype


def test_pillow_weighs_the_colours_of_transparent_images():
    image = pytest.importorskip("PIL.Image")
    (photo,) = images((40, 60), channels=4)
    plain = processor(
        "ViTImageProcessor", "pil", size={"height": 20, "width": 24}, do_rescale=False, do_normalize=False
    )
    found = plain(photo, return_tensors="np").pixel_values[0]
    wanted = np.asarray(image.fromarray(photo).resize((24, 20), image.Resampling.BILINEAR))
    assert np.array_equal(found, wanted.transpose(2, 0, 1))


def test_channels_are_the_first_axis_that_may_be_some_or_those_that_are_named():
    plain = processor("ViTImageProcessor", do_resize=False, do_rescale=False, do_normalize=False)
    photo = images((4, 60))[0]
    assert plain(photo)["pixel_values"][0].shape == (4, 60, 3)
    assert plain(photo, input_data_format="channels_first")["pixel_values"][0].shape == (4, 60, 3)
    assert plain(photo, input_data_format="channels_last")["pixel_values"][0].shape == (3, 4, 60)
    assert plain([photo[..., 0]])["pixel_values"][0].shape == (1, 4, 60)


def test_images_of_pillow_have_the_pixels_of_their_arrays():
    image = pytest.importorskip("PIL.Image")
    plain = processor("ViTImageProcessor", do_resize=False, do_rescale=False, do_normalize=False)
    for channels in (1, 3, 4):
        (photo,) = images((30, 40), channels=channels)
        shown = image.fromarray(photo[..., 0] if channels == 1 else photo)
        assert np.array_equal(plain(shown)["pixel_values"][0], photo.transpose(2, 0, 1))


def test_steps_that_a_class_does_not_take_have_no_effect():
    photos = images((30, 40), (50, 31))
    ignored = {
        "DetrImageProcessor": {"do_center_crop": True, "crop_size": 9},
        "SegformerImageProcessor": {"do_center_crop": True, "crop_size": 9, "do_pad": True},
        "MobileViTImageProcessor": {"do_normalize": True, "do_pad": True, "pad_size": 300},
        "BeitImageProcessor": {"do_pad": True, "pad_size": 300},
        "Qwen2VLImageProcessor": {"do_center_crop": True, "crop_size": 9, "do_pad": True},
    }
    for name, options in ignored.items():
        found, wanted = (processor(name, **more)(photos, return_tensors="np") for more in (options, {}))
        assert all(np.array_equal(found[key], wanted[key]) for key in wanted), name


def test_gray_images_become_three_equal_channels():
    clip = processor(do_normalize=False, do_rescale=False, size={"shortest_edge": 24}, crop_size=20)
    (gray,) = images((30, 40), channels=1)
    found = clip(gray, return_tensors="np").pixel_values
    assert np.array_equal(found, clip(gray.repeat(3, -1), return_tensors="np").pixel_values)
    assert np.array_equal(found, clip([gray[..., 0]], return_tensors="np").pixel_values)


def test_tensors_of_pytorch_have_the_values_of_arrays():
    torch = pytest.importorskip("torch")
    photos = images((30, 40), (50, 31))
    for name in ("CLIPImageProcessor", "DetrImageProcessor", "SamImageProcessor"):
        made = processor(name)
        wanted = made(photos, return_tensors="np")
        for key, value in made(photos, return_tensors="pt").items():
            assert isinstance(value, torch.Tensor), key
            assert np.array_equal(value.numpy(), wanted[key]), key


def test_one_number_as_a_size_is_the_shorter_side_where_the_default_is():
    images = {name: kind for name, kind in KINDS.items() if not kind.is_video}
    shorter = {name for name, kind in images.items() if not kind.defaults["default_to_square"]}
    by_sides = {name for name, kind in images.items() if "shortest_edge" in (kind.defaults["size"] or {})}
    of_other_sizes = ("Siglip", "RTDetr", "PI0", "Inkling", "MuseGlimmer", "Glm5Next", "Tvp", "LlavaOnevision")
    of_pairs = ("SuperPoint", "SuperGlue", "LightGlue", "EfficientLoFTR")
    assert shorter == by_sides | {f"{name}ImageProcessor" for name in of_other_sizes + of_pairs}


def test_lists_of_images_of_one_size_are_one_tensor():
    nested = processor("Idefics2ImageProcessor", size={"height": 20, "width": 24}, do_pad=False)
    photos = images((30, 40), (50, 31), (33, 32), (40, 44))
    lists = nested([photos[:2], photos[2:]])["pixel_values"]
    stacked = nested([photos[:2], photos[2:]], return_tensors="np")["pixel_values"]
    assert stacked.shape == (2, 2, 3, 20, 24)
    assert all(np.array_equal(stacked[row][place], lists[row][place]) for row in (0, 1) for place in (0, 1))
    with pytest.raises(sg.LayoutError, match=r"pixel_values has lists of \[1, 2\] images, which are no tensor"):
        nested([photos[:2], photos[2:3]], return_tensors="np")


def test_images_on_another_device_give_tensors_there():
    photos = images((30, 40), (50, 31))
    for name, options in (
        ("CLIPImageProcessor", {"size": {"shortest_edge": 24}, "crop_size": 28}),
        ("DetrImageProcessor", {"size": {"shortest_edge": 24, "longest_edge": 40}}),
        ("EfficientNetImageProcessor", {"size": 30}),
        ("DINOv3ViTImageProcessor", {"size": 30, "resample": 3, "do_center_crop": True, "crop_size": 32}),
        ("Qwen2VLImageProcessor", {}),
        ("Siglip2ImageProcessor", {"max_num_patches": 16}),
        ("LlavaNextImageProcessor", {}),
        ("Idefics2ImageProcessor", {"size": {"shortest_edge": 24, "longest_edge": 40}}),
    ):
        here = processor(name, **options)
        there = sg.image_processor({"image_processor_type": name, **options}, device="cuda-emulated")
        wanted = here(photos, return_tensors="np")
        assert all(np.array_equal(value, wanted[key]) for key, value in there(photos, return_tensors="np").items())
        left = here(photos, device="cuda-emulated")["pixel_values"]
        first = left[0] if isinstance(left, list) else left
        assert first.device.startswith("cuda-emulated")


@pytest.mark.parametrize(
    "name, backend", [(name, one) for name, kind in KINDS.items() if not kind.is_video for one in kind.backends]
)
def test_the_step_has_the_pixels_of_the_processor(name, backend):
    made = processor(name, backend, **NEEDED.get(name, {}))
    step = made.step
    # EfficientNet divides once more, MobileViT's window is larger than what it resizes to, PI0's is filled up, DINOv3
    # resizes floats, and the others have sizes that no step has.
    without = "EfficientNet", "MobileViT", "PI0", "DINOv3ViT", "GLPN", "PPLCNet", "TextNet"
    expected = KINDS[name].form == "images" and name.removesuffix("ImageProcessor") not in without
    assert (step is not None) == expected
    if step is not None:
        photos = images((300, 431), (290, 400), (500, 300))
        assert np.array_equal(step(photos), made(photos, return_tensors="np").pixel_values)


@pytest.mark.parametrize("name", KINDS)
def test_every_processor_can_be_warmed_up(name):
    assert sg.warmup(processor(name, **NEEDED.get(name, {}))) == ()


def test_a_warm_up_raises_what_every_call_would():
    with pytest.raises(sg.LayoutError, match="return_tensors='tf' is unknown"):
        sg.warmup(processor("CLIPImageProcessor"), return_tensors="tf")
    with pytest.raises(TypeError, match="has no option 'do_flip'"):
        sg.warmup(processor("CLIPImageProcessor"), do_flip=True)


def test_the_step_refuses_images_of_sixteen_bits():
    """The processor has Pillow's conversion to bytes, which is white above 255; a step keeps the bits of a sample."""
    image = pytest.importorskip("PIL.Image")
    deep = image.fromarray(np.full((300, 300), 40000, np.uint16))
    made = processor("ChameleonImageProcessor", "pil", size={"shortest_edge": 64}, crop_size=64)
    white = image.new("RGB", (300, 300), "white")
    assert np.array_equal(made(deep, return_tensors="np").pixel_values, made(white, return_tensors="np").pixel_values)
    with pytest.raises(sg.LayoutError, match=r"uint16, and scale=\(0.0078,\) is for bytes"):
        made.step([deep])


def test_channels_of_a_step_are_reversed_and_other_sizes_have_none():
    mobile = processor("MobileViTImageProcessor", crop_size=200)
    photos = images((300, 431))
    assert np.array_equal(mobile.step(photos), mobile(photos, return_tensors="np").pixel_values)
    assert processor("CLIPImageProcessor", do_center_crop=False).step is None
    assert processor("CLIPImageProcessor", do_resize=False).step is None
    assert processor("ViTImageProcessor", do_pad=True).step is None


def test_processors_are_pickled_shown_and_declared_again():
    clip = sg.image_processor(CLIP, backend="pil")
    photos = images((30, 40))
    wanted = clip(photos, return_tensors="np").pixel_values
    again = pickle.loads(pickle.dumps(clip))
    assert np.array_equal(again(photos, return_tensors="np").pixel_values, wanted)
    assert repr(again) == repr(clip)
    assert repr(clip).startswith("ImageProcessor('CLIPImageProcessor', backend='pil', size={'shortest_edge': 24}")
    declared = sg.image_processor(clip.to_dict(), backend="pil")
    assert np.array_equal(declared(photos, return_tensors="np").pixel_values, wanted)


def test_arithmetic_that_no_conversion_has_is_looked_up():
    again = Normalising("torchvision", 1 / 255, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4), (0.2, 0.3, 0.4))
    assert again.conversion(3) is None
    values = np.arange(256, dtype=np.float32)
    mean, std = (np.float32(number) * np.float32(255) for number in (0.4, 0.3))
    assert np.array_equal(again.table(3)[1], (values - mean) / std / np.float32(0.3))
    assert Normalising("pil", 1 / 255, (0.5,) * 3, (0.2,) * 3).conversion(3) is not None


@pytest.mark.parametrize("channels", [(3, 1), (1, 3), (4, 3), (3, 3, 1)], ids=str)
@pytest.mark.parametrize(
    "name", ["ViTImageProcessor", "CLIPImageProcessor", "DetrImageProcessor", "Qwen2VLImageProcessor"]
)
def test_images_of_other_channels_are_refused(name, channels):
    """They were read as if they had the first one's channels, beyond their memory."""
    processor = sg.image_processor({"image_processor_type": name, "do_convert_rgb": False})
    images = [np.zeros((56, 56, count), np.uint8) for count in channels]
    with pytest.raises(sg.LayoutError, match=rf"images\[\d\] has \d channels and images\[0\] {channels[0]}"):
        processor(images, return_tensors="np")


NONSENSE = {
    "a mean of letters": ("ViTImageProcessor", {"image_mean": "abc"}, "image_mean='abc' must be finite numbers"),
    "nested std": ("ViTImageProcessor", {"image_std": [[1.0]]}, "image_std=.* must be finite numbers"),
    "a mean of NaN": ("ViTImageProcessor", {"image_mean": float("nan")}, "image_mean=nan must be finite numbers"),
    "a huge factor": ("ViTImageProcessor", {"rescale_factor": 10**400}, "rescale_factor=.* must be finite numbers"),
    "a stated factor": ("ViTImageProcessor", {"rescale_factor": "0.5"}, "rescale_factor='0.5' must be finite"),
    "a mean beyond float32": ("ViTImageProcessor", {"image_mean": 1e300}, "image_mean=1e.300 must be finite numbers"),
    "an array of sides": ("ViTImageProcessor", {"size": np.broadcast_to(1, (1 << 40,))}, "size=.* is no size"),
    "factors": ("ViTImageProcessor", {"rescale_factor": [0.5] * 3}, "rescale_factor=.* must be finite numbers"),
    "a share for each side": ("PoolFormerImageProcessor", {"crop_pct": [0.5, 0.9]}, "crop_pct=.* must be finite"),
    "a word for a switch": ("ViTImageProcessor", {"do_normalize": "false"}, "do_normalize='false' must be True or"),
    "a switch that is a number": ("EfficientNetImageProcessor", {"include_top": 0}, "include_top=0 must be True or"),
    "a scan by nothing": ("Gemma3ImageProcessor", {"do_pan_and_scan": True}, "needs pan_and_scan_min_crop_size"),
    "multiples of nothing": ("DPTImageProcessor", {"do_pad": True, "size_divisor": 0}, "size_divisor=0: do_pad=True"),
    "a share of nothing": ("PoolFormerImageProcessor", {"crop_pct": 1e-320}, "crop_pct=1e-320 must be finite"),
    "sides of two kinds": ("Qwen2VLImageProcessor", {"patch_size": {"height": 5}}, "patch_size=.* must be a whole"),
    "a patch of one side": (
        "PixtralImageProcessor",
        {"patch_size": {"shortest_edge": 5}},
        "must have height and width",
    ),
    "axes in an array": ("ViTImageProcessor", {"input_data_format": np.zeros(3)}, "input_data_format=.* is unknown"),
    "a cap of numbers": ("Qwen2VLVideoProcessor", {"cap_pixels_per_frame": 5}, "cap_pixels_per_frame=5 must be True"),
    "a side beyond floats": ("ViTImageProcessor", {"size": 10**400}, "is no size; it has integers from 1 to"),
    "no patch": ("Qwen2VLImageProcessor", {"patch_size": 0}, "patch_size=0 must be a whole number from 1 to"),
    "a patch of letters": ("Siglip2ImageProcessor", {"patch_size": "a"}, "patch_size='a' must be a whole number"),
    "no time": ("Qwen2VLImageProcessor", {"temporal_patch_size": 0}, "temporal_patch_size=0 must be a whole number"),
    "NaN pixels": ("Qwen2VLImageProcessor", {"min_pixels": float("nan")}, "min_pixels=nan must be a whole number"),
    "sides of letters": ("Qwen2VLImageProcessor", {"size": {"shortest_edge": "a", "longest_edge": 9}}, "is no size"),
    "a list of pixels": ("Qwen2VLImageProcessor", {"size": [1, 2]}, "is of another kind"),
    "too many tiles": ("GotOcr2ImageProcessor", {"max_patches": 100_000}, "max_patches=100000 must be a whole number"),
    "tiles inside a size": (
        "LlavaNextImageProcessor",
        {"size": {"max_height": 12, "max_width": 8}},
        "size=.* is of another kind; this processor takes height and width, or shortest_edge",
    ),
    "points that are numbers": ("LlavaNextImageProcessor", {"image_grid_pinpoints": 5}, "must be pairs of a height"),
    "a tile of one side": (
        "LlavaNextImageProcessor",
        {"crop_size": {"shortest_edge": 5}},
        "must have height and width",
    ),
    "millions of tiles": (
        "LlavaNextImageProcessor",
        {"size": 1, "crop_size": 1, "image_grid_pinpoints": [[3000, 3000]]},
        "more than 4096 tiles of 1 x 1 pixels",
    ),
    "an endless side": ("PoolFormerImageProcessor", {"crop_pct": 1e-9}, "and has 16777216 at most"),
    "a whole endless side": (
        "CLIPImageProcessor",
        {"size": 32769, "do_center_crop": False},
        "and both 1073741824 pixels",
    ),
    "a task that is no list": ("OneFormerImageProcessor", {"task_inputs": 3}, "task_inputs=3 must be a list of texts"),
    "an endless window": ("CLIPImageProcessor", {"crop_size": 1 << 20}, "Images of 1048576 x 1048576 pixels are asked"),
    "an endless pad": ("Swin2SRImageProcessor", {"size_divisor": 1 << 16}, "Images of 65536 x 65536 pixels are asked"),
    "an endless frame": ("SamImageProcessor", {"pad_size": 1 << 20}, "each has 1073741824 at most"),
    "no share": ("PoolFormerImageProcessor", {"crop_pct": 0}, "crop_pct=0 must be finite numbers above"),
    "no window": ("CLIPImageProcessor", {"crop_size": 0}, "crop_size=0 is no size"),
    "a window of no rows": ("CLIPImageProcessor", {"crop_size": [0, 3]}, r"crop_size=\[0, 3\] is no size"),
    "a size that is true": ("ViTImageProcessor", {"size": True}, "size=True is no size"),
    "a whole factor": (
        "ViTImageProcessor",
        {"rescale_factor": 2, "do_normalize": False},
        "rescale_factor=2 without do_normalize keeps bytes in transformers",
    ),
    "quarters without a resize": (
        "Idefics2ImageProcessor",
        {"do_image_splitting": True, "do_resize": False},
        "do_image_splitting=True without do_resize is not reproduced",
    ),
}


@pytest.mark.parametrize("name, options, words", NONSENSE.values(), ids=NONSENSE)
@pytest.mark.parametrize("is_override", [False, True], ids=["declared", "for a call"])
def test_numbers_that_no_declaration_has_are_refused(name, options, words, is_override):
    with pytest.raises(sg.LayoutError, match=words):
        if is_override:
            processor(name)(images((40, 50)), **options)
        else:
            processor(name, **options)(images((40, 50)))


def test_a_window_is_cut_of_a_long_side():
    photo = np.random.default_rng(8).integers(0, 256, (900, 3, 3), np.uint8)
    clip = processor("CLIPImageProcessor", do_rescale=False, do_normalize=False)
    made = clip(photo, input_data_format="channels_last", return_tensors="np").pixel_values[0]
    whole = sg.resize(photo, (67200, 224), dims="HWC", interpolation="torch-bicubic").numpy()
    assert np.array_equal(made, whole[:, 33488:33712])
    whole = clip(photo, input_data_format="channels_last", do_center_crop=False, return_tensors="np").pixel_values
    assert np.array_equal(made, whole[0][:, 33488:33712])
    column = np.broadcast_to(photo[:, :1], (900, 1, 3))
    with pytest.raises(sg.LayoutError, match=r"becomes 9000000 x 10000 by size=.*and both 1073741824 pixels"):
        clip(column, input_data_format="channels_last", do_center_crop=False, size={"shortest_edge": 10000})


def test_encoded_images_are_upright_and_rgb_as_files():
    image = pytest.importorskip("PIL.Image")
    exif, content = image.Exif(), io.BytesIO()
    exif[0x0112] = 6
    pixels = np.random.default_rng(9).integers(0, 256, (50, 70), np.uint8)
    image.fromarray(pixels).save(content, "PNG", exif=exif)
    options = {"image_processor_type": "ViTImageProcessor", "size": {"height": 20, "width": 30}}
    as_files, stored = sg.image_processor(options, as_files=True), sg.image_processor(options)
    upright = np.repeat(np.rot90(pixels, -1)[None], 3, axis=0)
    made = as_files([content.getvalue()], return_tensors="np").pixel_values
    assert np.array_equal(made, stored(upright, return_tensors="np").pixel_values)
    assert np.array_equal(made, as_files.step([content.getvalue()]))
    assert pickle.loads(pickle.dumps(as_files)).as_files
    assert "as_files=True" in repr(as_files)
    with pytest.raises(sg.LayoutError, match="as_files"):
        sg.image_processor(options, as_files="yes")


def test_narrow_counts_of_numpys_do_not_wrap():
    wanted = processor("Qwen2VLImageProcessor", patch_size=14, merge_size=20)(images((300, 500)), "np")
    counts = {"patch_size": np.uint8(14), "merge_size": np.uint8(20)}
    for found in (
        processor("Qwen2VLImageProcessor", **counts)(images((300, 500)), "np"),
        processor("Qwen2VLImageProcessor")(images((300, 500)), "np", **counts),
    ):
        assert found["pixel_values"].tobytes() == wanted["pixel_values"].tobytes()


def test_one_number_of_numpys_is_a_mean_and_a_std():
    wanted = processor("ViTImageProcessor", image_mean=1.0, image_std=7.0)(images((40, 50)), "np")
    found = processor("ViTImageProcessor", image_mean=np.float32(1), image_std=np.int64(7))(images((40, 50)), "np")
    assert found["pixel_values"].tobytes() == wanted["pixel_values"].tobytes()


@pytest.mark.parametrize(
    "name, option",
    [
        ("Qwen2VLImageProcessor", "patch_size"),
        ("Qwen2VLImageProcessor", "merge_size"),
        ("Glm4vImageProcessor", "temporal_patch_size"),
        ("Siglip2ImageProcessor", "max_num_patches"),
        ("PixtralImageProcessor", "patch_size"),
        ("DPTImageProcessor", "ensure_multiple_of"),
        ("LlavaNextImageProcessor", "image_grid_pinpoints"),
        ("ConvNextImageProcessor", "crop_pct"),
    ],
)
def test_an_option_that_a_call_takes_away_is_missed(name, option):
    options = {"size": 224} if name == "ConvNextImageProcessor" else {}
    with pytest.raises(sg.LayoutError, match=option):
        processor(name, **options)(images((40, 50)), **{option: None})
