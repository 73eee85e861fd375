"""`Preprocess`: one declared step from decoded images to a network's input, for a loop, a loader or an engine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypedDict, TypeVar, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from stridedgpu.api.creation import asarray
from stridedgpu.api.frames import Frame
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.operand import Operand
from stridedgpu.exchange.exports import numpy_dtype
from stridedgpu.typing import TensorLike, VideoFrameLike
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.strides import integers, listed

from .annotations import moved_annotations
from .captured import CapturedPreprocess
from .declaration import MOST_PIXELS, Declaration, UserData
from .decoding import Decoder
from .epochs import Chance, EpochCounter, checked_epoch
from .geometry import Placement, fits_crop, padded_sizes, placement_of
from .images import encoded_images, is_encoded, is_flat, is_one_image, pillow_images, with_named_axes
from .torch_loader import IndexedDataset, check_torch_types, collated, share_cores, torch_of_output, torch_tensors
from .worker import BatchResult, Call, Worker, is_sequence

if TYPE_CHECKING:
    import torch
    from typing_extensions import TypeVar as TypeVarWithDefault

    from stridedgpu.adapters.torchvision import ImageKind


K = TypeVar("K")
L = TypeVar("L", list[Any], tuple[Any, ...])
O = TypeVar("O")

if TYPE_CHECKING:
    Output = TypeVarWithDefault("Output", bound=Literal["numpy", "tensor", "torch"], default=Literal["numpy"])
else:
    Output = TypeVar("Output")  # a default needs Python 3.13

_Images: TypeAlias = "TensorLike | Frame | VideoFrameLike"


class _Call(TypedDict, total=False):
    """The keyword arguments that every call of a step takes."""

    epoch: int | None
    block_info: object


class _CallWithOut(_Call, total=False):
    """And `out`."""

    out: object


@dataclass(frozen=True, slots=True)
class Advancing:
    """The batches of a loader, each pass in the next epoch of a step; see `Preprocess.advancing`."""

    step: Preprocess[Any]
    batches: Iterable[object]

    def __iter__(self) -> Iterator[Any]:
        """A pass: the epoch begins here, before the loader tells its workers to go on."""
        self.step.begin_epoch()
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)  # type: ignore[arg-type]


@dataclass(frozen=True, repr=False)
class Preprocess(Declaration, Generic[Output]):
    """Images to a network's input, as a value: declared once, pickled to any worker, called with batches.

    A call takes a dict of columns, a bare array, a list of images of different sizes, or one image: an array without
    the axis N, a Pillow image, a `Frame`, a `VideoFrame` of PyAV or an encoded image, which is bytes, a bytearray or a
    memoryview of JPEG, PNG, WebP and others, which Pillow decodes. Frames are
    RGB images, of any sizes and formats among others in a list, and are converted as they are read. The call
    returns the same kind with only the images and their annotations changed. The input is never written, and may be
    read-only. No engine is imported. The worker selects the device at the first call, and keeps it. The caller owns the
    result: a later call reuses its memory only once nothing refers to it any more.

    Images:

    - `column`: the name of the images' column. Not needed for bare arrays and lists.
    - `dims`: the order of the given axes ("NHWC"); images in lists have the same without N. An order without N, such
      as "HWC", means a batch of such images, and so does a `layout` without N.
    - `mode`: "rgb" or "gray". Pillow's and encoded images become RGB where it is None, upright by their EXIF
      orientation unless `exif=False`; `preprocess/images.py` has the rule of each mode. Arrays stay as they are where
      it is None; else 1 to 4 channels are grey, grey and alpha, RGB, RGB and alpha, and alpha is dropped. Frames are
      RGB; "gray" is the luma of that, in one pass for 8 bits.
    - `layout`, `dtype`, `scale`, `bias`, `channels`, `matrix`, `row_pitch_bytes` (bytes), `alignment` (bytes): as in
      `relayout`, `layout` being an order such as "NCHW" or "NHWC", or "NHWC8", with zeros behind each pixel's
      channels; an array has the axes of the order, without these. On a GPU a matrix mixes what is resized,
      and windows of arrays, in a second pass; it takes no `gain` and `offset`. Files and Pillow's images of more than
      8 bits are bad rows of a step whose figures are for bytes: `scale=1 / 255`, or transformers' rescale factor.
    - `normalize`: "0..1", "imagenet", "clip", "siglip" or "inception"; or `mean`, `std`: in units of 0..1 of an integer
      image, one or one for each output channel, as in torchvision. They replace `scale` and `bias`. Named figures of
      red, green and blue follow `channels`; a grey image that `channels` repeats three times has all three.
    - `maximum`: the value that becomes 1, such as 1023, 4095 or 65535; by default the largest of the images' type.
    - `arithmetic`: "multiply" computes `mean` and `std` as one factor and one addend; "divide" as
      `((x / maximum) - mean) / std`, each step rounded to float32, as torchvision's `ToTensor` and `Normalize` do;
      "torchvision-v2" as v2's `ToDtype(scale=True)` and `Normalize`; "transformers" and "transformers-pil" as
      transformers' image processors, whose `rescale_factor` is `scale`.
    - `clip`: a window of values, such as (-1000, 400) of Hounsfield units. Values are clamped to it before anything
      else, and it becomes 0..1 for `normalize`, `mean` and `std`. With `normalize="0..1"` no value of an image leaves
      0..1, unless a cubic or Lanczos `resize` overshoots. For images on the CPU.

    Geometry, in this order:

    - `resize`: height and width in pixels, or one number for the shorter side, as torchvision's Resize; `max_size` is
      then the most of the longer side. Without `crop` the results have sizes of their own.
    - `pad`: pixels around, one number, rows and columns, or top, left, bottom and right; filled with `fill`.
    - `fill`: one number, or one for each channel, in units of bytes whatever the images' types: 0 is black and 255 is
      the value that becomes 1 (an integer type's largest, 1 of floats, `maximum`, the upper end of `clip`, whose lower
      end is then 0). It is rounded for integers. 0 by default, and 114, YOLO's grey, with `letterbox`. Or a word,
      by which the image goes on around itself, as by `numpy.pad` and torchvision's `padding_mode`: "reflect",
      "symmetric" or "edge"; its `mask` goes on alike.
    - `crop`: height and width in pixels, or one number for a square, as torchvision's CenterCrop. Without `seed` the
      middle window is taken, with one a random window, unless `random_crop=False`.
    - `smaller`: what becomes of images that are smaller than `crop`: "refuse", bad rows, or "pad", with `fill` around
      them, as torchvision's CenterCrop does, and RandomCrop with `pad_if_needed`.
    - `center`: where the middle window begins if half a pixel is left over: "round", to even, as in torchvision, or
      "floor", as in transformers.
    - `random_resized_crop`: the ranges of the share of the area and of width / height, or True for torchvision's own,
      ((0.08, 1), (3/4, 4/3)); the box is resized to `crop`. It is random with `seed`, else the middle.
    - `letterbox`: height and width, or one number for a square, as in Ultralytics' LetterBox: whole images inside it,
      with borders of `fill`.
    - `interpolation`: as in `resize`; "pillow-bilinear" where it is None, and "opencv-linear" with `letterbox`.
    - `passes`: "pillow-13", "horizontal", the order of Pillow up to 12, or "vertical", as in `resize`; None is
      "pillow-13", and warns once a process where the installed Pillow is older.
    - `flip`: whether to mirror left and right; with `seed`, the probability to mirror, and True is one half.

    Chance:

    - `seed`: an integer. Random choices depend on it, on the epoch and on each row's key alone: they are the same in
      any process, batch size and order. The key is the value in column `key` (integer, string or bytes). Without a
      column it comes from the call's `keys`, such as indices, or from `dataset`; without these it is a hash of the
      image's sizes and of at most 1,024 of its pixels.
    - Epochs begin with `set_epoch`, or with each pass over `advancing(loader)`; both reach workers that hold a copy. A
      step that draws the same sample again without either warns once.
    - `gain`, `offset`: ranges from which a factor and an addend (in units of 0..1) are drawn for each channel.

    Annotations, as columns that move with their images:

    - `mask`: arrays (height, width), Pillow images or encoded ones: nearest pixels, in their own type, around them
      `mask_fill`. Masks of single objects are arrays (k, height, width), and come back as a list of these.
    - `mask_interpolation`: "pillow-nearest", "opencv-nearest" or "torch-nearest"; None is that of the library whose
      rule resizes the images.
    - `boxes`, `points`: numbers (k, 4) in `box_format` ("xyxy", "xywh", "cxcywh" or "tlbr") and (k, 2), x and y, in
      pixels of the upright image. All come back, in pixels of the result; some may lie outside, unless `clamp_boxes`
      moves what lies beyond an edge onto it, as torchvision's v2 does. A box that is outside has then no area.
      `placements` leads back.

    Engines:

    - `device`: "cpu", "cuda", "cuda:N"; "auto" is the first CUDA device that works in the worker, else the CPU. In a
      worker process of PyTorch's DataLoader a call has one thread, unless `set_num_threads` or `STRIDEDGPU_THREADS`
      sets another number.
    - `errors`: "raise" names the row of an unusable image; "skip" drops its row from every column, logs why and counts
      it in `skipped`.
    - `output`: "numpy" for arrays, with axes in the order of `layout`, which engines can transport; "tensor" for
      `StridedTensor`s with canonical axes, left on the device; "torch" for PyTorch's tensors over the same memory.
      These have canonical axes too: `layout="NHWC"` is PyTorch's channels_last. Masks, boxes and points become tensors
      as well. To type checkers such steps are a `Preprocess[Literal["tensor"]]` and a `Preprocess[Literal["torch"]]`.

    With `crop`, `letterbox` or a `resize` to height and width, a list of images in a column becomes one array.
    Otherwise it becomes a list (an object array, if it was one).

    Raises `LayoutError` for a declaration that breaks a rule, `ElementTypeError` for an unknown type; when called,
    also what `relayout` and `gather_crops` raise, and `DeviceError` for output="torch" without PyTorch.

    >>> step = Preprocess("image", dtype="float16", mean=0.5, std=0.5, crop=2)
    >>> step
    Preprocess('image', dtype='float16', mean=(0.5,), std=(0.5,), crop=(2, 2))
    >>> batch = {"image": np.full((8, 4, 6, 3), 255, np.uint8), "label": np.arange(8)}
    >>> result = step(batch)
    >>> image = result["image"]
    >>> image.shape, image.dtype, float(image.max()), result["label"] is batch["label"]
    ((8, 3, 2, 2), dtype('float16'), 1.0, True)
    """

    output: Output = field(default="numpy", kw_only=True)  # type: ignore[arg-type]

    @classmethod
    def from_torchvision(cls, transforms: object, *, images: ImageKind = "pil", **options: object) -> Preprocess[Any]:
        """The step with the values of torchvision's transforms, to the bit: a Compose, v2's or the older one.

        `images` is what the transforms are given: "pil", RGB images of Pillow (or arrays of them, NHWC), or "tensor",
        tensors of bytes (C, H, W). It decides whose resize is meant, Pillow's or ATen's; behind ToImage and PILToTensor
        in the transforms it is ATen's. Resize, CenterCrop, RandomCrop, RandomResizedCrop, RandomHorizontalFlip, Pad,
        Grayscale, RGB, ToImage, PILToTensor, ToTensor, ToDtype, ConvertImageDtype, ToPureTensor, Identity, Normalize
        and the transforms of weights for classification are reproduced, in the order grey, resize, pad, crop, mirror.
        `options` are further arguments of the step, such as `column`, `device`, `layout`, or another `dtype` of the
        result. torchvision is not imported.

        Random transforms need `seed=`, and draw by this library's rule: a crop depends on the seed, the epoch and the
        image's key, and is none that torchvision would draw.
        `passes` is the order of the installed Pillow where it is not among the options.

        Raises `LayoutError` for a transform that a step does not reproduce, with where it can go instead.

        >>> Preprocess.from_torchvision([])
        Preprocess(dtype='uint8', exif=False)
        """
        from stridedgpu.adapters.torchvision import step_options

        return cls(**step_options(transforms, images, options))

    def __repr__(self) -> str:
        """The declaration as source code, without defaults."""
        arguments = [] if self.column is None else [repr(self.column)]
        values = ((field.name, getattr(self, field.name), field.default) for field in fields(self)[1:])
        arguments += [f"{name}={value!r}" for name, value, default in values if value != default]
        return f"Preprocess({', '.join(arguments)})"

    def __post_init__(self) -> None:
        """Check the declaration; a step with a seed has an epoch, which its copies in other processes share."""
        super().__post_init__()
        if self.seed is not None:
            self.__dict__["_epochs"] = EpochCounter()

    def __getstate__(self) -> dict[str, object]:
        """The declaration and its epoch, without the worker of this process."""
        state = {field.name: getattr(self, field.name) for field in fields(self)}
        counter = self._counter
        return state if counter is None else {**state, "_epochs": counter.pickled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Continue at the epoch of the pickled step; a pickle from before epochs existed begins at 0."""
        self.__dict__.update(state)
        epoch = state.get("_epochs", 0)
        if self.seed is not None and not isinstance(epoch, EpochCounter):
            self.__dict__["_epochs"] = EpochCounter(epoch)

    @property
    def _counter(self) -> EpochCounter | None:
        counter: EpochCounter | None = self.__dict__.get("_epochs")
        return counter

    @property
    def _worker(self) -> Worker:
        """This process's worker, created at the first call: a forked process chooses its device anew."""
        worker: Worker | None = self.__dict__.get("_process_worker")
        if worker is not None and worker.process == os.getpid():
            return worker
        share_cores()
        if self.output == "torch":
            torch_of_output()  # raises where it is not installed, before anything is computed
        fresh = Worker(self, self._counter)
        if worker is None:
            worker = self.__dict__.setdefault("_process_worker", fresh)  # atomic: threads share the first one's worker
        else:
            worker = self.__dict__["_process_worker"] = fresh
        return worker

    @property
    def epoch(self) -> int:
        """The epoch that random choices depend on; 0 without a seed."""
        return 0 if self._counter is None else self._counter.epoch

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch, an integer from 0: other crops, flips and colours for the same samples.

        It reaches the copies in processes that this one has forked or spawned, persistent workers of PyTorch included,
        whose current batches it may still change: call it between passes. Elsewhere give the epoch with the call; a
        pickle holds the epoch of its time. Without a seed nothing is random, and nothing changes.

        >>> step = Preprocess(crop=2, seed=1)
        >>> step.set_epoch(3)
        >>> step.epoch
        3
        """
        number = checked_epoch(epoch)
        if self._counter is not None:
            self._counter.set(number)

    def begin_epoch(self) -> int:
        """Begin a pass over the samples, and return its epoch, for loaders that know when a pass begins.

        The first pass has the current epoch, each later one the next, unless `set_epoch` was called between.
        """
        return 0 if self._counter is None else self._counter.begin()

    def advancing(self, batches: Iterable[object]) -> Advancing:
        """The batches of a loader that collates with this step; every pass over them begins the next epoch.

        >>> step = Preprocess(crop=2, seed=1)
        >>> loader = step.advancing([np.zeros((1, 4, 4, 3), np.uint8)])
        >>> [step.epoch for _ in range(3) for batch in loader]
        [0, 1, 2]
        """
        return Advancing(self, batches)

    def dataset(self, dataset: object) -> IndexedDataset:
        """A map-style data set of PyTorch whose samples have their indices, which `collate` uses as keys."""
        return IndexedDataset(dataset)

    def placements(
        self, sizes: Sequence[tuple[int, int]], keys: Sequence[object] | None = None, *, epoch: int | None = None
    ) -> list[Placement]:
        """The placements of images of these sizes (height, width), which map boxes and points there and back.

        `keys` has the key of each image, which a step with a seed needs. `Placement` has `boxes`, `boxes_back`,
        `points` and `points_back`.

        >>> placed = Preprocess(letterbox=640).placements([(1080, 1920)])[0]
        >>> placed.boxes_back([[100, 150, 200, 250]]).tolist()
        [[300.0, 30.0, 600.0, 330.0]]
        """
        entries = listed(sizes)
        if entries is None:
            raise LayoutError(f"sizes={sizes!r} is not a sequence of sizes (height, width).")
        pairs = []
        for number, entry in enumerate(entries):
            pair = integers(f"sizes[{number}]", entry, least=0)
            if len(pair) != 2 or max(pair) > MOST_PIXELS:
                raise LayoutError(f"sizes[{number}]={pair} must be two integers up to {MOST_PIXELS}: height and width.")
            pairs.append((pair[0], pair[1]))
        if self.seed is None:
            return [placement_of(self, pair, None) for pair in pairs]
        named = listed(keys)
        if named is None or len(named) != len(pairs):
            raise LayoutError(f"placements by chance need keys=, one for each of the {len(pairs)} sizes.")
        when = self.epoch if epoch is None else checked_epoch(epoch)
        chances = [Chance.of(self.seed, when, key) for key in named]
        return [placement_of(self, pair, chance) for pair, chance in zip(pairs, chances, strict=True)]

    def rehearse(self) -> None:
        """Call the step with zeros, as `sg.warmup(step)` does, and drop the results.

        They are bytes, or of the smallest integers that hold the declared `maximum` or `clip`; else of float32.

        Images are larger than the step's result, and also of its size and smaller where it resizes. They come as one
        array and, with rows, as a list, with as many channels as the declaration names, else 3. Where Pillow is
        installed and the step takes its images, they come from Pillow too, and encoded. Raises what a call raises.
        """
        height, width = ((self.resize or self.window or (0,)) * 2)[:2]
        if self.matrix is not None:
            channels = len(self.matrix[0])
        else:
            channels = self.channel_count or 3 if self.channels is None else max(*self.channels, 2) + 1
        larger = {"C": channels, "D": 8, "H": max(1080, 3 * height + 37), "W": max(1920, 3 * width + 37)}
        several = [larger]
        if self.resizes:
            # Images that shrink little or by one half exactly, stay, grow, or are tall have loops of their own.
            factors = ((2.2, 2.2), (2, 2), (1.2, 1.2), (1, 1), (0.4, 0.4), (0.05, 0.05), (2.5, 1.2))
            several += [
                larger | {"H": max(int(tall * height), 8), "W": max(int(wide * width), 8)} for tall, wide in factors
            ]
        keys, axis = (0, 1), self.dims.index("N")
        low, high = self.clip or (0, self.maximum or 0)
        kinds = (np.uint8, np.uint16) if self.resizes else (np.uint8, np.uint16, np.int16)
        ranges = [np.iinfo(kind) for kind in kinds]
        element = next((one.dtype for one in ranges if one.min <= low and high <= one.max), np.dtype(np.float32))
        takes_pillow = is_flat(self.image_axes) and element == np.uint8 and (self.mode is not None or channels == 3)
        for sizes in several:
            if not fits_crop(self, (sizes["H"], sizes["W"])):
                continue
            batch = np.zeros([2 if letter == "N" else sizes[letter] for letter in self.dims], element)
            self._result(batch, keys, 0, None)
            if "H" in self.dims:
                self._result([np.take(batch, row, axis) for row in keys], keys, 0, None)
            if takes_pillow:
                for image in pillow_images(sizes["H"], sizes["W"]):
                    self._result([image], keys[:1], 0, None)
        if takes_pillow:
            for encoded in encoded_images():
                Decoder.of("pillow", self, deep=True).frame(encoded, "the image")

    @property
    def skipped(self) -> int:
        """The number of rows that this process has dropped so far, with errors="skip"."""
        return self._worker.skipped

    @overload
    def __call__(self, batch: Mapping[K, object], keys: object = ..., **how: Unpack[_CallWithOut]) -> dict[K, Any]: ...
    @overload
    def __call__(self, batch: L, keys: object = ..., *, out: None = ..., **how: Unpack[_Call]) -> L: ...
    @overload
    def __call__(self, batch: _Images, keys: object = ..., *, out: O, **how: Unpack[_Call]) -> O: ...
    @overload
    def __call__(
        self: Preprocess[Literal["numpy"]], batch: _Images, keys: object = ..., *, out: None = ..., **how: Unpack[_Call]
    ) -> NDArray[Any]: ...
    @overload
    def __call__(
        self: Preprocess[Literal["tensor"]],
        batch: _Images,
        keys: object = ...,
        *,
        out: None = ...,
        **how: Unpack[_Call],
    ) -> StridedTensor: ...
    @overload
    def __call__(
        self: Preprocess[Literal["torch"]], batch: _Images, keys: object = ..., *, out: None = ..., **how: Unpack[_Call]
    ) -> torch.Tensor: ...

    def __call__(
        self, batch: Any, keys: Any = None, *, epoch: int | None = None, out: Any = None, block_info: Any = None
    ) -> Any:
        """The batch with its images preprocessed; one image gives one array, (C, H, W).

        One image is Pillow's, a frame, an encoded image, or an array of 1 to 4 channels without the axis N.

        `keys` holds each row's key if no column does (Hugging Face: `with_indices=True`); of one image it is its key.
        `epoch` is the epoch of this call alone. `out` is memory that the images' result is written into, and which is
        returned in its place: an array with the axes of `layout`, or a `StridedTensor` (N, C, H, W), of the declared
        type, on the step's device; N of one image is 1. `block_info` is Dask's description of a block; the keys of its
        rows are then their positions in the whole array.
        """
        when = None if epoch is None else checked_epoch(epoch)
        batch = with_named_axes(batch)
        if isinstance(batch, Mapping):
            return self._columns(batch, keys, when, out)
        if is_one_image(self, batch):
            target = None if out is None else self._output(out)
            result = self._worker.images([batch], Call(None if keys is None else [keys], when, target))
            if out is not None:
                return out
            return self._one_by_one(self._exported(result.images))[0] if result.rows else None
        if keys is None and block_info and 0 in block_info:
            keys = range(*block_info[0]["array-location"][self.dims.index("N")])
        if keys is None and self.key is not None:
            raise LayoutError(f"key={self.key!r} is a column, and the batch has none: give keys= with the call.")
        if self.annotations:
            raise LayoutError(f"{self} names columns that belong to the images, and the batch has none: give a dict.")
        result = self._result(batch, keys, when, out)
        images = self._exported(result.images) if out is None else out
        if out is None and isinstance(batch, (list, tuple)):
            images = self._one_by_one(images)
            return tuple(images) if isinstance(batch, tuple) else list(images)
        return images

    def _one_by_one(self, images: UserData) -> UserData:
        """A result, of an array with the axis of its images first."""
        return np.moveaxis(images, self.order.index("N"), 0) if isinstance(images, np.ndarray) else images

    def captured(self, images: object, keys: object = None, *, epoch: int | None = None) -> CapturedPreprocess:
        """The step for these images as a CUDA graph: its launches are captured once, and every call replays them.

        `images` is a batch, or a list of images or frames of any sizes, on the step's device. The result is called like
        the step, with as many images. It writes and returns one tensor (N, C, H, W) on the device, whatever `output`
        is, with the step's bits. A call without arguments launches the graph, which reads the same memory again: write
        the next images there, in the order of the stream.

            captured = step.captured(images)
            while True:
                read_into(images)
                model(captured())

        Raises `DeviceError` for a step that is not on a CUDA device, and `LayoutError` for one that a graph cannot
        hold: with `errors="skip"`, annotations, `gain` or `offset`, or a `matrix` beside windows; a list without a
        common window, frames that are not resized, and a seed without `keys`.
        """
        when = self.epoch if epoch is None else checked_epoch(epoch)
        return CapturedPreprocess(self, self._worker, images, keys, when)

    def collate(self, samples: Sequence[object]) -> Any:
        """A list of samples as a batch of PyTorch tensors, as the `collate_fn` of `DataLoader`.

        A sample is a dict, a tuple such as (image, label), or an image alone. `column` and `key` are names or places in
        it; a tuple's image is its first part unless `column` says otherwise. Samples of `dataset` have their index as
        key. Everything but the images and what belongs to them goes through PyTorch's `default_collate`; masks become
        one tensor, boxes and points lists of tensors. Images have sizes (N, C, H, W), and `layout` is their memory
        format: "NHWC" is channels_last. In a worker process they are written into the memory that PyTorch shares.

        Raises what a call raises; images of different sizes need `crop`.
        """
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
        if len(array.shape) != len(self.dims) or self.dims.index("N") != self.order.index("N"):
            raise LayoutError(
                f"An array of shape {array.shape} has not the axes {self.dims}, or {self.layout} moves its rows."
            )
        chunks = dict(zip(self.dims, array.chunks, strict=True))
        cut = [letter for letter, sizes in chunks.items() if letter != "N" and len(sizes) > 1]
        if cut:
            whole = {self.dims.index(letter): -1 for letter in cut}
            raise LayoutError(f"Blocks hold parts of images, cut along {', '.join(cut)}; array.rechunk({whole}).")
        if self.channel_count is not None:
            chunks["C"] = (self.channel_count,)
        if self.moves_windows:
            height, width = self.window or padded_sizes(self, (chunks["H"][0], chunks["W"][0]))
            chunks["H"], chunks["W"] = (height,), (width,)
        dtype = numpy_dtype(element_type(self.dtype))
        return {
            "dtype": dtype,
            "chunks": tuple(chunks[letter] for letter in self.order),
            "meta": np.empty((0,) * len(self.order), dtype),
        }

    def _columns(
        self, batch: Mapping[UserData, UserData], keys: UserData, epoch: int | None, out: UserData
    ) -> dict[UserData, UserData]:
        """The batch's columns with those of the images replaced, and without the dropped rows."""
        names = f"whose columns are {', '.join(map(repr, batch))}" if batch else "which is empty"
        for name in ("column", "key", "mask", "boxes", "points"):
            column = getattr(self, name)
            if column is not None and column not in batch:
                raise LayoutError(f"{name}={column!r} is not in the batch, {names}.")
        if self.column is None:
            raise LayoutError(f"column= has to say where the images are in a batch {names}: Preprocess('image', ...).")
        images = with_named_axes(batch[self.column])
        if self.output == "torch":
            for annotation in self.annotations:
                check_torch_types(batch[annotation], f"column {annotation!r}", "f")
        result = self._result(images, batch[self.key] if self.key is not None else keys, epoch, out)
        for annotation in self.annotations:
            _check_rows(annotation, batch[annotation], len(images))
        moved = moved_annotations(self, self._worker, result, batch.__getitem__)
        replaced = {name: _alike(self._exported(values), batch[name]) for name, values in moved.items()}
        replaced[self.column] = _alike(self._exported(result.images), images) if out is None else out
        columns = dict(batch)
        if len(result.rows) < len(images):
            for name, values in batch.items():
                if name not in replaced:
                    _check_rows(name, values, len(images), ": a row cannot be dropped from it")
                    columns[name] = _rows_of(values, result.rows)
        return columns | replaced

    def _result(self, images: UserData, keys: UserData, epoch: int | None, out: UserData) -> BatchResult:
        """Preprocess an array, or images that are separate objects."""
        call = Call(keys, epoch, None if out is None else self._output(out))
        if isinstance(images, (list, tuple)) or (isinstance(images, np.ndarray) and images.dtype == object):
            return self._worker.images(list(images), call)
        if images is None or isinstance(images, (str, Path)) or is_encoded(images):
            raise LayoutError(
                f"The batch is a {type(images).__name__}; it is a dict of columns, or images in an array or a list."
            )
        return self._worker.batch(images, call)

    def _output(self, out: UserData) -> Operand:
        """The caller's memory with its axes in canonical order. Raises `LayoutError` if it cannot be written."""
        if self.errors == "skip":
            raise LayoutError("out= has a row for every image: declare errors='raise', which drops none.")
        if isinstance(out, StridedTensor):
            return out.operand
        return asarray(out, dims=self.order, copy=False).operand

    def _exported(self, images: StridedTensor | list[StridedTensor]) -> UserData:
        """The result for the caller: tensors, or arrays with their axes in the order of `layout`."""
        if self.output == "torch":
            return torch_tensors(images)
        if isinstance(images, list):
            return [self._exported(image) for image in images]
        if self.output == "tensor" or not isinstance(images, StridedTensor):
            return images
        return self._worker.array(images)


def _alike(values: object, column: object) -> UserData:
    """A list as an object array, or as one array, if the column that it replaces was one."""
    if not isinstance(values, list) or not isinstance(column, np.ndarray):
        return values
    if column.dtype != object and values and all(isinstance(value, np.ndarray) for value in values):
        return np.stack(values)
    objects = np.empty(len(values), object)
    for row, value in enumerate(values):
        objects[row] = value
    return objects


def _check_rows(name: object, values: UserData, count: int, why: str = "") -> None:
    """Raise `LayoutError` unless a column has a value for each image."""
    if not is_sequence(values) or len(values) != count:
        size = f"{len(values)} rows" if is_sequence(values) else f"a {type(values).__name__}"
        raise LayoutError(f"column {name!r} holds {size} beside {count} images{why}.")


def _rows_of(values: UserData, rows: list[int]) -> object:
    """Some rows of a column, of the column's own type if that is known."""
    return values[rows] if hasattr(values, "shape") else [values[row] for row in rows]
