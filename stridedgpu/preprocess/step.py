"""`Preprocess`: one declared step from decoded images to a network's input, for a loop, a loader or an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.exchange.exports import numpy_dtype
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import LayoutError

from .declaration import Declaration

if TYPE_CHECKING:
    from .worker import Made, Worker

__all__ = ["Preprocess"]


class Preprocess(Declaration):
    """Images to a network's input, as a value: declared once, pickled to any worker, called with batches.

    A call takes a dict of columns, a bare array, or a list of images of different sizes; `Frame`s count as RGB images.
    It returns the same kind with only the images changed. The input is never written, and may be read-only. No engine
    is imported. The device is selected in the worker, at the first call, and kept. The caller owns the result: its
    memory is reused by a later call only once nothing refers to it any more.

    - `column`: the name of the images' column. Not needed for bare arrays and lists.
    - `dims`: the order of the given axes ("NHWC"); images in lists have the same without N.
    - `layout`, `dtype`, `scale`, `bias`, `channels`, `row_pitch_bytes` (bytes), `alignment` (bytes): as in `relayout`,
      `layout` being a plain order such as "NCHW" or "NHWC".
    - `mean`, `std`: in units of 0..1 of an integer image, one or one for each output channel, as in torchvision; they
      replace `scale` and `bias`.
    - `resize`: height and width in pixels, or with `crop` the shorter side alone, as torchvision's Resize.
    - `crop`: height and width in pixels, or one number for both. Without `seed` the middle window is taken, with one a
      random window. A smaller image is a bad row.
    - `random_resized_crop`: the ranges of the share of the area and of width / height, or True for torchvision's own,
      ((0.08, 1), (3/4, 4/3)); the box is resized to `crop`. It is random with `seed`, else the middle.
    - `letterbox`: height and width, or one number for both: whole images inside it, with borders of 114.
    - `interpolation`: as in `resize`; "pillow-bilinear" where it is None, and "opencv-linear" with `letterbox`.
    - `flip`: whether to mirror left and right; with `seed`, the probability to mirror.
    - `seed`: an integer. Random choices depend on it and on each row's key alone: they are the same in any process,
      batch size and order. The key is the value in column `key` (integer, string or bytes). Without a column it comes
      from the call's `keys`, such as indices; without these it is a hash of the image's pixels, which costs time. Give
      each epoch a new seed.
    - `device`: "cpu", "cuda", "cuda:N"; "auto" is the first CUDA device that works in the worker, else the CPU.
    - `errors`: "raise" names the row of an unusable image; "skip" drops its row from every column, logs why and counts
      it in `skipped`.
    - `output`: "numpy" for arrays, with axes in the order of `layout`, which engines can transport; "tensor" for
      `StridedTensor`s with canonical axes, left on the device.

    With `crop`, `letterbox` or a `resize` to height and width, a list of images in a column becomes one array.
    Otherwise it becomes a list (an object array, if it was one).

    Raises `LayoutError` for a declaration that breaks a rule, `ElementTypeError` for an unknown type; when called,
    also what `relayout` and `gather_crops` raise.

    >>> step = Preprocess("image", dtype="float16", mean=0.5, std=0.5, crop=2)
    >>> step
    Preprocess('image', dtype='float16', mean=(0.5,), std=(0.5,), crop=(2, 2))
    >>> batch = {"image": np.full((8, 4, 6, 3), 255, np.uint8), "label": np.arange(8)}
    >>> made = step(batch)
    >>> made["image"].shape, made["image"].dtype, float(made["image"].max()), made["label"] is batch["label"]
    ((8, 3, 2, 2), dtype('float16'), 1.0, True)
    """

    def __repr__(self) -> str:
        """What was declared, as it would be written."""
        given = [] if self.column is None else [repr(self.column)]
        values = ((field.name, getattr(self, field.name), field.default) for field in fields(self)[1:])
        given += [f"{name}={value!r}" for name, value, default in values if value != default]
        return f"Preprocess({', '.join(given)})"

    def __getstate__(self) -> dict[str, Any]:
        """The declaration, without the worker of this process."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def _worker(self) -> Worker:
        held: Worker | None = self.__dict__.get("_held")
        if held is None:
            from .worker import Worker  # imported here, since only workers need it

            held = self.__dict__.setdefault("_held", Worker(self))  # atomic: threads share the first one's worker
        return held

    @property
    def skipped(self) -> int:
        """The number of rows that this process has dropped so far, with errors="skip"."""
        return self._worker.skipped

    def __call__(self, batch: Any, keys: Any = None, *, block_info: Any = None) -> Any:
        """The batch with its images preprocessed.

        `keys` holds each row's key if no column does (Hugging Face: `with_indices=True`). `block_info` is Dask's
        description of a block; the keys of its rows are then their positions in the whole array.
        """
        if isinstance(batch, Mapping):
            return self._columns(batch, keys)
        if keys is None and block_info and 0 in block_info:
            keys = range(*block_info[0]["array-location"][self.dims.index("N")])
        if keys is None and self.key is not None:
            raise LayoutError(f"key={self.key!r} is a column, and the batch has none: give keys= with the call.")
        made = self._made(batch, keys)
        pictures = self._exported(made.pictures)
        if isinstance(batch, (list, tuple)):
            return tuple(pictures) if isinstance(batch, tuple) else list(pictures)
        return pictures

    def collate(self, samples: Sequence[Any]) -> Any:
        """A list of samples as a batch of PyTorch tensors, as the `collate_fn` of `DataLoader`.

        A sample is a dict, a tuple such as (image, label), or an image alone. `column` and `key` are names or places in
        it; a tuple's image is its first part unless `column` says otherwise. Everything but the images goes through
        PyTorch's `default_collate`. Images have sizes (N, C, H, W), and `layout` is their memory format: "NHWC" is
        channels_last.

        Raises what a call raises; images of different sizes need `crop`.
        """
        from .collate import collated

        return collated(self, self._worker, samples)

    def dask_kwargs(self, array: Any) -> dict[str, Any]:
        """The keyword arguments of `array.map_blocks(step, **step.dask_kwargs(array))`: dtype, chunks and meta.

        `array` has Dask's `shape` and `chunks`. Raises `LayoutError` if blocks do not contain whole images
        (`array.rechunk` makes such blocks), or if rows could be dropped, which would change the chunks.
        """
        if self.errors == "skip" or self.output != "numpy":
            raise LayoutError(f"{self} has no chunks known ahead: with Dask, errors='raise' and output='numpy'.")
        if not hasattr(array, "chunks"):
            raise LayoutError(f"dask_kwargs takes a Dask array, not a {type(array).__name__}.")
        if len(array.shape) != len(self.dims) or self.dims.index("N") != self.layout.index("N"):
            raise LayoutError(
                f"An array of shape {array.shape} has not the axes {self.dims}, or {self.layout} moves its rows."
            )
        chunks = dict(zip(self.dims, array.chunks, strict=True))
        cut = [letter for letter, sizes in chunks.items() if letter != "N" and len(sizes) > 1]
        if cut:
            whole = {self.dims.index(letter): -1 for letter in cut}
            raise LayoutError(f"Blocks hold parts of pictures, cut along {', '.join(cut)}; array.rechunk({whole}).")
        if self.channels is not None:
            chunks["C"] = (len(self.channels),)
        if self.window is not None:
            chunks["H"], chunks["W"] = (self.window[0],), (self.window[1],)
        dtype = numpy_dtype(element_type(self.dtype))
        return {
            "dtype": dtype,
            "chunks": tuple(chunks[letter] for letter in self.layout),
            "meta": np.empty((0,) * len(self.layout), dtype),
        }

    def _columns(self, batch: Mapping[Any, Any], keys: Any) -> dict[Any, Any]:
        """The batch's columns with the image column replaced, and without the dropped rows."""
        names = f"whose columns are {', '.join(map(repr, batch))}" if batch else "which is empty"
        for name, column in (("column", self.column), ("key", self.key)):
            if column is not None and column not in batch:
                raise LayoutError(f"{name}={column!r} is not in the batch, {names}.")
        if self.column is None:
            raise LayoutError(
                f"column= has to say where the pictures are in a batch {names}: Preprocess('image', ...)."
            )
        given = batch[self.column]
        made = self._made(given, batch[self.key] if self.key is not None else keys)
        pictures = self._exported(made.pictures)
        if isinstance(pictures, list) and isinstance(given, np.ndarray):
            held = np.empty(len(pictures), object)
            held[:] = pictures if len(pictures) != 1 else [None]
            if len(pictures) == 1:
                held[0] = pictures[0]
            pictures = held
        others = dict(batch)
        if len(made.rows) < len(given):
            others = {
                name: _rows_of(name, values, made.rows, len(given))
                for name, values in batch.items()
                if name != self.column
            }
        return {name: pictures if name == self.column else others[name] for name in batch}

    def _made(self, given: Any, keys: Any) -> Made:
        """Preprocess an array, or images that are separate objects."""
        if isinstance(given, (list, tuple)) or (isinstance(given, np.ndarray) and given.dtype == object):
            return self._worker.images(list(given), keys)
        if given is None or isinstance(given, (str, bytes, Path)):
            raise LayoutError(
                f"The batch is a {type(given).__name__}; it is a dict of columns, or pictures in an array or a list."
            )
        return self._worker.batch(given, keys)

    def _exported(self, pictures: StridedTensor | list[StridedTensor]) -> Any:
        """The result as the caller sees it: tensors, or arrays with their axes in the order of `layout`."""
        if isinstance(pictures, list):
            return [self._exported(picture) for picture in pictures]
        if self.output == "tensor":
            return pictures
        return self._worker.array(pictures)


def _rows_of(name: object, values: Any, rows: list[int], count: int) -> Any:
    """Some rows of a column, of the column's own type if that is known."""
    if not hasattr(values, "__len__") or len(values) != count:
        held = f"{len(values)} rows" if hasattr(values, "__len__") else f"a {type(values).__name__}"
        raise LayoutError(f"column {name!r} holds {held} beside {count} pictures: a row cannot be dropped from it.")
    return values[rows] if hasattr(values, "shape") else [values[row] for row in rows]
