"""Indices: anything that holds integers, as an operand, and the rules that they have to keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from stridedgpu.devices.cuda.planning.gather import Mode
from stridedgpu.devices.operand import Operand
from stridedgpu.planning.index_rule import IndexRule
from stridedgpu.values.dtypes import ElementType
from stridedgpu.values.errors import BindingError, ElementTypeError, LayoutError
from stridedgpu.values.tensor_spec import TensorSpec

__all__ = ["INDEX_TYPES", "check_axes", "check_index_operand", "check_index_type", "checked_mode", "index_rule"]

INDEX_TYPES: Final = ("int32", "int64", "uint32", "uint64")

_MODES: Final[Mapping[str, str]] = {
    "raise": "refuse indices out of range",
    "clip": "take the nearest valid one",
    "wrap": "count round the axis",
    "deferred": "on CUDA, clamp and raise at the next synchronisation",
}


def check_index_operand(indices: Operand, device: str) -> None:
    """Raise `ElementTypeError` for indices that are no integers of 32 or 64 bits, `BindingError` on another device."""
    check_index_type(indices.element)
    if indices.buffer.device != device:
        raise BindingError(f"indices are on {indices.buffer.device} and the data on {device}; move one to the other.")


def check_index_type(element: ElementType) -> None:
    """Raise `ElementTypeError` for what is no integer of 32 or 64 bits."""
    if element.name not in INDEX_TYPES:
        advice = (
            "numpy.flatnonzero(mask) makes them of a mask"
            if element.kind == "b"
            else "convert them with asarray(indices, dtype='int64')"
        )
        raise ElementTypeError(f"indices hold {element}; they must be {', '.join(INDEX_TYPES)}: {advice}.")


def checked_mode(mode: object) -> Mode:
    """`mode` as one of the four. Raises `LayoutError` for anything else."""
    if not isinstance(mode, str) or mode not in _MODES:
        choices = ", ".join(f"{name!r} ({meaning})" for name, meaning in _MODES.items())
        raise LayoutError(f"mode={mode!r} is unknown; it is {choices}.")
    return cast("Mode", mode)


def check_axes(rule: IndexRule) -> None:
    """Raise `IndexError` where no index at all is valid: there are some, and an axis has no elements."""
    layout = rule.index.layout
    for component, (_, size) in enumerate(rule.axes):
        if size == 0 and layout.element_count:
            axis = rule.axes[component][0]
            raise IndexError(
                f"axis {axis} has no elements, so none of the {layout.element_count} indices is valid in any mode."
            )


def index_rule(
    indices: TensorSpec,
    sizes: tuple[int, ...],
    axes: range,
    *,
    has_tuples: bool = False,
    unique: bool = False,
) -> IndexRule:
    """The rule for indices into axes of a tensor of `sizes`; with `unique`, no two may name one element.

    Raises `IndexError` where an axis has no elements to name.
    """
    own: tuple[int, ...] = ()
    named: tuple[int, ...] = ()
    if unique and 0 not in sizes:
        pitches = _pitches(sizes)
        named = tuple(pitches[axis] for axis in axes)
        if not has_tuples:
            own = tuple(0 if axis in axes else pitch for axis, pitch in enumerate(pitches))
    rule = IndexRule(indices, tuple((axis, sizes[axis]) for axis in axes), has_tuples, own, named)
    check_axes(rule)
    return rule


def _pitches(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """How many elements each axis steps over when elements are numbered row by row."""
    pitches = [1] * len(sizes)
    for axis in range(len(sizes) - 2, -1, -1):
        pitches[axis] = pitches[axis + 1] * sizes[axis + 1]
    return tuple(pitches)
