"""Types for annotations: what `asarray` and the operations take, as protocols that need no library.

>>> from stridedgpu.typing import SupportsDLPack
>>> isinstance(np.zeros(3), SupportsDLPack), isinstance([0, 0, 0], SupportsDLPack)
(True, False)
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict, Union, runtime_checkable

import numpy as np

from .values.arithmetic import Arithmetic, Normalization
from .values.constants import PerChannel
from .values.conversion import Rounding
from .values.dtypes import DataType, ElementType
from .values.interpolation import InterpolationName as Interpolation, Passes
from .values.layout import Layout

if TYPE_CHECKING:
    if sys.version_info >= (3, 12):
        from collections.abc import Buffer
    else:
        from typing_extensions import Buffer

__all__ = [
    "Arithmetic",
    "Border",
    "BytesLike",
    "ConversionKeywords",
    "DTypeLike",
    "DTypeName",
    "DeviceLike",
    "ImageSize",
    "IndexMode",
    "Interpolation",
    "LayoutLike",
    "LayoutName",
    "Nested",
    "Normalization",
    "Passes",
    "PerChannel",
    "ResultKeywords",
    "Rounding",
    "StreamLike",
    "SupportsArray",
    "SupportsArrayInterface",
    "SupportsCudaArrayInterface",
    "SupportsCudaStream",
    "SupportsDLPack",
    "TensorLike",
    "TorchDType",
    "VideoFrameLike",
]


@runtime_checkable
class SupportsDLPack(Protocol):
    """Memory on any device, shared through DLPack: tensors, PyTorch, JAX, CuPy, NumPy, ONNX Runtime."""

    def __dlpack__(self) -> Any:
        """A capsule; `__dlpack_device__`, which goes with it, is missing from JAX's annotations."""


class _ReadsTheAttribute(type(Protocol)):  # type: ignore[misc]
    """The metaclass of the protocol whose attribute tensors on the CPU lack, though their class defines a property.

    The property raises `AttributeError` there, in PyTorch and in this library. `isinstance` of Python 3.12 and later
    looks the attribute up in the class and does not read it.
    """

    def __instancecheck__(cls, instance: object) -> bool:
        return super().__instancecheck__(instance) and hasattr(instance, "__cuda_array_interface__")


@runtime_checkable
class SupportsCudaArrayInterface(Protocol, metaclass=_ReadsTheAttribute):
    """Memory on a CUDA device: CuPy, PyTorch, Numba, DALI, CV-CUDA."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Shape, strides in bytes, address and stream."""


@runtime_checkable
class SupportsArrayInterface(Protocol):
    """Memory on the CPU as NumPy describes it; Pillow's images have this too, and are copied."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Shape, strides in bytes and address."""


@runtime_checkable
class SupportsArray(Protocol):
    """What NumPy converts to an array: columns of pandas, arrays of xarray and zarr, scalars of NumPy."""

    def __array__(self) -> np.ndarray[Any, Any]:
        """The array."""


@runtime_checkable
class SupportsCudaStream(Protocol):
    """A stream of CuPy, cuda.core or a newer PyTorch."""

    def __cuda_stream__(self) -> tuple[int, int]:
        """The protocol's version, 0, and the handle."""


@runtime_checkable
class TorchDType(Protocol):
    """A `torch.dtype`, known by its name."""

    @property
    def is_floating_point(self) -> bool:
        """Whether the type is a floating-point type."""

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""


class Nested(Protocol):
    """A list or tuple of array-likes, nested to any depth; not text, whose entries are text again."""

    def __len__(self) -> int:
        """The number of entries."""

    def __getitem__(self, index: int, /) -> TensorLike:
        """One entry."""

    def __contains__(self, entry: object, /) -> bool:
        """Whether an entry is present; text refuses entries that are not text."""


@runtime_checkable
class VideoFrameLike(Protocol):
    """A decoded frame, as PyAV's `VideoFrame` and TorchCodec's `RawFrame`: its size, and its planes."""

    @property
    def width(self) -> int:
        """The columns of pixels."""

    @property
    def height(self) -> int:
        """The rows of pixels."""

    @property
    def planes(self) -> Sequence[Any]:
        """PyAV's buffers with a `line_size`, or TorchCodec's tensors, one for each kind of sample."""


BytesLike: TypeAlias = Union["Buffer", bytes, bytearray, memoryview]
"""Whatever has the buffer protocol: bytes, bytearray, memoryview, mmap, ctypes and NumPy arrays."""

TensorLike: TypeAlias = Union[
    SupportsDLPack, SupportsCudaArrayInterface, SupportsArrayInterface, SupportsArray, "Buffer", complex, Nested
]
"""Whatever `asarray` accepts."""

DTypeName: TypeAlias = Literal[
    "uint8",
    "int8",
    "uint16",
    "int16",
    "uint32",
    "int32",
    "uint64",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "bool",
    "complex64",
    "complex128",
    "float8_e4m3fn",
    "float8_e5m2",
]
"""The names of the element types, for editors to complete."""

DTypeLike: TypeAlias = DTypeName | str | DataType | ElementType | np.dtype[Any] | type[Any] | TorchDType
"""Whatever names an element type."""

DeviceLike: TypeAlias = Literal["cpu", "cuda", "auto", "cuda-emulated"] | str  # noqa: PYI051 - editors offer these
"""Whatever `device=` accepts: one of these, or "cuda:N"."""

ImageSize: TypeAlias = int | Sequence[int]
"""Height and width in pixels, of volumes the depth first; or one number.

For `resize` one number is the shorter side of a result that keeps the image's shape, as for torchvision's Resize. For
`letterbox` and `gather_crops` it is the side of a square, as for Ultralytics' LetterBox and torchvision's CenterCrop;
windows of volumes are cubes.
"""

Border: TypeAlias = Literal["reflect", "symmetric", "edge"]
"""How a border continues an image, of `fill` in `letterbox`, `gather_crops` and `Preprocess`: numpy.pad's modes."""

IndexMode: TypeAlias = Literal["raise", "clip", "wrap", "deferred"]
"""The rule for indices out of range, of `gather` and its relatives."""

LayoutName: TypeAlias = Literal[
    "NCHW", "NHWC", "CHW", "HWC", "NCDHW", "NDHWC", "CDHW", "DHWC", "HW", "WH", "NHWC4", "NHWC8", "NCHW4", "NCHW32"
]
"""Usual memory orders, for editors to complete; every order of axes is one."""

LayoutLike: TypeAlias = LayoutName | str | Layout
"""A memory order such as "NHWC", or an exact layout."""

StreamLike: TypeAlias = int | SupportsCudaStream
"""Whatever `stream=` accepts."""


class ConversionKeywords(TypedDict, total=False):
    """How elements are converted: the keyword arguments of every operation and plan; `relayout` explains them."""

    scale: PerChannel | None
    """The factor, one or one for each output channel; by the arithmetic of transformers, its rescale factor."""
    bias: PerChannel | None
    """The addend after the factor, one or one for each output channel."""
    mean: PerChannel | None
    """In place of a bias, in units of 0..1 of an integer source."""
    std: PerChannel | None
    """In place of a scale, in units of 0..1 of an integer source."""
    normalize: Normalization | None
    """In place of `mean` and `std`, the name of those that networks are trained with."""
    arithmetic: Arithmetic
    """The steps from `mean` and `std` to a value, by the library that takes them, such as "transformers"."""
    channels: Sequence[int] | None
    """The source channel of each output channel."""
    matrix: Sequence[Sequence[float]] | SupportsArray | None
    """A row for each output channel, with a number for each source channel."""
    rounding: Rounding
    """To integers: "nearest" (half to even) or "truncate"."""


class ResultKeywords(ConversionKeywords, total=False):
    """How elements are converted, and where the result lies: the keyword arguments of every operation."""

    dtype: DTypeLike | None
    """The result's type; None is the source's, or that of `out`."""
    layout: LayoutLike | None
    """The memory order of the result, or an exact `Layout`."""
    row_pitch_bytes: int | None
    """Bytes from one row to the next."""
    alignment: int | None
    """Bytes that divide the result's address."""
