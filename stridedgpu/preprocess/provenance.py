"""`which`: the pipeline that made an image's pixels: decoder, geometry, interpolation, passes and conversion.

Each stage has a few rules that libraries use, and a search tries them all. A resize of bytes gives bytes, and a
conversion gives each byte of a channel one value. Pixels are a candidate's, whatever the conversion was, if equal bytes
of the candidate have equal values everywhere; the values of the 256 bytes then name the conversion.

Where no candidate fits, least squares find the nearest one; its distance is in levels of the source, 0 to 255.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, product
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stridedgpu.api.relayout import relayout
from stridedgpu.api.resize import resize
from stridedgpu.exchange.array_like import operand_of
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.operations.resize import placement, shorter_side
from stridedgpu.values.arithmetic import ARITHMETIC_RULES, NORMALISATIONS
from stridedgpu.values.errors import LayoutError, StridedGpuError
from stridedgpu.values.interpolation import INTERPOLATIONS, PASSES, InterpolationName, Passes

from .declaration import MOST_PIXELS
from .decoding import Decoder
from .files import read_array
from .geometry import middle
from .images import Encoded, Pixels, is_encoded, is_pillow_image, luma, pixels_of

Sizes = tuple[int, int]
Array = NDArray[Any]
Options = Mapping[str, Any]
"""Arguments of `Preprocess`, by name."""


class Pipeline(NamedTuple):
    """One way from an encoded image to a tensor: what each stage does, in words."""

    decoder: str
    channels: str
    geometry: str
    interpolation: str
    passes: str
    conversion: str


class Difference(NamedTuple):
    """How far two images are apart: the share of values that differ, and the largest distance in levels of 0 to 255."""

    share: float
    levels: float

    def __str__(self) -> str:
        """As a part of a sentence."""
        if not self.share:
            return f"no value is off by more than {self.levels:.1g} levels of 255"
        return f"{self.share:.2%} of the values differ, by at most {self.levels:.3g} levels of 255"


class Parting(NamedTuple):
    """The first stage at which two pipelines part: its name, what each does there, and how far the pixels are apart.

    `difference` is None for images of different sizes.
    """

    stage: str
    one: tuple[str, ...]
    other: tuple[str, ...]
    difference: Difference | None

    def __str__(self) -> str:
        """In one sentence."""
        distance = "the sizes differ" if self.difference is None else str(self.difference)
        return f"they part at the {self.stage}: {_either(self.one)} and {_either(self.other)}; {distance}"


@dataclass(frozen=True, eq=False)
class Provenance:
    """What `which` knows of an image's pixels.

    `pipelines` give every bit. There are several where their results are equal for this image. Without any, `nearest`
    is the pipeline at the least `difference`. `subject` describes the pixels. `levels` are the pixels before the
    conversion, axes HWC and channels RGB or gray: a pipeline's bytes, or the nearest pipeline's scale.
    """

    subject: str
    pipelines: tuple[Pipeline, ...]
    nearest: Pipeline
    difference: Difference
    levels: Array = field(repr=False)
    declaration: str | None = None

    @property
    def is_exact(self) -> bool:
        """Whether a pipeline gives every bit."""
        return bool(self.pipelines)

    def stage(self, name: str) -> tuple[str, ...]:
        """What the stage of this name, a field of `Pipeline`, may have done."""
        return tuple(dict.fromkeys(getattr(pipeline, name) for pipeline in self.pipelines or (self.nearest,)))

    def parting(self, other: Provenance) -> Parting | None:
        """The first stage that differs from another image's; None where one pipeline may have made both."""
        for name in Pipeline._fields:
            here, there = self.stage(name), other.stage(name)
            if not set(here) & set(there):
                same = self.levels.shape == other.levels.shape
                return Parting(name, here, there, _difference(self.levels, other.levels) if same else None)
        return None

    def __str__(self) -> str:
        """A line for each stage, and a line that says how sure it is."""
        lines = [self.subject, *(f"  {name:13}  {_either(self.stage(name))}" for name in Pipeline._fields)]
        if not self.is_exact:
            lines.append(f"no pipeline that is known here gives these bits; this is the nearest: {self.difference}")
        elif len(self.pipelines) == 1:
            lines.append("every bit is this pipeline's, and no other pipeline's that is known here")
        else:
            lines.append(f"every bit is that of {len(self.pipelines)} pipelines, which this image cannot tell apart")
        return "\n".join(lines if self.declaration is None else [*lines, self.declaration])


def which(before: object, after: object, *, dims: str | None = None, resize: int | None = None) -> Provenance:
    """The pipeline that made the pixels `after` of the image `before`, or the nearest one.

    `before` is the path of an image's file or its encoded bytes, a path of a `.npy` file, an image of Pillow, or pixels
    of uint8 with axes HWC or HW. A file is decoded by every decoder that is installed (Pillow, simplejpeg, OpenCV),
    with the camera's orientation and without. `after` is one image: a path of a `.npy` or an image's file, encoded
    bytes, or an array of integers or floats with 1 or 3 channels. `dims` is the order of its axes, "HWC", "CHW", "HW"
    or with an N of size 1; without it the axis of 1 or 3 elements is the channels. `resize` is a further size of the
    shorter side to try before a crop, beside the usual ones from 1 to 2 times the result's.

    All interpolations of `sg.resize` are tried, resized whole, with a crop in the middle, letterboxed and padded,
    mirrored or not; then each `normalize` and `arithmetic` of `relayout`, and mean and std of up to 8 decimals. A
    random crop is not recognised: hand in the cropped pixels as `before`.

    Raises `StridedGpuError` for files that cannot be read, and `LayoutError` for pixels that are no image of 1 or 3
    channels.

    >>> import numpy as np
    >>> photo = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    >>> import stridedgpu as sg
    >>> small = sg.resize(photo, (20, 30), dims="HWC", interpolation="opencv-area", dtype="float32", normalize="clip")
    >>> answer = which(photo, small)
    >>> answer.is_exact, answer.stage("interpolation"), answer.stage("geometry")
    (True, ('opencv-area',), ('20 x 30 from all of it',))
    """
    if resize is not None and not (type(resize) is int and 1 <= resize <= MOST_PIXELS):
        raise LayoutError(f"resize={resize!r} must be the pixels of a side, a whole number from 1 to {MOST_PIXELS}.")
    result, axes = _result(after, dims)
    sources = _sources(before)
    if result.shape[2] == 1:
        sources = [(decoder, words, gray) for decoder, _, pixels in sources for words, gray in _lumas(pixels)]
    subject = f"{' x '.join(map(str, result.shape))} (HWC) {result.dtype}, lying as {axes}"
    return _searched(sources, result, resize, subject)


def _either(words: Iterable[str]) -> str:
    return " or ".join(words)


# ---- What is compared


def _result(after: Any, dims: str | None) -> tuple[Pixels, str]:
    """The pixels as an array HWC, and the order of their axes."""
    if isinstance(after, (str, Path)):
        path = Path(after)
        array = read_array(path) if path.suffix.lower() == ".npy" else Decoder(turns=False).frame(path, path.name)
    elif is_encoded(after):
        array = Decoder(turns=False).frame(after, "after")
    elif is_pillow_image(after):
        array = pixels_of(after, turns=False)
    else:
        operand, labels = operand_of(after, None)
        array, dims = array_of_operand(operand), labels if dims is None else dims
    if array.dtype.kind not in "uif" or array.dtype.itemsize > 8:
        raise LayoutError(f"after holds {array.dtype}; pixels are integers or floats.")
    axes = _axes_of(array.shape) if dims is None else dims.upper()
    if sorted(axes.replace("N", "", 1)) not in (["C", "H", "W"], ["H", "W"]) or len(axes) != array.ndim:
        raise LayoutError(f"dims={dims!r} must name the axes of after, sizes {array.shape}: H, W, C, and N of size 1.")
    if "N" in axes and array.shape[axes.index("N")] != 1:
        raise LayoutError(f"after has sizes {array.shape}: one image is compared; hand in after[0].")
    order = [axes.index(axis) for axis in "NHWC" if axis in axes]
    pixels = array.transpose(order).reshape([array.shape[axis] for axis in order if axes[axis] != "N"])
    pixels = np.ascontiguousarray(pixels if "C" in axes else pixels[..., None])
    if pixels.shape[2] not in (1, 3) or 0 in pixels.shape:
        raise LayoutError(f"after has sizes {array.shape} and axes {axes}: an image of 1 or 3 channels is compared.")
    return pixels, axes


def _axes_of(sizes: tuple[int, ...]) -> str:
    """The order of an image's axes, by the one that can be channels."""
    batch = "N" if len(sizes) == 4 else ""
    inner = sizes[len(batch) :]
    if len(inner) == 2:
        return "HW"
    if len(inner) == 3 and (inner[0] in (1, 3)) != (inner[2] in (1, 3)):
        return batch + ("CHW" if inner[0] in (1, 3) else "HWC")
    raise LayoutError(f"after has sizes {sizes}: name its axes, such as dims='HWC'.")


def _sources(before: Any) -> list[tuple[str, str, Pixels]]:
    """What each decoder gives of an image: its name, its channels, and pixels RGB, axes HWC. Equal ones are one."""
    if isinstance(before, (str, Path)) and Path(before).suffix.lower() != ".npy":
        images = list(_decoded_by_all(Path(before), Path(before).name))
    elif is_encoded(before):
        images = list(_decoded_by_all(before, "before"))
    else:
        if isinstance(before, (str, Path)):
            pixels = read_array(Path(before))
        else:
            pixels = pixels_of(before) if is_pillow_image(before) else array_of_operand(operand_of(before)[0])
        if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or pixels.shape[2:] not in ((), (1,), (3,)):
            raise LayoutError(
                f"before has sizes {pixels.shape} of {pixels.dtype}; it is an image of uint8 with axes HWC or HW."
            )
        colours = np.broadcast_to(pixels if pixels.ndim == 3 else pixels[..., None], (*pixels.shape[:2], 3))
        images = [("none", colours)]
    if 0 in images[0][1].shape:
        raise LayoutError(f"before has sizes {images[0][1].shape}: there are no pixels.")
    names: dict[bytes, tuple[list[str], Pixels]] = {}
    for name, pixels in images:
        same, _ = names.setdefault(b"%d " % pixels.shape[0] + pixels.tobytes(), ([], pixels))
        if not (same and name.endswith(_IGNORED)):  # of an image that is stored upright
            same.append(name)
    return [(_either(same), "RGB", np.ascontiguousarray(pixels)) for same, pixels in names.values()]


_IGNORED: Final = ", orientation ignored"


def _decoded_by_all(source: Path | Encoded, subject: str) -> Iterator[tuple[str, Pixels]]:
    """An image's file or encoded bytes by each decoder that is installed, upright, and as the camera stored it."""
    for name in ("pillow", "simplejpeg"):
        for turns in (True, False):
            try:
                decoder = Decoder(name, turns=turns)
            except LayoutError:  # it is not installed
                continue
            yield name if turns else name + _IGNORED, decoder.frame(source, subject)
    try:
        import cv2
    except ModuleNotFoundError:
        return
    encoded = np.frombuffer(source.read_bytes() if isinstance(source, Path) else bytes(source), np.uint8)
    for name, flag in (("opencv", 0), ("opencv" + _IGNORED, cv2.IMREAD_IGNORE_ORIENTATION)):
        pixels = cv2.imdecode(encoded, cv2.IMREAD_COLOR | flag)
        if pixels is not None:
            yield name, pixels[..., ::-1]


def _lumas(pixels: Pixels) -> Iterator[tuple[str, Pixels]]:
    """An RGB image in gray, before anything is resized: by the integers of Pillow's convert("L"), and of cvtColor."""
    colours = pixels.transpose(2, 0, 1)
    yield "gray by Pillow", luma(colours)[..., None]
    yield "gray by OpenCV", luma(colours, (4899, 9617, 1868), 14)[..., None]


# ---- Where the image lies in the result


class _Geometry(NamedTuple):
    """The size of the resized image, and the place of its top left pixel in the result, which may be outside.

    `options` are those of `Preprocess` that declare it; None where it has none.
    """

    words: str
    resized: Sizes
    place: Sizes
    options: Options | None
    is_mirrored: bool = False

    def mirrored(self) -> _Geometry:
        """The same, and then mirrored left and right."""
        options = None if self.options is None else {**self.options, "flip": True}
        return self._replace(words=f"{self.words}, mirrored", is_mirrored=True, options=options)

    def seen(self, result: Pixels) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
        """The rows and columns of a result that show the image, and of the resized image that are shown."""
        spans = [
            (slice(max(start, 0), min(start + size, most)), slice(max(-start, 0), min(size, most - start)))
            for start, size, most in zip(self.place, self.resized, result.shape[:2], strict=True)
        ]
        return (spans[0][0], spans[1][0]), (spans[0][1], spans[1][1])

    def inner(self, result: Pixels) -> Pixels:
        """The part of a result that shows the image, not mirrored."""
        return (result[:, ::-1] if self.is_mirrored else result)[self.seen(result)[0]]

    def has_even_borders(self, result: Pixels) -> bool:
        """Whether each channel has one value around the image."""
        outside = np.ones(result.shape[:2], bool)
        outside[self.seen(result)[0]] = False
        borders = (result[:, ::-1] if self.is_mirrored else result)[outside]
        return bool((borders == borders[:1]).all())


_SHARES: Final = (0.875, 0.88, 0.9, 0.935, 0.94, 0.95, 0.96, 0.965, 0.97, 0.98, 1.0)
"""Sizes of crops as shares of the shorter side, as torchvision's and timm's models have them."""


def _geometries(source: Sizes, sizes: Sizes, resize: int | None) -> Iterator[_Geometry]:
    """The ways in use from an image's sizes to a result's."""
    rows, columns = sizes
    window = f"{rows} x {columns}"
    yield _Geometry(f"{window} from all of it", sizes, (0, 0), {"resize": sizes})
    shorter = min(sizes)
    sides = {int(shorter / share) for share in _SHARES} | {round(shorter / share) for share in _SHARES}
    sides |= {*range(shorter, 2 * shorter, 8)} | (set() if resize is None else {resize})
    for side in sorted(sides):
        cut = shorter_side(side, source)
        rounded = round(side * source[0] / min(source)), round(side * source[1] / min(source))
        for resized, how in ((cut, ""), (rounded, ", the longer side rounded")):
            yield from _crops(f"shorter side {side}{how}, ", resized, sizes, None if how else {"resize": side})
    yield from _crops("", source, sizes, {})
    top, left, *inner = placement(source, sizes, scale_up=True)
    yield _Geometry(f"letterbox {window}", (inner[0], inner[1]), (top, left), {"letterbox": sizes})
    ratio = min(rows / source[0], columns / source[1])
    for whole in (int, round):
        inside = max(whole(source[0] * ratio), 1), max(whole(source[1] * ratio), 1)
        middle_place = (rows - inside[0]) // 2, (columns - inside[1]) // 2
        yield _Geometry(f"longer side fits {window}, padded below and right", inside, (0, 0), None)
        yield _Geometry(f"longer side fits {window}, padded on both sides", inside, middle_place, None)


def _crops(words: str, resized: Sizes, sizes: Sizes, options: Options | None) -> Iterator[_Geometry]:
    """The windows in the middle of an image."""
    if resized[0] < sizes[0] or resized[1] < sizes[1]:
        return
    for center in ("round", "floor"):
        top, left = middle(resized, sizes, center)
        declared = None if options is None else {**options, "crop": sizes, "center": center}
        crop = f"{words}crop {sizes[0]} x {sizes[1]} in the middle ({center})"
        yield _Geometry(crop, resized, (-top, -left), declared)


def _scored(source: Pixels, result: Pixels, resize: int | None) -> Iterator[tuple[float, _Geometry]]:
    """Each geometry, and how far the result is from it with one interpolation, in levels."""
    places: dict[tuple[Sizes, Sizes], _Geometry] = {}
    for geometry in _geometries((source.shape[0], source.shape[1]), (result.shape[0], result.shape[1]), resize):
        places.setdefault((geometry.resized, geometry.place), geometry)
    images: dict[Sizes, Pixels] = {}
    for geometry in places.values():
        if geometry.resized not in images:
            images[geometry.resized] = _resized(source, geometry.resized, "pillow-bilinear", "horizontal")
        image = images[geometry.resized][geometry.seen(result)[1]]
        for turned in (geometry, geometry.mirrored()):
            if turned.has_even_borders(result):
                shown = turned.inner(result)
                yield min(_distance(image, shown), _distance(image, shown[..., ::-1])), turned


def _resized(source: Pixels, size: Sizes, interpolation: InterpolationName, passes: Passes | None) -> Pixels:
    """An image HWC at another size."""
    if size == source.shape[:2]:
        return source
    tensor = resize(source, size, dims="HWC", interpolation=interpolation, passes=passes, layout="HWC", device="cpu")
    return tensor.permute("HWC").numpy()


def _distance(image: Pixels, result: Pixels) -> float:
    """The root mean square distance in levels of an image and a result that is scaled and shifted to fit best."""
    return float(np.sqrt(np.mean((_levels(image, result) - image) ** 2)))


def _levels(image: Pixels, result: Pixels) -> NDArray[np.float64]:
    """A result in levels of an image, by the line that fits each channel best; all 0 where it does not follow."""
    x, y = (values.reshape(-1, values.shape[2]).astype(np.float64) for values in (image, result))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    slopes = (x * y).sum(axis=0) / np.maximum((x * x).sum(axis=0), 1e-300)
    fits = np.isfinite(slopes) & (slopes > 0)
    levels = np.where(fits, y / np.where(fits, slopes, 1.0), 0.0) + image.reshape(-1, image.shape[2]).mean(axis=0)
    return np.asarray(levels).reshape(image.shape)


def _difference(one: Array, other: Array) -> Difference:
    distances = np.abs(one.astype(np.float64) - other)
    return Difference(float((distances > _EQUAL_LEVELS).mean()), float(distances.max()))


_EQUAL_LEVELS: Final = 0.01
"""The largest distance of values that count as equal: sums in float32 round otherwise in another order."""


# ---- The search


def _searched(sources: list[tuple[str, str, Pixels]], result: Pixels, resize: int | None, subject: str) -> Provenance:
    """The pipelines that give the result, or the nearest one, by all interpolations of each source."""
    near = []
    wholes = []
    for source in sources:
        scored = list(_scored(source[2], result, resize))
        wholes.append((scored[0][1], source))
        near += [(distance, geometry, source) for distance, geometry in sorted(scored, key=itemgetter(0))[:_NEAR]]
    farthest = _NEAR * min(distance for distance, *_ in near) + _NEAR
    places = [(geometry, source) for distance, geometry, source in near if distance <= farthest]
    # Rules that skip pixels may be far from the filter that scored: the whole image is tried in any case.
    chosen = {id(geometry) for geometry, _ in places}
    places += [(geometry, source) for geometry, source in wholes if id(geometry) not in chosen]
    known = _Conversions(result.dtype)
    pipelines: list[Pipeline] = []
    levels: Pixels | None = None
    declaration: str | None = None
    for pipeline, geometry, candidate, shown in _candidates(places, result, _byte_resizes):
        values = _values(candidate, shown)
        conversions = [] if values is None else known.of(*values, pipeline.channels, shown.size)
        pipelines += [pipeline._replace(conversion=conversion) for conversion, _ in conversions]
        if conversions and levels is None:
            levels, declaration = candidate, _declaration(geometry, pipeline, conversions[0][1])
    if levels is not None:
        return Provenance(subject, tuple(pipelines), pipelines[0], _SAME, levels, declaration)
    both = chain.from_iterable(_candidates(places, result, resizes) for resizes in (_byte_resizes, _float_resizes))
    pipeline, _, candidate, shown = min(both, key=lambda entry: _distance(entry[2], entry[3]))
    levels = _levels(candidate, shown)
    return Provenance(subject, (), pipeline, _difference(levels, candidate), levels)


def _candidates(
    places: list[tuple[_Geometry, tuple[str, str, Pixels]]],
    result: Pixels,
    resizes: Callable[[Pixels, Sizes], Iterator[tuple[str, str, Pixels]]],
) -> Iterator[tuple[Pipeline, _Geometry, Pixels, Pixels]]:
    """Every pipeline without its conversion, and its pixels beside the part of the result that they would be."""
    for geometry, (decoder, channels, source) in places:
        shown, part = geometry.inner(result), geometry.seen(result)[1]
        for interpolation, passes, image in resizes(source, geometry.resized):
            for order in ("RGB", "BGR") if channels == "RGB" else (channels,):
                pipeline = Pipeline(decoder, order, geometry.words, interpolation, passes, "unknown")
                yield pipeline, geometry, image[part], shown[..., ::-1] if order == "BGR" else shown


_NEAR: Final = 4
"""Geometries of a source that are searched with every interpolation, and how many times as far they may be."""

_SAME: Final = Difference(0.0, 0.0)


def _byte_resizes(source: Pixels, size: Sizes) -> Iterator[tuple[str, str, Pixels]]:
    """An image at another size by every interpolation: its name, its passes, and the pixels."""
    if size == source.shape[:2]:
        yield "none", "none", source
        return
    for rule in INTERPOLATIONS.values():
        has_two = rule.is_pillow and not rule.is_nearest and size[0] != source.shape[0] and size[1] != source.shape[1]
        for passes in PASSES[:2] if has_two else (None,):
            yield rule.name, passes or "one order", _resized(source, size, rule.name, passes)


def _float_resizes(source: Pixels, size: Sizes) -> Iterator[tuple[str, str, Pixels]]:
    """The same of float32 pixels, as libraries resize that convert first."""
    for rule in INTERPOLATIONS.values():
        if "float32" in rule.arithmetic_of and size != source.shape[:2]:
            pixels = _resized(source.astype(np.float32), size, rule.name, PASSES[0] if rule.is_pillow else None)
            yield f"{rule} of float32 pixels", "one order", pixels


def _values(image: Pixels, result: Pixels) -> tuple[Array, NDArray[np.bool_]] | None:
    """The value of each byte of each channel, and which bytes there are; None where a byte has several values."""
    bits = np.ascontiguousarray(result).view(f"u{result.dtype.itemsize}")
    channels = image.shape[2]
    values, seen = np.zeros((channels, 256), bits.dtype), np.zeros((channels, 256), bool)
    for channel in range(channels):
        places, wanted = image[..., channel].ravel(), bits[..., channel].ravel()
        values[channel][places], seen[channel][places] = wanted, True
        if not np.array_equal(values[channel][places], wanted):
            return None
    return values.view(result.dtype), seen


class _Conversions:
    """The conversions of bytes to a type that have names, by the 256 values of each channel."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        tables = [(words, options, self._table(options)) for words, options in _named_conversions(dtype)]
        self._named = [(words, options, table) for words, options, table in tables if table is not None]

    def of(self, values: Array, seen: NDArray[np.bool_], order: str, elements: int) -> list[tuple[str, Options | None]]:
        """What may have given these values to so many elements, in words and as options of `Preprocess`.

        An unknown conversion needs elements that repeat their bytes, without which any values would fit.
        """
        bits = values.view(f"u{values.dtype.itemsize}")

        def fits(table: Array) -> bool:
            return bool((table[: len(bits)] == bits)[seen].all())

        known: list[tuple[str, Options | None]]
        known = [(words, options) for words, options, table in self._named if fits(table)]
        if order == "BGR" and not known:
            known = [(f"{words}, in the order BGR", None) for words, _, table in self._named if fits(table[::-1])]
        lines = [_line(row, here) for row, here in zip(values, seen, strict=True)]
        known = known or list(self._fitted(lines, fits))
        if not known and elements >= _REPEATS * seen.sum():
            words = ", ".join(f"x * {slope:.6g} + {addend:.6g}" for slope, addend in lines)
            known = [(f"unknown, near {words}", None)]
        return known

    def _fitted(self, lines: list[tuple[float, float]], fits: Callable[[Array], bool]) -> Iterator[tuple[str, Options]]:
        """The mean and standard deviation of the fewest decimals that give the values of these lines."""
        if self._dtype.kind != "f" or any(slope <= 0 for slope, _ in lines):
            return
        deviations = [1 / (255 * slope) for slope, _ in lines]
        means = [-addend * deviation for (_, addend), deviation in zip(lines, deviations, strict=True)]
        for digits in range(1, _MOST_DIGITS + 1):
            mean, std = ([round(number, digits) + 0.0 for number in numbers] for numbers in (means, deviations))
            for arithmetic in ARITHMETIC_RULES if all(std) else ():
                options = {"mean": mean, "std": std, "arithmetic": arithmetic, "dtype": self._dtype.name}
                table = self._table(options)
                if table is not None and fits(table):
                    yield f"mean={mean}, std={std}, arithmetic={arithmetic!r}", options
                    return

    def _table(self, options: Options) -> Array | None:
        """The bits of the 256 values of three channels; None for options that this type does not have."""
        ramp = np.repeat(np.arange(256, dtype=np.uint8), 3).reshape(1, 256, 3)
        try:
            table = relayout(ramp, dims="HWC", device="cpu", **options).numpy()
        except StridedGpuError:
            return None
        return np.ascontiguousarray(table.reshape(3, 256)).view(f"u{self._dtype.itemsize}")


_REPEATS: Final = 2
_MOST_DIGITS: Final = 8


def _line(values: Array, seen: NDArray[np.bool_]) -> tuple[float, float]:
    """The factor and the addend of the line that fits the values of the bytes that are there."""
    if seen.sum() < 2:
        return 0.0, 0.0
    slope, addend = np.polyfit(np.flatnonzero(seen), values[seen].astype(np.float64), 1)
    return float(slope), float(addend)


def _named_conversions(dtype: np.dtype[Any]) -> Iterator[tuple[str, Options]]:
    """The conversions that options of `relayout` name."""
    yield ("none" if dtype == np.uint8 else f"a cast to {dtype}"), {"dtype": dtype.name}
    if dtype.kind != "f":
        return
    names = {figures: name for name, figures in reversed(NORMALISATIONS.items())}
    for name, arithmetic in product(reversed(names.values()), ARITHMETIC_RULES):
        options = {"normalize": name, "arithmetic": arithmetic, "dtype": dtype.name}
        yield f"normalize={name!r}, arithmetic={arithmetic!r}", options


def _declaration(geometry: _Geometry, pipeline: Pipeline, conversion: Options | None) -> str | None:
    """The `Preprocess` that does the same; None where it has no options for it."""
    if geometry.options is None or conversion is None or pipeline.channels not in ("RGB", "BGR"):
        return None
    options: dict[str, Any] = {"dims": "HWC", **geometry.options}
    if pipeline.interpolation == "none":
        options.pop("resize", None)
    else:
        options["interpolation"] = pipeline.interpolation
    if pipeline.passes in PASSES:
        options["passes"] = pipeline.passes
    if pipeline.channels == "BGR":
        options["channels"] = (2, 1, 0)
    stated = ", ".join(f"{name}={value!r}" for name, value in {**options, **conversion}.items())
    return f"sg.Preprocess({stated})"
