"""What docs/resize.md says of other libraries' pixels, with each library as its users install it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from harness.torchvision_transforms import torchvision_transforms
from harness.transformers_processors import transformers_library
from numpy.typing import NDArray

import stridedgpu as sg

Array = NDArray[Any]

IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
RANGES = {"uint8": 255, "uint16": 65535, "float32": 1}


@pytest.fixture
def cv2() -> Iterator[Any]:
    """OpenCV with Intel's IPP where the wheel has it, as after `pip install`: other tests switch it off."""
    library = pytest.importorskip("cv2", reason="the oracle is OpenCV")
    before = library.ipp.useIPP()
    library.ipp.setUseIPP(True)
    yield library
    library.ipp.setUseIPP(before)


def drawn(seed: int, dtype: str) -> Iterator[tuple[Array, tuple[int, int]]]:
    """Images of drawn sizes with 1 and 3 channels, (height, width, channels), and sizes to become."""
    rng = np.random.default_rng(seed)
    for number, (height, width, *target) in enumerate(rng.integers(16, 300, (20, 4)).tolist()):
        shape = height, width, (1, 3)[number % 2]
        values = rng.random(shape) if dtype == "float32" else rng.integers(0, RANGES[dtype], shape, endpoint=True)
        yield values.astype(dtype), (target[0], target[1])


def farthest(cv2: Any, name: str, dtype: str) -> float:
    """The largest difference of any value from OpenCV's, as a share of the range."""
    flag, most = getattr(cv2, f"INTER_{name.replace('-', '_').upper()}"), 0.0
    for image, (height, width) in drawn(len(name), dtype):
        expected = cv2.resize(image, (width, height), interpolation=flag).reshape(height, width, -1)
        made = sg.resize(image, (height, width), dims="HWC", interpolation=f"opencv-{name}").permute("HWC").numpy()
        most = max(most, float(np.abs(made.astype(float) - expected).max()))
    return most / RANGES[dtype]


@pytest.mark.parametrize("name", ["linear", "linear-exact", "nearest", "area"])
def test_uint8_has_the_bits_of_opencv_as_it_is_installed(cv2: Any, name: str) -> None:
    assert farthest(cv2, name, "uint8") == 0


@pytest.mark.parametrize("dtype", ["uint16", "float32"])
def test_wider_elements_have_opencvs_own_bits_and_are_near_those_of_ipp(cv2: Any, dtype: str) -> None:
    near = 1e-4 if cv2.ipp.useIPP() else 1e-6
    assert farthest(cv2, "linear", dtype) < near
    for name in ("nearest", "area"):
        assert farthest(cv2, name, dtype) < 1e-6
    cv2.ipp.setUseIPP(False)
    assert farthest(cv2, "linear", dtype) < (1e-6 if dtype == "float32" else 1e-9)


def test_cubic_is_at_most_one_level_from_opencv_as_it_is_installed(cv2: Any) -> None:
    assert farthest(cv2, "cubic", "uint8") <= 1 / 255
    assert farthest(cv2, "cubic", "uint16") < 1e-4


def test_a_box_is_pillows_in_another_order() -> None:
    pillow = pytest.importorskip("PIL")
    image = pytest.importorskip("PIL.Image", reason="the oracle is Pillow")
    photo = np.random.default_rng(0).integers(0, 256, (90, 130), np.uint8)
    left, upper, right, lower = 10.5, 20, 100.25, 70
    expected = image.fromarray(photo).resize((40, 60), image.Resampling.BILINEAR, box=(left, upper, right, lower))
    passes = "pillow-13" if int(pillow.__version__.split(".")[0]) >= 13 else "horizontal"
    made = sg.resize(photo, (60, 40), box=(upper, left, lower, right), passes=passes)
    np.testing.assert_array_equal(made.numpy(), np.asarray(expected))


@pytest.mark.interop
def test_divide_is_to_tensor_and_not_to_dtype_of_v2() -> None:
    transforms = torchvision_transforms()
    torch = pytest.importorskip("torch")
    v2 = pytest.importorskip("torchvision.transforms.v2")
    photo = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    normalize = transforms.Normalize(**IMAGENET)
    classic = normalize(transforms.ToTensor()(photo)).numpy()
    newer = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(**IMAGENET)])(photo).numpy()
    divided = sg.relayout(photo, dims="HWC", layout="CHW", dtype="float32", arithmetic="divide", **IMAGENET).numpy()
    np.testing.assert_array_equal(divided, classic)
    assert 0 < np.abs(divided - newer).max() < 8e-7


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_tensors_of_torch_are_resized_near_pillow_and_not_as_pillow(mode: str) -> None:
    torch = pytest.importorskip("torch", reason="the oracle is torch")
    photo = np.random.default_rng(0).integers(0, 256, (1, 3, 200, 300), np.uint8)
    shrunk = torch.nn.functional.interpolate(torch.from_numpy(photo), (70, 110), mode=mode, antialias=True).numpy()
    made = sg.resize(photo, (70, 110), interpolation=f"pillow-{mode}", passes="pillow-13").numpy()
    assert 0 < np.abs(made.astype(int) - shrunk).max() <= 2


@pytest.mark.interop
def test_processors_that_end_in_pil_are_pillow_and_the_default_ones_are_not() -> None:
    transformers = transformers_library()
    pillow = pytest.importorskip("PIL")
    passes = "pillow-13" if int(pillow.__version__.split(".")[0]) >= 13 else "horizontal"
    step = sg.Preprocess(resize=(224, 224), mean=0.5, std=0.5, arithmetic="divide", passes=passes)
    for photo in (np.random.default_rng(seed).integers(0, 256, (300 + seed, 500, 3), np.uint8) for seed in range(8)):
        [made] = step([photo])
        expected, default = (
            np.asarray(processor(photo, return_tensors="np").pixel_values[0])
            for processor in (transformers.ViTImageProcessorPil(), transformers.ViTImageProcessor())
        )
        np.testing.assert_array_equal(made, expected)
        assert 0 < np.abs(made - default).max() < 1.01 / 127.5
