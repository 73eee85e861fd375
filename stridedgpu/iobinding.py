"""ONNX Runtime's `IOBinding` over tensors: inputs and outputs are read and written where they lie.

ONNX Runtime is not imported: the session's own binding is called.
"""

from __future__ import annotations

from typing import Any, Final

from .api.creation import asarray
from .api.tensor import StridedTensor
from .devices.interface import EMULATED
from .typing import TensorLike
from .values.errors import BindingError, DeviceError, LayoutError
from .values.layout import Layout
from .values.strides import packed_strides

__all__ = ["bind_input", "bind_output"]

_ONNX_TYPES: Final = {"bfloat16": 16, "float8_e4m3fn": 17, "float8_e5m2": 19}
"""`onnx.TensorProto`'s numbers of the types that NumPy lacks."""

_ONNX_NAMES: Final = {
    "float32": "float",
    "float64": "double",
    "float8_e4m3fn": "float8e4m3fn",
    "float8_e5m2": "float8e5m2",
}
"""ONNX Runtime's names of the types that it does not call by NumPy's: a model states "tensor(float)"."""

_CHANNELS_LAST: Final = {3: (2, 0, 1), 4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}
"""The axes of HWC, NHWC and NDHWC in the order of CHW, NCHW and NCDHW."""


def bind_input(binding: object, name: str, tensor: TensorLike, *, session: object = None) -> StridedTensor:
    """Bind an input of a session's `io_binding()` to a tensor's memory, on the tensor's device.

    ONNX Runtime wants elements packed in row-major order. A tensor packed so is bound without a copy. A permuted,
    padded, broadcast or flipped one is packed by one relayout first. Returns the bound tensor, which is the given or
    the packed one: **keep it** until the runs are done, since ONNX Runtime only knows its address. On a CUDA device the
    caller orders pending work: run the session on the same stream (`user_compute_stream`) or wait for it.

    Type and sizes are compared with those that the model states. They are read from `session`, an `InferenceSession`,
    or from the session that the binding itself refers to, which ONNX Runtime 1.31 has and older ones may lack.

    Raises `BindingError` for a name, type or sizes that the model does not have, with a hint for channels that come
    last, and what `asarray` and `relayout` raise.

    >>> class Binding:
    ...     def bind_input(self, *arguments):
    ...         print(*arguments[:5])
    >>> frames = StridedTensor(bytearray(60), Layout((1, 3, 4, 5), (60, 1, 15, 3)), "uint8")
    >>> bind_input(Binding(), "x", frames).strides
    x cpu 0 uint8 (1, 3, 4, 5)
    (60, 20, 5, 1)
    """
    source = asarray(tensor)
    _check_stated("input", name, source, _stated(binding, session, "inputs_meta", "get_inputs"))
    bound = source if _is_row_major(source.layout) else source.copy()
    _method(binding, "bind_input", "binding", "a session's io_binding()")(name, *_description(bound))
    return bound


def bind_output(binding: object, name: str, tensor: TensorLike, *, session: object = None) -> StridedTensor:
    """Bind an output of a session's `io_binding()` to a tensor's memory, which the run fills; keep the tensor.

    `tensor` is a tensor, or an array whose memory can be shared; returned is the tensor. Type and sizes are compared
    with the model's, as for `bind_input`.

    Raises `LayoutError` if the elements are not packed in row-major order: bind a packed tensor and write it into the
    other one with `relayout(out=)` after the run. Raises `BindingError` for read-only memory, and for a name, type or
    sizes that the model does not have.
    """
    target = asarray(tensor, copy=False)
    if not _is_row_major(target.layout):
        raise LayoutError(
            f"{target.layout} is not packed in row-major order, as ONNX Runtime writes; bind a packed tensor, "
            "then relayout(out=) into this one."
        )
    if target.buffer.readonly:
        raise BindingError(f"The output {name!r} cannot be written: the tensor is read-only.")
    _check_stated("output", name, target, _stated(binding, session, "outputs_meta", "get_outputs"))
    _method(binding, "bind_output", "binding", "a session's io_binding()")(name, *_description(target))
    return target


def _stated(binding: object, session: object, attribute: str, method: str) -> list[Any] | None:
    """What a model states of its inputs or outputs, or None if nothing at hand knows."""
    if session is not None:
        return list(_method(session, method, "session", "an InferenceSession")())
    entries = getattr(getattr(binding, "_session", None), attribute, None)
    return None if entries is None else list(entries)


def _method(obj: object, name: str, argument: str, wanted: str) -> Any:
    """A method of an argument. Raises `BindingError` if it has none of that name."""
    method = getattr(obj, name, None)
    if not callable(method):
        raise BindingError(f"{argument}={obj!r} has no method {name}; give {wanted}.")
    return method


def _check_stated(kind: str, name: str, tensor: StridedTensor, stated: list[Any] | None) -> None:
    """Raise `BindingError` unless the model has this input or output with the tensor's type and sizes."""
    if not isinstance(name, str):
        raise BindingError(f"name={name!r} is not a string: it names an {kind} of the model.")
    if stated is None:
        return
    entry = next((entry for entry in stated if entry.name == name), None)
    if entry is None:
        known = ", ".join(repr(entry.name) for entry in stated)
        raise BindingError(f"The model has no {kind} {name!r}; its {kind}s are {known}.")
    element = tensor.element.name
    typed = f"tensor({_ONNX_NAMES.get(element, element)})"
    if entry.type != typed:
        wanted = next(
            (numpy_name for numpy_name, onnx in _ONNX_NAMES.items() if entry.type == f"tensor({onnx})"),
            entry.type[7:-1],
        )
        raise BindingError(
            f"The {kind} {name!r} of the model is {entry.type}, and the tensor holds {element}; "
            f"relayout(dtype={wanted!r}) converts."
        )
    if not _fits(tensor.sizes, entry.shape):
        raise BindingError(
            f"The {kind} {name!r} of the model has the sizes {entry.shape}, and the tensor {tensor.sizes}"
            f"{_channels_hint(tensor, entry.shape)}."
        )


def _fits(sizes: tuple[int, ...], stated: Any) -> bool:
    """True if sizes are those that a model states, of which names and None stand for any."""
    return len(sizes) == len(stated) and all(
        not isinstance(wanted, int) or wanted == size for size, wanted in zip(sizes, stated, strict=True)
    )


def _channels_hint(tensor: StridedTensor, stated: object) -> str:
    """What would make the sizes fit, if channels come last on one side only; else nothing."""
    order = _CHANNELS_LAST.get(tensor.ndim)
    if order is None:
        return ""
    first = "NCDHW" if tensor.ndim == 5 else "NCHW"[-tensor.ndim :]
    last = first.replace("C", "") + "C"
    if _fits(tuple(tensor.sizes[axis] for axis in order), stated):
        return f": the tensor's channels come last; wrap it with asarray(…, dims={last!r}), whose axes are {first}"
    if _fits(tensor.permute(tuple(order.index(axis) for axis in range(tensor.ndim))).sizes, stated):
        return f": the model wants its channels last; give tensor.permute({last!r})"
    return ""


def _description(tensor: StridedTensor) -> tuple[object, ...]:
    """Device type and number, element type, sizes and address."""
    if tensor.device == EMULATED:
        raise DeviceError(f"ONNX Runtime does not reach {EMULATED}; bind a copy on the CPU, to_device('cpu').")
    kind, _, number = tensor.device.partition(":")
    element = _ONNX_TYPES.get(tensor.element.name) or tensor.dtype
    return kind, int(number or 0), element, tensor.sizes, tensor.operand.address


def _is_row_major(layout: Layout) -> bool:
    """True if elements are packed in row-major order; the strides of axes of size 1 do not count."""
    packed = packed_strides(layout.sizes)
    steps = zip(layout.sizes, layout.strides, packed, strict=True)
    return layout.span == 0 or all(stride == wanted for size, stride, wanted in steps if size > 1)
