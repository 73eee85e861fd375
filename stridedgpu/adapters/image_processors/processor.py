"""`image_processor` and `video_processor`: those of transformers, to the bit, on the CPU and on GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate, islice, pairwise
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from stridedgpu.api.arguments import operands_of_list
from stridedgpu.api.creation import asarray, empty, zeros
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.cpu.recycled_memory import RecycledMemory
from stridedgpu.devices.operand import Operand
from stridedgpu.devices.selection import chosen_device
from stridedgpu.operations.images import CropSources
from stridedgpu.operations.options import truth
from stridedgpu.preprocess.images import encoded_images, is_encoded, is_pillow_image, pillow_images
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.preprocess.torch_loader import imported_torch
from stridedgpu.problems.resize_problem import ResizeRule
from stridedgpu.typing import DeviceLike
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import is_one_of

from .declaration import Declared, declared_by
from .forms.job import Filled, Images, Job, Joined, Listed, Moved, OfTensors, Stated
from .inputs import broadcast, image_operand, nested_images, opened
from .kinds.kind import BACKENDS
from .normalising import Backend, Normalising, figures_of
from .outputs import results
from .rendering import Renderer, resize_rule
from .sampling import Recorded, descriptions, recorded, sampled_frames
from .sizes import is_count, shortest_edge
from .stamps import stamped
from .videos import Clip, frame_reader, listed_videos

_WITHOUT_EFFECT: Final = frozenset(
    (
        "data_format",
        "max_image_size",
        "frame_timestamp_format",
        "total_pixels",
        "font",
        "disable_grouping",
        "do_reduce_labels",
        "default_to_square",
        "image_seq_length",
    )
)
"""Options that have no effect on images."""

_BESIDE: Final = frozenset(
    (
        *("segmentation_maps", "annotations", "masks_path", "return_segmentation_masks", "instance_id_to_semantic_id"),
        *("prompt_images", "prompt_masks", "prompt_depth", "boxes", "keypoints"),
    )
)
"""Arguments for what belongs to images, which is not processed here."""

_RGB: Final = 3

_REHEARSED: Final = ((1080, 1920), (720, 1280), (480, 640), (640, 480), (300, 200), (224, 224), (60, 80))
"""Heights and widths of images that shrink far, shrink little, stay and grow."""

_SHAPES: Final = ((1000, 2000), (2000, 1000), (300, 431))
"""Heights and widths of images that show whether a size is the shorter side's, and how the longer one is rounded."""

Tensors = Literal["np", "pt"]


class ImageFeatures(dict[str, Any]):
    """The results of a processor by their keys, which are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no {name!r}; there are {', '.join(self)}.") from None


def image_processor(
    source: object, *, backend: Backend | None = None, device: DeviceLike | None = None, as_files: bool = False
) -> ImageProcessor:
    """An image processor of transformers, with its keys, shapes, types and bits.

    `source` is a processor of transformers (5.x), its dict (`to_dict()`), or the path of a `preprocessor_config.json`
    or of a folder with one. An object alone needs transformers. A source of a video processor gives what
    `video_processor` does.
    `backend` says whose bits: "torchvision" or "pil"; None is that of the source, else transformers' default,
    "torchvision", or the only one that the class has. `device` is where results are computed and lie; None is that of
    the images. With `as_files` encoded images (bytes) are what transformers makes of a path or an address: upright by
    their EXIF orientation, and RGB as Pillow converts. Else they are what it makes of the opened image: as the camera
    stored it, in its own mode.

    The bits are those of transformers 5.24 on the CPU, for images of bytes: with torch 2.13's and torchvision 0.28's
    resize, or with that of the Pillow that is installed. What would differ is refused.

    Raises `LayoutError` for a source that is no image processor, for classes that are not reproduced, and for options
    that are not.

    >>> import numpy as np
    >>> processor = image_processor({"image_processor_type": "ViTImageProcessor", "size": 2}, backend="pil")
    >>> photo = np.full((6, 8, 3), 255, np.uint8)
    >>> batch = processor([photo, photo], return_tensors="np")
    >>> batch["pixel_values"].shape, float(batch.pixel_values.max())
    ((2, 3, 2, 2), 1.0)
    """
    return _processor(declared_by(source), backend, device, as_files=truth("as_files", as_files))


def video_processor(
    source: object, *, backend: Backend | None = None, device: DeviceLike | None = None
) -> VideoProcessor:
    """A video processor of transformers, with its keys, shapes, types and bits.

    `source` is a video processor of transformers (5.x), its dict (`to_dict()`), or the path of a
    `video_preprocessor_config.json` or of a model's folder. As in transformers, a folder without one, and a
    `preprocessor_config.json`, have the video processor that is named as their image processor. An object alone needs
    transformers. `backend` is None or "torchvision", which is the only one. `device` is where results are computed and
    lie; None is that of the frames.

    The bits are those of transformers 5.24 on the CPU, for frames of bytes, with torch 2.13's and torchvision 0.28's
    resize. What would differ is refused.

    Raises `LayoutError` for a source that is no video processor, for classes that are not reproduced, and for options
    that are not.

    >>> import numpy as np
    >>> processor = video_processor({"video_processor_type": "VideoMAEVideoProcessor", "size": 2, "crop_size": 2})
    >>> frames = [np.full((6, 8, 3), 255, np.uint8)] * 16
    >>> processor(frames, return_tensors="np")["pixel_values"].shape
    (1, 16, 3, 2, 2)
    """
    processor = _processor(declared_by(source, is_video=True), backend, device)
    assert isinstance(processor, VideoProcessor), "a declaration of a video processor was asked for"
    return processor


def _processor(
    declared: Declared, backend: Backend | None, device: DeviceLike | None, *, as_files: bool = False
) -> ImageProcessor:
    if backend is not None and not is_one_of(backend, BACKENDS):
        raise LayoutError(f"backend={backend!r} is unknown; it is 'torchvision' or 'pil'.")
    made = VideoProcessor if declared.kind.is_video else ImageProcessor
    return made(declared, backend or declared.backend or declared.kind.backends[0], device, as_files)


class ImageProcessor:
    """An image processor of transformers, made by `image_processor`; called with images, as the original is.

    `backend` is whose bits it has, `device` where it computes (None: where the images are), `as_files` whether encoded
    images become upright and RGB, and `step` the `Preprocess` with the same pixels.
    """

    def __init__(self, declared: Declared, backend: Backend, device: DeviceLike | None, as_files: bool = False) -> None:
        self.backend: Final = backend
        self.as_files: Final = as_files
        self.device: Final = None if device is None else chosen_device(device)
        self._declared = declared
        self._memory = RecycledMemory()
        self._jobs: dict[str, Job] = {}
        _renders(declared, backend)  # raises for what is not reproduced

    def __reduce__(self) -> tuple[Any, ...]:
        """The declaration alone: another process has memory and plans of its own."""
        return type(self), (self._declared, self.backend, self.device, self.as_files)

    def __repr__(self) -> str:
        """The class and what differs from its defaults."""
        kind = self._declared.kind
        stated = {key: value for key, value in self._declared.values.items() if value != kind.defaults[key]}
        options = ", as_files=True" * self.as_files + "".join(f", {key}={value!r}" for key, value in stated.items())
        return f"{type(self).__name__}({self._declared.name!r}, backend={self.backend!r}{options})"

    def to_dict(self) -> dict[str, Any]:
        """The options and the class's name, as `image_processor` and `video_processor` take them."""
        values = {key: value for key, value in self._declared.values.items() if value is not None}
        named = "video_processor_type" if self._declared.kind.is_video else "image_processor_type"
        return {**values, named: self._declared.name}

    @property
    def step(self) -> Preprocess[Any] | None:
        """The `Preprocess` that gives a list of RGB images the same pixels; None where none does.

        With `as_files` it turns Pillow's images upright, too. Images that `do_center_crop` would surround with zeros
        are bad rows of the step, and so are Pillow's of more than 8 bits.
        """
        step = _step(self._declared, self.backend)
        return replace(step, exif=True) if self.as_files and step is not None else step

    def __call__(self, images: Any, return_tensors: Tensors | None = None, **overrides: Any) -> ImageFeatures:
        """Process images: one, a list, lists of lists, or batches; of Pillow, arrays or tensors of bytes, or encoded.

        Encoded images are bytes, bytearrays or memoryviews of JPEG, PNG, WebP and others; Pillow opens them and leaves
        them in the camera's orientation, unless the processor was made with `as_files=True`. A `Frame`, and a
        `VideoFrame` of PyAV, is an RGB image.

        `return_tensors` is "np" or "pt"; None gives lists of arrays where the original has lists, and on another device
        `StridedTensor`s. `overrides` are options of the processor, for this call.

        Raises `LayoutError` for images and options that do not fit and for encoded bytes that are no image,
        `ElementTypeError` for arrays that are not bytes, `TypeError` for an option that the processor lacks.
        """
        tensors = _checked_tensors(return_tensors)
        declared, device = self._overridden(overrides)
        groups = nested_images(images, as_files=self.as_files, alone=declared.kind.alone)
        if not any(groups):
            raise LayoutError("images is empty: a call needs one image.")
        converts = bool(declared.values["do_convert_rgb"]) and declared.kind.converts
        channels_of = declared.values["input_data_format"]

        def read(name: str, image: Any) -> Operand:
            converted = converts and (declared.kind.converts_arrays or is_pillow_image(image))
            return image_operand(name, image, self.backend, converts=converted, channels_of=channels_of)

        flat = operands_of_list("images", [image for group in groups for image in group], read)
        rest, first = iter(flat), flat[0]
        operands = [list(islice(rest, len(group))) for group in groups]
        CropSources.of_images(flat, "images").check(first.layout.sizes[0], first.element, first.buffer.device)
        where = device or first.buffer.device
        if first.layout.sizes[0] == 1 and declared.kind.broadcasts and self.backend == "torchvision":
            channels = self._job(declared, where).renderer.how.channels
            operands = [[broadcast(image, channels) for image in group] for group in operands]
        return self._features(declared, where, operands, tensors)

    def rehearse(self, **options: Any) -> None:
        """Call the processor with black images, as `sg.warmup(processor)` does, and drop the results.

        They are of seven sizes, up to 1080p, one and two in a call, or videos of two frames; where Pillow is installed,
        also its images and encoded ones. `options` are those of a call. A size that the processor refuses is left out.
        Raises what a call raises, if it takes none.
        """
        is_video = self._declared.kind.is_video
        if is_video:
            options = {"do_sample_frames": False, **options}
        images: list[Any] = [*encoded_images()]
        for sizes in _REHEARSED:
            images += [np.zeros((*sizes, _RGB), np.uint8), *pillow_images(*sizes)]
        refusal: LayoutError | None = None
        is_taken = False
        for image in images:
            for count in (2,) if is_video else (1, 2):
                try:
                    self([image] * count, **options)
                    is_taken = True
                except LayoutError as problem:
                    refusal = problem
        if refusal is not None and not is_taken:
            raise refusal

    def _features(
        self, declared: Declared, device: str, images: Images | list[Clip], tensors: Tensors | None
    ) -> ImageFeatures:
        outputs = results(self._job(declared, device), images)
        return ImageFeatures(
            (key, _returned(key, value, tensors, device))
            for key, value in outputs.items()
            if tensors is not None or not isinstance(value, OfTensors)
        )

    def _overridden(self, overrides: Mapping[str, Any]) -> tuple[Declared, str | None]:
        if not overrides:
            return self._declared, self.device
        values = dict(self._declared.values)
        device = self.device
        for name, value in overrides.items():
            if name == "device":
                device = self.device if value is None else chosen_device(str(value))
            elif name in _BESIDE:
                if value is not None:
                    raise LayoutError(f"{name}= is not processed here: give images alone, and {name} to transformers.")
            elif name in values:
                values[name] = value
            elif name not in _WITHOUT_EFFECT:
                raise TypeError(
                    f"{self._declared.name} has no option {name!r}; it has {', '.join(sorted(values))} and device."
                )
        return Declared(self._declared.name, values, self._declared.backend), device

    def _job(self, declared: Declared, device: str) -> Job:
        """How a call is carried out; that of the processor's own options is kept for each device."""
        if declared is self._declared and device in self._jobs:
            return self._jobs[device]
        renderer = Renderer(*_renders(declared, self.backend), device, self._memory)
        job = Job(declared, self.backend, renderer, self._declared.values)
        if declared is self._declared:
            self._jobs[device] = job
        return job


class VideoProcessor(ImageProcessor):
    """A video processor of transformers, made by `video_processor`; called with videos, as the original is.

    `backend` is whose bits it has, and `device` where it computes (None: where the frames are).
    """

    def __call__(  # type: ignore[override]  # videos= is the original's name
        self, videos: Any, return_tensors: Tensors | None = None, **overrides: Any
    ) -> ImageFeatures:
        """Process videos: one, or a list; each a list or an iterator of frames, or an array of bytes.

        Arrays, of NumPy or any library, have axes (T, H, W, C) or (T, C, H, W). Frames are arrays, tensors, images of
        Pillow, encoded images, `Frame`s, or `VideoFrame`s of PyAV, of which no RGB image is made. An iterator, such as
        a decoder's loop, is read frame by frame, and no frame is kept: `video_metadata=` says how many there are.

        With `do_sample_frames` some of the frames are taken; `video_metadata=` has each video's `total_num_frames`,
        `fps` and `duration`, as transformers' `VideoMetadata` or a dict. Beside the results there are a few resized
        frames in memory.

        `return_tensors` is "np" or "pt"; None gives lists of arrays where the original has lists, and on another device
        `StridedTensor`s. `overrides` are options of the processor, for this call. With `return_metadata` what is known
        of each video, by the names of `VideoMetadata`, is a result, too.

        Raises `LayoutError` for videos and options that do not fit and for frames that do not come, `ElementTypeError`
        for frames that are not bytes, `TypeError` for an option that the processor lacks.
        """
        tensors = _checked_tensors(return_tensors)
        declared, device = self._overridden(overrides)
        listed = listed_videos(videos)
        if not listed:
            raise LayoutError("videos is empty: a call needs one video.")
        described = descriptions(declared.values["video_metadata"], len(listed))
        clips, metadata = [], []
        for number, (frames, entry) in enumerate(zip(listed, described, strict=True)):
            clip, known = self._clip(declared, number, frames, entry)
            clips.append(clip)
            metadata.append(known)
        features = self._features(declared, device or clips[0].device, clips, tensors)
        if declared.values["return_metadata"]:
            features["video_metadata"] = metadata
        if declared.kind.is_last:
            features[declared.kind.key] = features.pop(declared.kind.key)
        return features

    def _clip(self, declared: Declared, number: int, frames: Any, described: Any) -> tuple[Clip, ImageFeatures]:
        """A video of a call, and what is known of it."""
        values, rule = declared.values, declared.kind.sampling
        assert rule is not None, "the class has the option"
        converts = bool(values["do_convert_rgb"]) and declared.kind.converts
        channels_of = values["input_data_format"]

        def read(name: str, frame: Any) -> Operand:
            image = opened(frame, name, as_files=self.as_files) if is_encoded(frame) else frame
            return image_operand(
                name, image, self.backend, converts=converts, channels_of=channels_of, known=_OF_FRAMES
            )

        known = None if described is None else recorded(number, described)
        clip = Clip.of(f"videos[{number}]", frames, frame_reader(read), None if known is None else known.whole)
        known = known or Recorded(clip.length)
        is_sampled = bool(values["do_sample_frames"])
        if is_sampled:
            clip.taken = sampled_frames(rule, self._declared.values, values, known, number, clip.length)
        if values.get("draw_on_frames"):
            known.rate = 24 if known.rate is None else known.rate
        metadata = ImageFeatures(clip.metadata(described, known, is_sampled=is_sampled))
        if values.get("draw_on_frames"):
            clip.drawn = stamped(values["font"], metadata, clip.taken, is_sampled=is_sampled)
        return clip, metadata


_OF_FRAMES: Final = (1, 3)
"""The channels by which an array of frames is known."""


def _checked_tensors(return_tensors: Any) -> Tensors | None:
    tensors: Tensors | None = getattr(return_tensors, "value", return_tensors)
    if tensors is not None and not is_one_of(tensors, ("np", "pt")):
        raise LayoutError(f"return_tensors={return_tensors!r} is unknown; it is 'np', 'pt' or None.")
    return tensors


def _renders(declared: Declared, backend: Backend) -> tuple[ResizeRule | None, Normalising]:
    """The resize and the arithmetic of a declaration. Raises `LayoutError` for options that are not reproduced."""
    values, kind = declared.values_of(backend), declared.kind
    if backend not in kind.backends:
        (only,) = kind.backends
        raise LayoutError(f"backend={backend!r} is none of {declared.name}, whose only one is {only!r}: leave it out.")
    for name, (value, why) in kind.only.items():
        if values[name] != value and (values[name] or value):
            raise LayoutError(f"{name}={values[name]!r} is not reproduced: {why}; give {name}={value!r}.")
    normalises, rescales_first = bool(values["do_normalize"]) and kind.normalises, kind.rescales_first
    rescales = bool(values["do_rescale"])
    floats = kind.resizes_floats or (rescales_first and rescales)
    rule = resize_rule(values["resample"], backend, floats=floats) if values["do_resize"] else None
    if normalises and (values["image_mean"] is None or values["image_std"] is None):
        raise LayoutError("do_normalize=True needs image_mean and image_std.")
    if values.get("offset") and not rescales:
        raise LayoutError("offset=True needs do_rescale=True: leave it on, or give offset=False.")
    if rescales and not values["rescale_factor"]:
        raise LayoutError("do_rescale=True needs rescale_factor.")
    keeps_bytes = backend == "torchvision" and (rescales_first or not normalises)
    if rescales and keeps_bytes and is_count(values["rescale_factor"]):
        alone = "" if rescales_first else " without do_normalize"
        raise LayoutError(
            f"rescale_factor={values['rescale_factor']}{alone} keeps bytes in transformers: state it as "
            f"{float(values['rescale_factor'])}, or leave do_rescale out."
        )
    if (rescales_first or kind.halves) and normalises and not rescales:
        raise LayoutError(f"do_normalize=True of {declared.name} needs do_rescale=True: it does not normalise bytes.")
    std = figures_of(values["image_std"])
    factor = float(values["rescale_factor"]) if rescales else None
    how = Normalising(
        backend,
        None if rescales_first else factor,
        figures_of(values["image_mean"]) if normalises else None,
        std if normalises else None,
        std if values.get("include_top") else None,
        bool((values.get("rescale_offset") or values.get("offset") or kind.offsets) and rescales),
        bool(kind.flips or values.get("do_flip_channel_order")),
        backend in kind.floats,
        factor if rescales_first else 1.0 if kind.resizes_floats else None,
        kind.halves,
    )
    return rule, how


def _step(declared: Declared, backend: Backend) -> Preprocess[Any] | None:
    """The `Preprocess` with a processor's pixels of RGB images; None where none has them."""
    values, kind = declared.values, declared.kind
    rule, how = _renders(declared, backend)
    converted = how.conversion(_RGB)
    if kind.form != "images" or rule is None or converted is None or (kind.pads and values["do_pad"]):
        return None
    if how.first is not None:  # a step resizes bytes
        return None
    job = Job(declared, backend, Renderer(rule, how, "cpu", RecycledMemory()), values)
    wide, tall = (job.resized(size) for size in _SHAPES[:2])
    if wide == tall:
        resize: tuple[int, ...] = wide
    elif job.window is not None and all(job.resized(size) == shortest_edge(size, min(wide)) for size in _SHAPES):
        resize = (min(wide),)
    else:
        return None
    least = resize if len(resize) == 2 else resize * 2
    if job.window is not None and any(side < wanted for side, wanted in zip(least, job.window, strict=True)):
        return None  # zeros surround what is resized
    passes = rule.passes if rule.interpolation.is_pillow else None
    return Preprocess(
        mode="rgb",
        exif=False,
        channels=converted.channels,
        resize=resize,
        crop=job.window,
        center="round" if job.window is None else "floor",
        interpolation=rule.interpolation.name,
        passes=passes,
        **how.keywords,
    )


def _returned(key: str, value: Any, tensors: Tensors | None, device: str) -> Any:
    if isinstance(value, Listed):
        whole = _array(value.batch, tensors)
        return whole if tensors is not None else _unstacked(whole, value.depth)
    if isinstance(value, Joined):
        whole = _array(value.batch, tensors)
        ends = accumulate(value.counts, initial=0)
        return whole if tensors is not None else [whole[first:end] for first, end in pairwise(ends)]
    if isinstance(value, Stated):
        return value.value
    if isinstance(value, list) and value and isinstance(value[0], Moved):
        return [_returned(key, one, tensors, device) for one in value]
    if isinstance(value, Moved):
        is_near = tensors == "np" or device == "cpu"
        whole = _array(value.array if is_near else asarray(value.array).to_device(device), tensors)
        return list(whole) if value.is_listed and tensors is None else whole
    if isinstance(value, Filled):
        videos = value.videos
        return [_array(video, None) for video in videos] if tensors is None else _array(_filled(key, videos), tensors)
    if isinstance(value, OfTensors):
        return _array(value.array, tensors)
    if isinstance(value, (StridedTensor, np.ndarray)):
        return _array(value, tensors)
    leaves = _leaves(value) if isinstance(value, list) else []
    if leaves and isinstance(leaves[0], StridedTensor):
        if tensors is None:
            return [_returned(key, one, None, device) for one in value]
        return _array(_stacked(key, value), tensors)
    if tensors is None:
        return value
    is_whole = not leaves or not isinstance(leaves[0], float)
    return _array(np.array(value, np.int64 if is_whole else np.float32 if tensors == "pt" else np.float64), tensors)


def _unstacked(whole: Any, depth: int) -> list[Any]:
    """The images of a batch as a list, or as lists of lists."""
    return [one if depth == 1 else _unstacked(one, depth - 1) for one in whole]


def _stacked(key: str, value: list[Any]) -> StridedTensor:
    """Images of a list, or of lists of one length, as one tensor. Raises `LayoutError` for images of several sizes."""
    leaves = _leaves(value)
    shapes = {leaf.sizes for leaf in leaves}
    counts = {len(one) for one in value if isinstance(one, list)}
    if len(shapes) > 1 or len(counts) > 1:
        kinds = f"the sizes {sorted(shapes)}" if len(shapes) > 1 else f"lists of {sorted(counts)} images"
        raise LayoutError(
            f"{key} has {kinds}, which are no tensor: return_tensors=None gives a list, and do_pad=True, where the "
            "processor has it, one size."
        )
    (sizes,) = shapes
    whole = empty((len(leaves), *sizes), leaves[0].element.name, device=leaves[0].device)
    for row, leaf in enumerate(leaves):
        whole[row][...] = leaf
    if not counts:
        return whole
    return whole.as_strided((len(value), *counts, *sizes), Layout((len(value), *counts, *sizes)).strides)


def _filled(key: str, videos: list[StridedTensor]) -> StridedTensor:
    """Videos as one tensor, with frames of zeros behind the shorter ones. Raises `LayoutError` for several sizes."""
    frames = {video.sizes[1:] for video in videos}
    if len(frames) > 1:
        raise LayoutError(f"{key} has frames of the sizes {sorted(frames)}, which are no tensor: return_tensors=None.")
    first, longest = videos[0], max(video.sizes[0] for video in videos)
    whole = zeros((len(videos), longest, *first.sizes[1:]), first.dtype, device=first.device)
    for row, video in enumerate(videos):
        whole[row, : video.sizes[0]][...] = video
    return whole


def _leaves(value: list[Any]) -> list[Any]:
    """What lists of lists hold."""
    return [leaf for one in value for leaf in (_leaves(one) if isinstance(one, list) else [one])]


def _array(value: StridedTensor | NDArray[Any], tensors: Tensors | None) -> Any:
    """An array as NumPy's, or PyTorch's; without either wish a tensor stays as it is where NumPy has none like it."""
    is_far = isinstance(value, StridedTensor) and (value.device != "cpu" or value.element.name == "bfloat16")
    is_near = not is_far
    if tensors is None and not is_near:
        return value
    if tensors == "pt":
        torch = imported_torch("return_tensors='pt'", "return_tensors='np'")
        if is_near:
            return torch.from_numpy(value if isinstance(value, np.ndarray) else value.numpy())
        return torch.from_dlpack(value)
    return value.numpy() if isinstance(value, StridedTensor) else value
