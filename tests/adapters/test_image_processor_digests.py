"""The outputs of each image processor, by their digests: a change of any bit is noticed without transformers.

`PYTHONPATH=tests python -m adapters.test_image_processor_digests` prints them anew, once
`test_image_processors.py` has compared the processors with transformers itself.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from harness.processor_options import NEEDED

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
    "Idefics2ImageProcessor": {"do_image_splitting": True, "size": {"shortest_edge": 60, "longest_edge": 90}},
    "SamImageProcessor": {"size": {"longest_edge": 200}, "pad_size": {"height": 210, "width": 200}},
    "DetrImageProcessor": {"size": {"shortest_edge": 90, "longest_edge": 120}},
    "YolosImageProcessor": {"size": {"shortest_edge": 90, "longest_edge": 120}},
    "OneFormerImageProcessor": {"size": {"shortest_edge": 90, "longest_edge": 120}},
    "EomtImageProcessor": {"size": {"shortest_edge": 50, "longest_edge": 120}, "do_split_image": True, "do_pad": True},
    "Sam2ImageProcessor": {"size": 100},
    "DonutImageProcessor": {"size": {"height": 100, "width": 80}},
    "NougatImageProcessor": {"size": {"height": 100, "width": 80}},
    "SuperPointImageProcessor": {"size": {"height": 60, "width": 80}},
    "SuperGlueImageProcessor": {"size": {"height": 60, "width": 80}},
    "LightGlueImageProcessor": {"size": {"height": 60, "width": 80}},
    "EfficientLoFTRImageProcessor": {"size": {"height": 60, "width": 80}},
    "Sam3ImageProcessor": {"size": 100},
    "PPChart2TableImageProcessor": {"size": 100},
    "Sapiens2ImageProcessor": {"size": 100},
    "Mask2FormerImageProcessor": {"size": {"shortest_edge": 90, "longest_edge": 120}},
    "Qwen3VLVideoProcessor": {"do_sample_frames": False},
}
"""Options beside the defaults: sizes that are large by default, and steps that are off."""

ALONE = ("CHMv2ImageProcessor", "GLPNImageProcessor", "Swin2SRImageProcessor", "TextNetImageProcessor")
"""The processors whose results have several sizes: each image is a call."""

SIZES = [(90, 160, 3), (70, 75, 3)]
IMAGES = [np.random.default_rng(number).integers(0, 256, size, np.uint8) for number, size in enumerate(SIZES)]
"""Two images whose resizes have the same pixels by either order of Pillow's passes."""

TRANSPARENT = np.random.default_rng(2).integers(0, 256, (80, 90, 4), np.uint8)
"""One more for the processors that make RGB of it."""

VIDEOS = [[IMAGES[0], IMAGES[0][::-1], IMAGES[0][:, ::-1]], [IMAGES[1]] * 2]


def digest(name: str, backend: str) -> str:
    """A digest of a processor's keys, shapes, types and bits."""
    options = {**NEEDED.get(name, {}), **OPTIONS.get(name, {})}
    processor = sg.image_processor({"image_processor_type": name, **options}, backend=backend)
    found = hashlib.sha256()
    kind = KINDS[name]
    converts = kind.converts and kind.defaults["do_convert_rgb"]
    images = VIDEOS if kind.form == "clips" else IMAGES + [TRANSPARENT] * bool(converts)
    for call in [[image] for image in images] if name in ALONE else [images]:
        for key, values in processor(call, return_tensors="np").items():
            for value in values if isinstance(values, list) else [values]:
                shown = np.asarray(value)
                found.update(f"{key} {shown.dtype.str} {shown.shape}".encode())
                found.update(np.ascontiguousarray(shown).tobytes())
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
