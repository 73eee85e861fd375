"""The outputs of each image processor, by their digests: a change of any bit is noticed without transformers.

`PYTHONPATH=tests python -m adapters.test_image_processor_digests` prints them anew, once
`test_image_processors.py` has compared the processors with transformers itself.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.adapters.image_processors.declaration import KINDS

DIGESTS = Path(__file__).with_name("image_processor_digests.txt")
OPTIONS = {
    "Gemma3ImageProcessor": {
        "do_pan_and_scan": True,
        "pan_and_scan_min_crop_size": 20,
        "pan_and_scan_max_num_crops": 3,
        "pan_and_scan_min_ratio_to_activate": 1.2,
    },
    "GotOcr2ImageProcessor": {"crop_to_patches": True, "size": {"height": 60, "width": 64}},
    "Cohere2VisionImageProcessor": {"size": {"height": 60, "width": 64}},
    "Ovis2ImageProcessor": {"crop_to_patches": True, "size": {"height": 60, "width": 64}},
    "GraniteDoclingImageProcessor": {"size": {"height": 40, "width": 40}, "max_patches": 9},
    "PerceptionLMImageProcessor": {"tile_size": 60, "max_num_tiles": 6},
    "Llama4ImageProcessor": {"size": {"height": 60, "width": 60}},
    "Phi4MultimodalImageProcessor": {"size": {"height": 60, "width": 60}},
    "MllamaImageProcessor": {"size": {"height": 60, "width": 60}},
    "LlavaOnevisionImageProcessor": {
        "size": {"height": 60, "width": 60},
        "image_grid_pinpoints": [[60, 120], [120, 60]],
    },
    "AriaImageProcessor": {"max_image_size": 490},
    "DeepseekOcr2ImageProcessor": {"size": {"height": 90, "width": 90}, "tile_size": 60},
    "UnlimitedOcrImageProcessor": {"size": {"height": 90, "width": 90}, "tile_size": 60},
    "Step3p7ImageProcessor": {"size": {"height": 90, "width": 90}, "patch_size": 50, "max_image_size": 140},
    "Idefics3ImageProcessor": {"size": {"longest_edge": 150}, "max_image_size": {"longest_edge": 50}},
    "SmolVLMImageProcessor": {"size": {"longest_edge": 150}, "max_image_size": {"longest_edge": 60}},
    "Idefics2ImageProcessor": {"do_image_splitting": True, "size": {"shortest_edge": 60, "longest_edge": 90}},
    "SamImageProcessor": {"size": {"longest_edge": 200}, "pad_size": {"height": 210, "width": 200}},
    "DetrImageProcessor": {"size": {"shortest_edge": 90, "longest_edge": 120}},
    "Mask2FormerImageProcessor": {"size": {"shortest_edge": 90, "longest_edge": 120}},
    "VideoLlama3VideoProcessor": {"return_metadata": False},
}
"""Options beside the defaults: sizes that are large by default, and steps that are off."""

SIZES = [(90, 160, 3), (70, 75, 3)]
IMAGES = [np.random.default_rng(number).integers(0, 256, size, np.uint8) for number, size in enumerate(SIZES)]
"""Two images whose resizes have the same pixels by either order of Pillow's passes."""

TRANSPARENT = np.random.default_rng(2).integers(0, 256, (80, 90, 4), np.uint8)
"""One more for the processors that make RGB of it."""

VIDEOS = [[IMAGES[0], IMAGES[0][::-1], IMAGES[0][:, ::-1]], [IMAGES[1]] * 2]


def digest(name: str, backend: str) -> str:
    """A digest of a processor's keys, shapes, types and bits."""
    is_video = KINDS[name].is_video
    made = sg.video_processor if is_video else sg.image_processor
    named = {"video_processor_type": name, "do_sample_frames": False} if is_video else {"image_processor_type": name}
    processor = made({**named, **OPTIONS.get(name, {})}, backend=backend)
    found = hashlib.sha256()
    images = IMAGES + [TRANSPARENT] * bool(KINDS[name].defaults["do_convert_rgb"])
    # NumPy has no bfloat16: its bits are seen as integers.
    tensors = None if KINDS[name].halves else "np"
    # Windows of videos that differ in size are no tensor.
    calls = (
        [[one] for one in VIDEOS]
        if KINDS[name].form.startswith(("videos", "padded_videos"))
        else [VIDEOS if is_video else images]
    )
    for call in calls:
        for key, value in processor(call, return_tensors=tensors).items():
            is_half = KINDS[name].halves and key == "pixel_values"
            array = np.concatenate([one.reinterpret("uint16").numpy() for one in value]) if is_half else value
            if isinstance(array, list):
                found.update(f"{key} {array}".encode())
                continue
            found.update(f"{key} {array.dtype.str} {array.shape}".encode())
            found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:24]


CASES = [(name, backend) for name, kind in KINDS.items() for backend in kind.backends]


def lines() -> list[str]:
    return [f"{name} {backend} {digest(name, backend)}" for name, backend in CASES]


@pytest.mark.parametrize("name, backend", CASES)
def test_outputs_are_what_they_were(name, backend):
    frozen = dict(line.rsplit(" ", 1) for line in DIGESTS.read_text(encoding="utf-8").splitlines())
    assert digest(name, backend) == frozen[f"{name} {backend}"]


if __name__ == "__main__":
    DIGESTS.write_text("\n".join(lines()) + "\n", encoding="utf-8")
