"""Rows: a target row in element order, from a source row of any stride. Also flat copies and the generic case.

    source  ... x x x x x x x x ...      one vector load, or one scalar load a lane if the stride is not 1
                | | | | | | | |
    target  ... y y y y y y y y ...      one vector store, or one scalar store a lane

A bitwise copy with scalar loads and scalar stores never assembles a vector. Each element is read once and written
once. `b` runs along the row, `a` over rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto

from .conversion import Affine
from .ir import Code, Value, constant, vector_type
from .work_grid import Constants, Elements, Grid

__all__ = ["Rows", "Step"]


class Step(StrEnum):
    """The stride of a row's elements."""

    FORWARD = auto()
    BACKWARD = auto()
    REPEATED = auto()
    STRIDED = auto()


@dataclass(frozen=True, slots=True)
class Rows:
    """A kernel over rows of at least `lanes` elements.

    `reads_ahead`: source rows are prefetched, because they lie far apart. `streaming`: non-temporal stores.
    """

    elements: Elements
    rank: int
    lanes: int
    source_step: Step
    target_step: Step
    reads_ahead: bool = False
    streaming: bool = False

    def text(self, name: str) -> str:
        """The module."""
        code, elements = Code(), self.elements
        grid = Grid(code, elements, self.rank)
        source_step = _stride(self.source_step, elements.source_bytes, grid.b.source)
        target_step = _stride(self.target_step, elements.target_bytes, grid.b.target)
        with grid.items(1, self.lanes) as item:
            fixed = grid.affine(item.place, self.lanes, along=False) if elements.constants == Constants.ITEM else None
            with code.loop(*item.a) as a:
                source = code.at(item.source, code.multiply(a, grid.a.source))
                target = code.at(item.target, code.multiply(a, grid.a.target))
                of_row = grid.affine(a, self.lanes, along=False) if elements.constants == Constants.A else fixed
                start = target if self.streaming else None
                with grid.places(item.b, self.lanes, start, elements.target_bytes) as (b, apart):
                    affine = of_row or grid.affine(b, self.lanes, along=True)
                    here = code.at(source, code.multiply(b, source_step))
                    if self.streaming and self.source_step is Step.BACKWARD:
                        grid.prefetch_backward(here, b, self.elements.source_bytes, self.lanes)
                    if self.reads_ahead:
                        grid.prefetch_row(here, self.lanes * elements.source_bytes)
                    there = code.at(target, code.multiply(b, target_step))
                    self._move(code, (here, source_step), (there, target_step), affine, apart)
        return code.text(name)

    def _move(
        self,
        code: Code,
        source: tuple[Value, Value],
        target: tuple[Value, Value],
        affine: Affine,
        apart: Value | None,
    ) -> None:
        """One step along a row; `source` and `target` are each an address and the stride in bytes."""
        if self.elements.itemsize and self.source_step is self.target_step is Step.STRIDED:
            (here, source_step), (there, target_step) = source, target
            places = [code.full("i64", lane) for lane in range(self.lanes)]
            type_ = self.elements.source_type
            made = [code.load(type_, code.at(here, code.multiply(source_step, place)), 1) for place in places]
            for value, place in zip(made, places, strict=True):
                code.store(value, code.at(there, code.multiply(target_step, place)), 1)
            return
        vector = self.elements.convert(code, self._load(code, *source), affine)
        self._store(code, vector, *target, apart)

    def _load(self, code: Code, address: Value, stride: Value) -> Value:
        """Load the lanes from an address on."""
        type_, nbytes = self.elements.source_type, self.elements.source_bytes
        if self.source_step is Step.FORWARD:
            vector = code.load_in_order(vector_type(self.lanes, type_), address)
            code.barrier()  # all loads of a step first: fewer wait for stores at the same place of another page
            return vector
        if self.source_step is Step.REPEATED:
            return code.splat(code.load(type_, address, 1), self.lanes)
        if self.source_step is Step.BACKWARD:
            lowest = code.at(address, -nbytes * (self.lanes - 1))
            vector = code.load(vector_type(self.lanes, type_), lowest, 1)
            return code.shuffle(vector, None, range(self.lanes)[::-1])
        vector = Value(vector_type(self.lanes, type_), "poison")
        for lane in range(self.lanes):
            vector = code.insert(vector, code.load(type_, address, 1), lane)
            address = code.at(address, stride)
        return vector

    def _store(self, code: Code, vector: Value, address: Value, stride: Value, apart: Value | None) -> None:
        """Store the lanes from an address on."""
        if self.target_step is Step.FORWARD:
            code.store_all([(vector, address)], apart)
            return
        for lane in range(self.lanes):
            code.store(code.extract(vector, lane), address, 1)
            address = code.at(address, stride)


def _stride(step: Step, nbytes: int, stride: Value) -> Value:
    """The stride in bytes: a compile-time constant unless the step is strided."""
    known = {Step.FORWARD: nbytes, Step.BACKWARD: -nbytes, Step.REPEATED: 0}.get(step)
    return stride if known is None else constant(known)
