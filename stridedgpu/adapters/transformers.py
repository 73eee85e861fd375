"""transformers' `AutoImageProcessor` and `AutoVideoProcessor` with this library's processors as a backend."""

from __future__ import annotations

from contextlib import suppress
from functools import cache, cached_property
from importlib import import_module
from typing import Any, Final, NoReturn

from stridedgpu.values.errors import DeviceError, LayoutError

from .image_processors.declaration import KINDS
from .image_processors.normalising import Backend
from .image_processors.processor import ImageProcessor, image_processor

__all__ = ["register"]

_NAMES: Final[dict[str, Backend]] = {"stridedgpu": "torchvision", "stridedgpu-pil": "pil"}
"""The backends that are registered, and whose bits each has."""


def register() -> None:
    """Make "stridedgpu" a backend of `AutoImageProcessor` and `AutoVideoProcessor`, for what is reproduced.

    `AutoImageProcessor.from_pretrained(path, backend="stridedgpu")` then gives a processor of transformers' own class
    whose pixels are computed here, with the bits of its "torchvision" backend; "stridedgpu-pil" has those of "pil". The
    options, `device=` in a call and what belongs to a model, such as `post_process_object_detection`, stay. What is not
    reproduced is refused, whole classes with `LayoutError`: transformers itself would take its "pil" backend. Of video
    processors, which have no "pil", transformers refuses what is not registered.

    Raises `DeviceError` where transformers 5 is not installed.
    """
    mapping = _library("models.auto.image_processing_auto")
    configs = _library("models.auto.configuration_auto")
    types = getattr(mapping, "IMAGE_PROCESSOR_MAPPING_NAMES", {})
    if not hasattr(mapping, "IMAGE_PROCESSOR_MAPPING") or not any(isinstance(entry, dict) for entry in types.values()):
        raise DeviceError("Image processors have no backends before transformers 5: pip install -U transformers.")
    for model_type, classes in list(types.items()):
        name = classes.get("torchvision") or classes["pil"]
        backends = KINDS[name].backends if name in KINDS else ()
        added = {
            backend: _class(name, backend) if whose in backends else _refusal(name, backend, tuple(classes))
            for backend, whose in _NAMES.items()
        }
        with suppress(ValueError):  # timm's wrapper, which transformers lets nobody register, and which has one backend
            mapping.AutoImageProcessor.register(
                configs.CONFIG_MAPPING[model_type], image_processor_classes=added, exist_ok=True
            )

    _register_videos(configs)


def _register_videos(configs: Any) -> None:
    """Make "stridedgpu" a backend of `AutoVideoProcessor`, where transformers has backends of video processors."""
    mapping = _library("models.auto.video_processing_auto")
    for model_type, classes in list(mapping.VIDEO_PROCESSOR_MAPPING_NAMES.items()):
        name = classes.get("torchvision") if isinstance(classes, dict) else None
        if name in KINDS:
            mapping.AutoVideoProcessor.register(
                configs.CONFIG_MAPPING[model_type],
                video_processor_classes={"stridedgpu": _class(name, "stridedgpu")},
                exist_ok=True,
            )


def _library(module: str) -> Any:
    try:
        return import_module(f"transformers.{module}")
    except ModuleNotFoundError as problem:
        raise DeviceError(
            f"register() needs transformers 5 ({problem.name} is not installed): pip install transformers."
        ) from None


class _Processes:
    """What replaces the preprocessing of a class of transformers."""

    _backend: str
    _named = "image_processor_type"

    @property
    def backend(self) -> str:
        """The name under which the class is registered."""
        return self._backend

    @cached_property
    def _processor(self) -> ImageProcessor:
        return image_processor(self, backend=_NAMES[self._backend])

    def preprocess(self, images: Any, *args: Any, **kwargs: Any) -> Any:
        """Process images as the original does."""
        if any(argument is not None for argument in args):
            raise ValueError("images alone are processed here; give segmentation maps or annotations to transformers.")
        kwargs.pop("image_like_kwargs", None)
        features = _library("image_processing_base").BatchFeature
        return features(dict(self._processor(images, **kwargs)))

    def rehearse(self, **options: Any) -> None:
        """Compile and load what calls need: `sg.warmup(processor)`."""
        self._processor.rehearse(**options)

    def to_dict(self) -> dict[str, object]:
        """The options, with the name of transformers' class."""
        values: dict[str, object] = super().to_dict()  # type: ignore[misc]
        values.pop("_processor", None)
        return {**values, self._named: type(self).__name__}

    def __reduce__(self) -> tuple[object, ...]:
        """The options: the class itself is made in each process."""
        return _revived, (type(self).__name__, self._backend, self.to_dict())

    def __setattr__(self, name: str, value: object) -> None:
        """Set an option, which the next call goes by."""
        self.__dict__.pop("_processor", None)
        super().__setattr__(name, value)


class _ProcessesVideos(_Processes):
    """What replaces the preprocessing of a class of video processors."""

    _named = "video_processor_type"

    def preprocess(self, videos: Any, *_: Any, **kwargs: Any) -> Any:  # type: ignore[override]  # the original's name
        """Process videos as the original does."""
        features = dict(self._processor(videos, **kwargs))
        if "video_metadata" in features:
            metadata = _library("video_utils").VideoMetadata
            features["video_metadata"] = [metadata(**known) for known in features["video_metadata"]]
        return _library("image_processing_base").BatchFeature(features)


@cache
def _class(name: str, backend: str) -> type:
    """The class of transformers with its preprocessing replaced; it keeps the class's name, which files have."""
    original = getattr(import_module("transformers"), name)
    processes = _ProcessesVideos if KINDS[name].is_video else _Processes
    return type(name, (processes, original), {"_backend": backend, "__module__": __name__, "__doc__": original.__doc__})


@cache
def _refusal(name: str, backend: str, backends: tuple[str, ...]) -> type:
    """A class that raises `LayoutError` when it is made, for a class of transformers that is not reproduced."""

    def refuse(*_: object, **__: object) -> NoReturn:
        ours = ", ".join(repr(one) for one in backends if one not in _NAMES)
        raise LayoutError(f"{name} is not reproduced by backend={backend!r}: leave backend= out, or name {ours}.")

    base = _library("image_processing_utils").BaseImageProcessor
    return type(f"{name}Refusal", (base,), {"__init__": refuse, "__module__": __name__})


def _revived(name: str, backend: str, values: dict[str, object]) -> object:
    return _class(name, backend)(**values)
