"""`Preprocess`: one declared step from decoded pictures to a network's input, for a loop, a loader or an engine."""

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
    """Pictures to a network's input as a value: declared once, pickled to any worker, called with batches.

    A call takes a dict of columns, a bare array, or a list of pictures of different sizes, `Frame`s among them as RGB,
    and returns the same kind with only the pictures changed; the input is never written, and may be read-only. No
    engine is imported. The device is looked for where the step is first called, in the worker, and kept there. What
    comes out is the caller's: its memory serves a later call once nothing refers to it any more, and not before.

    - `column`: the name of the pictures' column. Not needed for bare arrays and lists.
    - `dims`: the order of the given axes ("NHWC"); pictures in lists have the same without N.
    - `layout`, `dtype`, `scale`, `bias`, `channels`, `row_pitch_bytes` (bytes), `alignment` (bytes): as in `relayout`,
      `layout` being a plain order such as "NCHW" or "NHWC".
    - `mean`, `std`: in units of 0..1 of an integer picture, one or one for each output channel, as in torchvision; they
      take the place of `scale` and `bias`.
    - `resize`: height and width in pixels, or with `crop` the shorter side alone, as torchvision's Resize.
    - `crop`: height and width in pixels, or one number for both. Without `seed` the middle is taken, with one a window
      by chance. A smaller picture is a bad row.
    - `random_resized_crop`: the ranges of the share of the area and of width / height, or True for torchvision's own,
      ((0.08, 1), (3/4, 4/3)); the box becomes `crop`. It is drawn with `seed`; without, it is the middle.
    - `letterbox`: height and width, or one number for both: pictures whole inside it, with borders of 114.
    - `interpolation`: as in `resize`; "pillow-bilinear" where it is None, and "opencv-linear" with `letterbox`.
    - `flip`: whether to mirror left and right; with `seed`, with which probability.
    - `seed`: an integer. What chance decides depends on it and on each row's key alone: the same in any process, batch
      size and order. The key is the value in column `key` (integer, string or bytes); else what the call is given as
      `keys`, such as indices; else the picture's own pixels, which costs a hash of them. A new epoch takes a new seed.
    - `device`: "cpu", "cuda", "cuda:N"; "auto" is the first CUDA device that works in the worker, else the CPU.
    - `errors`: "raise" names the row of a picture that cannot be used; "skip" drops its row from every column, logs why
      and counts it in `skipped`.
    - `output`: "numpy" for arrays, whose axes are in the order of `layout` and which engines carry; "tensor" for
      `StridedTensor`s with canonical axes, left on the device.

    With `crop`, `letterbox` or a `resize` to height and width a list of pictures in a column becomes one array;
    without, a list (an object array, where it was one).

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
        """The declaration, without what this process has made of it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def _worker(self) -> Worker:
        held: Worker | None = self.__dict__.get("_held")
        if held is None:
            from .worker import Worker  # what only workers need is loaded there

            held = self.__dict__.setdefault("_held", Worker(self))  # of several threads, one's
        return held

    @property
    def skipped(self) -> int:
        """How many rows this process has dropped so far, with errors="skip"."""
        return self._worker.skipped

    def __call__(self, batch: Any, keys: Any = None, *, block_info: Any = None) -> Any:
        """The batch with its pictures preprocessed.

        `keys` holds each row's key, where no column does (Hugging Face: `with_indices=True`); `block_info` is what Dask
        says of a block, whose rows then have their place in the whole array as key.
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
        """A list of samples as a batch of PyTorch tensors: what `DataLoader` takes as `collate_fn`.

        A sample is a dict, a tuple such as (picture, label), or a picture alone; `column` and `key` are names or places
        in it (a tuple's picture is its first part unless `column` says otherwise). All but the pictures goes through
        PyTorch's `default_collate`. Pictures have sizes (N, C, H, W), and `layout` is their memory format: "NHWC" is
        channels_last.

        Raises as a call does; pictures of different sizes need `crop`.
        """
        from .collate import collated

        return collated(self, self._worker, samples)

    def dask_kwargs(self, array: Any) -> dict[str, Any]:
        """What `array.map_blocks(step, **step.dask_kwargs(array))` needs: dtype, chunks and meta of the result.

        `array` has Dask's `shape` and `chunks`. Raises `LayoutError` where blocks do not hold whole pictures
        (`array.rechunk` makes them), or where rows could be dropped, which would change the chunks.
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
        """The batch's columns with one of them changed, and without the rows that were dropped."""
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
        """Preprocess an array, or pictures that lie apart."""
        if isinstance(given, (list, tuple)) or (isinstance(given, np.ndarray) and given.dtype == object):
            return self._worker.images(list(given), keys)
        if given is None or isinstance(given, (str, bytes, Path)):
            raise LayoutError(
                f"The batch is a {type(given).__name__}; it is a dict of columns, or pictures in an array or a list."
            )
        return self._worker.batch(given, keys)

    def _exported(self, pictures: StridedTensor | list[StridedTensor]) -> Any:
        """What goes out: tensors, or arrays with their axes in the order of `layout`."""
        if isinstance(pictures, list):
            return [self._exported(picture) for picture in pictures]
        if self.output == "tensor":
            return pictures
        return self._worker.array(pictures)


def _rows_of(name: object, values: Any, rows: list[int], count: int) -> Any:
    """Some rows of a column, of the same kind where that can be told."""
    if not hasattr(values, "__len__") or len(values) != count:
        held = f"{len(values)} rows" if hasattr(values, "__len__") else f"a {type(values).__name__}"
        raise LayoutError(f"column {name!r} holds {held} beside {count} pictures: a row cannot be dropped from it.")
    return values[rows] if hasattr(values, "shape") else [values[row] for row in rows]
