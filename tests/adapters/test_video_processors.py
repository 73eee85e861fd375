"""Video processors beside transformers' own: the same keys, shapes, types and bits, for drawn videos and options."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from harness.processor_options import NEEDED, VIDEOS
from harness.transformers_processors import differences, drawn_image, original

import stridedgpu as sg
from stridedgpu.adapters.image_processors.declaration import KINDS
from stridedgpu.adapters.image_processors.sampling import Recorded

NAMES = [name for name, kind in KINDS.items() if kind.is_video]
CASES = [(name, {}) for name in NAMES] + [(name, one) for name, many in VIDEOS.items() for one in many]
STACKS = ("Qwen2VLVideoProcessor", "Qwen3VLVideoProcessor")
SMALL = {"size": {"shortest_edge": 28 * 28 * 8, "longest_edge": 28 * 28 * 40}}


def video(draw: np.random.Generator, frames: int) -> np.ndarray:
    """Frames that differ from each other, (T, H, W, C)."""
    image = drawn_image(draw, 60, 120)
    return np.stack([np.roll(image, 5 * number, 1) ^ np.uint8(number) for number in range(frames)])


def declared(name: str, **options: Any) -> dict[str, Any]:
    return {"video_processor_type": name, "do_sample_frames": False, **options}


def compared(ours: Any, theirs: Any, videos: Any, **call: Any) -> list[str]:
    """Where the two differ; what transformers cannot stack is refused here, too."""
    try:
        wanted = theirs(videos, **call)
    except (ValueError, RuntimeError):
        with pytest.raises(ValueError, match=r"\w"):
            ours(videos, **call)
        return []
    return differences(ours(videos, **call), wanted)


@pytest.mark.interop
@pytest.mark.parametrize(
    "name, options", [pytest.param(*case, id=f"{case[0]}-{number}") for number, case in enumerate(CASES)]
)
def test_videos_have_the_bits_of_transformers(name, options):
    theirs = original(name, "torchvision", do_sample_frames=False, **{**NEEDED.get(name, {}), **options})
    ours = sg.video_processor(theirs)
    draw = np.random.default_rng([3, *name.encode()])
    several = [video(draw, length) for length in (3, 2)]
    assert compared(ours, theirs, several) == []
    assert compared(ours, theirs, several, return_tensors="pt") == []
    assert compared(ours, theirs, np.stack([several[0], several[0][::-1]]), return_tensors="np") == []


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_many_drawn_videos_have_the_bits_of_transformers(name):
    needed = NEEDED.get(name, {})
    theirs = original(name, "torchvision", do_sample_frames=False, **needed)
    ours = sg.video_processor(declared(name, **needed))
    draw = np.random.default_rng([5, *name.encode()])
    for _ in range(6):
        image = drawn_image(draw, 30, 700)
        clip = np.stack([np.roll(image, 5 * number, 1) for number in range(int(draw.integers(2, 7)))])
        assert compared(ours, theirs, [clip], return_tensors="np") == []


@pytest.mark.interop
@pytest.mark.parametrize("name", [*STACKS, "VideoMAEVideoProcessor"])
def test_videos_come_as_arrays_tensors_lists_of_frames_and_iterators(name):
    theirs = original(name, "torchvision", do_sample_frames=False, **(SMALL if name in STACKS else {}))
    ours = sg.video_processor(theirs)
    torch, image = pytest.importorskip("torch"), pytest.importorskip("PIL.Image")
    frames = video(np.random.default_rng(5), 5)
    planes = np.ascontiguousarray(frames.transpose(0, 3, 1, 2))
    pictures = [image.fromarray(frame) for frame in frames]
    for videos in (
        frames,
        [planes, planes[:4]],
        np.stack([planes, planes]),
        torch.from_numpy(planes),
        [torch.from_numpy(frames)],
        list(frames),
        pictures,
        [pictures, pictures[:3]],
        [list(frames[:2])],
        [[planes], [planes[:3]]],
        (frames, frames[:2]),
    ):
        assert differences(ours(videos), theirs(videos)) == []
    for count, taken in ((5, frames), (3, frames[:3])):
        wanted = theirs([taken], return_tensors="np")
        known = {"video_metadata": {"total_num_frames": count}, "return_tensors": "np"}
        for videos in (iter(frames), [iter(pictures)]):
            assert differences(ours(videos, **known), wanted) == []
    gray = planes[:, :1]
    assert differences(ours([gray], return_tensors="np"), theirs([gray], return_tensors="np")) == []
    assert name == STACKS[1] or differences(ours(frames[0]), theirs([frames[:1]])) == []


class _Decoder:
    """Frames by their number, of which it counts those that are in memory."""

    def __init__(self, frames: np.ndarray) -> None:
        self.frames, self.given = frames, []

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, number: int) -> np.ndarray:
        self.given.append(number)
        return self.frames[number]


def test_a_decoder_gives_the_frames_that_are_taken_and_no_others():
    frames = video(np.random.default_rng(5), 20)
    ours = sg.video_processor({**declared("LlavaOnevisionVideoProcessor"), "do_sample_frames": True, "size": 40})
    decoder = _Decoder(frames)
    found = ours(decoder, num_frames=5, return_tensors="np")["pixel_values_videos"]
    assert decoder.given == [0, 4, 8, 12, 16]
    assert np.array_equal(found, ours(frames, num_frames=5, return_tensors="np")["pixel_values_videos"])


class _Surface(np.ndarray):
    """A frame that says when it is let go."""

    alive = 0

    def __del__(self) -> None:
        _Surface.alive -= self.base is None


@pytest.mark.parametrize("name", ["VideoMAEVideoProcessor", "Qwen3VLVideoProcessor", "Gemma4VideoProcessor"])
def test_frames_of_an_iterator_are_let_go_while_it_is_read(name):
    most = 0

    def frames() -> Any:
        nonlocal most
        for number in range(40):
            frame = np.ndarray.__new__(_Surface, (64, 80, 3), np.uint8)
            frame[...] = number
            _Surface.alive += 1
            most = max(most, _Surface.alive)
            yield frame
            del frame

    _Surface.alive = 0
    sg.video_processor(declared(name))(frames(), video_metadata={"total_num_frames": 40})
    assert most <= 12


def test_luma_and_chroma_have_the_bits_of_their_rgb_image():
    draw = np.random.default_rng(9)
    memory = [draw.integers(0, 256, 96 * 128 * 3 // 2, np.uint8) for _ in range(4)]
    frames = [sg.Frame.over("nv12", one, (96, 128)) for one in memory]
    images = [frame.relayout() for frame in frames]
    for name in ("Qwen3VLVideoProcessor", "VideoMAEVideoProcessor", "Glm5NextVideoProcessor"):
        for options in ({}, {"do_resize": False}):
            patches = {"patch_size": 16} if name != "VideoMAEVideoProcessor" else {}
            ours = sg.video_processor(declared(name, **options, **patches))
            assert differences(ours(frames), ours(images)) == []
    mixed = [frames[0], images[1], frames[2], images[3]]
    ours = sg.video_processor(declared("Qwen3VLVideoProcessor"))
    assert differences(ours(mixed), ours(images)) == []


def test_frames_of_pyav_have_the_bits_of_their_rgb_images():
    av = pytest.importorskip("av", reason="the frames are PyAV's")
    images = video(np.random.default_rng(9), 5)[:, :60, :62]
    frames = [av.VideoFrame.from_ndarray(np.ascontiguousarray(one)).reformat(format="yuv420p") for one in images]
    wanted = [sg.Frame.of(frame).relayout() for frame in frames]
    for name in ("Qwen3VLVideoProcessor", "VideoMAEVideoProcessor", "SmolVLMVideoProcessor"):
        ours = sg.video_processor(declared(name))
        known = {"video_metadata": {"total_num_frames": 5}}
        assert differences(ours(iter(frames), **known), ours(wanted, **known)) == []


def test_bytes_stay_bytes_where_nothing_is_computed():
    clip = video(np.random.default_rng(7), 4)
    plain = {"do_rescale": False, "do_normalize": False}
    for name, key in (("Qwen3VLVideoProcessor", "pixel_values_videos"), ("VideoMAEVideoProcessor", "pixel_values")):
        assert sg.video_processor(declared(name))(clip, **plain, return_tensors="np")[key].dtype == np.uint8


# ---- sources


@pytest.mark.interop
def test_a_processor_comes_from_an_object_a_dict_a_file_and_a_folder(tmp_path):
    theirs = original("VideoMAEVideoProcessor", "torchvision", size={"shortest_edge": 64}, crop_size=48)
    theirs.save_pretrained(tmp_path)
    clip = video(np.random.default_rng(3), 3)
    wanted = theirs([clip], return_tensors="np")
    for source in (theirs, theirs.to_dict(), tmp_path / "video_preprocessor_config.json", str(tmp_path)):
        assert differences(sg.video_processor(source)([clip], return_tensors="np"), wanted) == []
    ours = sg.video_processor(theirs)
    again = [sg.video_processor(ours.to_dict()), pickle.loads(pickle.dumps(ours)), sg.image_processor(theirs)]
    for one in again:
        assert differences(one([clip], return_tensors="np"), wanted) == []
    assert repr(ours).startswith("VideoProcessor('VideoMAEVideoProcessor', backend='torchvision', size=")


def test_folders_and_files_of_older_models_name_the_image_processor(tmp_path):
    clip = video(np.random.default_rng(3), 4)
    wanted = sg.video_processor(declared("Qwen2VLVideoProcessor", **SMALL))([clip], return_tensors="np")
    path = tmp_path / "preprocessor_config.json"
    path.write_text(json.dumps({"image_processor_type": "Qwen2VLImageProcessor", **SMALL}))
    for source in (tmp_path, path):
        assert differences(sg.video_processor(source)([clip], return_tensors="np"), wanted) == []
    nested = {"video_processor": declared("Qwen2VLVideoProcessor"), "image_processor": {"image_processor_type": "No"}}
    (tmp_path / "processor_config.json").write_text(json.dumps(nested))
    assert sg.video_processor(tmp_path).to_dict()["size"] == KINDS["Qwen2VLVideoProcessor"].defaults["size"]


def test_a_size_of_vjepa_is_that_of_its_crop():
    made = sg.video_processor(declared("VJEPA2VideoProcessor", crop_size=384, size={"shortest_edge": 7}))
    assert made.to_dict()["size"] == {"shortest_edge": 438}


@pytest.mark.interop
def test_older_files_of_smolvlm_say_how_frames_are_sampled():
    older = {"video_sampling": {"max_frames": 5, "fps": 1, "video_size": {"longest_edge": 90}}}
    declares = {**declared("SmolVLMVideoProcessor", **older), "do_sample_frames": True}
    theirs = original("SmolVLMVideoProcessor", "torchvision", do_sample_frames=True, **older)
    clip = video(np.random.default_rng(3), 30)
    call = {"video_metadata": [{"total_num_frames": 30, "fps": 4.0, "duration": 7.5}], "return_tensors": "np"}
    for source in (declares, theirs):
        assert differences(sg.video_processor(source)([clip], **call), theirs([clip], **call)) == []


@pytest.mark.parametrize(
    "source, words",
    [
        ({"video_processor_type": "ViTImageProcessor"}, "ViTImageProcessor is an image processor: sg.image_processor"),
        ({"image_processor_type": "CLIPImageProcessor"}, "CLIPImageProcessor is an image processor"),
        ({"video_processor_type": "Qwen3VideoProcessor"}, "is not reproduced; there are .*Did you mean Qwen3VL"),
        ({}, "source has no 'video_processor_type'"),
        (7, "source=7 is no video processor of transformers, .*video_preprocessor_config.json"),
        ("nowhere", "source='nowhere' is no file: give a video_preprocessor_config.json"),
    ],
    ids=str,
)
def test_what_is_no_video_processor_is_refused(source, words):
    with pytest.raises(sg.LayoutError, match=words):
        sg.video_processor(source)


# ---- sampling

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


RATES = (0.5, 1, 2, 7.5, 12.5, 24, 25, 29.97, 30, 59.94)


@pytest.mark.interop
@pytest.mark.parametrize("name", NAMES)
def test_drawn_samplings_are_those_of_transformers(name):
    """Rules alone, for videos of up to hours: what transformers refuses is refused, and little else."""
    draw = np.random.default_rng([13, *name.encode()])
    theirs = original(name, "torchvision", do_sample_frames=True)
    metadata = pytest.importorskip("transformers.video_utils").VideoMetadata
    own, refused = KINDS[name].defaults, 0
    for _ in range(120):
        whole = int(draw.integers(2, 20000))
        rate = None if draw.random() < 0.1 else float(draw.choice(RATES))
        duration = None if rate is None or draw.random() < 0.3 else whole / rate
        call: dict[str, Any] = {key: own[key] for key in own if key in theirs.valid_kwargs.__annotations__}
        kind = draw.integers(0, 3)
        if kind == 1:
            call |= {"fps": float(draw.choice(RATES)), "num_frames": None}
        elif kind == 2:
            call |= {"num_frames": int(draw.integers(1, 60)), "fps": None}
        if "initial_shift" in call:
            call["initial_shift"] = (True, False, 0.25, 1, 1.75)[int(draw.integers(5))]
        known = Recorded(whole, rate, duration)
        try:
            wanted = theirs.sample_frames(
                metadata=metadata(total_num_frames=whole, fps=rate, duration=duration), **call
            )
        except (ValueError, TypeError, ZeroDivisionError):
            with pytest.raises(sg.LayoutError, match=r"\w"):
                KINDS[name].sampling(own, {**own, **call}, known)
            continue
        try:
            found = KINDS[name].sampling(own, {**own, **call}, known)
        except sg.LayoutError as refusal:
            assert "do_sample_frames=True takes" in str(refusal)
            refused += 1
            continue
        assert found == [int(number) for number in wanted], (whole, rate, duration, call)
    assert refused < 25


@pytest.fixture
def lettering(tmp_path):
    """The file of a font."""
    path = tmp_path / "letters.ttf"
    path.write_bytes(pytest.importorskip("PIL.ImageFont").load_default(12).font_bytes)
    return path


@pytest.mark.interop
@pytest.mark.parametrize("source", ["object", "dict", "folder"])
def test_the_time_is_drawn_into_frames_as_in_transformers(lettering, source):
    name = "Ernie4_5_VLMoeVideoProcessor"
    theirs = original(name, "torchvision", font=str(lettering), min_frames=3, fps=2.5)
    theirs.save_pretrained(lettering.parent)
    given = {"object": theirs, "dict": {**theirs.to_dict(), "font": str(lettering)}, "folder": lettering.parent}[source]
    ours = sg.video_processor(given)
    clip = video(np.random.default_rng(11), 9)
    known = {"total_num_frames": 90_000, "fps": 23.976, "frames_indices": [number * 9_001 for number in range(9)]}
    for call in (
        {"do_sample_frames": False},
        {"do_sample_frames": False, "video_metadata": [known]},
        {"video_metadata": [{"total_num_frames": 9, "fps": 7.0}]},
        {"num_frames": 5, "fps": None},
    ):
        found, wanted = (one([clip.copy()], return_metadata=True, **call) for one in (ours, theirs))
        (known_here,), (known_there,) = (features.pop("video_metadata") for features in (found, wanted))
        assert differences(found, wanted) == []
        assert known_here.fps == known_there.fps


def test_what_cannot_be_drawn_is_refused(lettering):
    ours = sg.video_processor(declared("Ernie4_5_VLMoeVideoProcessor", font=str(lettering)))
    clip = video(np.random.default_rng(11), 4)
    with pytest.raises(sg.LayoutError, match="draw_on_frames=True needs frames_indices in video_metadata"):
        ours([clip], video_metadata=[{"total_num_frames": 4, "fps": 2}])
    with pytest.raises(sg.LayoutError, match=r"needs RGB frames of 10 pixels a side, .* sizes \(3, 9, 30\)"):
        ours([np.zeros((2, 9, 30, 3), np.uint8)])
    with pytest.raises(sg.LayoutError, match=r"font='nowhere\.ttf' cannot be read; it is the path of the model's font"):
        ours([clip], font="nowhere.ttf")


def test_frames_are_sampled_without_transformers():
    clip = np.stack([np.full((60, 64, 3), number, np.uint8) for number in range(20)])
    plain = {"do_rescale": False, "do_normalize": False, "do_resize": False, "patch_size": 4, "merge_size": 1}
    sampled = {**declared("Qwen3VLVideoProcessor", **plain), "do_sample_frames": True}
    known = {"video_metadata": {"total_num_frames": 20, "fps": 5}, "return_tensors": "np"}
    for videos in ([clip], iter(clip)):
        found = sg.video_processor(sampled)(videos, **known, return_metadata=True)
        assert np.unique(found.pixel_values_videos).tolist() == [0, 3, 5, 8, 11, 14, 16, 19]
        (metadata,) = found.video_metadata
        assert (metadata.fps, metadata.frames_indices) == (5, [0, 3, 5, 8, 11, 14, 16, 19])
    stacks = {**declared("Qwen2VLVideoProcessor", **plain), "do_sample_frames": True, "num_frames": 6}
    assert np.unique(sg.video_processor(stacks)([clip])["pixel_values_videos"]).tolist() == [0, 3, 6, 10, 13, 16]


@pytest.mark.interop
@pytest.mark.parametrize("name", NAMES)
def test_keys_come_in_the_order_of_transformers(name):
    theirs = original(name, "torchvision", do_sample_frames=False, return_metadata=True, **NEEDED.get(name, {}))
    clip = video(np.random.default_rng(3), 4)
    assert list(sg.video_processor(theirs)([clip])) == list(theirs([clip]))


@pytest.mark.interop
def test_metadata_are_those_of_transformers():
    theirs = original("Qwen3VLVideoProcessor", "torchvision", **SMALL)
    clip = video(np.random.default_rng(3), 6)
    for call in ({}, {"video_metadata": [{"total_num_frames": 6, "fps": 8.0, "duration": 0.75, "width": 9}]}):
        for sampled in (False, True):
            options = {**call, "return_metadata": True, "do_sample_frames": sampled}
            (wanted,) = theirs([clip], **options)["video_metadata"]
            (found,) = sg.video_processor(theirs)([clip], **options)["video_metadata"]
            given = {key: value if value is None else np.array(value).tolist() for key, value in dict(wanted).items()}
            assert dict(found) == given


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
        ({"num_frames": 4}, {"video_metadata": {"total_num_frames": 6, "duration": -1}}, "and duration, seconds"),
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


def test_a_narrow_rate_of_a_long_video_does_not_become_infinite():
    ours = sg.video_processor({**declared("Qwen3VLVideoProcessor"), "do_sample_frames": True})
    with pytest.raises(sg.LayoutError, match="takes frame 99999 of videos"):
        ours(video(np.random.default_rng(1), 6), video_metadata={"total_num_frames": 10**5, "fps": np.float16(0.5)})


# ---- what is refused


def test_a_video_on_another_device_gives_tensors_there():
    frames = video(np.random.default_rng(7), 3)
    for name, key in (("Qwen2VLVideoProcessor", "pixel_values_videos"), ("VideoMAEVideoProcessor", "pixel_values")):
        ours = sg.video_processor(declared(name, **(SMALL if name in STACKS else {"crop_size": 40})))
        there = ours([frames], device="cuda-emulated")[key]
        there = there if name in STACKS else there[0]
        assert there.device == "cuda-emulated"
        near = ours([frames])[key]
        assert np.array_equal(there.to_device("cpu").numpy(), near if name in STACKS else near[0])


STILL = np.zeros((60, 70, 3), np.uint8)


@pytest.mark.parametrize(
    "videos, call, words",
    [
        ([[STILL], [STILL, STILL[:, 1:]]], {}, r"videos\[1\] has frames of the sizes \[\(60, 69\), \(60, 70\)\]"),
        ([[], [STILL]], {}, r"videos\[0\] has no frames"),
        ([], {}, "videos is empty"),
        (iter([]), {"video_metadata": {"total_num_frames": 3}}, r"videos\[0\] has no frames"),
        (iter([STILL]), {}, r"videos\[0\] is an iterator, of unknown length: give video_metadata="),
        (iter([STILL] * 4), {"video_metadata": {"total_num_frames": 6}}, r"has no frame 4, though 6 frames were"),
        ([STILL, [STILL]], {}, "videos has frames beside other things"),
        ([[[[[[STILL]]]]]], {}, "videos has lists more than 4 deep"),
        ("clip.mp4", {}, "videos has a str; a video is a list or an iterator of frames.*decode a file first"),
        ([None], {}, "videos has a NoneType"),
        (
            [STILL, np.zeros((60, 70, 2), np.uint8)],
            {},
            r"videos\[0\]\[1\] has sizes \(60, 70, 2\), and neither .* 1 or 3",
        ),
        ([np.zeros((3, 60, 70, 4), np.uint8)], {}, "channels: say which with input_data_format"),
        ([STILL, STILL[..., :1]], {"do_convert_rgb": False}, r"videos\[0\]\[1\] has 1 channels and videos\[0\]"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_videos_that_are_none_are_refused(videos, call, words):
    with pytest.raises(sg.LayoutError, match=words):
        sg.video_processor(declared("Qwen2VLVideoProcessor"))(videos, **call)


def test_frames_that_are_not_bytes_are_refused_by_their_number():
    ours = sg.video_processor(declared("VideoMAEVideoProcessor"))
    with pytest.raises(sg.ElementTypeError, match=r"videos\[1\]\[2\] holds float32"):
        ours([[STILL] * 3, [STILL, STILL, STILL.astype(np.float32)]])
    deep = sg.Frame.over("p010", np.zeros(24 * 32 * 3 // 2, np.uint16), (24, 32))
    with pytest.raises(sg.ElementTypeError, match=r"videos\[0\]\[0\] is a frame of p010"):
        ours([[deep]])


@pytest.mark.parametrize(
    "name, options, frames, words",
    [
        ("Qwen3VLVideoProcessor", {}, 1, "A video has 1 frames; this processor takes 2 at least"),
        ("Qwen2VLVideoProcessor", {"max_video_tokens": 0}, 4, "max_video_tokens=0 must be a whole number from 1"),
        ("Qwen2VLVideoProcessor", {"do_resize": False}, 4, "has no whole number of patches of 28 pixels"),
        ("Qwen2VLVideoProcessor", {"backend": "pil"}, 4, "backend='pil' is none of Qwen2VLVideoProcessor, whose only"),
        ("Cosmos3EdgeVideoProcessor", {"temporal_patch_size": 2}, 4, "temporal_patch_size=2 must be a whole number"),
        ("MiniMaxM3VLVideoProcessor", {"size": 40, "min_pixels": 0}, 4, "min_pixels=0 must be a whole number"),
        (
            "HYV4VLVideoProcessor",
            {"max_image_size": {"height": 4, "width": 4}},
            4,
            "max_image_size=.* must have longest",
        ),
        ("NemotronH_Omni_Reasoning_V3VideoProcessor", {}, 4, "norm_mean=None and norm_std=None must have a number"),
        ("Glm5NextVideoProcessor", {"max_image_tokens": 1}, 6, "A video has 6 frames; with 1 tokens at most"),
        ("Gemma4VideoProcessor", {"max_soft_tokens": 71}, 4, "max_soft_tokens=71 is not taken; it is one of 70, 140"),
        ("Qwen3VLVideoProcessor", {"max_frames": None}, 4, "max_frames=None must be a whole number from 1"),
        ("Glm4vVideoProcessor", {"max_duration": -1}, 4, "max_duration=-1 must be a whole number from 0"),
        ("SmolVLMVideoProcessor", {"do_resize": False}, 4, "do_resize=False with max_image_size=.* is not reproduced"),
        ("MiniCPMV4_6VideoProcessor", {"stack_frames": 2}, 4, "stack_frames=2 with do_resize=True is not reproduced"),
        ("InternVLVideoProcessor", {"do_sample_frames": True}, 4, "needs num_frames or fps, which say how many frames"),
        (
            "InternVLVideoProcessor",
            {"do_sample_frames": True, "num_frames": 2, "initial_shift": "much"},
            4,
            "initial_shift='much' must be a place in the video, from 0 to below 4",
        ),
        ("Molmo2VideoProcessor", {}, 4, "Molmo2VideoProcessor is not reproduced: it resizes floats without antialias"),
        (
            "Ernie4_5_VLMoeVideoProcessor",
            {"do_sample_frames": True, "draw_on_frames": False, "num_frames": 4},
            4,
            "num_frames=4 must be from min_frames=16 to max_frames=180",
        ),
    ],
)
def test_what_is_not_reproduced_is_refused(name, options, frames, words):
    backend = options.pop("backend", None)
    source = {**declared(name), **options} if None not in options.values() else None
    with pytest.raises(sg.LayoutError, match=words):
        if source is None:  # None in a dict is the default
            sg.video_processor(declared(name))([STILL] * frames, **options)
        sg.video_processor(source, backend=backend)([video(np.random.default_rng(1), frames)])


def test_an_option_that_a_class_lacks_is_a_type_error():
    with pytest.raises(TypeError, match="VideoMAEVideoProcessor has no option 'merge_size'; it has"):
        sg.video_processor(declared("VideoMAEVideoProcessor"))([STILL], merge_size=2)
