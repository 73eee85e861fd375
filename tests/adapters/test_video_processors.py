"""Video processors beside transformers' own: the same keys, shapes, types and bits, for drawn videos and options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness.transformers_processors import differences, drawn_image, original

import stridedgpu as sg
from stridedgpu.adapters.image_processors.declaration import KINDS
from stridedgpu.adapters.image_processors.sampling import Recorded

NAMES = ("Qwen2VLVideoProcessor", "Qwen3VLVideoProcessor")
SMALL = {"size": {"shortest_edge": 28 * 28 * 8, "longest_edge": 28 * 28 * 40}}
OPTIONS: list[dict[str, Any]] = [
    {},
    SMALL,
    SMALL | {"cap_pixels_per_frame": True, "max_video_tokens": 40},
    SMALL | {"cap_pixels_per_frame": True, "max_video_tokens": 7},
    SMALL | {"patch_size": 10, "merge_size": 1, "temporal_patch_size": 3},
    SMALL | {"do_normalize": False},
    SMALL | {"do_rescale": False, "do_normalize": False},
]


def video(draw: np.random.Generator, frames: int) -> np.ndarray:
    """Frames that differ from each other, (T, H, W, C)."""
    image = drawn_image(draw, 60, 300)
    return np.stack([np.roll(image, 5 * number, 1) ^ np.uint8(number) for number in range(frames)])


def declared(name: str, **options: Any) -> dict[str, Any]:
    return {"video_processor_type": name, "do_sample_frames": False, **options}


@pytest.mark.interop
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_videos_have_the_bits_of_transformers(name, options):
    theirs = original(name, "torchvision", do_sample_frames=False, **options)
    draw = np.random.default_rng([3, len(name)])
    for ours in (sg.video_processor(theirs), sg.video_processor(declared(name, **options))):
        for lengths in ((4,), (3, 7, 6)):
            videos = [video(draw, length) for length in lengths]
            for tensors in (None, "np", "pt"):
                found, wanted = ours(videos, return_tensors=tensors), theirs(videos, return_tensors=tensors)
                assert differences(found, wanted) == []


@pytest.mark.interop
@pytest.mark.parametrize("name", NAMES)
def test_videos_come_as_arrays_tensors_and_lists_of_frames(name):
    theirs = original(name, "torchvision", do_sample_frames=False, **SMALL)
    ours = sg.video_processor(theirs)
    torch, image = pytest.importorskip("torch"), pytest.importorskip("PIL.Image")
    frames = video(np.random.default_rng(5), 5)
    planes = np.ascontiguousarray(frames.transpose(0, 3, 1, 2))
    pictures = [image.fromarray(frame) for frame in frames]
    for videos in (
        frames,
        [planes, planes[:4]],
        torch.from_numpy(planes),
        list(frames),
        pictures,
        [pictures, pictures[:3]],
        [list(frames[:2])],
    ):
        assert differences(ours(videos, return_tensors="np"), theirs(videos, return_tensors="np")) == []
    grey = planes[:, :1]
    assert differences(ours([grey], return_tensors="np"), theirs([grey], return_tensors="np")) == []


SAMPLINGS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("Qwen3VLVideoProcessor", {}, {}),
    ("Qwen3VLVideoProcessor", {}, {"video_metadata": {"total_num_frames": 30, "fps": 29.97}}),
    ("Qwen3VLVideoProcessor", {"fps": 5.5, "min_frames": 7}, {"video_metadata": [{"total_num_frames": 29, "fps": 12}]}),
    ("Qwen3VLVideoProcessor", {}, {"num_frames": 6, "fps": None}),
    ("Qwen3VLVideoProcessor", {"max_frames": 9}, {"fps": 30, "max_frames": 4}),
    ("Qwen3VLVideoProcessor", {"fps": None}, {}),
    ("Qwen3VLVideoProcessor", {}, {"num_frames": 6}),
    ("Qwen3VLVideoProcessor", {"max_video_tokens": 7}, {"cap_pixels_per_frame": True, "max_video_tokens": 40}),
    ("Qwen3VLVideoProcessor", {}, {"video_metadata": {"total_num_frames": 31, "fps": 30}}),
    ("Qwen2VLVideoProcessor", {"num_frames": 7}, {}),
    ("Qwen2VLVideoProcessor", {"fps": 2}, {"video_metadata": [[{"total_num_frames": 30, "fps": 7.5}]]}),
    ("Qwen2VLVideoProcessor", {"fps": 2}, {"video_metadata": {"total_num_frames": 30, "fps": 3}, "max_frames": 9}),
    ("Qwen2VLVideoProcessor", {"fps": 2, "temporal_patch_size": 3}, {"num_frames": 11, "fps": None}),
    ("Qwen2VLVideoProcessor", {"fps": 2}, {}),
    ("Qwen2VLVideoProcessor", {}, {}),
    ("Qwen2VLVideoProcessor", {}, {"num_frames": 34}),
]


@pytest.mark.interop
@pytest.mark.parametrize("name, options, call", SAMPLINGS)
def test_sampled_frames_are_those_of_transformers(name, options, call):
    """What a call says counts where it does in transformers; what transformers refuses is refused."""
    theirs = original(name, "torchvision", do_sample_frames=True, **SMALL, **options)
    ours, clip = sg.video_processor(theirs), video(np.random.default_rng(11), 30)
    try:
        wanted = theirs([clip], return_tensors="np", **call)
    except (ValueError, TypeError, IndexError):
        with pytest.raises(sg.LayoutError, match=r"num_frames|frame 30 of"):
            ours([clip], **call)
        return
    assert differences(ours([clip], return_tensors="np", **call), wanted) == []


@pytest.mark.interop
@pytest.mark.parametrize("name", NAMES)
def test_drawn_samplings_are_those_of_transformers(name):
    draw = np.random.default_rng(13)
    theirs = original(name, "torchvision", do_sample_frames=True)
    metadata = pytest.importorskip("transformers.video_utils").VideoMetadata
    for _ in range(500):
        whole = int(draw.integers(4, 8000))
        rate, fps = (float(draw.choice([0.5, 1, 2, 12.5, 24, 25, 29.97, 30, 59.94])) for _ in range(2))
        asked = {"fps": fps, "num_frames": None, "temporal_patch_size": 2, "min_frames": 4, "max_frames": 768}
        found = KINDS[name].sampling(asked, asked, Recorded(whole, rate))
        wanted = theirs.sample_frames(metadata=metadata(total_num_frames=whole, fps=rate), fps=fps)
        assert found == wanted.tolist(), (whole, rate, fps)


def test_frames_are_sampled_without_transformers():
    clip = np.stack([np.full((60, 64, 3), number, np.uint8) for number in range(20)])
    plain = {"do_rescale": False, "do_normalize": False, "do_resize": False, "patch_size": 4, "merge_size": 1}
    sampled = {**declared("Qwen3VLVideoProcessor", **plain), "do_sample_frames": True}
    found = sg.video_processor(sampled)([clip], video_metadata={"total_num_frames": 20, "fps": 5}, return_tensors="np")
    assert np.unique(found.pixel_values_videos).tolist() == [0, 3, 5, 8, 11, 14, 16, 19]
    stacks = {**declared("Qwen2VLVideoProcessor", **plain), "do_sample_frames": True, "num_frames": 6}
    assert np.unique(sg.video_processor(stacks)([clip])["pixel_values_videos"]).tolist() == [0, 3, 6, 10, 13, 16]


@pytest.mark.parametrize(
    "options, call, words",
    [
        ({"num_frames": 4, "fps": 2}, {}, "num_frames=4 and fps=2 both say"),
        ({"fps": 2}, {}, "does not say how many frames are taken: give both, or num_frames"),
        ({}, {}, "with fps=None and frames a second of None"),
        ({"num_frames": 9}, {}, "takes 8 frames of a video of 6"),
        ({"num_frames": 4}, {"video_metadata": {"total_num_frames": 8}}, r"takes frame 6 of videos\[0\], which has 6"),
        ({"num_frames": 4}, {"video_metadata": {"fps": 8}}, "must have total_num_frames, a whole number from 1 on"),
        ({"num_frames": 4}, {"video_metadata": [{"total_num_frames": 6, "fps": 0}]}, "and fps, frames a second, and"),
        ({"num_frames": 4}, {"video_metadata": []}, "video_metadata has 0 entries for 1 videos"),
        ({"num_frames": 4}, {"video_metadata": [5]}, r"video_metadata\[0\]=5 must have"),
        ({"num_frames": 8190}, {"video_metadata": {"total_num_frames": 8192}}, "whose places transformers rounds to"),
        ({"fps": 2}, {"video_metadata": {"total_num_frames": 10**400, "fps": 9}}, "all are below 16777216"),
        ({"fps": 2}, {"video_metadata": {"total_num_frames": 6, "fps": 5e-324}}, "all are below 16777216"),
        ({"num_frames": 0}, {}, "num_frames=0 must be a whole number from 1"),
        ({"fps": -1}, {}, "fps=-1 must be finite numbers above 0"),
    ],
)
def test_samplings_that_are_not_reproduced_are_refused(options, call, words):
    ours = sg.video_processor
    with pytest.raises(sg.LayoutError, match=words):
        ours({**declared("Qwen2VLVideoProcessor", **options), "do_sample_frames": True})(
            [video(np.random.default_rng(1), 6)], **call
        )


def test_a_video_on_another_device_gives_tensors_there():
    frames = video(np.random.default_rng(7), 3)
    ours = sg.video_processor(declared("Qwen2VLVideoProcessor", **SMALL))
    there = ours([frames], device="cuda-emulated")["pixel_values_videos"]
    assert there.device == "cuda-emulated"
    assert np.array_equal(there.to_device("cpu").numpy(), ours([frames])["pixel_values_videos"])


@pytest.mark.parametrize(
    "name, options, frames, words",
    [
        ("Qwen3VLVideoProcessor", {}, 1, "A video has 1 frames; this processor takes 2 at least"),
        ("Qwen2VLVideoProcessor", {"max_video_tokens": 0}, 4, "max_video_tokens=0 must be a whole number from 1"),
        ("Qwen2VLVideoProcessor", {"do_resize": False}, 4, "has no whole number of patches of 28 pixels"),
        ("Ernie4_5_VLMoeVideoProcessor", {}, 4, "Ernie4_5_VLMoeVideoProcessor is not reproduced; there are"),
    ],
)
def test_what_is_not_reproduced_is_refused(name, options, frames, words):
    with pytest.raises(sg.LayoutError, match=words):
        sg.video_processor(declared(name, **options))([video(np.random.default_rng(1), frames)])


def test_frames_of_several_sizes_and_the_other_backend_are_refused():
    ours = sg.video_processor(declared("Qwen2VLVideoProcessor"))
    still, other = np.zeros((60, 70, 3), np.uint8), np.zeros((60, 80, 3), np.uint8)
    with pytest.raises(sg.LayoutError, match=r"videos\[1\] has frames of the sizes \[\(60, 70\), \(60, 80\)\]"):
        ours([[still], [still, other]])
    with pytest.raises(sg.LayoutError, match=r"videos\[0\] has no frames"):
        ours([[], [still]])
    with pytest.raises(sg.LayoutError, match="backend='pil' is none of Qwen2VLVideoProcessor, whose only one is 'tor"):
        sg.video_processor(declared("Qwen2VLVideoProcessor"), backend="pil")


def test_a_narrow_rate_of_a_long_video_does_not_become_infinite():
    ours = sg.video_processor({**declared("Qwen3VLVideoProcessor"), "do_sample_frames": True})
    with pytest.raises(sg.LayoutError, match="takes frame 99999 of videos"):
        ours(video(np.random.default_rng(1), 6), video_metadata={"total_num_frames": 10**5, "fps": np.float16(0.5)})
