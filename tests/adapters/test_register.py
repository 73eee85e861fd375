"""`register()`: this library as a backend of transformers' AutoImageProcessor and AutoVideoProcessor."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest
from harness.transformers_processors import differences, drawn_image, original, transformers_library

import stridedgpu as sg
from stridedgpu.adapters.transformers import register

pytestmark = pytest.mark.interop

BACKENDS = {"stridedgpu": "torchvision", "stridedgpu-pil": "pil"}


@pytest.fixture(scope="module")
def automatic():
    library = transformers_library()
    register()
    register()  # once more changes nothing
    return library.AutoImageProcessor


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["CLIPImageProcessor", "DetrImageProcessor", "Qwen2VLImageProcessor"])
def test_a_folder_gives_a_processor_of_the_same_class_and_bits(automatic, tmp_path, name, backend):
    original(name, "torchvision").save_pretrained(tmp_path)
    ours = automatic.from_pretrained(tmp_path, backend=backend)
    theirs = automatic.from_pretrained(tmp_path, backend=BACKENDS[backend])
    images = [drawn_image(np.random.default_rng(1))]
    wanted, found = theirs(images, return_tensors="pt"), ours(images=images, return_tensors="pt")
    assert type(found) is type(wanted)
    assert differences(found, wanted) == []
    assert ours.backend == backend
    assert ours.to_dict() == theirs.to_dict()
    assert isinstance(ours, original(name, "torchvision").__class__) or backend != "stridedgpu"
    assert name != "CLIPImageProcessor" or sg.warmup(ours, return_tensors="pt") == ()
    revived = pickle.loads(pickle.dumps(ours))
    assert differences(revived(images, return_tensors="pt"), wanted) == []


def test_options_hold_when_they_are_set_and_saved(automatic, tmp_path):
    original("ViTImageProcessor", "torchvision", size=30).save_pretrained(tmp_path)
    ours = automatic.from_pretrained(tmp_path, backend="stridedgpu", image_std=[0.25, 0.25, 0.25])
    image = drawn_image(np.random.default_rng(2))
    assert ours(image, return_tensors="np")["pixel_values"].shape == (1, 3, 30, 30)
    ours.size = {"height": 20, "width": 24}
    assert ours(image, return_tensors="np")["pixel_values"].shape == (1, 3, 20, 24)
    ours.save_pretrained(tmp_path / "again")
    again = sg.image_processor(tmp_path / "again")
    assert again.to_dict()["image_std"] == [0.25, 0.25, 0.25]
    assert again.to_dict()["size"] == {"height": 20, "width": 24}


def test_a_device_of_a_call_holds_the_tensors(automatic, tmp_path):
    original("ViTImageProcessor", "torchvision", size=30).save_pretrained(tmp_path)
    ours = automatic.from_pretrained(tmp_path, backend="stridedgpu")
    image = drawn_image(np.random.default_rng(2))
    left = sg.image_processor(ours)(image, device="cuda-emulated")["pixel_values"]
    assert np.array_equal(left[0].numpy(), ours(image, return_tensors="np")["pixel_values"][0])


def test_what_belongs_to_images_is_refused(automatic, tmp_path):
    original("SegformerImageProcessor", "torchvision", size=30).save_pretrained(tmp_path)
    ours = automatic.from_pretrained(tmp_path, backend="stridedgpu")
    image = drawn_image(np.random.default_rng(2))
    with pytest.raises(ValueError, match="images alone are processed here"):
        ours(image, image[..., 0])
    with pytest.raises(ValueError, match="segmentation_maps= is not processed here"):
        ours(image, segmentation_maps=image[..., 0])


@pytest.mark.parametrize(
    "name, backend",
    [
        *((name, "stridedgpu") for name in ("RfDetrImageProcessor", "Kosmos2_5ImageProcessor", "Owlv2ImageProcessor")),
        ("Owlv2ImageProcessor", "stridedgpu-pil"),
        ("DINOv3ViTImageProcessor", "stridedgpu-pil"),
        ("VivitImageProcessor", "stridedgpu"),
    ],
)
def test_a_class_that_is_not_reproduced_is_refused_by_its_name(automatic, tmp_path, name, backend):
    getattr(transformers_library(), name)().save_pretrained(tmp_path)
    with pytest.raises(sg.LayoutError, match=f"{name} is not reproduced by backend='{backend}'.*'torchvision'"):
        automatic.from_pretrained(tmp_path, backend=backend)
    assert type(automatic.from_pretrained(tmp_path)) is getattr(transformers_library(), name)


def test_without_transformers_the_error_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "transformers"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(sg.DeviceError, match="pip install transformers"):
        register()


@pytest.mark.parametrize("name", ["Qwen3VLVideoProcessor", "VideoMAEVideoProcessor", "VideoLlama3VideoProcessor"])
def test_a_video_processor_has_the_class_and_the_bits_of_the_original(automatic, tmp_path, name):
    library = transformers_library()
    original(name, "torchvision").save_pretrained(tmp_path)
    ours = library.AutoVideoProcessor.from_pretrained(tmp_path, backend="stridedgpu")
    theirs = library.AutoVideoProcessor.from_pretrained(tmp_path)
    assert type(theirs) is type(original(name, "torchvision"))
    assert isinstance(ours, type(theirs))
    assert (ours.backend, ours.to_dict()) == ("stridedgpu", theirs.to_dict())
    clip = np.stack([drawn_image(np.random.default_rng(1))] * 9)
    call = {"return_tensors": "pt", "video_metadata": [{"total_num_frames": 9, "fps": 4.0}], "return_metadata": True}
    wanted, found = (one(clip, **call) for one in (theirs, ours))
    (known,), (stated,) = (features.pop("video_metadata") for features in (wanted, found))
    assert type(known) is type(stated)
    assert np.array_equal(known.frames_indices, stated.frames_indices)
    assert differences(found, wanted) == []
    revived = pickle.loads(pickle.dumps(ours))
    assert differences(revived(clip, **{**call, "return_metadata": False}), wanted) == []


def test_a_video_processor_that_is_not_reproduced_is_refused_by_transformers(automatic, tmp_path):
    original("Molmo2VideoProcessor", "torchvision").save_pretrained(tmp_path)
    with pytest.raises(ImportError, match="stridedgpu backend is not available"):
        transformers_library().AutoVideoProcessor.from_pretrained(tmp_path, backend="stridedgpu")
