"""The kernel of gather, gather_elements, gather_nd and their scatters: rows and elements selected by index.

    indices   7  0  3  3 ...         a chunk of some hundred, resolved in vectors to offsets on the stack
              |  |  |  |
    indexed   [=====]  [=====] ...   a run of bytes at each offset: one word, one vector, or vectors in a row
    dense     [=====][=====][=====]

`b` is the innermost loop with indices of its own, `a` the loop around it. Each index selects the loop `m` over runs,
and a run is the innermost loop. If the indices do not depend on `a`, the offsets of a chunk of `b` are reused for the
whole block of `a`. An offset is never outside the axis: an index that the mode does not make valid is clamped to the
last position.

Each run is read once and written once, except that the last step of a long run is moved back to end with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from stridedgpu.devices.cpu.native.registers import LINE_BYTES
from stridedgpu.devices.cpu.policy import policy

from .gather_indices import IndexKind, load_indices, resolved
from .ir import Code, Value, vector_type
from .work_grid import items_of

_Block = tuple[Value, Value]
"""The first step of a block of one loop, and the step after its last."""


def outer_loops(code: Code, rank: int) -> list[list[Value]]:
    """The next parameters: of each outer loop, innermost first, the size, and dense, indexed and index strides."""
    return [code.take(4) for _ in range(rank)]


def sides_of(code: Code, index: Value, *, scatters: bool = False) -> list[Value]:
    """The dense, the indexed and the index side of a call; `scatters`: the dense side is read."""
    sides = [code.source, code.target] if scatters else [code.target, code.source]
    return [*sides, index.pointer()]


_Sides = Sequence[Value]
"""The current addresses on the dense, the indexed and the index side."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """An inner loop's parameters. Strides are those of the dense, the indexed and the index side."""

    size: Value
    strides: _Sides
    block: Value
    blocks: Value

    @classmethod
    def taken(cls, code: Code) -> _Loop:
        """The loop with the next parameters: size, strides, block and number of blocks."""
        size, *strides, block, blocks = code.take(6)
        return cls(size, strides, block, blocks)

    def along(self, sides: _Sides, steps: Value) -> _Sides:
        """The addresses some steps further."""
        return [side + steps * stride for side, stride in zip(sides, self.strides, strict=True)]


@dataclass(frozen=True, slots=True)
class Gather:
    """A kernel with `rank` outer loops, for indices of one kind in tuples of `components`.

    `lanes` indices are resolved at once. `follows`: the indices depend on `a`. `deep`: there is a loop `m`. `run` is
    the bytes of one step; a `long` run takes several steps. `packed`: the runs of `b` are adjacent on the dense side.
    `scatters`: the dense side is read and the indexed side written.

    Parameters: the address of the indices; bytes of a run, bytes of its block, number of blocks; for each of `m`, `b`
    and `a` the size, the dense, indexed and index strides, the block and the number of blocks; the outer loops; for
    each component of an index tuple the axis' size, its stride on the indexed side, and its place in the tuple. Strides
    are in bytes.
    """

    index: IndexKind
    components: int
    rank: int
    lanes: int
    follows: bool
    deep: bool
    run: int
    long: bool
    packed: bool
    scatters: bool

    @property
    def store_bytes(self) -> int:
        """Bytes of one store."""
        return min(LINE_BYTES, self.run)

    def text(self, name: str) -> str:
        """The module."""
        code = Code()
        # The last vector of a chunk is moved back to end with it, and so may begin before the chunk.
        offsets = code.scratch(8 * (policy().gather.chunk_indices + self.lanes)) + 8 * self.lanes
        body = _Body(code, self)
        with body.items() as (sides, m, b, a):
            if self.follows:
                with code.loop(*a) as row:
                    of_row = body.a.along(sides, row)
                    with body.chunks(b) as chunk:
                        body.resolve(of_row, chunk, offsets)
                        body.move(of_row, chunk, m, offsets)
            else:
                with body.chunks(b) as chunk:
                    body.resolve(sides, chunk, offsets)
                    with code.loop(*a) as row:
                        body.move(body.a.along(sides, row), chunk, m, offsets)
        return code.text(name)


class _Body:
    """The loops of a kernel and their bodies."""

    def __init__(self, code: Code, kernel: Gather) -> None:
        self._code, self._kernel = code, kernel
        self._index, self._run, self._run_block, self._run_blocks = code.take(4)
        self.m, self.b, self.a = (_Loop.taken(code) for _ in range(3))
        self._dense, indexed, self._stride = self.b.strides
        self._along = code.constant(0, vector_type(kernel.lanes, "i64"))
        for lane in range(kernel.lanes):
            self._along = self._along.insert(indexed * lane, lane)
        self._outer = outer_loops(code, kernel.rank)
        self._components = [code.take(3) for _ in range(kernel.components)]

    @contextmanager
    def items(self) -> Iterator[tuple[_Sides, _Block, _Block, _Block]]:
        """Every item from `first` to `last`: its first addresses, and its blocks of `m`, `b` and `a`."""
        code, kernel = self._code, self._kernel
        blocks = [self._run_blocks, self.m.blocks, self.b.blocks, self.a.blocks]
        sides = sides_of(code, self._index, scatters=kernel.scatters)
        with items_of(code, blocks, self._outer, sides) as item:
            (part, m, b, a), (dense, indexed, index) = item
            # The last block of a long run overlaps the one before it, so that all have the same length.
            offset = (part * self._run_block).at_most(self._run - self._run_block)
            moved = dense + offset, indexed + offset, index
            m_block, b_block, a_block = (
                code.block(number, loop.block, loop.size) for loop, number in ((self.m, m), (self.b, b), (self.a, a))
            )
            yield moved, m_block, b_block, a_block

    @contextmanager
    def chunks(self, block: _Block) -> Iterator[_Block]:
        """The chunks of a block of `b`, whose indices are resolved together."""
        code, (start, stop) = self._code, block
        with code.loop(start, stop, policy().gather.chunk_indices) as first:
            yield first, (first + policy().gather.chunk_indices).at_most(stop)

    def resolve(self, sides: _Sides, chunk: _Block, offsets: Value) -> None:
        """Store the offset of every step of a chunk on the stack, including the stride of `b` itself."""
        code, kernel = self._code, self._kernel
        (start, end), lanes = chunk, kernel.lanes
        with code.steps(start, end, lanes) as at:
            total = self._along + at * self.b.strides[1]
            first = sides[2] + at * self._stride
            # Indices are read in bursts, one chunk at a time, which defeats the hardware prefetcher.
            soon = first + self._stride * (policy().gather.index_ahead_bytes // kernel.index.nbytes)
            for line in range(kernel.components):
                code.prefetch(soon + line * LINE_BYTES)
            for size, stride, component in self._components:
                indices = load_indices(kernel.index, first + component, self._stride, lanes)
                place = resolved(kernel.index, indices, size)
                total = total + place * stride
            code.store(total, offsets + (at - start) * 8, 8)

    def move(self, sides: _Sides, chunk: _Block, m: _Block, offsets: Value) -> None:
        """Move the runs that a chunk's indices select."""
        start, end = chunk
        begin = [sides[0] + start * self._dense, *sides[1:]]
        with self._code.loop(0, end - start) as number:
            self._step(begin, number, m, offsets)

    def _step(self, sides: _Sides, number: Value, m: _Block, offsets: Value) -> None:
        """Move the elements that one index selects: index `number` of a chunk that begins at `sides`."""
        code, kernel = self._code, self._kernel
        dense, indexed, index = sides
        # A step known at compile time needs no multiplication.
        step = kernel.run if kernel.packed and not kernel.long else self._dense
        selected = indexed + offsets.word(number)
        run = [dense + number * step, selected, index]
        if not kernel.deep:
            self._copy(run)
            return
        with code.loop(*m) as inner:
            self._copy(self.m.along(run, inner))

    def _copy(self, sides: _Sides) -> None:
        code, kernel, (dense, indexed, _) = self._code, self._kernel, sides
        source, target = (dense, indexed) if kernel.scatters else (indexed, dense)
        if not kernel.long:
            self._copy_step(source, target)
            return
        with code.steps(0, self._run_block, kernel.run) as at:
            self._copy_step(source + at, target + at)

    def _copy_step(self, source: Value, target: Value) -> None:
        """Move `run` bytes: all loads first."""
        code, run = self._code, self._kernel.run
        width = min(run, LINE_BYTES)
        type_ = f"i{8 * width}" if width <= 8 else vector_type(width, "i8")
        values = [(source + at).load(type_) for at in range(0, run, width)]
        for number, value in enumerate(values):
            code.store(value, target + number * width, 1)
