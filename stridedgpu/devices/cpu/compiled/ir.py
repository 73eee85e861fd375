"""`Code`: a builder for the text of one LLVM function; each call appends code and returns the value it defines.

All machine code for the CPU is generated with it. Kernels spell out every vector, shuffle and store: the result does
not depend on LLVM's auto-vectoriser. This module does not import the compiler.

What LLVM is worked around for:

    masked stores of vectors below 16 bytes compile for ever (LLVM 22)   `LEAST_MASKED_BYTES`
    parts of a wide vector are loaded and stored last to first           `load_in_order`, `store`
    shuffles of 64 bytes before a store of 8 are combined wrongly        `opaque` (LLVM 22, AVX-512 VBMI)
    shuffles of 8 bytes from many vectors are combined for hours         `opaque` (LLVM 22, AVX-512)
    an intrinsic that the target lacks ends the process                  `needs_of`; LLVM has a process of its own
    `llvm.fptosi.sat` is taken apart into branches                       `conversion._words`
    on AArch64 FMAXNM keeps a signalling NaN that a comparison drops     `conversion._integer_of_float`
    what `noalias` loops read and write is moved across stores           `barrier`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, repeat
from operator import or_
from struct import pack
from typing import Final

from stridedgpu.devices.cpu.native.registers import LANE_BYTES, LINE_BYTES
from stridedgpu.devices.cpu.policy import policy

LEAST_MASKED_BYTES: Final = 16
"""Bytes of the narrowest vector that may be stored by a mask."""


def _operator(operation: str) -> Callable[[Value, Operand], Value]:
    """A method that appends a binary operation."""

    def method(self: Value, other: Operand) -> Value:
        return self.binary(operation, other)

    return method


def _comparison(whole: str, floating: str) -> Callable[[Value, Operand], Value]:
    """A method that appends a comparison of integers or of floats."""

    def method(self: Value, other: Operand) -> Value:
        return self.compare(f"fcmp {floating}" if self.is_float else f"icmp {whole}", other)

    return method


@dataclass(slots=True, eq=False)  # frozen ones take a fifth of the time of writing a module
class Value:
    """A typed LLVM value of a function under construction: a register or a constant, a scalar or a vector.

    Its operators and methods append code to the function. A number beside a value is a constant of the value's type;
    beside a vector, numbers and scalars are in every lane.

        + - *                of integers or floats, and of an address and bytes
        & | ^ << == !=       of integers; == and != of floats, too
        // % >>              of unsigned integers; `shifted` keeps the sign
        < <= > >=            of signed integers, and of floats: false where one is no number
        -a  ~a               0 - a, and the logical not of a condition
    """

    code: Code
    type: str
    name: str

    @property
    def is_vector(self) -> bool:
        """Whether it has lanes."""
        return self.type[0] == "<"

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return int(self.type[1:].split(" ", 1)[0])

    @property
    def element(self) -> str:
        """The type of a vector's elements, or of a scalar."""
        return self.type[1:-1].split(" x ", 1)[1] if self.is_vector else self.type

    @property
    def is_float(self) -> bool:
        """Whether elements are floats."""
        return self.type.rstrip(">").rpartition(" ")[2] in _FLOAT_BITS

    @property
    def nbytes(self) -> int:
        """Bytes of a vector."""
        return self.lanes * _bits(self.element) // 8

    def like(self, other: Operand) -> Value:
        """Another operand as a value of the same type: a number or a scalar is in every lane."""
        if not isinstance(other, Value):
            return self.code.constant(other, self.type)
        return other.splat(self.lanes) if self.is_vector and not other.is_vector else other

    def _name_of(self, other: Operand) -> str:
        return self.like(other).name if isinstance(other, Value) else _words(other, self.type)

    def binary(self, operation: str, other: Operand) -> Value:
        """`srem`, `add nsw` … with another value."""
        return self.code.value(self.type, f"{operation} {self.type} {self.name}, {self._name_of(other)}")

    def _arithmetic(self, operation: str, other: Operand) -> Value:
        return self.binary(f"f{operation}" if self.is_float else operation, other)

    def __add__(self, other: Operand) -> Value:
        if self.type != "ptr":
            return self._arithmetic("add", other)
        offset = other.name if isinstance(other, Value) else other
        return self.code.value("ptr", f"getelementptr i8, ptr {self.name}, i64 {offset}")

    def __sub__(self, other: Operand) -> Value:
        return self + -other if self.type == "ptr" and isinstance(other, Value) else self._arithmetic("sub", other)

    def __rsub__(self, number: Number) -> Value:
        return self.like(number) - self

    def __mul__(self, other: Operand) -> Value:
        return self._arithmetic("mul", other)

    __truediv__, __floordiv__, __mod__ = _operator("fdiv"), _operator("udiv"), _operator("urem")
    __and__, __or__, __xor__ = _operator("and"), _operator("or"), _operator("xor")
    __lshift__, __rshift__, shifted = _operator("shl"), _operator("lshr"), _operator("ashr")

    def __neg__(self) -> Value:
        return 0 - self

    def __invert__(self) -> Value:
        return self ^ "true"

    def compare(self, condition: str, other: Operand) -> Value:
        """`icmp ult`, `fcmp uno` …, with one bit a lane as the result."""
        right = self._name_of(other)
        bits = vector_type(self.lanes, "i1") if self.is_vector else "i1"
        return self.code.value(bits, f"{condition} {self.type} {self.name}, {right}")

    __lt__, __le__ = _comparison("slt", "olt"), _comparison("sle", "ole")
    __gt__, __ge__ = _comparison("sgt", "ogt"), _comparison("sge", "oge")
    __eq__, __ne__ = _comparison("eq", "oeq"), _comparison("ne", "une")  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise TypeError("a value is known when the code runs, not while it is generated")

    def is_nan(self) -> Value:
        """Whether a float is no number."""
        return self.compare("fcmp uno", self)

    def select(self, yes: Operand, no: Operand) -> Value:
        """`yes` where this condition holds, else `no`, one of which is a value."""
        known = yes if isinstance(yes, Value) else no
        assert isinstance(known, Value), "one of them has a type"
        first, second = known.like(yes), known.like(no)
        typed = f"{first.type} {first.name}, {second.type} {second.name}"
        return self.code.value(known.type, f"select {self.type} {self.name}, {typed}")

    def at_most(self, limit: Operand) -> Value:
        """The smaller of both; of floats the limit where one is NaN."""
        other = self.like(limit)
        return (self < other).select(self, other)

    def at_least(self, limit: Operand) -> Value:
        """The larger of both; of floats the limit where one is NaN."""
        other = self.like(limit)
        return (self > other).select(self, other)

    def cast(self, operation: str, element: str) -> Value:
        """`zext`, `fptrunc`, `bitcast` … to another element type, lane by lane."""
        type_ = vector_type(self.lanes, element) if self.is_vector else element
        return self.code.value(type_, f"{operation} {self.type} {self.name} to {type_}")

    def recast(self, element: str) -> Value:
        """Reinterpret a vector as one of elements of another size."""
        type_ = vector_type(self.lanes * _bits(self.element) // _bits(element), element)
        return self.code.value(type_, f"bitcast {self.type} {self.name} to {type_}")

    def pointer(self) -> Value:
        """Convert an address from an integer to a pointer."""
        return self.code.value("ptr", f"inttoptr i64 {self.name} to ptr")

    def bits(self) -> Value:
        """Convert an address from a pointer to an integer."""
        return self.code.value("i64", f"ptrtoint ptr {self.name} to i64")

    def intrinsic(self, name: str, *others: Operand) -> Value:
        """`llvm.umin`, `llvm.floor` … of this value, of others of its type, and with a result of its type."""
        kind = f"f{_bits(self.element)}" if self.is_float else self.element
        suffix = f"v{self.lanes}{kind}" if self.is_vector else kind
        return self.code.call(f"{name}.{suffix}", self.type, self, *map(self.like, others))

    def reduced(self, operation: str) -> Value:
        """`or`, `and` … of all lanes."""
        return self.code.call(f"llvm.vector.reduce.{operation}.v{self.lanes}{self.element}", self.element, self)

    def __call__(self, *arguments: Operand, returns: str = "void") -> Value:
        """Call the function at this address; numbers are passed in 64 bits."""
        values = (one if isinstance(one, Value) else self.code.constant(one) for one in arguments)
        passed = ", ".join(f"{value.type} {value.name}" for value in values)
        return self.code.value(returns, f"call {returns} {self.name}({passed})")

    # Lanes

    def shuffle(self, places: Sequence[int], right: Value | None = None) -> Value:
        """Lanes of this vector followed by those of `right`, by number; -1 leaves a lane undefined."""
        mask = ", ".join("i32 poison" if place < 0 else f"i32 {place}" for place in places)
        type_, mask_type = vector_type(len(places), self.element), vector_type(len(places), "i32")
        vectors = f"{self.type} {self.name}, {self.type} {'poison' if right is None else right.name}"
        return self.code.value(type_, f"shufflevector {vectors}, {mask_type} <{mask}>")

    def opaque(self) -> Value:
        """The same vector, of whose lanes LLVM knows nothing: shuffles before and after are not combined.

        LLVM 22 combines some wrongly, and others for hours, where shuffles take two vectors by a table: with AVX-512.
        Other targets get the vector as it is.
        """
        if "avx512f" not in policy().target.features:
            return self
        if self.nbytes < LANE_BYTES:
            lanes = LANE_BYTES * self.lanes // self.nbytes
            whole = self.shuffle([lane if lane < self.lanes else -1 for lane in range(lanes)])
            return whole.opaque().shuffle(range(self.lanes))
        return self.code.value(self.type, f'call {self.type} asm "", "=v,0"({self.type} {self.name})')

    def splat(self, lanes: int) -> Value:
        """A scalar in every lane."""
        return self.code.constant("poison", vector_type(lanes, self.type)).insert(self, 0).shuffle([0] * lanes)

    def insert(self, scalar: Value, lane: int) -> Value:
        """The vector with one lane replaced."""
        one = f"{scalar.type} {scalar.name}, i32 {lane}"
        return self.code.value(self.type, f"insertelement {self.type} {self.name}, {one}")

    def extract(self, lane: int) -> Value:
        """One lane."""
        return self.code.value(self.element, f"extractelement {self.type} {self.name}, i32 {lane}")

    # Memory at an address

    def load(self, type_: str, alignment: int = 1) -> Value:
        """Load a value from this address."""
        return self.code.value(type_, f"load {type_}, ptr {self.name}, align {alignment}")

    def word(self, place: Value | int = 0) -> Value:
        """Load a 64-bit number, by its place in those from this address on."""
        return (self + 8 * place if isinstance(place, int) else self + place * 8).load("i64", 8)

    def strided(self, stride: Value, count: int) -> Iterator[Value]:
        """The addresses of so many elements that are `stride` bytes apart, each computed when it is taken."""
        return accumulate(repeat(stride, count - 1), initial=self)

    def words(self, count: int) -> list[Value]:
        """Load consecutive 64-bit numbers."""
        return [self.word(place) for place in range(count)]


Number = int | float | str
"""A constant: a whole number, a float, or LLVM's words for one."""

Operand = Value | Number


def _bits(element: str) -> int:
    return _FLOAT_BITS.get(element) or int(element[1:])


_FLOAT_BITS: Final = {"half": 16, "float": 32, "double": 64}


def vector_type(lanes: int, element: str) -> str:
    """LLVM's name for a vector."""
    return f"<{lanes} x {element}>"


_LOOP_ARGUMENTS: Final = ("ptr noalias source", "ptr noalias target", "ptr parameters", "i64 first", "i64 last")


class Code:
    """A function under construction; it returns the value passed to `give`, by default none.

    The default signature is that of a kernel, `void name(ptr source, ptr target, ptr parameters, i64 first, i64 last)`,
    which runs the work items from `first` to `last`. `arguments` ("type name") replace it.
    """

    def __init__(self, *arguments: str, returns: str = "void") -> None:
        self._lines: list[str] = ["entry:"]
        self._block = "entry"
        self._count = 0
        self._loops: list[str] = []
        self.declarations: dict[str, None] = {}
        """Those of the intrinsics that the function calls."""
        self.needs: set[str] = set()
        """The instruction sets that it needs."""
        self._taken = 0
        self._returns, self._result = returns, returns
        self._arguments = [argument.rpartition(" ") for argument in arguments or _LOOP_ARGUMENTS]
        self.source, self.target, self.parameters = (
            Value(self, "ptr", f"%{name}") for name in ("source", "target", "parameters")
        )
        self.first, self.last = Value(self, "i64", "%first"), Value(self, "i64", "%last")

    def text(self, name: str) -> str:
        """The text of a module with this function alone."""
        return module_text({name: self})

    def argument(self, name: str) -> Value:
        """An argument of the function."""
        type_ = next(type_ for type_, _, other in self._arguments if other == name)
        return Value(self, type_.split(" ", 1)[0], f"%{name}")

    def definition(self, name: str) -> str:
        """The text of the function."""
        arguments = ", ".join(f"{type_} %{argument}" for type_, _, argument in self._arguments)
        return "\n".join(
            [
                f"define {self._returns} @{name}({arguments}) nounwind {{",
                *self._lines,
                # The release store that signals completion does not order non-temporal stores; a fence does.
                *(["  fence seq_cst"] if any("!nontemporal" in line for line in self._lines) else []),
                f"  ret {self._result}",
                "}",
            ]
        )

    # Values

    def value(self, type_: str, expression: str) -> Value:
        """Append an instruction, and assign its result to a new register unless its type is void."""
        if type_ == "void":
            self._lines.append(f"  {expression}")
            return Value(self, type_, "")
        self._count += 1
        name = f"%v{self._count}"
        self._lines.append(f"  {name} = {expression}")
        return Value(self, type_, name)

    def constant(self, number: Number, type_: str = "i64") -> Value:
        """A constant of a scalar type, or of a vector type with the constant in every lane."""
        return Value(self, type_, _words(number, type_))

    def lanes(self, element: str, numbers: Sequence[Number]) -> Value:
        """A constant for each lane of a vector."""
        names = ", ".join(f"{element} {_literal(number, element)}" for number in numbers)
        return Value(self, vector_type(len(numbers), element), f"<{names}>")

    def call(self, intrinsic: str, type_: str, *arguments: Value, needs: str = "") -> Value:
        """Call an LLVM intrinsic by its full name. One of a single architecture `needs` an instruction set.

        LLVM ends its process when it is asked for an instruction that its target lacks. The module's text therefore
        begins with what all of its functions need, and is refused before LLVM sees it (`needs_of`).
        """
        assert bool(needs) == intrinsic.startswith(_OF_ONE_ARCHITECTURE), f"{intrinsic} needs {needs!r}"
        self.needs.update(needs.split())
        types = ", ".join(argument.type for argument in arguments)
        self.declarations[f"declare {type_} @{intrinsic}({types})"] = None
        return Value(self, "ptr", f"@{intrinsic}")(*arguments, returns=type_)

    def vector(self, type_: str, scalars: Iterable[Value]) -> Value:
        """A vector of scalars, each inserted as it comes."""
        vector = self.constant("poison", type_)
        for lane, scalar in enumerate(scalars):
            vector = vector.insert(scalar, lane)
        return vector

    def block(self, number: Value, length: Value, size: Value) -> tuple[Value, Value]:
        """The first index of the block with a number, of blocks of some length, and the index behind its last one."""
        start = number * length
        return start, (start + length).at_most(size)

    # Memory

    def take(self, count: int) -> list[Value]:
        """Load the next parameters: numbers of 64 bits, which are read in their order."""
        first, self._taken = self._taken, self._taken + count
        return [self.parameters.word(place) for place in range(first, self._taken)]

    def rest(self) -> Value:
        """The address of the parameters that are not taken yet."""
        return self.parameters + 8 * self._taken

    def load_in_order(self, type_: str, address: Value) -> Value:
        """Load a vector of any width a cache line after another.

        LLVM by itself may load the parts of a wide vector from last to first, which hardware prefetchers do not follow.
        """
        whole = self.constant("poison", type_)
        lines = whole.nbytes // LINE_BYTES
        if lines < 2:
            return address.load(type_)
        parts = []
        for line in range(lines):
            parts.append((address + line * LINE_BYTES).load(vector_type(whole.lanes // lines, whole.element)))
            self.barrier()
        return joined(parts)

    def store(self, value: Value | int, address: Value, alignment: int = 1, *, streaming: bool = False) -> None:
        """Store a value, or a number of 64 bits.

        `streaming` is a non-temporal store, and of a vector it requires a cache line's alignment.
        """
        whole = self.constant(value) if isinstance(value, int) else value
        aligned = LINE_BYTES if streaming and whole.is_vector else alignment
        hint = f"align {aligned}, !nontemporal !0" if streaming else f"align {aligned}"
        for part, start in _in_lines(whole, address):
            self.value("void", f"store {part.type} {part.name}, ptr {start.name}, {hint}")

    def store_some(self, vector: Value, address: Value, wanted: Sequence[bool]) -> None:
        """Store the `wanted` lanes of a vector; the memory of the other lanes is not touched."""
        words = vector.recast(f"i{min(64, 8 * vector.nbytes // vector.lanes)}")
        name = f"llvm.masked.store.v{words.lanes}{words.element}.p0"
        mask = self.lanes("i1", [int(lane) for lane in wanted for _ in range(words.lanes // vector.lanes)])
        self.call(name, "void", words, address, self.constant(1, "i32"), mask)

    def is_aligned(self, address: Value, *offsets: Value) -> Value:
        """Whether an address and all offsets are multiples of a cache line."""
        bits = reduce(or_, offsets, address.bits())
        return bits & LINE_BYTES - 1 == 0

    def store_all(self, stores: Sequence[tuple[Value, Value]], may_stream: Value | None) -> None:
        """Store each vector to its address: non-temporal if `may_stream` holds (None: never) and alignment allows."""
        streams = may_stream
        if may_stream is not None:
            first, *others = (address for _, address in stores)
            others = [address.bits() for address in others]
            streams = may_stream & self.is_aligned(first, *others)
        for streaming in self.cases(streams):
            for vector, address in stores:
                self.store(vector, address, streaming=streaming)

    def prefetch(self, address: Value, *, written: bool = False) -> None:
        """Prefetch the cache line at an address, which may be invalid; `written`: for a store."""
        self.call(
            "llvm.prefetch.p0", "void", address, *(self.constant(number, "i32") for number in (int(written), 2, 1))
        )

    def barrier(self) -> None:
        """Keep loads and stores on their sides of this place in the machine code; no instruction stands for it."""
        self.value("void", 'fence syncscope("singlethread") acq_rel')

    def scratch(self, nbytes: int) -> Value:
        """Allocate memory on the stack, 64-byte aligned; only outside loops."""
        return self.value("ptr", f"alloca [{nbytes} x i8], align 64")

    # Memory shared by threads, in 64-bit words

    def load_shared(self, address: Value) -> Value:
        """Load a word with acquire ordering."""
        return self.value("i64", f"load atomic i64, ptr {address.name} acquire, align 8")

    def store_shared(self, number: int, address: Value) -> None:
        """Store a word with release ordering."""
        self.value("void", f"store atomic i64 {number}, ptr {address.name} release, align 8")

    def exchange(self, address: Value, number: int) -> Value:
        """Atomically exchange a word (acquire and release); returns the old one."""
        return self.value("i64", f"atomicrmw xchg ptr {address.name}, i64 {number} acq_rel")

    def replace_if(self, address: Value, expected: int, number: int) -> Value:
        """Compare-and-swap of a word (acquire and release); returns whether it succeeded."""
        pair = f"cmpxchg ptr {address.name}, i64 {expected}, i64 {number} acq_rel acquire"
        return self.value("i1", f"extractvalue {{ i64, i1 }} {self.value('{ i64, i1 }', pair).name}, 1")

    def fetch_add(self, address: Value, number: Value | int) -> Value:
        """Atomically add to a counter (relaxed); returns the old value."""
        added = number.name if isinstance(number, Value) else number
        return self.value("i64", f"atomicrmw add ptr {address.name}, i64 {added} monotonic")

    def pause(self, architecture: str) -> None:
        """Emit a spin-wait hint (`pause`, `yield`); `architecture` is that of a `Target`."""
        if architecture == "x86_64":
            self.call("llvm.x86.sse2.pause", "void", needs="sse2")
        else:
            self.value("void", "fence seq_cst")

    # Control: blocks, each of which begins with a label and ends with a branch

    def _label(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def _begin(self, block: str) -> None:
        """Begin a block, to which the one before has a branch."""
        self._lines.append(f"{block}:")
        self._block = block

    def _go_on(self, block: str) -> None:
        """End a block, and begin the only one that follows it."""
        self._lines.append(f"  br label %{block}")
        self._begin(block)

    def _branch(self, condition: Value, yes: str, no: str) -> None:
        """End a block with two that follow it."""
        self._lines.append(f"  br i1 {condition.name}, label %{yes}, label %{no}")

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Run the body if the condition is true."""
        label = self._label("when")
        self._branch(condition, label, f"{label}.end")
        self._begin(label)
        yield
        self._go_on(f"{label}.end")

    def cases(self, condition: Value | None) -> Iterator[bool]:
        """Generate the body twice: for where the condition is true and where it is false; once without a condition."""
        if condition is None:
            yield False
            return
        with self.when(condition):
            yield True
        with self.when(~condition):
            yield False

    def either(self, condition: Value, yes: Callable[[], Value], no: Callable[[], Value]) -> Value:
        """The value of `yes()` if the condition is true, else that of `no()`; the other one's code does not run."""
        label, edges = self._label("either"), []
        self._branch(condition, f"{label}.yes", f"{label}.no")
        for way, make in (("yes", yes), ("no", no)):
            self._begin(f"{label}.{way}")
            value = make()
            edges.append(f"[ {value.name}, %{self._block} ]")
            self._lines.append(f"  br label %{label}.end")
        self._begin(f"{label}.end")
        return self.value(value.type, f"phi {value.type} {', '.join(edges)}")

    @contextmanager
    def loop(self, start: Value | int, stop: Value | int, step: Value | int = 1) -> Iterator[Value]:
        """Run the body with an index from `start` while it is below `stop`."""
        with self._counted(start, stop, step, ()) as (index, _):
            yield index

    @contextmanager
    def steps(self, start: Value | int, stop: Value, step: int) -> Iterator[Value]:
        """A loop by steps of `step` places; the last one is moved back to end at `stop`, and has no scalar tail."""
        latest = stop - step
        with self.loop(start, stop, step) as place:
            yield place.at_most(latest)

    @contextmanager
    def fold(self, stop: Value | int, initial: Sequence[Value]) -> Iterator[tuple[Value, list[Value]]]:
        """A loop from 0 with loop-carried values in registers.

        The body replaces the entries of the list. After the loop the list has the values of the last iteration, or
        `initial` if there was none.
        """
        with self._counted(0, stop, 1, initial) as turn:
            yield turn

    @contextmanager
    def _counted(
        self, start: Value | int, stop: Value | int, step: Value | int, initial: Sequence[Value]
    ) -> Iterator[tuple[Value, list[Value]]]:
        """A loop with an index and carried values, each a phi of its first value and that of the turn before."""
        before, label = self._block, self._label("loop")
        index = Value(self, "i64", f"%i{self._count}")
        carried = [Value(self, value.type, f"%c{self._count}.{place}") for place, value in enumerate(initial)]
        with self._repeated(label):
            phis = len(self._lines)
            self._lines += [""] * (1 + len(carried))
            self._branch(index < stop, f"{label}.body", f"{label}.end")
            self._begin(f"{label}.body")
            values = list(carried)
            yield index, values
            turns = [(index, index.like(start), index.binary("add nsw", step))]
            for place, (phi, first, then) in enumerate([*turns, *zip(carried, initial, values, strict=True)], phis):
                edges = f"[ {first.name}, %{before} ], [ {then.name}, %{self._block} ]"
                self._lines[place] = f"  {phi.name} = phi {phi.type} {edges}"
        values[:] = carried

    @contextmanager
    def forever(self) -> Iterator[None]:
        """Repeat the body until `leave` ends the loop."""
        with self._repeated(self._label("forever")):
            yield

    @contextmanager
    def _repeated(self, label: str) -> Iterator[None]:
        """A block that branches back to its beginning."""
        self._go_on(label)
        self._loops.append(label)
        yield
        self._loops.pop()
        self._lines.append(f"  br label %{label}")
        self._begin(f"{label}.end")

    def leave(self, condition: Value) -> None:
        """Break out of the innermost loop if the condition is true."""
        label = self._label("stay")
        self._branch(condition, f"{self._loops[-1]}.end", label)
        self._begin(label)

    def give(self, value: Value) -> None:
        """Return a value at the function's end."""
        self._result = f"{value.type} {value.name}"


def _in_lines(value: Value, address: Value) -> list[tuple[Value, Value]]:
    """Split a vector into vectors of a cache line, with their addresses in ascending order.

    LLVM by itself stores the parts of a wide vector from last to first, which costs a sixth of the speed.
    """
    if not value.is_vector or value.nbytes <= LINE_BYTES:
        return [(value, address)]
    each = value.lanes * LINE_BYTES // value.nbytes
    return [
        (value.shuffle(range(first, first + each)), address + line * LINE_BYTES)
        for line, first in enumerate(range(0, value.lanes, each))
    ]


def _words(number: Number, type_: str) -> str:
    """A constant in LLVM's words, in every lane of a vector."""
    if type_[0] != "<" or number == "poison":
        return _literal(number, type_)
    lanes, _, element = type_[1:-1].partition(" x ")
    return "<" + ", ".join([f"{element} {_literal(number, element)}"] * int(lanes)) + ">"


def _literal(number: Number, element: str) -> str:
    """One of them; a float that is not whole by all bits of its double."""
    if isinstance(number, str) or element not in _FLOAT_BITS:
        return str(number)
    return f"{number}.0" if isinstance(number, int) else f"0x{pack('>d', number).hex().upper()}"


# Shuffles of whole vectors


def gathered(vectors: Sequence[Value], places: Sequence[int]) -> Value:
    """Gather the lanes at `places` of several concatenated vectors, two vectors a shuffle.

    The result is as long as one of them; -1 leaves a lane undefined.
    """
    lanes = vectors[0].lanes
    # The end of a long element in narrow vectors is undefined.
    first, *others = sorted({place // lanes for place in places if place >= 0}) or [0]
    second = others[0] if others else -1
    mask = [
        place % lanes + lanes * (place // lanes == second) if place >= 0 and place // lanes in (first, second) else -1
        for place in places
    ]
    result = vectors[first].shuffle(mask, vectors[second] if others else None)
    filled = {lane for lane, place in enumerate(mask) if place >= 0}
    for number in others[1:]:
        here = {lane for lane, place in enumerate(places) if place >= 0 and place // lanes == number}
        mask = [
            lanes + place % lanes if lane in here else lane if lane in filled else -1
            for lane, place in enumerate(places)
        ]
        result = result.shuffle(mask, vectors[number])
        filled |= here
    return result


def transposed_lanes(lines: list[Value], lane: int) -> list[Value]:
    """Transpose the elements within each 16 bytes of `lane` vectors: row r, element c becomes row c, element r.

    Rows half the height apart are interleaved, log2(lane) times: log2(lane) shuffles a vector.
    """
    half = lane // 2
    width = lines[0].lanes
    low = [start + at // 2 + width * (at % 2) for start in range(0, width, lane) for at in range(lane)]
    high = [place + half for place in low]
    for _ in range(lane.bit_length() - 1):
        lines = [lines[number].shuffle(mask, lines[number + half]) for number in range(half) for mask in (low, high)]
    return lines


def transposed_pairs(rows: Sequence[Value], pairs: Sequence[tuple[int, int]]) -> list[Value]:
    """Up to 8 pairs of the bytes of 16 rows of 16 bytes: each pair of row 0, of row 1, and so on; two pairs a vector.

    A vector has four rows that are four apart. One shuffle of bytes puts the pairs side by side, two rounds of shuffles
    within 16 bytes bring four neighbouring rows together, and one of 64 bits orders these.
    """
    places = [place for pair in pairs for place in pair]
    places += [-1] * (LANE_BYTES - len(places))
    mask = [start + place if place >= 0 else -1 for start in range(0, LINE_BYTES, LANE_BYTES) for place in places]
    first, second, third, fourth = (joined(list(rows[number::4])).shuffle(mask).recast("i16") for number in range(4))
    halves = zip(interleaved(first, second), interleaved(third, fourth), strict=True)
    found = [vector for left, right in halves for vector in interleaved(left.recast("i32"), right.recast("i32"))]
    return [vector.recast("i64").shuffle([0, 2, 4, 6, 1, 3, 5, 7]) for vector in found[: -(-len(pairs) // 2)]]


def interleaved(left: Value, right: Value) -> list[Value]:
    """The lower and the upper halves of each 16 bytes of two vectors, whose lanes take turns (`punpckl`, `punpckh`)."""
    lanes = left.lanes
    lane = lanes * LANE_BYTES // left.nbytes
    low = [start + at // 2 + lanes * (at % 2) for start in range(0, lanes, lane) for at in range(lane)]
    return [left.shuffle(low, right), left.shuffle([place + lane // 2 for place in low], right)]


def joined(vectors: list[Value]) -> Value:
    """Concatenate a power of two of vectors."""
    while len(vectors) > 1:
        places = range(2 * vectors[0].lanes)
        vectors = [left.shuffle(places, right) for left, right in zip(vectors[::2], vectors[1::2], strict=True)]
    return vectors[0]


def module_text(functions: Mapping[str, Code]) -> str:
    """The text of a module with the given functions, by name."""
    declarations = dict.fromkeys(line for code in functions.values() for line in code.declarations)
    definitions = [code.definition(name) for name, code in functions.items()]
    needs = sorted(set().union(*(code.needs for code in functions.values())))
    return "\n".join([_NEEDS + " ".join(needs), *declarations, *definitions, "!0 = !{i32 1}"])


def needs_of(text: str) -> frozenset[str]:
    """The instruction sets that a module of `module_text` needs, by LLVM's names."""
    first, _, _ = text.partition("\n")
    return frozenset(first.removeprefix(_NEEDS).split()) if first.startswith(_NEEDS) else frozenset()


_NEEDS: Final = "; needs "
"""How the comment begins that is a module's first line."""

_OF_ONE_ARCHITECTURE: Final = ("llvm.x86.", "llvm.aarch64.")
