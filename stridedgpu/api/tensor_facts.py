"""The facts of a tensor: sizes and strides, types, device, descriptor; as a line, a text or a picture."""

from __future__ import annotations

from typing import Any, Final, NoReturn

import numpy as np

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.operand import Operand
from stridedgpu.exchange.exports import array_of_operand, numpy_dtype
from stridedgpu.values.descriptor import BufferTensorDesc
from stridedgpu.values.dtypes import DataType, ElementType
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError, StridedGpuError
from stridedgpu.values.layout import Layout

__all__ = ["Released", "TensorFacts", "set_dims", "set_operand"]


_NUMBERS: Final = "compute with .numpy(), torch.from_dlpack or another library's view of the memory"

_FEW_VALUES: Final = 16
"""Elements up to which `repr` shows their values."""

_NO_LIMIT: Final = 1 << 20

_ELSEWHERE: Final = {
    **dict.fromkeys(("transpose", "T", "mT", "moveaxis", "swapaxes"), "permute(axes) orders axes anew"),
    **dict.fromkeys(("reshape", "view", "ravel", "flatten"), "reinterpret(sizes=...) is a reshape without a copy"),
    **dict.fromkeys(("expand", "repeat"), "broadcast_to(sizes) repeats without a copy"),
    **dict.fromkeys(("astype", "type", "float", "half"), "relayout(dtype=...) converts"),
    **dict.fromkeys(("cpu", "cuda", "to"), "to_device(device) moves, and relayout(device=..., dtype=...) converts too"),
    **dict.fromkeys(("clone", "contiguous"), "copy() packs"),
    **dict.fromkeys(("size", "numel"), "layout.element_count is the number of elements, and sizes those of each axis"),
    **dict.fromkeys(("flip", "flipud", "fliplr"), "t[::-1] runs backwards"),
    **dict.fromkeys(("take", "index_select"), "gather(t, indices, axis) picks"),
    **dict.fromkeys(("sum", "mean", "max", "min", "std"), _NUMBERS),
    **dict.fromkeys(("torch", "to_torch", "to_dlpack"), "torch.from_dlpack(t) shares the memory"),
    "stride": "strides has those of each axis, in elements",
    "fill_": "t[...] = value fills",
    "data_ptr": "operand.address is that of the first element",
}
"""Attributes that NumPy's and PyTorch's users look for, and their names here."""


class Released:
    """Replaces the operand of a released tensor: every use raises.

    `kept` is memory whose address was exported, and that must live as long as the tensor.
    """

    def __init__(self, kept: Buffer | None = None) -> None:
        self._kept = kept

    def __getattr__(self, name: str) -> NoReturn:
        raise BindingError("This tensor was released, by its `with` block or release(); make another over the memory.")


class _Elsewhere:
    """An attribute of other libraries' tensors, which says what there is here.

    `__getattr__` would say it, too, and with it every attribute of a tensor takes Python several times as long.
    """

    __slots__ = ("_advice", "_name")

    def __init__(self, name: str, advice: str) -> None:
        self._name = name
        self._advice = advice

    def __get__(self, tensor: object, owner: type) -> NoReturn:
        raise AttributeError(f"A {owner.__name__} has no {self._name!r}; {self._advice}.", name=self._name, obj=tensor)


class TensorFacts:
    """An operand and the labels of its axes, in NumPy's terms."""

    __slots__ = ("dims", "operand")

    operand: Operand
    """Buffer, layout and element type: what operations work on."""
    dims: str | None
    """The labels of the last axes, or None."""

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Raise: a tensor's attributes are immutable, and `tensor[...] = value` writes elements."""
        raise AttributeError(f"{name!r} of a tensor cannot be set; make a view, or write elements with t[...] = value.")

    @property
    def layout(self) -> Layout:
        """Sizes, strides and offset, in elements from the buffer's start."""
        return self.operand.layout

    @property
    def buffer(self) -> Buffer:
        """The bytes that the tensor's layout refers to."""
        return self.operand.buffer

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return self.layout.sizes

    @property
    def shape(self) -> tuple[int, ...]:
        """The same as `sizes`, by NumPy's name."""
        return self.layout.sizes

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements (not bytes) from one element to the next along each axis."""
        return self.layout.strides

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.layout.ndim

    @property
    def element(self) -> ElementType:
        """The element type, without needing the library that a NumPy dtype may come from."""
        return self.operand.element

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype; bfloat16 and float8 need ml_dtypes."""
        return numpy_dtype(self.element)

    @property
    def data_type(self) -> DataType:
        """The DirectML type, or `DataType.UNKNOWN` for bool, bfloat16, float8 and complex."""
        return self.element.data_type

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.element.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, as in NumPy: no padding, repeats counted. `buffer.nbytes` is the memory's size."""
        return self.layout.element_count * self.itemsize

    @property
    def device(self) -> str:
        """The device of the memory: "cpu" or "cuda:N"."""
        return self.buffer.device

    @property
    def alignment(self) -> int:
        """The power of two, in bytes, guaranteed to divide the address of this tensor's first element."""
        return self.operand.alignment

    @property
    def desc(self) -> BufferTensorDesc:
        """The DirectML descriptor of this tensor, whose bytes start at its first element.

        Raises `LayoutError` if DirectML cannot describe it: rank 0 or above 8, empty, flipped, an unknown type, more
        than 2^32-1 elements.
        """
        if self.data_type is DataType.UNKNOWN:
            raise LayoutError(f"DirectML has no element type for {self.element}.")
        total = None
        if self.operand.owns_padding and self.layout.span:
            total = self.buffer.nbytes // 4 * 4
        alignment = self.alignment if self.alignment >= self.itemsize else 0
        return BufferTensorDesc(self.data_type, self.sizes, self.strides, total, alignment)

    def __dir__(self) -> list[str]:
        """The attributes, without those of other libraries that only say what there is here."""
        return [name for name in super().__dir__() if name not in _ELSEWHERE]

    def describe(self) -> str:
        """Describe the memory in a few lines.

        Sizes and strides; the bytes spanned, the share of padding and its owner; the DirectML descriptor, or why there
        is none; packed, padded, broadcast or overlapping; alignment.
        """
        from stridedgpu.drawing.subject import description

        try:
            directml: BufferTensorDesc | StridedGpuError = self.desc
        except StridedGpuError as problem:
            directml = problem
        return "\n".join([repr(self), *description(self.operand, directml)])

    def __repr__(self) -> str:
        """The tensor in one line, with the values of a few elements that lie on the CPU in memory with an owner."""
        if isinstance(self.operand, Released):
            return "StridedTensor(released)"
        layout = self.layout
        kinds = ("broadcast", layout.is_broadcast), ("padded", layout.is_padded), ("packed", layout.is_packed)
        kind = next((name for name, holds in kinds if holds), "overlapping")
        facts = [
            f"sizes={self.sizes}",
            f"strides={self.strides}",
            f"dtype={self.element}",
            f"dims={self.dims!r}",
            f"device={self.device!r}",
            f"alignment={self.alignment}",
            kind + (", read-only" if self.buffer.readonly else ""),
            *self._few_values(),
        ]
        return f"StridedTensor({', '.join(facts)})"

    def _few_values(self) -> list[str]:
        """The values as one entry of `repr`, if they are few and reading them neither waits nor needs a library.

        Memory at an address without an owner is not read: it may be gone.
        """
        operand, buffer = self.operand, self.buffer
        is_kept = buffer.owned or buffer.owner is not None
        if buffer.device != "cpu" or not is_kept or not 0 < operand.layout.element_count <= _FEW_VALUES:
            return []
        try:
            array = array_of_operand(operand)
        except ElementTypeError:  # a type of ml_dtypes, which is not installed
            return []
        text = np.array2string(array, separator=", ", max_line_width=_NO_LIMIT, threshold=_NO_LIMIT)
        return [f"values={' '.join(text.split())}"]

    def _repr_svg_(self) -> str:
        """The picture that notebooks show."""
        from stridedgpu.drawing.svg import svg

        return svg(self)

    def _repr_html_(self) -> str:
        """The picture that notebooks show where they take HTML: hover, tab and coordinates."""
        from stridedgpu.drawing.page import fragment

        return fragment(self)


for _name, _advice in _ELSEWHERE.items():
    setattr(TensorFacts, _name, _Elsewhere(_name, _advice))

set_operand, set_dims = (getattr(TensorFacts, name).__set__ for name in ("operand", "dims"))
"""The setters of a tensor's two values, for creation and release; nothing else can set them."""
