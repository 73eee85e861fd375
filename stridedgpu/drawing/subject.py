"""What a picture shows: a tensor as a `Subject`, and one or two of them as sides with what a plan's tile touches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, Final

from stridedgpu.devices.operand import Operand
from stridedgpu.problems.device_plan import DevicePlan
from stridedgpu.problems.relayout_problem import RelayoutProblem
from stridedgpu.values.axis_labels import Labels, checked_dims, inferred_labels, labels_of
from stridedgpu.values.descriptor import BufferTensorDesc
from stridedgpu.values.dtypes import ElementType, element_type
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.overlap import self_overlaps
from stridedgpu.values.tensor_spec import TensorSpec

from .cells import Coordinates, Gap, Grid, LabelKind, Labeller, Letters, Place, grid_of, memory_of, place_at

COLOURS: Final = ("#d55e00", "#009e73", "#0072b2", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#7f7f7f")
"""Okabe and Ito's palette, safe for colour-blind readers; red, green and blue come first."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One tensor of a picture.

    `labels` name the axes. `element` is None if only a layout is known. `buffer_elements` is the end of the memory in
    elements, if more than the span is drawn.
    """

    layout: Layout
    labels: Labels
    element: ElementType | None = None
    buffer_elements: int | None = None

    @property
    def first(self) -> int:
        """The lowest offset that is drawn."""
        return self.layout.first_offset

    @property
    def stop(self) -> int:
        """One past the highest offset that is drawn."""
        return max(self.layout.first_offset + self.layout.span, self.buffer_elements or 0)

    @property
    def itemsize(self) -> int:
        """Bytes of an element, or 1 if no type is known."""
        return 1 if self.element is None else self.element.itemsize

    def colour(self, at: Coordinates) -> str:
        """An element's colour: by its channel, else by the outermost axis of two or more."""
        axis = self.labels.index("C") if "C" in self.labels else 0
        return COLOURS[at[axis] % len(COLOURS) if "C" in self.labels or self.layout.ndim > 1 else 0]

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

    def plane_title(self, plane: Coordinates) -> str:
        """The title of a plane: "N=0 C=1", or "[0, 1, :, :]" if the axes have no letters."""
        letters = self.labels[: len(plane)]
        if None in letters:
            return f"[{', '.join(map(str, plane))}, :, :]"
        return " ".join(f"{letter}={index}" for letter, index in zip(letters, plane, strict=True))

    @property
    def kind(self) -> str:
        """The kind of layout and its span, in one line."""
        layout, distinct = self.layout, self.distinct
        count, span = layout.element_count, f"a span of {layout.span:,}"
        counted = f"{count:,} element" + ("" if count == 1 else "s")
        if not count:
            return "empty: no elements"
        if layout.is_packed:
            words = f"packed: {counted} in {span}"
        elif distinct is None:
            words = f"overlapping: {counted} within {span}"
        elif distinct < count:
            words = f"broadcast: {counted} share {distinct:,} places" + f" within {span}" * layout.is_padded
        else:
            words = f"padded: {counted} within {span}"
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
        return Subject(thing, _labels(dims, thing.ndim), element, buffer_elements)
    if isinstance(thing, BufferTensorDesc):
        element = element_type(thing.data_type)
        stored = thing.total_tensor_size_in_bytes // element.itemsize
        return Subject(thing.layout, _labels(dims, len(thing.sizes)), element, buffer_elements or stored)
    operand: object = getattr(thing, "operand", thing)
    if not isinstance(operand, Operand):
        raise LayoutError(f"{type(thing).__name__} has no layout to draw; give a Layout, a tensor or a plan.")
    if buffer_elements is None and operand.owns_padding:
        buffer_elements = operand.buffer.nbytes // operand.element.itemsize
    ndim = operand.layout.ndim
    if dims is None:
        # A tensor's five axes without labels may also be NCHW with channels in blocks.
        dims = getattr(thing, "dims", None) or ("" if ndim == 5 else None)
    return Subject(operand.layout, _labels(dims, ndim), operand.element, buffer_elements)


def _labels(dims: str | None, ndim: int) -> Labels:
    """The labels of `dims`: for None those of the rank, for an empty string none."""
    return labels_of(None, ndim) if dims == "" else inferred_labels(checked_dims(dims, ndim), ndim)


def plan_of(thing: object) -> DevicePlan | None:
    """The plan of a relayout that `thing` is or holds as its `plan`, or None."""
    plan: Any = getattr(thing, "plan", thing)
    return plan if isinstance(getattr(plan, "problem", None), RelayoutProblem) else None


def relayout_of(plan: DevicePlan) -> RelayoutProblem:
    """The problem of a plan that `plan_of` returned."""
    assert isinstance(plan.problem, RelayoutProblem), "plan_of returns no other plans"
    return plan.problem


@dataclass(frozen=True)
class Side:
    """A subject with what is drawn of it; the source or the target of a plan has a heading and more.

    `vector_bytes` are those of an access, `touched` is true for the offsets that one tile uses, `source_of` gives the
    source's offset of a target's, and `letters` the source's letter of it.
    """

    subject: Subject
    labels: LabelKind | None
    heading: str = ""
    vector_bytes: int = 0
    touched: Callable[[int], bool] = lambda _offset: False
    source_of: Callable[[int], int | None] = lambda _offset: None
    letters: Letters | None = None

    @cached_property
    def grid(self) -> Grid:
        """The visible elements."""
        return grid_of(self.subject.layout)

    @cached_property
    def labeller(self) -> Labeller:
        """The labels of elements and places."""
        return Labeller(self.subject.layout, self.grid, self.labels, self.letters)

    @cached_property
    def memory(self) -> tuple[Place | Gap, ...]:
        """The memory under the visible elements."""
        return memory_of(self.subject.layout, self.grid, self.subject.stop)


def sides_of(
    thing: object,
    labels: LabelKind | None = None,
    dims: str | None = None,
    dtype: object = None,
    buffer_elements: int | None = None,
) -> tuple[list[Side], DevicePlan | None]:
    """The sides of a picture, one or two, and the plan between two of them."""
    plan = plan_of(thing)
    if plan is None:
        return [Side(subject_of(thing, dims=dims, dtype=dtype, buffer_elements=buffer_elements), labels)], None
    tile = PlanMap(plan)
    problem = relayout_of(plan)
    source, target = (_side_subject(side, dims) for side in (problem.source, problem.target))
    return [
        Side(source, labels, "source", plan.load.nbytes, tile.read.__contains__),
        Side(
            target,
            labels,
            "target",
            plan.store.nbytes,
            tile.is_written,
            tile.source_of,
            tile.letters(Side(source, labels).labeller),
        ),
    ], plan


def _side_subject(side: TensorSpec, dims: str | None) -> Subject:
    """One side of a plan, with its lowest element at offset 0."""
    layout = side.layout
    end = layout.span + side.slack_bytes // side.element.itemsize
    return Subject(layout, _labels(dims, layout.ndim), side.element, end if side.owns_padding else None)


class PlanMap:
    """The source element of each target element of a plan, and what one tile moves: all as offsets from the lowest."""

    def __init__(self, plan: DevicePlan) -> None:
        problem = self._problem = relayout_of(plan)
        self._target = Layout(problem.sizes, problem.target_strides)
        self.tile = problem.sizes if problem.is_empty else plan.tile

    def source_of(self, target_offset: int) -> int | None:
        """The offset in the source of the element at an offset of the target; None for padding."""
        at = place_at(self._target, target_offset).coordinates
        return None if at is None else self._source_offset(at)

    def letters(self, source: Labeller) -> Letters | None:
        """The source's letter of each target offset, or None if the source has no letters."""
        if source.kind != "letters":
            return None

        def letter(offset: int) -> str:
            origin = self.source_of(offset)
            return "" if origin is None else source.letter(origin)

        return letter

    def is_written(self, target_offset: int) -> bool:
        """True if the tile writes this place."""
        at = place_at(self._target, target_offset).coordinates
        return at is not None and all(x < n for x, n in zip(at, self.tile, strict=True))

    @cached_property
    def read(self) -> frozenset[int]:
        """The offsets that the tile reads."""
        return frozenset(self._source_offset(at) for at in product(*map(range, self.tile)))

    def _source_offset(self, at: Coordinates) -> int:
        problem, steps = self._problem, list(at)
        channels = problem.conversion.channels
        if problem.channel_axis is not None and channels is not None:
            steps[problem.channel_axis] = channels[at[problem.channel_axis]]
        return problem.source_offset + sum(x * s for x, s in zip(steps, problem.source_strides, strict=True))


def tile_words(plan: DevicePlan) -> str:
    """Who moves which tile of a plan, in how wide accesses.

    >>> from stridedgpu.api.relayout import plan_relayout
    >>> from stridedgpu.values.descriptor import BufferTensorDesc
    >>> pixels = BufferTensorDesc("uint8", (1, 3, 64, 64), (12288, 1, 192, 3))
    >>> plan = plan_relayout(pixels, BufferTensorDesc("uint8", (1, 3, 64, 64)), device="cuda").plan
    >>> tile_words(plan).partition(";")[0]
    'one tile of 3 x 592 elements, in loads of 16 B and stores of 16 B'
    """
    if plan.problem.is_empty:
        return "nothing is moved"
    accesses = f"loads of {plan.load.nbytes} B and stores of {plan.store.nbytes} B"
    return f"one tile of {' x '.join(map(str, plan.tile)) or '1'} elements, in {accesses}; {plan.shape}"


def description(operand: Operand, directml: BufferTensorDesc | Exception) -> list[str]:
    r"""Span, padding, DirectML's descriptor or why there is none, the kind of layout, and alignment.

    >>> from stridedgpu.api.creation import empty
    >>> tensor = empty((2, 3), "float16", row_pitch_bytes=8, device="cpu")
    >>> print("\n".join(description(tensor.operand, tensor.desc)))
    offset 0, span 7 elements, 14 bytes of a buffer of 16
    elements take 12 bytes; padding between them 2 bytes (14.3%), owned: it may be overwritten
    DirectML can describe it: 16 bytes at least
    descriptor: FLOAT16, sizes (2, 3), strides (4, 1), 16 bytes in all, 32 bytes of alignment guaranteed
    not packed, padded, not broadcast, no overlap
    the first element's address is a multiple of 32 bytes
    """
    layout, itemsize, distinct = operand.layout, operand.element.itemsize, subject_of(operand).distinct
    spanned = layout.span * itemsize
    taken = "elements overlap: how much of the span is padding is not counted"
    if distinct is not None:
        padding = spanned - distinct * itemsize
        owner = ", owned: it may be overwritten" if operand.owns_padding else ", not owned: it is left as it is"
        taken = f"elements take {distinct * itemsize} bytes; padding between them {padding} bytes "
        taken += f"({padding / max(spanned, 1):.1%}){owner if padding else ''}"
    kinds = (
        "packed" if layout.is_packed else "not packed",
        "padded" if layout.is_padded else "not padded",
        "broadcast" if layout.is_broadcast else "not broadcast",
        "elements overlap" if layout.has_overlap else "no overlap",
    )
    return [
        f"offset {layout.offset}, span {layout.span} elements, {spanned} bytes of a buffer of {operand.buffer.nbytes}",
        taken,
        *_directml_lines(directml),
        ", ".join(kinds),
        f"the first element's address is a multiple of {operand.alignment} bytes",
    ]


def _directml_lines(directml: BufferTensorDesc | Exception) -> list[str]:
    if isinstance(directml, Exception):
        return [f"DirectML cannot describe it: {directml}"]
    guaranteed = directml.guaranteed_base_offset_alignment
    return [
        f"DirectML can describe it: {directml.minimum_implied_size_in_bytes} bytes at least",
        f"descriptor: {directml.data_type.name}, sizes {directml.sizes}, strides {directml.strides}, "
        f"{directml.total_tensor_size_in_bytes} bytes in all, "
        + (f"{guaranteed} bytes of alignment guaranteed" if guaranteed else "no alignment guaranteed"),
    ]
