"""`cases`: what the conformance set asks for: resizes, letterboxes, frames, normalisations, pipelines, processors.

A case names the library whose values it expects, and that library's own call. stridedgpu computes the values here;
`originals.py` makes the call itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import gcd
from typing import Any, Final
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import stridedgpu as sg
from stridedgpu.adapters.image_processors import rendering
from stridedgpu.adapters.image_processors.declaration import KINDS
from stridedgpu.adapters.image_processors.kinds.kind import Kind
from stridedgpu.problems.transfer_functions import LIGHTS, TRANSFERS
from stridedgpu.values.arithmetic import NORMALISATIONS, Arithmetic, Normalization
from stridedgpu.values.colour_matrix import STANDARDS
from stridedgpu.values.interpolation import INTERPOLATIONS, Interpolation
from stridedgpu.values.pixel_formats import PIXEL_FORMATS, PixelFormat

from .inputs import Input

Values = NDArray[Any]
Versions = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """An expected array; `versions` are those of libraries that it is for, as pip states them."""

    name: str
    values: Values
    versions: Versions = field(default_factory=dict)

    @property
    def step(self) -> int:
        """The set has one value in `step`, in the order of the sizes; all of an array that is small.

        It divides no size: values of every row, column and channel are among them.
        """
        step = -(-self.values.nbytes // MOST_BYTES)
        while step > 1 and any(gcd(step, size) > 1 for size in self.values.shape):
            step += 1
        return max(step, 1)

    @property
    def kept(self) -> Values:
        """What the set has of the values."""
        return self.values if self.step == 1 else self.values.ravel()[:: self.step]


MOST_BYTES: Final = 1 << 16
"""The largest array that the set has in whole."""


@dataclass(frozen=True, slots=True)
class Case:
    """What `operation` of stridedgpu makes of the inputs with these arguments.

    `call` is the expression of the library that has the rule, with `pixels`, the first input, `images`, all of them,
    and the arguments by name; "" where no library has it.
    """

    name: str
    operation: str
    inputs: tuple[Input, ...]
    arguments: Mapping[str, Any]
    library: str = "stridedgpu"
    call: str = ""
    versions: Versions = field(default_factory=dict)

    def entries(self) -> list[Entry]:
        """The expected arrays: one, or one for each result of an image processor."""
        images = [one.array() for one in self.inputs]
        if self.operation == "image_processor":
            return list(_processed(self.name, images, self.arguments))
        values = _OPERATIONS[self.operation](images[0], **self.arguments)
        return [Entry(self.name, np.ascontiguousarray(values), self.versions)]


def cases() -> Iterator[Case]:
    """Every case of the set."""
    yield from _resizes()
    yield from _letterboxes()
    yield from _frames()
    yield from _normalisations()
    yield from _pipelines()
    yield from _processors()


# ---- Resizes


@dataclass(frozen=True, slots=True)
class Geometry:
    """The sizes of a source and the size that it becomes, by Pillow's filters alone or by every rule."""

    source: tuple[int, ...]
    size: tuple[int, int]
    dtypes: tuple[str, ...] = ("uint8",)
    options: Mapping[str, Any] = field(default_factory=dict)


GEOMETRIES: Final = {
    "shrunk": Geometry((61, 83, 3), (24, 32)),
    "enlarged": Geometry((28, 35, 3), (36, 45)),
    "widened": Geometry((65, 42, 3), (25, 54)),
    "flattened": Geometry((83, 61, 3), (24, 56)),
    "halved": Geometry((48, 64, 3), (24, 32)),
    "thirds": Geometry((63, 84, 3), (21, 28)),
    "rows": Geometry((61, 83, 3), (24, 83)),
    "columns": Geometry((61, 83, 3), (61, 32)),
    "strip": Geometry((404, 4, 3), (100, 6)),
    "tiny": Geometry((3, 2, 3), (16, 21)),
    "gray": Geometry((61, 83), (24, 32), ("uint8", "uint16", "float32")),
    "gray-enlarged": Geometry((28, 35), (36, 45), ("uint16", "float32")),
    "gray-flattened": Geometry((83, 61), (24, 56), ("uint16", "float32")),
    "box": Geometry((61, 83, 3), (24, 32), options={"box": (3.25, 5.5, 50.75, 70.125)}),
    "alpha": Geometry((61, 83, 4), (24, 32), options={"premultiply": True}),
}
"""Scales that are fractions, halves and thirds, of one axis and of both. The last two are for Pillow's filters."""

_NAMES: Final = {"pillow": "Pillow", "opencv": "OpenCV", "torch": "torch"}


def _resize(pixels: Values, *, size: tuple[int, int], **options: Any) -> Values:
    axes = "HWC"[: pixels.ndim]
    return sg.resize(pixels, size, dims=axes, layout=axes, device="cpu", **options).permute(axes).numpy()


def _resizes() -> Iterator[Case]:
    for rule, (shape, geometry) in itertools.product(INTERPOLATIONS.values(), GEOMETRIES.items()):
        library = rule.name.partition("-")[0]
        if geometry.options and (rule.is_nearest or not rule.is_pillow):
            continue
        for dtype in geometry.dtypes:
            # The sines of torch's Lanczos of floats are those of the C library.
            if dtype not in (rule.arithmetic_of or ("uint8",)) or (rule.name, dtype) == ("torch-lanczos", "float32"):
                continue
            for order, passes, versions in _orders(rule, geometry, dtype):
                options = {"size": geometry.size, "interpolation": rule.name, **passes, **geometry.options}
                yield Case(
                    ".".join(("resize", rule.name, *order, dtype, shape)),
                    "resize",
                    (Input(geometry.source, dtype),),
                    options,
                    _NAMES[library],
                    _CALLS[library](rule, geometry),
                    versions,
                )


def _orders(
    rule: Interpolation, geometry: Geometry, dtype: str
) -> list[tuple[tuple[str, ...], dict[str, str], Versions]]:
    """The orders of passes that give other pixels: the part of a name, the argument, and the versions of Pillow."""
    if not rule.is_pillow or rule.is_nearest:
        return [((), {}, {})]
    (height, width), (rows, columns) = geometry.source[:2], geometry.size
    # Sums of 16 bits outside their range became other values before.
    least = ">=12.3" if dtype == "uint16" and rule.support > 1 else ""
    if not (rows < height and 2 * (width - columns) < height - rows and width != columns):
        return [((), {"passes": "horizontal"}, {"Pillow": least} if least else {})]
    last, first = ("12.1", "12.2") if height > 100 * width else ("12", "13")
    earlier = f"{least},<{first}".removeprefix(",")
    return [
        ((f"pillow-{last}",), {"passes": "horizontal"}, {"Pillow": earlier}),
        ((f"pillow-{first}",), {"passes": "pillow-13"}, {"Pillow": f">={first}"}),
    ]


def _by_pillow(rule: Interpolation, geometry: Geometry) -> str:
    box = geometry.options.get("box")
    region = "" if box is None else f", box={(box[1], box[0], box[3], box[2])}"
    name = rule.name.partition("-")[2].upper()
    return f"Image.fromarray(pixels).resize({geometry.size[::-1]}, Image.Resampling.{name}{region})"


def _by_opencv(rule: Interpolation, geometry: Geometry) -> str:
    name = rule.name.partition("-")[2].upper().replace("-", "_")
    return f"cv2.resize(pixels, {geometry.size[::-1]}, interpolation=cv2.INTER_{name})"


def _by_torch(rule: Interpolation, geometry: Geometry) -> str:
    mode = rule.name.partition("-")[2]
    how = f"{geometry.size}, mode={mode!r}" + ("" if rule.is_nearest else ", antialias=True")
    if len(geometry.source) == 2:
        return f"torch.nn.functional.interpolate(torch.from_numpy(pixels)[None, None], {how})[0, 0]"
    planes = "torch.from_numpy(pixels).permute(2, 0, 1)[None]"
    return f"torch.nn.functional.interpolate({planes}, {how})[0].permute(1, 2, 0)"


_CALLS: Final = {"pillow": _by_pillow, "opencv": _by_opencv, "torch": _by_torch}


# ---- Letterboxes


def _letterbox(pixels: Values, **options: Any) -> Values:
    return sg.letterbox(pixels, dims="HWC", layout="HWC", device="cpu", **options).permute("HWC").numpy()


def _letterboxes() -> Iterator[Case]:
    for shape, source, scale_up in (("shrunk", (61, 83, 3), True), ("enlarged", (37, 29, 3), True),
                                    ("kept", (37, 29, 3), False)):  # fmt: skip
        options: dict[str, Any] = {"size": (48, 48), "scale_up": scale_up, "value": 114}
        call = _by_letterbox(source, options["size"], scale_up=scale_up)
        named = {**options, "interpolation": "opencv-linear"}
        yield Case(f"letterbox.opencv-linear.uint8.{shape}", "letterbox", (Input(source),), named, "OpenCV", call)


def _by_letterbox(source: tuple[int, ...], size: tuple[int, int], *, scale_up: bool) -> str:
    (placed,) = sg.letterbox_placements([source[:2]], size, scale_up=scale_up).tolist()
    top, left, height, width = placed
    borders = f"{top}, {size[0] - top - height}, {left}, {size[1] - left - width}"
    small = f"cv2.resize(pixels, ({width}, {height}))"
    return f"cv2.copyMakeBorder({small}, {borders}, cv2.BORDER_CONSTANT, value=(114, 114, 114))"


# ---- Frames

_FRAME: Final = (36, 52)
_OPENCV_FRAMES: Final = {
    **dict.fromkeys(("yuyv", "uyvy"), f"pixels.reshape({_FRAME[0]}, {_FRAME[1]}, 2)"),
    **dict.fromkeys(("nv12", "nv21", "i420", "yv12"), "pixels"),
}


def _frame(surface: Values, *, format: str, sizes: tuple[int, int], **options: Any) -> Values:  # noqa: A002
    frame = sg.Frame.over(format, surface.ravel(), sizes, **options)
    return sg.relayout(frame, layout="HWC", device="cpu").permute("HWC").numpy()


def _frames() -> Iterator[Case]:
    for form in PIXEL_FORMATS.values():
        yield _frame_case(form, "bt601", full_range=False, chroma="repeated")
        if form.kind == "yuv":
            yield _frame_case(form, "bt709", full_range=False, chroma="linear")
    for matrix, full_range, chroma in itertools.product(STANDARDS, (False, True), ("repeated", "linear")):
        if (matrix, full_range, chroma) not in (("bt601", False, "repeated"), ("bt709", False, "linear")):
            yield _frame_case(PIXEL_FORMATS["nv12"], matrix, full_range=full_range, chroma=chroma)
    for transfer, light in itertools.product(TRANSFERS, LIGHTS):
        seen = {"transfer": transfer, "light": light}
        yield _frame_case(PIXEL_FORMATS["p010"], "bt2020", full_range=False, chroma="repeated", **seen)


def _frame_case(form: PixelFormat, matrix: str, *, full_range: bool, chroma: str, **seen: str) -> Case:
    elements = sum(int(np.prod(plane.sizes(_FRAME))) for plane in form.planes)
    width = 8 * form.element.itemsize
    bits, shift = (16, 0) if width == 8 else (form.bits, width - form.bits - form.shift)
    surface = Input((elements // _FRAME[1], _FRAME[1]), form.element.name, bits=bits, shift=shift)
    colours = {"matrix": matrix, "full_range": full_range, "chroma": chroma, **seen}
    options = {"format": form.name, "sizes": _FRAME, **colours}
    of_yuv = matrix, "full" if full_range else "limited", chroma, *seen.values()
    words = form.name, *(of_yuv if form.kind == "yuv" else ())
    library, call = "stridedgpu", ""
    if form.name in _OPENCV_FRAMES and words[1:] == ("bt601", "limited", "repeated"):
        flag = f"cv2.COLOR_YUV2RGB_{form.name.upper().replace('YUYV', 'YUY2')}"
        library, call = "OpenCV", f"cv2.cvtColor({_OPENCV_FRAMES[form.name]}, {flag})"
    return Case(".".join(("frame", *words)), "frame", (surface,), options, library, call)


# ---- Normalisations

_BY_TRANSFORMERS: Final = (
    "transformers.ViTImageProcessor{}(do_resize=False, image_mean=mean, image_std=std)"
    "(pixels, return_tensors='pt')['pixel_values'][0]"
)
_STEPS: Final[Mapping[Arithmetic, tuple[str, str]]] = {
    "multiply": (
        "NumPy",
        "(pixels * np.float32(1 / (255 * np.array(std))) + np.float32(-np.array(mean) / std)).transpose(2, 0, 1)",
    ),
    "divide": ("torchvision", "v1.normalize(v1.to_tensor(pixels), mean, std)"),
    "torchvision-v2": ("torchvision", "v2.normalize(v2.to_dtype(v2.to_image(pixels), torch.float32, True), mean, std)"),
    "transformers": ("transformers", _BY_TRANSFORMERS.format("")),
    "transformers-pil": ("transformers", _BY_TRANSFORMERS.format("Pil")),
}
_FIGURES: Final[tuple[Normalization, ...]] = ("imagenet", "clip", "siglip")


def _normalise(pixels: Values, **options: Any) -> Values:
    rescale = {"scale": 1 / 255} if options["arithmetic"].startswith("transformers") else {}
    options |= {"layout": "CHW", "dtype": "float32", **rescale}
    return sg.relayout(pixels, dims="HWC", device="cpu", **options).numpy()


def _normalisations() -> Iterator[Case]:
    for arithmetic, name in itertools.product(_STEPS, _FIGURES):
        mean, std = (figures * (3 // len(figures)) for figures in NORMALISATIONS[name])
        options = {"arithmetic": arithmetic, "mean": mean, "std": std}
        library, call = _STEPS[arithmetic]
        yield Case(f"normalise.{arithmetic}.{name}", "normalise", (Input((61, 83, 3)),), options, library, call)


# ---- Pipelines


def _preprocess(pixels: Values, **options: Any) -> Values:
    step = sg.Preprocess(dims="HWC", device="cpu", **options)
    return np.asarray(step([pixels])[0])


def _pipelines() -> Iterator[Case]:
    whole: dict[str, Any] = {"resize": 40, "crop": 32, "normalize": "imagenet", "dtype": "float32", "layout": "NCHW"}
    figures = "{}, {}".format(*NORMALISATIONS["imagenet"])
    image = (Input((61, 83, 3)),)
    resized = "v1.resize(Image.fromarray(pixels), 40)"
    cropped = f"v1.normalize(v1.to_tensor(v1.center_crop({resized}, 32)), {figures})"
    pillow = {**whole, "interpolation": "pillow-bilinear", "passes": "horizontal", "arithmetic": "divide"}
    yield Case("pipeline.torchvision-pillow", "preprocess", image, pillow, "torchvision", cropped)
    resized = "v2.center_crop(v2.resize(v2.to_image(pixels), 40), 32)"
    cropped = f"v2.normalize(v2.to_dtype({resized}, torch.float32, True), {figures})"
    torch = {**whole, "interpolation": "torch-bilinear", "arithmetic": "torchvision-v2"}
    yield Case("pipeline.torchvision-tensor", "preprocess", image, torch, "torchvision", cropped)
    yolo = {"letterbox": (48, 48), "interpolation": "opencv-linear", "fill": 114, "channels": (2, 1, 0)}
    boxed = f"{_by_letterbox(image[0].sizes, (48, 48), scale_up=True)}[..., ::-1].transpose(2, 0, 1)"
    yolo |= {"normalize": "0..1", "dtype": "float32", "layout": "NCHW"}
    yield Case("pipeline.yolo", "preprocess", image, yolo, "OpenCV", f"{boxed} * np.float32(1 / 255)")


# ---- Image processors

_FIRST, _SECOND, _CLEAR = Input((61, 83, 3)), Input((40, 47, 3), seed=1), Input((44, 52, 4), seed=2)
_CLIP: Final = tuple(Input((61, 83, 3), seed=seed) for seed in range(4))

OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "AriaImageProcessor": {"max_image_size": 490},
    "DeepseekVLHybridImageProcessor": {"high_res_size": {"height": 48, "width": 48}},
    "Ernie4_5_VLMoeVideoProcessor": {"draw_on_frames": False},
    "Emu3ImageProcessor": {"min_pixels": 1024, "max_pixels": 4096},
    "EomtImageProcessor": {
        "do_split_image": True,
        "do_pad": True,
        "size": {"shortest_edge": 36, "longest_edge": 48},
    },
    "Gemma3ImageProcessor": {
        "do_pan_and_scan": True,
        "pan_and_scan_min_crop_size": 20,
        "pan_and_scan_max_num_crops": 3,
        "pan_and_scan_min_ratio_to_activate": 1.2,
    },
    "GotOcr2ImageProcessor": {"crop_to_patches": True, "max_patches": 4, "size": {"height": 30, "width": 32}},
    "Idefics2ImageProcessor": {"do_image_splitting": True, "size": {"shortest_edge": 30, "longest_edge": 45}},
    "ImageGPTImageProcessor": {"do_color_quantize": False},
    "LayoutLMv2ImageProcessor": {"apply_ocr": False},
    "LayoutLMv3ImageProcessor": {"apply_ocr": False},
    "LlavaNextImageProcessor": {
        "size": {"shortest_edge": 32},
        "crop_size": {"height": 32, "width": 32},
        "image_grid_pinpoints": [[32, 64], [64, 32], [64, 64]],
    },
    "NemotronH_Omni_Reasoning_V3VideoProcessor": {
        "norm_mean": [0.48, 0.45, 0.4],
        "norm_std": [0.26, 0.27, 0.3],
        "video_target_num_patches": 12,
    },
    "PerceiverImageProcessor": {"size": {"height": 24, "width": 24}},
    "Siglip2ImageProcessor": {"max_num_patches": 16},
    "UltraVBertImageProcessor": {"size": {"longest_edge": 90}, "max_image_size": {"longest_edge": 32}},
}
"""Options beside the defaults: steps that are off by default, and sizes that `_small` does not have."""

_ALONE: Final = (
    "PPOCRV5ServerDetImageProcessor",
    *("CHMv2ImageProcessor", "GLPNImageProcessor", "PerceptionLMImageProcessor", "Swin2SRImageProcessor"),
    "TextNetImageProcessor",
)
"""Classes whose results of several images have several sizes: they are called with one."""


def _small(kind: Kind) -> dict[str, Any]:
    """Sizes of some 40 pixels for a class whose defaults are larger, or of some 4,000 where it counts them."""
    found: dict[str, Any] = {"do_sample_frames": False} if kind.is_video else {}
    for option, (side, longest) in {"size": (36, 48), "crop_size": (32, 32), "pad_size": (48, 48)}.items():
        default = kind.defaults.get(option)
        if isinstance(default, Mapping):
            least, most = (1024, 4096) if max(default.values()) > _LONGEST_SIDE else (side, longest)
            found[option] = {edge: most if edge == "longest_edge" else least for edge in default}
    return found


_LONGEST_SIDE: Final = 2048
"""Above are counts of pixels."""


def _processors() -> Iterator[Case]:
    for name, kind in KINDS.items():
        options = {**_small(kind), **OPTIONS.get(name, {})}
        if kind.halves:  # no .npy has bfloat16
            continue
        other = _CLEAR if kind.defaults["do_convert_rgb"] and kind.converts and kind.converts_arrays else _SECOND
        inputs = _CLIP if kind.is_video else (_FIRST,) if name in _ALONE else (_FIRST, other)
        for backend in kind.backends:
            given = "[images]" if kind.is_video else "images"
            of_two = "Pil" * (backend == "pil" and "torchvision" in kind.backends)
            call = f"transformers.{name}{of_two}(**options)({given}, return_tensors='pt')"
            arguments = {"class": name, "backend": backend, "options": options}
            yield Case(f"{name}.{backend}", "image_processor", inputs, arguments, "transformers", call)


def _processed(name: str, images: list[Values], arguments: Mapping[str, Any]) -> Iterator[Entry]:
    """The results of a processor by their keys; of Pillow's backend by both orders of passes, where these differ."""
    declared = {"image_processor_type": arguments["class"], **arguments["options"]}
    given = [images] if KINDS[arguments["class"]].is_video else images
    results = []
    for passes in ("horizontal", "pillow-13") if arguments["backend"] == "pil" else ("pillow-13",):
        with patch.object(rendering, "installed_passes", lambda order=passes: order):
            processor = sg.image_processor(declared, backend=arguments["backend"], device="cpu")
            found = _arrays(processor(given, return_tensors="np"))
            results.append({key: values for key, values in found if values.dtype.kind in "biuf"})  # no texts
    for key, values in results[-1].items():
        if np.array_equal(results[0][key], values):
            yield Entry(f"{name}.{key}", values)
        else:
            yield Entry(f"{name}.{key}.pillow-12", results[0][key], {"Pillow": "<13"})
            yield Entry(f"{name}.{key}.pillow-13", values, {"Pillow": ">=13"})


def _arrays(results: Mapping[str, Any]) -> Iterator[tuple[str, Values]]:
    """The arrays of a processor's results by their keys, and by their numbers where they are in a list."""
    for key, value in results.items():
        if isinstance(value, list):
            yield from ((f"{key}.{number}", np.array(one)) for number, one in enumerate(value))
        elif value.dtype == np.float64:  # PyTorch's numbers are float32, and the original returns them
            yield key, value.astype(np.float32)
        else:
            yield key, np.array(value)


_OPERATIONS: Final[Mapping[str, Callable[..., Values]]] = {
    "resize": _resize,
    "letterbox": _letterbox,
    "frame": _frame,
    "normalise": _normalise,
    "preprocess": _preprocess,
}
