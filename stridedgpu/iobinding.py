"""ONNX Runtime's `IOBinding` over tensors: inputs and outputs are read and written where they lie.

ONNX Runtime is not imported: the session's own binding is called.
"""

from __future__ import annotations

from typing import Any, Final

from .api.creation import asarray
from .api.tensor import StridedTensor
from .typing import TensorLike
from .values.errors import BindingError, LayoutError
from .values.layout import Layout
from .values.strides import packed_strides

__all__ = ["bind_input", "bind_output"]

_ONNX_TYPES: Final = {"bfloat16": 16, "float8_e4m3fn": 17, "float8_e5m2": 19}
"""`onnx.TensorProto`'s numbers of the types that NumPy lacks."""


def bind_input(binding: Any, name: str, tensor: TensorLike) -> StridedTensor:
    """Bind an input of a session's `io_binding()` to a tensor's memory, on the tensor's device.

    ONNX Runtime wants elements packed in row-major order. A tensor packed so is bound without a copy. A permuted,
    padded, broadcast or flipped one is packed by one relayout first. Returns the bound tensor, which is the given or
    the packed one: **keep it** until the runs are done, since ONNX Runtime only knows its address. On a CUDA device the
    caller orders pending work: run the session on the same stream (`user_compute_stream`) or wait for it.

    Raises what `asarray` and `relayout` raise.

    >>> class Binding:
    ...     def bind_input(self, *arguments):
    ...         print(*arguments[:5])
    >>> frames = StridedTensor(bytearray(60), Layout((1, 3, 4, 5), (60, 1, 15, 3)), "uint8")
    >>> bind_input(Binding(), "x", frames).strides
    x cpu 0 uint8 (1, 3, 4, 5)
    (60, 20, 5, 1)
    """
    given = asarray(tensor)
    bound = given if _is_row_major(given.layout) else given.copy()
    binding.bind_input(name, *_description(bound))
    return bound


def bind_output(binding: Any, name: str, tensor: StridedTensor) -> None:
    """Bind an output of a session's `io_binding()` to a tensor's memory, which the run fills; keep the tensor.

    Raises `LayoutError` if the elements are not packed in row-major order: bind a packed tensor and write it into the
    other one with `relayout(out=)` after the run. Raises `BindingError` for read-only memory.
    """
    if not _is_row_major(tensor.layout):
        raise LayoutError(
            f"{tensor.layout} is not packed in row-major order, as ONNX Runtime writes; bind a packed tensor, "
            "then relayout(out=) into this one."
        )
    if tensor.buffer.readonly:
        raise BindingError(f"The output {name!r} cannot be written: the tensor is read-only.")
    binding.bind_output(name, *_description(tensor))


def _description(tensor: StridedTensor) -> tuple[object, ...]:
    """Device type and number, element type, sizes and address."""
    kind, _, number = tensor.device.partition(":")
    element = _ONNX_TYPES.get(tensor.element.name) or tensor.dtype
    return kind, int(number or 0), element, tensor.sizes, tensor.operand.address


def _is_row_major(layout: Layout) -> bool:
    """True if elements are packed in row-major order; the strides of axes of size 1 do not count."""
    packed = packed_strides(layout.sizes)
    steps = zip(layout.sizes, layout.strides, packed, strict=True)
    return layout.span == 0 or all(stride == wanted for size, stride, wanted in steps if size > 1)
