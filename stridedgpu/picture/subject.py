"""`Subject`: the tensor that is drawn, made of a layout, a tensor, an operand, a descriptor or a plan."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from stridedgpu.devices.operand import Operand
from stridedgpu.planning.device_plan import DevicePlan
from stridedgpu.planning.relayout_problem import RelayoutProblem
from stridedgpu.values.axis_labels import Labels, checked_dims, inferred_labels, labels_of
from stridedgpu.values.descriptor import BufferTensorDesc
from stridedgpu.values.dtypes import ElementType, element_type
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.overlap import self_overlaps
from stridedgpu.values.tensor_spec import TensorSpec

__all__ = ["Subject", "plan_of", "plan_subjects", "subject_of"]


@dataclass(frozen=True, slots=True)
class Subject:
    """One tensor of a picture.

    `labels` name the axes. `element` and `alignment` (the bytes known to divide the buffer's address) are None if only
    a layout is known. `buffer_elements` is the end of the memory in elements, if more than the span is drawn.
    """

    layout: Layout
    labels: Labels
    element: ElementType | None = None
    alignment: int | None = None
    buffer_elements: int | None = None

    @property
    def first(self) -> int:
        """The lowest offset that is drawn."""
        return self.layout.first_offset

    @property
    def stop(self) -> int:
        """One past the highest offset that is drawn."""
        end = self.layout.first_offset + self.layout.span
        return end if self.buffer_elements is None else max(end, self.buffer_elements)

    @property
    def itemsize(self) -> int:
        """Bytes of an element, or 1 if no type is known."""
        return 1 if self.element is None else self.element.itemsize

    @property
    def coloured_axis(self) -> int | None:
        """The axis whose index selects the colour: channels, else the outermost axis of size 2 or more."""
        if "C" in self.labels:
            return self.labels.index("C")
        return 0 if self.layout.ndim > 1 else None

    @property
    def distinct(self) -> int | None:
        """The places that the elements take, broadcast ones counted once; None if the layout overlaps otherwise."""
        kept = [(n, s) for n, s in zip(self.layout.sizes, self.layout.strides, strict=True) if s != 0]
        if self.layout.element_count and self_overlaps([n for n, _ in kept], [s for _, s in kept]):
            return None
        return prod(n for n, _ in kept) if self.layout.element_count else 0

    def named(self, values: tuple[int, ...]) -> str:
        """One value for each axis: "N=1 C=3" if every axis has a letter, else "(1, 3)"."""
        if not values or None in self.labels:
            return str(values)
        return " ".join(f"{label}={value}" for label, value in zip(self.labels, values, strict=True))

    @property
    def kind(self) -> str:
        """The kind of layout and its span, in one line."""
        layout, distinct = self.layout, self.distinct
        count = layout.element_count
        if not count:
            return "empty: no elements"
        span = f"a span of {layout.span:,}"
        if layout.is_packed:
            words = f"packed: {_counted(count)} in {span}"
        elif distinct is None:
            words = f"overlapping: {_counted(count)} within {span}"
        elif distinct < count:
            words = f"broadcast: {_counted(count)} share {distinct:,} places"
            words += f" within {span}" if layout.is_padded else ""
        else:
            words = f"padded: {_counted(count)} within {span}"
        return words + (f", {self.element} of {self.itemsize} B" if self.element is not None else "")


def subject_of(
    thing: object, *, dims: str | None = None, dtype: object = None, buffer_elements: int | None = None
) -> Subject:
    """The subject of a `Layout`, a tensor (an object with an `operand`), an `Operand` or a `BufferTensorDesc`.

    `dims` labels the axes ("": no labels); without it a tensor's own labels are used. Four axes without labels are
    NCHW, and five of a layout or descriptor are NCDHW. `dtype` is for a layout, which has none. `buffer_elements` is
    the size of the memory in elements.

    Raises `LayoutError` for anything else.
    """
    if isinstance(thing, Layout):
        element = None if dtype is None else element_type(dtype)
        return Subject(thing, _labels(dims, thing.ndim), element, None, buffer_elements)
    if isinstance(thing, BufferTensorDesc):
        element = element_type(thing.data_type)
        held = thing.total_tensor_size_in_bytes // element.itemsize
        alignment = thing.guaranteed_base_offset_alignment or 16
        return Subject(thing.layout, _labels(dims, len(thing.sizes)), element, alignment, buffer_elements or held)
    operand: Any = getattr(thing, "operand", thing)
    if not isinstance(operand, Operand):
        raise LayoutError(f"{type(thing).__name__} has no layout to draw; give a Layout, a tensor or a plan.")
    if buffer_elements is None and operand.owns_padding:
        buffer_elements = operand.buffer.nbytes // operand.element.itemsize
    ndim = operand.layout.ndim
    if dims is None:
        # A tensor's five axes without labels may also be NCHW with channels in blocks.
        dims = getattr(thing, "dims", None) or ("" if ndim == 5 else None)
    return Subject(operand.layout, _labels(dims, ndim), operand.element, operand.buffer.alignment, buffer_elements)


def plan_of(thing: object) -> DevicePlan | None:
    """The plan of a relayout that `thing` is or holds as its `plan`, or None."""
    held: Any = getattr(thing, "plan", thing)
    return held if isinstance(getattr(held, "problem", None), RelayoutProblem) else None


def plan_subjects(plan: DevicePlan, dims: str | None = None) -> tuple[Subject, Subject]:
    """The source and the target of a plan; each has its lowest element at offset 0."""
    return _side_subject(plan.problem.source, dims), _side_subject(plan.problem.target, dims)


def _side_subject(side: TensorSpec, dims: str | None) -> Subject:
    layout = side.layout
    labels = _labels(dims, layout.ndim)
    end = layout.span + side.slack_bytes // side.element.itemsize
    return Subject(layout, labels, side.element, side.alignment, end if side.owns_padding else None)


def _labels(dims: str | None, ndim: int) -> Labels:
    """The labels of `dims`: for None those of the rank, for an empty string none."""
    return labels_of(None, ndim) if dims == "" else inferred_labels(checked_dims(dims, ndim), ndim)


def _counted(number: int) -> str:
    return f"{number:,} element" + ("" if number == 1 else "s")
