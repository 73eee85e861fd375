"""Samples of a source by their number, for `load`: the image of each, its key, and the columns beside the image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from stridedgpu.exchange.array_like import array_of_values
from stridedgpu.values.errors import ElementTypeError, LayoutError

from .declaration import Declaration, UserData
from .decoding import Decoder
from .files import ImageError, image_names
from .images import is_encoded, is_pillow_image

_MASKS_OF_OBJECTS: Final = len("kHW")

_NAME: Final = "name"
"""The column with the names of a folder's files."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample's number, its key, its image as it was stored, and its columns beside the image."""

    number: int
    key: object
    image: UserData
    columns: tuple[UserData, ...]

    def pixels(self, decoder: Decoder) -> UserData:
        """The image's pixels: decoded if it is a path, encoded bytes or an image of Pillow, else as they are.

        Raises `ImageError`.
        """
        if isinstance(self.image, (str, Path)):
            return decoder.frame(Path(self.image), str(self.image))
        if is_encoded(self.image):
            return decoder.frame(self.image, "the image")
        return decoder.of_pillow(self.image, "the image") if is_pillow_image(self.image) else self.image

    @property
    def is_encoded(self) -> bool:
        """True if `pixels` decodes it, so that its pixels are RGB. Pillow is not imported for this."""
        return isinstance(self.image, (str, Path)) or is_encoded(self.image) or is_pillow_image(self.image)


@dataclass(frozen=True, slots=True)
class Form:
    """The form of samples and of batches: a dict or tuple with the image in one place, or the image alone.

    The columns `lists` are lists in batches also where their arrays have one shape, and so is the column `mask` of
    arrays (k, H, W).
    """

    kind: type | None
    names: tuple[object, ...] = ()
    place: object = None
    lists: tuple[object, ...] = ()
    mask: object = None

    @classmethod
    def of(cls, sample: object, step: Declaration) -> Form:
        """The form of a sample. Raises `LayoutError` if it has not the columns that the step names."""
        kind: type | None = None
        names: tuple[UserData, ...] = ()
        if isinstance(sample, Mapping):
            kind, names = dict, tuple(sample)
        elif isinstance(sample, (tuple, list)):
            kind, names = tuple, tuple(range(len(sample)))
        place = 0 if step.column is None else step.column
        named = [(field, getattr(step, field)) for field in ("key", "mask", "boxes", "points")]
        for argument, name in (("column", None if kind is None else place), *named):
            if name is not None and name not in names:
                parts = ", ".join(map(repr, names)) or "no parts"
                raise LayoutError(f"{argument}={name!r} is not in the samples, which have {parts}.")
        lists = tuple(name for name in (step.boxes, step.points) if name is not None)
        return cls(kind, names, place, lists, step.mask)

    @property
    def beside(self) -> list[UserData]:
        """The names of the columns beside the image, in the order of `Sample.columns`."""
        return [name for name in self.names if name != self.place]

    def batch(self, images: object, rows: Sequence[Sample]) -> UserData:
        """The images of a batch with the other columns of its rows, which are at least one."""
        if self.kind is None:
            return images
        values = dict(zip(self.beside, zip(*(row.columns for row in rows), strict=True), strict=True))
        lists = set(self.lists)
        if self.mask is not None and any(np.ndim(mask) == _MASKS_OF_OBJECTS for mask in values[self.mask]):
            lists.add(self.mask)
        parts = {
            name: images if name == self.place else list(values[name]) if name in lists else _column(values[name])
            for name in self.names
        }
        return tuple(parts.values()) if self.kind is tuple else parts


class Source(Protocol):
    """Numbered samples, of one form."""

    @property
    def form(self) -> Form:
        """The form of the samples."""

    @property
    def is_encoded(self) -> bool:
        """True if `Sample.pixels` decodes the first image; all others are assumed alike."""

    def __len__(self) -> int:
        """The number of samples."""

    def __getitem__(self, number: int) -> Sample:
        """A sample; called by several threads at once. Raises `ImageError` for an unusable one."""


def source_of(source: object, step: Declaration) -> Source:
    """The samples of a folder of images, or of anything with a length and numbered samples.

    Raises `LayoutError` for anything else, and `ImageError` for a folder without images.
    """
    if isinstance(source, (str, Path)):
        folder = Path(source)
        if not folder.is_dir():
            raise LayoutError(f"source={str(source)!r} is not a folder; give a folder, or a list of files or samples.")
        return _Folder(folder, step)
    if not (hasattr(source, "__len__") and hasattr(source, "__getitem__")):
        raise LayoutError(
            f"source is of type {type(source).__name__}, which has no length and no numbered samples; give a folder, a "
            "list of files, or a data set with __len__ and __getitem__."
        )
    return _Dataset(source, step)


class _Folder:
    """The files of a folder and below, whose keys are their names in it, as for the command line."""

    is_encoded = True

    def __init__(self, folder: Path, step: Declaration) -> None:
        if step.annotations:
            raise LayoutError(f"a folder of files has no columns {step.annotations}: give a data set that has them.")
        if step.key not in (None, _NAME):
            raise LayoutError(f"key={step.key!r} is no column of a folder of files, which has {_NAME!r}.")
        self._folder = folder
        self._names = list(image_names(folder))
        self.form = Form(None) if step.column is None else Form(dict, (step.column, _NAME), step.column)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, number: int) -> Sample:
        name = self._names[number]
        return Sample(number, name, self._folder / name, () if self.form.kind is None else (name,))


class _Dataset:
    """A data set's samples, whose keys are their numbers, or the column that the step names."""

    def __init__(self, dataset: UserData, step: Declaration) -> None:
        self._dataset, self._key = dataset, step.key
        first = self._first() if len(dataset) else None
        self.form = Form(None) if first is None else Form.of(first, step)
        self.is_encoded = first is None or self._sample(0, first).is_encoded

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, number: int) -> Sample:
        return self._sample(number, self._fetched(number))

    def _first(self) -> UserData:
        """The first sample that can be fetched."""
        for number in range(len(self) - 1):
            with suppress(ImageError):
                return self._fetched(number)
        return self._fetched(len(self) - 1)

    def _fetched(self, number: int) -> object:
        try:
            return self._dataset[number]
        except OSError as problem:  # a file that is missing or damaged, also where Pillow opens it
            raise ImageError(f"it cannot be read: {problem}.") from problem
        except Exception as problem:
            problem.add_note(f"Sample {number} of the source raised this.")
            raise

    def _sample(self, number: int, sample: UserData) -> Sample:
        form = self.form
        if form.kind is None:
            return Sample(number, number, sample, ())
        try:
            parts = {name: sample[name] for name in form.names}
        except (LookupError, TypeError):
            names = ", ".join(map(repr, form.names))
            raise ImageError(f"it has not the parts {names}, which the first sample has.") from None
        key = number if self._key is None else parts[self._key]
        return Sample(number, key, parts.pop(form.place), tuple(parts.values()))


def _column(values: tuple[object, ...]) -> object:
    """The values of a column: an array if they are numbers or arrays of one shape, else a list."""
    try:
        array = array_of_values(values)
    except ElementTypeError:  # arrays of several shapes
        return list(values)
    return array if array.dtype.kind in "biufc" else list(values)
