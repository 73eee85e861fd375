"""`image_processor`: the image processors of transformers, to the bit, on the CPU and on GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import numpy as np

from stridedgpu.api.creation import asarray, empty
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.cpu.recycled_memory import RecycledMemory
from stridedgpu.devices.selection import chosen_device
from stridedgpu.operations.images import CropSources
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.preprocess.torch_loader import imported_torch
from stridedgpu.problems.resize_problem import ResizeRule
from stridedgpu.typing import DeviceLike
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout

from .declaration import BACKENDS, Declared, declared_by, is_count
from .inputs import image_operand, nested_images
from .normalising import Backend, Normalising
from .outputs import Job, Listed, Moved, results
from .rendering import Renderer, resize_rule

__all__ = ["ImageProcessor", "image_processor"]

_WITHOUT_EFFECT: Final = frozenset(
    ("data_format", "disable_grouping", "do_reduce_labels", "default_to_square", "image_seq_length")
)
"""Options that have no effect on images."""

_BESIDE: Final = frozenset(
    ("segmentation_maps", "annotations", "masks_path", "return_segmentation_masks", "instance_id_to_semantic_id")
)
"""Arguments for what belongs to images, which is not processed here."""

_RGB: Final = 3

Tensors = Literal["np", "pt"]


class ImageFeatures(dict[str, Any]):
    """The results of an image processor by their keys, which are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        """A result."""
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no {name!r}; there are {', '.join(self)}.") from None


def image_processor(
    source: object, *, backend: Backend | None = None, device: DeviceLike | None = None
) -> ImageProcessor:
    """An image processor of transformers, with its keys, shapes, types and bits.

    `source` is an image processor of transformers (5.x), its dict (`to_dict()`), or the path of a
    `preprocessor_config.json` or of a folder that has one. Transformers is needed for the first alone. `backend` says
    whose bits: "torchvision" or "pil"; None is that of the source, else transformers' default, "torchvision". `device`
    is where results are computed and lie; None is that of the images.

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
    if backend is not None and backend not in BACKENDS:
        raise LayoutError(f"backend={backend!r} is unknown; it is 'torchvision' or 'pil'.")
    declared = declared_by(source)
    return ImageProcessor(declared, backend or declared.backend or BACKENDS[0], device)


class ImageProcessor:
    """An image processor of transformers, made by `image_processor`; called with images, as the original is.

    `backend` is whose bits it has, `device` where it computes (None: where the images are), and `step` the `Preprocess`
    with the same pixels.
    """

    def __init__(self, declared: Declared, backend: Backend, device: DeviceLike | None) -> None:
        self.backend: Final = backend
        self.device: Final = None if device is None else chosen_device(device)
        self._declared = declared
        self._memory = RecycledMemory()
        self._jobs: dict[str, Job] = {}
        _renders(declared, backend)  # raises for what is not reproduced

    def __reduce__(self) -> tuple[Any, ...]:
        """The declaration alone: another process has memory and plans of its own."""
        return ImageProcessor, (self._declared, self.backend, self.device)

    def __repr__(self) -> str:
        """The class and what differs from its defaults."""
        kind = self._declared.kind
        stated = {key: value for key, value in self._declared.values.items() if value != kind.defaults[key]}
        options = "".join(f", {key}={value!r}" for key, value in stated.items())
        return f"ImageProcessor({self._declared.name!r}, backend={self.backend!r}{options})"

    def to_dict(self) -> dict[str, Any]:
        """The options and the class's name, as `image_processor` takes them."""
        values = {key: value for key, value in self._declared.values.items() if value is not None}
        return {**values, "image_processor_type": self._declared.name}

    @property
    def step(self) -> Preprocess[Any] | None:
        """The `Preprocess` that gives a list of RGB images the same pixels; None where none does.

        Images that `do_center_crop` would surround with zeros are bad rows of the step.
        """
        return _step(self._declared, self.backend)

    def __call__(self, images: Any, return_tensors: Tensors | None = None, **overrides: Any) -> ImageFeatures:
        """Process images: one, a list, lists of lists, or batches; of Pillow, arrays or tensors of bytes, or encoded.

        Encoded images are bytes, bytearrays or memoryviews of JPEG, PNG, WebP and others; Pillow opens them and leaves
        them in the camera's orientation.

        `return_tensors` is "np" or "pt"; None gives lists of arrays where the original has lists, and on another device
        `StridedTensor`s. `overrides` are options of the processor, for this call.

        Raises `LayoutError` for images and options that do not fit, `ElementTypeError` for arrays that are not bytes,
        `StridedGpuError` for encoded bytes that are no image, `TypeError` for an option that the processor lacks.
        """
        if return_tensors not in (None, "np", "pt"):
            value = getattr(return_tensors, "value", return_tensors)
            if value not in ("np", "pt"):
                raise LayoutError(f"return_tensors={return_tensors!r} is unknown; it is 'np', 'pt' or None.")
            return_tensors = value
        declared, device = self._overridden(overrides)
        groups = nested_images(images)
        if not any(groups):
            raise LayoutError("images is empty: a call needs one image.")
        numbered, number = [], 0
        for group in groups:
            operands = []
            for image in group:
                operands.append(
                    image_operand(
                        number,
                        image,
                        self.backend,
                        converts=bool(declared.values["do_convert_rgb"]),
                        channels_of=declared.values["input_data_format"],
                    )
                )
                number += 1
            numbered.append(operands)
        flat = [operand for operands in numbered for operand in operands]
        first = flat[0]
        CropSources.of_images(flat, "images").check(first.layout.sizes[0], first.element, first.buffer.device)
        where = device or first.buffer.device
        job = self._job(declared, where)
        found = results(job, numbered)
        return ImageFeatures((key, _returned(key, value, return_tensors, where)) for key, value in found.items())

    def _overridden(self, overrides: Mapping[str, Any]) -> tuple[Declared, str | None]:
        """The declaration of a call, and its device."""
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
        job = Job(declared, self.backend, Renderer(*_renders(declared, self.backend), device, self._memory))
        if declared is self._declared:
            self._jobs[device] = job
        return job


def _renders(declared: Declared, backend: Backend) -> tuple[ResizeRule | None, Normalising]:
    """The resize and the arithmetic of a declaration. Raises `LayoutError` for options that are not reproduced."""
    values, kind = declared.values, declared.kind
    rule = resize_rule(values["resample"], backend) if values["do_resize"] else None
    normalises = bool(values["do_normalize"]) and kind.normalises
    if normalises and (values["image_mean"] is None or values["image_std"] is None):
        raise LayoutError("do_normalize=True needs image_mean and image_std.")
    if values["do_rescale"] and not values["rescale_factor"]:
        raise LayoutError("do_rescale=True needs rescale_factor.")
    if values["do_rescale"] and not normalises and backend == "torchvision" and is_count(values["rescale_factor"]):
        raise LayoutError(
            f"rescale_factor={values['rescale_factor']} without do_normalize keeps bytes in transformers: state it as "
            f"{float(values['rescale_factor'])}, or leave do_rescale out."
        )
    std = _figures(values["image_std"])
    how = Normalising(
        backend,
        float(values["rescale_factor"]) if values["do_rescale"] else None,
        _figures(values["image_mean"]) if normalises else None,
        std if normalises else None,
        std if values.get("include_top") else None,
        bool(values.get("rescale_offset") and values["do_rescale"]),
        bool(values.get("do_flip_channel_order")),
        kind.form == "patches" and backend == "pil",
    )
    return rule, how


def _figures(figures: Any) -> tuple[float, ...] | float | None:
    """A mean or a std as a value that can be hashed."""
    if figures is None or isinstance(figures, (int, float)):
        return None if figures is None else float(figures)
    return tuple(float(figure) for figure in figures)


def _step(declared: Declared, backend: Backend) -> Preprocess[Any] | None:
    """The `Preprocess` with a processor's pixels of RGB images; None where none has them."""
    values, kind = declared.values, declared.kind
    rule, how = _renders(declared, backend)
    converted = how.conversion(_RGB)
    if kind.form != "images" or rule is None or converted is None or (kind.pads and values["do_pad"]):
        return None
    job = Job(declared, backend, Renderer(rule, how, "cpu", RecycledMemory()))
    # Two images, of which one is wide and one is tall, show whether a size is the shorter side's.
    wide, tall = (job.resized(size) for size in ((1000, 2000), (2000, 1000)))
    if wide == tall:
        resize: tuple[int, ...] = wide
    elif job.window is not None and wide == (min(wide), 2 * min(wide)) and tall == wide[::-1]:
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
    """A result as it is asked for."""
    if isinstance(value, Listed):
        if tensors is not None:
            return _array(value.batch, tensors)
        batch = _array(value.batch, None)
        return [batch[row] for row in range(len(batch))]
    if isinstance(value, StridedTensor):
        return _array(value, tensors)
    if isinstance(value, Moved):
        if tensors == "np" or device == "cpu":
            whole: Any = _array(value.array, tensors)
        else:
            whole = _array(asarray(value.array).to_device(device), tensors)
        return list(whole) if value.is_listed and tensors is None else whole
    if isinstance(value, np.ndarray):
        return _array(value, tensors)
    if value and isinstance(value[0], (StridedTensor, list)):
        if tensors is None:
            return [_returned(key, one, None, device) for one in value]
        return _array(_stacked(key, value), tensors)
    return value if tensors is None else _array(np.array(value, np.int64), tensors)


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
    whole = empty((len(leaves), *sizes), leaves[0].dtype, device=leaves[0].device)
    for row, leaf in enumerate(leaves):
        whole[row][...] = leaf
    if not counts:
        return whole
    return whole.as_strided((len(value), *counts, *sizes), Layout((len(value), *counts, *sizes)).strides)


def _leaves(value: list[Any]) -> list[StridedTensor]:
    return [leaf for one in value for leaf in (_leaves(one) if isinstance(one, list) else [one])]


def _array(value: StridedTensor | np.ndarray[Any, np.dtype[Any]], tensors: Tensors | None) -> Any:
    """An array as NumPy's, or PyTorch's; without either wish a tensor on another device stays as it is."""
    is_near = not isinstance(value, StridedTensor) or value.device == "cpu"
    if tensors is None and not is_near:
        return value
    if tensors == "pt":
        torch = imported_torch("return_tensors='pt'", "return_tensors='np'")
        if is_near:
            return torch.from_numpy(value if isinstance(value, np.ndarray) else value.numpy())
        return torch.from_dlpack(value)
    return value.numpy() if isinstance(value, StridedTensor) else value
