"""Good calls on frames and videos, for `harness.malformed_calls` to spoil: every format, view and operation."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from harness.torchcodec_frames import RawFrame, loaded, raw_frame

import stridedgpu as sg
from stridedgpu.values.pixel_formats import FFMPEG_NAMES, PIXEL_FORMATS

if TYPE_CHECKING:
    from harness.malformed_calls import Scene

__all__ = ["FRAME_OPERATIONS"]

Function = Callable[..., Any]
Arguments = dict[str, Any]

_BYTES: Final = tuple(name for name, row in PIXEL_FORMATS.items() if row.bits == 8)
_DEEP: Final = tuple(name for name, row in PIXEL_FORMATS.items() if row.bits > 8)
_NAMES: Final = {ours: theirs for theirs, ours in FFMPEG_NAMES.items() if not theirs.startswith("yuvj")}
_SIZES: Final = ((4, 6), (4, 6), (8, 4), (5, 7), (4, 1))


def _plane_bytes(name: str, sizes: tuple[int, int]) -> list[int]:
    row = PIXEL_FORMATS[name]
    return [prod(plane.sizes(sizes)) * row.element.itemsize for plane in row.planes]


def _colours(scene: Scene, name: str) -> Arguments:
    colours = {"matrix": scene.pick("bt601", "bt709", "bt2020"), "full_range": scene.often()}
    if name in ("i420", "yv12", "i422", "i444") and scene.often():
        return {**colours, "arithmetic": "swscale"}
    return {**colours, "chroma": scene.pick("repeated", "linear")}


def _surface(scene: Scene, formats: tuple[str, ...] | None = None, sizes: tuple[int, int] = (4, 6)) -> sg.Frame:
    """A frame of one of these formats; of whole chroma, it is now and then a view."""
    name = scene.pick(*(formats or scene.pick(_BYTES, _DEEP)))
    made = sg.Frame.over(name, scene.memory(sum(_plane_bytes(name, sizes))), sizes, **_colours(scene, name))
    if scene.often(0.2) and made.chroma == "repeated" and not name.startswith(("y", "uy")):
        return scene.pick(made.mirrored, lambda: made.rotated(180))()
    return made


def _surfaces(scene: Scene) -> list[sg.Frame]:
    formats = scene.pick(_BYTES, _DEEP)
    return [_surface(scene, formats) for _ in range(2)]


def _values(scene: Scene) -> Arguments:
    """Options of a conversion."""
    return scene.pick(
        {"scale": scene.pick(2.0, (1.0, 2.0, 3.0)), "bias": scene.pick(None, 1.0)},
        {"channels": (2, 1, 0), "rounding": "truncate"},
        {"matrix": [[0.3, 0.6, 0.1], [1, 0, 0], [0, 0, 1]]},
        {"mean": 0.5, "std": (0.2, 0.3, 0.4), "arithmetic": scene.pick("divide", "torchvision-v2")},
        {"normalize": "imagenet"},
    )


def _result(scene: Scene, options: Arguments, sizes: tuple[int, ...]) -> Arguments:
    """The options with a type and a layout of the result, or the tensor that it is written into."""
    if scene.often(0.4):
        return {**options, "out": scene.out(sizes, "float32", "NCHW"[-len(sizes) :])}
    return {**options, "dtype": scene.pick("float32", "float16"), "layout": scene.pick(None, "NHWC", "NCHW")}


def _relayout(scene: Scene) -> tuple[Function, Arguments]:
    options = {"src": _surface(scene), **_values(scene)}
    made = _result(scene, options, (3, 4, 6))
    return sg.relayout, made if "out" in made else {**made, "layout": scene.pick(None, "HWC")}


def _relayout_several(scene: Scene) -> tuple[Function, Arguments]:
    return sg.relayout, _result(scene, {"src": _surfaces(scene), **_values(scene)}, (2, 3, 4, 6))


def _into(scene: Scene) -> tuple[Function, Arguments]:
    """Into a frame over memory all of whose bytes may be written, or into one of planes with gaps between the rows."""
    name, (height, width) = scene.pick(*PIXEL_FORMATS), scene.pick(*_SIZES)
    row = PIXEL_FORMATS[name]
    options = {"matrix": scene.pick("bt601", "bt709"), "full_range": scene.often()}
    if scene.often():
        memory = scene.may_write(scene.memory(sum(_plane_bytes(name, (height, width)))))
        frame = sg.Frame.over(name, memory, (height, width), **options)
    else:
        planes = [scene.out(plane.sizes((height, width)), row.element.name) for plane in row.planes]
        frame = sg.Frame(name, planes, sizes=(height, width), **options)
    source = scene.array((height, width, 3), row.element.name)
    return sg.relayout, {"src": source, "dims": "HWC", "out": frame, "channels": scene.pick(None, (2, 1, 0))}


def _resize(scene: Scene) -> tuple[Function, Arguments]:
    options = {
        "src": scene.pick(_surface, _surfaces)(scene),
        "size": (3, 5),
        "interpolation": scene.pick("pillow-bilinear", "opencv-linear", "opencv-area", "pillow-nearest"),
        "box": scene.pick(None, (0, 0, 4, 4), (0.5, 1.5, 3.0, 5.0)),
        **_values(scene),
    }
    is_batch = isinstance(options["src"], list)
    made = _result(scene, options, (2, 3, 3, 5) if is_batch else (3, 3, 5))
    return sg.resize, made if "out" in made or is_batch else {**made, "layout": None}


def _letterbox(scene: Scene) -> tuple[Function, Arguments]:
    options = {
        "images": _surfaces(scene),
        "size": (8, 8),
        "value": scene.pick(114, (1, 2, 3)),
        "interpolation": scene.pick("opencv-linear", "pillow-bilinear"),
        "scale_up": scene.often(),
        **_values(scene),
    }
    return sg.letterbox, _result(scene, options, (2, 3, 8, 8))


def _crops(scene: Scene) -> tuple[Function, Arguments]:
    options = {"sources": _surfaces(scene), "size": (2, 3), "fill": scene.pick(0, (1, 2, 3)), **_values(scene)}
    if scene.often():
        options |= {"origins": scene.pick([(0, 0), (1, -2)], scene.array((2, 2), "int64", (0, 2)))}
        options |= {"flip": scene.pick(None, True, (True, False))}
    else:
        options |= {"boxes": [(0, 0, 4, 4), (0.5, 1, 3, 4.5)], "interpolation": scene.pick("opencv-linear", None)}
        del options["fill"]
    return sg.gather_crops, _result(scene, options, (2, 3, 2, 3))


def _frame(scene: Scene) -> tuple[Function, Arguments]:
    name, sizes = scene.pick(*PIXEL_FORMATS), scene.pick(*_SIZES)
    row = PIXEL_FORMATS[name]
    planes = [scene.array(plane.sizes(sizes), row.element.name) for plane in row.planes]
    return sg.Frame, {"format": name, "planes": planes, "sizes": sizes, **_colours_of_odd(scene, name, sizes)}


def _colours_of_odd(scene: Scene, name: str, sizes: tuple[int, int]) -> Arguments:
    return _colours(scene, name if sizes[0] % 2 == 0 else "nv12")


def _over(scene: Scene) -> tuple[Function, Arguments]:
    name, sizes = scene.pick(*PIXEL_FORMATS), scene.pick(*_SIZES)
    count = len(PIXEL_FORMATS[name].planes)
    options: Arguments = {"format": name, "memory": scene.memory(1024), "sizes": sizes}
    options["row_pitch_bytes"] = scene.pick(None, 32, (32,) * count)
    options["plane_offsets_bytes"] = scene.pick(None, tuple(range(0, 320 * count, 320)))
    return sg.Frame.over, {**options, **_colours_of_odd(scene, name, sizes)}


def _of_planes(scene: Scene) -> tuple[Function, Arguments]:
    """`Frame.of` of planes by their names."""
    chroma = {name: scene.array((2, 3), "uint8") for name in "uv"}
    planes = scene.pick(
        {"y": scene.array((4, 6), "uint8"), **chroma},
        {"y": scene.array((4, 6), "uint8"), "uv": scene.array((2, 6), "uint8")},
        {"g": scene.array((4, 6), "uint8"), "b": scene.array((4, 6), "uint8"), "r": scene.array((4, 6), "uint8")},
        {"yuyv": scene.array((4, 3, 4), "uint8")},
    )
    options = {"matrix": scene.pick(None, "bt709"), "full_range": scene.pick(None, True), "chroma": "repeated"}

    def of(matrix: Any, full_range: Any, chroma: Any, **planes: Any) -> sg.Frame:
        return sg.Frame.of(planes, matrix=matrix, full_range=full_range, chroma=chroma)

    if scene.often(0.3):
        return _first(sg.Frame.of, "frame"), {"frame": planes, **options}
    return of, {**options, **planes}


def _of_raw_frame(scene: Scene) -> tuple[Function, Arguments]:
    """`Frame.of` of TorchCodec's frame, what it states being spoiled."""
    name = scene.pick(*(name for name in PIXEL_FORMATS if name not in ("yv12", "nv61")))
    made = sg.Frame.over(name, scene.memory(sum(_plane_bytes(name, (4, 6)))), (4, 6))
    raw = raw_frame(_NAMES.get(name, name), made, color_space=scene.pick("bt709", "unknown"), color_range="pc")
    stated = {field: getattr(raw, field) for field in ("height", "width", "planes", "color_space", "color_range")}

    def of(pixel_format: Any, matrix: Any, full_range: Any, **stated: Any) -> sg.StridedTensor:
        with loaded():
            frame = sg.Frame.of(RawFrame(pixel_format, **stated), matrix=matrix, full_range=full_range)
            return sg.relayout(frame)

    return of, {"pixel_format": raw.pixel_format, "matrix": None, "full_range": None, **stated}


def _methods(scene: Scene) -> tuple[Function, Arguments]:
    frame = _surface(scene, ("nv12", "i444", "gray10", "rgba", "gbrp"))
    frame = sg.Frame(frame.format, frame.planes, sizes=frame.sizes)
    return scene.pick(
        (_first(frame.rotated, "degrees"), {"degrees": scene.pick(90, -90.0, 180, 0)}),
        (_first(frame.to_device, "device"), {"device": "cpu"}),
        (frame.relayout, {**_values(scene), "dtype": "float32", "alignment": 64, "device": None}),
    )


def _plans(scene: Scene) -> tuple[Function, Arguments]:
    """A plan for frames, or its call with these frames."""
    frames = scene.pick(_surface, _surfaces)(scene)
    sizes: tuple[int, ...] = (3, 4, 6) if isinstance(frames, sg.Frame) else (2, 3, 4, 6)
    function, first, second = scene.pick(
        (sg.plan_relayout, "src", "dst"), (sg.plan_resize, "src", "dst"), (sg.plan_letterbox, "images", "dst")
    )
    out = scene.out(sizes, "float32", "NCHW"[-len(sizes) :])
    options = {first: frames, second: out, **_values(scene)}
    if scene.often():
        return _first(function, first, second), options
    plan = function(options.pop(first), options.pop(second), **options)
    return _first(plan, "frames", "out"), {"frames": frames, "out": out}


def _crop_plan(scene: Scene) -> tuple[Function, Arguments]:
    frames, out, values = _surfaces(scene), scene.out((2, 3, 2, 3), "float32", "NCHW"), _values(scene)
    if scene.often():
        return _first(sg.plan_gather_crops, "sources", "size"), {"sources": frames, "size": (2, 3), "fill": 3, **values}
    plan = sg.plan_gather_crops(frames, (2, 3), out=out, **values)
    return _first(plan, "sources", "origins", "out"), {"sources": frames, "origins": [(0, 0), (1, 1)], "out": out}


def _step(scene: Scene) -> tuple[Function, Arguments]:
    """A step over frames, now and then beside an image."""
    batch: list[Any] = [_surface(scene, _BYTES, scene.pick((4, 6), (8, 4))) for _ in range(2)]
    if scene.often(0.3):
        batch[1] = scene.array((6, 8, 3), "uint8")
    geometry: Arguments = scene.pick(
        {"crop": (2, 2)}, {"resize": (4, 4)}, {"letterbox": 8}, {"random_resized_crop": True, "crop": 4},
        {"resize": 5, "crop": 4, "passes": "vertical"},
    )  # fmt: skip
    options = {"dtype": "float32", "device": "cpu", "flip": 0.5, "seed": 3, "errors": scene.pick("raise", "skip")}
    options |= scene.pick(
        {"mean": 0.5, "std": 0.5}, {"normalize": "0..1", "gain": (0.9, 1.1)}, {"matrix": [[0.3, 0.6, 0.1]]}
    )

    def stepped(batch: Any, **declaration: Any) -> Any:
        return sg.Preprocess(**declaration)(batch)

    return stepped, {**options, **geometry, "batch": batch}


def _video_processor(scene: Scene) -> tuple[Function, Arguments]:
    """A video processor of transformers over frames, arrays or an iterator, with what says which frames are taken."""
    name, options = scene.pick(
        ("VideoMAEVideoProcessor", {"size": {"shortest_edge": 6}, "crop_size": 5}),
        ("Qwen2VLVideoProcessor", {"min_pixels": 16, "max_pixels": 64, "patch_size": 2, "merge_size": 2}),
        ("Qwen3VLVideoProcessor", {"size": {"shortest_edge": 16, "longest_edge": 512}, "patch_size": 2}),
        ("Glm4vVideoProcessor", {"size": {"shortest_edge": 16, "longest_edge": 512}, "patch_size": 2}),
        ("InternVLVideoProcessor", {"size": {"height": 6, "width": 5}, "initial_shift": True}),
        ("SmolVLMVideoProcessor", {"size": {"longest_edge": 9}, "max_image_size": {"longest_edge": 6}}),
        ("LlavaOnevisionVideoProcessor", {"size": {"height": 6, "width": 5}}),
    )
    frames: list[Any] = [scene.array((6, 8, 3), "uint8") for _ in range(8)]
    if scene.often(0.4):
        frames = [_surface(scene, _BYTES, (6, 8)) for _ in range(8)]
    clip = np.stack(frames) if isinstance(frames[0], np.ndarray) else frames
    is_iterator = scene.often(0.3)
    sampling: Arguments = scene.pick({"do_sample_frames": False}, {"num_frames": 4}, {"fps": 2.0, "num_frames": None})
    if name == "SmolVLMVideoProcessor":
        sampling = {"num_frames": 4, "fps": 2.0}
    known = {"total_num_frames": 8, "fps": 4.0, "duration": 2.0}

    def processed(videos: Any, video_metadata: Any, return_tensors: Any, **stated: Any) -> Any:
        processor = sg.video_processor({"video_processor_type": name})
        given = iter(videos) if is_iterator and isinstance(videos, list) else videos
        return sorted(processor(given, return_tensors=return_tensors, video_metadata=video_metadata, **stated))

    arguments = {
        "videos": frames if is_iterator else scene.pick(clip, frames, [frames]),
        "video_metadata": scene.pick(known, [known]),
    }
    figures = {"do_resize": True, "do_rescale": True, "do_normalize": True, "image_mean": [0.5, 0.4, 0.3]}
    stated = {"do_sample_frames": True, **sampling, **options, **figures}
    return processed, {**arguments, "return_tensors": "np", **stated}


def _first(function: Function, *names: str) -> Function:
    """A function with the names of its first arguments, which it takes by position."""

    def call(**arguments: Any) -> Any:
        positional = [arguments.pop(name) for name in names]
        return function(*positional, **arguments)

    return call


FRAME_OPERATIONS: Final[dict[str, Callable[[Any], tuple[Function, Arguments]]]] = {
    "relayout of a frame": _relayout,
    "relayout of frames": _relayout_several,
    "relayout into a frame": _into,
    "resize of frames": _resize,
    "letterbox of frames": _letterbox,
    "gather_crops of frames": _crops,
    "Frame": _frame,
    "Frame.over": _over,
    "Frame.of planes": _of_planes,
    "Frame.of a raw frame": _of_raw_frame,
    "methods of a frame": _methods,
    "plans of frames": _plans,
    "plans of crops of frames": _crop_plan,
    "a step over frames": _step,
    "video_processor": _video_processor,
}
