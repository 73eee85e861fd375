"""`Code`: a builder for the text of one LLVM function; each call appends code and returns the value it defines.

All machine code for the CPU is generated with it. Kernels spell out every vector, shuffle and store: the result does
not depend on LLVM's auto-vectoriser. This module does not import the compiler.

What LLVM is worked around for:

    masked stores of vectors below 16 bytes compile for ever (LLVM 22)   `LEAST_MASKED_BYTES`
    parts of a wide vector are loaded and stored last to first           `load_in_order`, `store`
    an intrinsic that the target lacks ends the process                  `needs_of`; LLVM has a process of its own
    `llvm.fptosi.sat` is taken apart into branches                       `conversion._words`
    on AArch64 FMAXNM keeps a signalling NaN that a comparison drops     `conversion._integer_of_float`
    what `noalias` loops read and write is moved across stores           `barrier`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

__all__ = [
    "LANE_BYTES",
    "LEAST_MASKED_BYTES",
    "LINE_BYTES",
    "Code",
    "Value",
    "module_text",
    "needs_of",
    "permuting",
    "vector_type",
]

LINE_BYTES: Final = 64
"""Bytes of a cache line, and of the widest vector."""

LANE_BYTES: Final = 16
"""Bytes within which every vector instruction set shuffles."""

LEAST_MASKED_BYTES: Final = 16
"""Bytes of the narrowest vector that may be stored by a mask."""


@dataclass(frozen=True, slots=True)
class Value:
    """A typed LLVM value: a register or a constant."""

    type: str
    name: str

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return int(self.type[1:].split(" ", 1)[0])

    @property
    def element(self) -> str:
        """The type of a vector's elements."""
        return self.type[1:-1].split(" x ", 1)[1]

    @property
    def nbytes(self) -> int:
        """Bytes of a vector."""
        element = self.element
        bits = int(element[1:]) if element.startswith("i") else {"float": 32, "double": 64}[element]
        return self.lanes * bits // 8


def vector_type(lanes: int, element: str) -> str:
    """LLVM's name for a vector."""
    return f"<{lanes} x {element}>"


def constant(number: int) -> Value:
    """A 64-bit constant: an index or a number of bytes."""
    return Value("i64", str(number))


_LOOP_ARGUMENTS: Final = ("ptr noalias source", "ptr noalias target", "ptr parameters", "i64 first", "i64 last")


class Code:
    """A function under construction; it returns the value passed to `give`, by default none.

    The default signature is that of a kernel, `void name(ptr source, ptr target, ptr parameters, i64 first, i64 last)`,
    which runs the work items from `first` to `last`. `arguments` ("type name") replace it.
    """

    def __init__(self, *arguments: str, returns: str = "void") -> None:
        """Start with an empty body."""
        self._lines: list[str] = ["entry:"]
        self._block = "entry"
        self._count = 0
        self._loops: list[str] = []
        self._declared: dict[str, None] = {}
        self._needs: set[str] = set()
        self._returns, self._result = returns, returns
        self._arguments = [argument.rpartition(" ") for argument in arguments or _LOOP_ARGUMENTS]
        self.source = Value("ptr", "%source")
        self.target = Value("ptr", "%target")
        self.first = Value("i64", "%first")
        self.last = Value("i64", "%last")

    def text(self, name: str) -> str:
        """The text of a module with this function alone."""
        return module_text({name: self})

    def argument(self, name: str) -> Value:
        """An argument of the function."""
        type_ = next(type_ for type_, _, other in self._arguments if other == name)
        return Value(type_.split(" ", 1)[0], f"%{name}")

    @property
    def needs(self) -> frozenset[str]:
        """The instruction sets that the function needs."""
        return frozenset(self._needs)

    @property
    def declarations(self) -> list[str]:
        """The declarations of the intrinsics that the function calls."""
        return list(self._declared)

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
        """Assign an expression to a new register."""
        self._count += 1
        name = f"%v{self._count}"
        self._lines.append(f"  {name} = {expression}")
        return Value(type_, name)

    def binary(self, operation: str, left: Value, right: Value | int) -> Value:
        """`add`, `mul`, `and`, `fmul` … of two values of one type; an int becomes a constant in every lane."""
        other = self.full(left.type, right) if isinstance(right, int) else right
        return self.value(left.type, f"{operation} {left.type} {left.name}, {other.name}")

    def full(self, type_: str, number: int | str) -> Value:
        """A constant of a scalar type, or of a vector type with the constant in every lane."""
        if not type_.startswith("<"):
            return Value(type_, str(number))
        lanes, element = Value(type_, "").lanes, Value(type_, "").element
        return Value(type_, "<" + ", ".join([f"{element} {number}"] * lanes) + ">")

    def compare(self, operation: str, left: Value, right: Value | int | str) -> Value:
        """`icmp slt`, `fcmp uno` …, with one bit a lane as the result."""
        other = right if isinstance(right, Value) else self.full(left.type, right)
        bits = vector_type(left.lanes, "i1") if left.type.startswith("<") else "i1"
        return self.value(bits, f"{operation} {left.type} {left.name}, {other.name}")

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        """`yes` where the condition holds, else `no`."""
        return self.value(
            yes.type, f"select {condition.type} {condition.name}, {yes.type} {yes.name}, {no.type} {no.name}"
        )

    def cast(self, operation: str, value: Value, element: str) -> Value:
        """`zext`, `fptrunc`, `bitcast` … to another element type, lane by lane."""
        type_ = vector_type(value.lanes, element) if value.type.startswith("<") else element
        return self.value(type_, f"{operation} {value.type} {value.name} to {type_}")

    def recast(self, vector: Value, element: str) -> Value:
        """Reinterpret a vector as integers of another size."""
        lanes = vector.lanes * int(vector.element[1:]) // int(element[1:])
        type_ = vector_type(lanes, element)
        return self.value(type_, f"bitcast {vector.type} {vector.name} to {type_}")

    def call(self, intrinsic: str, type_: str, *arguments: Value, needs: str = "") -> Value:
        """Call an LLVM intrinsic by its full name. One of a single architecture `needs` an instruction set.

        LLVM ends its process when it is asked for an instruction that its target lacks. The module's text therefore
        begins with what all of its functions need, and is refused before LLVM sees it (`needs_of`).
        """
        assert bool(needs) == intrinsic.startswith(_OF_ONE_ARCHITECTURE), f"{intrinsic} needs {needs!r}"
        self._needs.update(needs.split())
        types = ", ".join(argument.type for argument in arguments)
        self._declared[f"declare {type_} @{intrinsic}({types})"] = None
        return self.call_for(type_, Value("ptr", f"@{intrinsic}"), *arguments)

    def run(self, function: Value, *arguments: Value, returns: str = "void") -> None:
        """Call the function at an address and ignore its result."""
        passed = ", ".join(f"{argument.type} {argument.name}" for argument in arguments)
        self._lines.append(f"  call {returns} {function.name}({passed})")

    def shuffle(self, left: Value, right: Value | None, places: Sequence[int]) -> Value:
        """Select lanes of `left` followed by `right` by number; -1 leaves a lane undefined."""
        mask = ", ".join("i32 poison" if place < 0 else f"i32 {place}" for place in places)
        other = "poison" if right is None else right.name
        type_ = vector_type(len(places), left.element)
        mask_type = vector_type(len(places), "i32")
        return self.value(type_, f"shufflevector {left.type} {left.name}, {left.type} {other}, {mask_type} <{mask}>")

    def splat(self, scalar: Value, lanes: int) -> Value:
        """A scalar in every lane."""
        type_ = vector_type(lanes, scalar.type)
        one = self.value(type_, f"insertelement {type_} poison, {scalar.type} {scalar.name}, i32 0")
        return self.shuffle(one, None, [0] * lanes)

    def insert(self, vector: Value, scalar: Value, lane: int) -> Value:
        """The vector with one lane replaced."""
        return self.value(
            vector.type, f"insertelement {vector.type} {vector.name}, {scalar.type} {scalar.name}, i32 {lane}"
        )

    def extract(self, vector: Value, lane: int) -> Value:
        """One lane."""
        return self.value(vector.element, f"extractelement {vector.type} {vector.name}, i32 {lane}")

    # Indices and memory

    def add(self, left: Value, right: Value | int) -> Value:
        """A sum of indices."""
        return self.binary("add", left, right)

    def multiply(self, left: Value, right: Value | int) -> Value:
        """A product of indices."""
        return self.binary("mul", left, right)

    def smaller(self, left: Value, right: Value) -> Value:
        """The smaller of two indices."""
        return self.select(self.compare("icmp slt", left, right), left, right)

    def block(self, number: Value, length: Value, size: Value) -> tuple[Value, Value]:
        """The first index of the block with a number, of blocks of some length, and the index behind its last one."""
        start = self.multiply(number, length)
        return start, self.smaller(self.add(start, length), size)

    def at(self, base: Value, nbytes: Value | int) -> Value:
        """The address `nbytes` after `base`."""
        offset = constant(nbytes) if isinstance(nbytes, int) else nbytes
        return self.value("ptr", f"getelementptr i8, ptr {base.name}, i64 {offset.name}")

    def parameter(self, place: int) -> Value:
        """Load one of the 64-bit parameters."""
        return self.load("i64", self.at(Value("ptr", "%parameters"), 8 * place), 8)

    def pointer(self, address: Value) -> Value:
        """Convert an address from an integer to a pointer."""
        return self.value("ptr", f"inttoptr i64 {address.name} to ptr")

    def load(self, type_: str, address: Value, alignment: int) -> Value:
        """Load a value from an address."""
        return self.value(type_, f"load {type_}, ptr {address.name}, align {alignment}")

    def load_in_order(self, type_: str, address: Value) -> Value:
        """Load a vector of any width a cache line after another.

        LLVM by itself may load the parts of a wide vector from last to first, which hardware prefetchers do not follow.
        """
        vector = Value(type_, "")
        lines = vector.nbytes // LINE_BYTES
        if lines < 2:
            return self.load(type_, address, 1)
        parts = []
        for line in range(lines):
            parts.append(
                self.load(vector_type(vector.lanes // lines, vector.element), self.at(address, line * LINE_BYTES), 1)
            )
            self.barrier()
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.shuffle(left, right, range(2 * left.lanes)) for left, right in pairs]
        return parts[0]

    def store(self, value: Value, address: Value, alignment: int, *, streaming: bool = False) -> None:
        """Store a value; `streaming` is a non-temporal store, and of a vector it requires a cache line's alignment."""
        aligned = LINE_BYTES if streaming and value.type.startswith("<") else alignment
        hint = f"align {aligned}, !nontemporal !0" if streaming else f"align {aligned}"
        for part, start in self._in_lines(value, address):
            self._lines.append(f"  store {part.type} {part.name}, ptr {start.name}, {hint}")

    def store_some(self, vector: Value, address: Value, wanted: Sequence[bool]) -> None:
        """Store the `wanted` lanes of a vector; the memory of the other lanes is not touched."""
        vector = self.cast("bitcast", vector, f"i{8 * vector.nbytes // vector.lanes}")
        parts = max(1, vector.nbytes // vector.lanes // 8)
        if parts > 1:
            vector = self.recast(vector, "i64")
        name = f"llvm.masked.store.v{vector.lanes}{vector.element}.p0"
        bits = vector_type(vector.lanes, "i1")
        mask = ", ".join(f"i1 {int(lane)}" for lane in wanted for _ in range(parts))
        self._declared[f"declare void @{name}({vector.type}, ptr, i32, {bits})"] = None
        self._lines.append(
            f"  call void @{name}({vector.type} {vector.name}, ptr {address.name}, i32 1, {bits} <{mask}>)"
        )

    def _in_lines(self, value: Value, address: Value) -> list[tuple[Value, Value]]:
        """Split a vector into vectors of a cache line, with their addresses in ascending order.

        LLVM by itself stores the parts of a wide vector from last to first, which costs a sixth of the speed.
        """
        if not value.type.startswith("<") or value.nbytes <= LINE_BYTES:
            return [(value, address)]
        each = value.lanes * LINE_BYTES // value.nbytes
        return [
            (self.shuffle(value, None, range(first, first + each)), self.at(address, line * LINE_BYTES))
            for line, first in enumerate(range(0, value.lanes, each))
        ]

    def is_aligned(self, address: Value, *offsets: Value) -> Value:
        """Whether an address and all offsets are multiples of a cache line."""
        bits = self.value("i64", f"ptrtoint ptr {address.name} to i64")
        for offset in offsets:
            bits = self.binary("or", bits, offset)
        return self.compare("icmp eq", self.binary("and", bits, LINE_BYTES - 1), 0)

    def negated(self, condition: Value) -> Value:
        """The logical not of a condition."""
        return self.value("i1", f"xor i1 {condition.name}, true")

    def both(self, left: Value, right: Value) -> Value:
        """The logical and of two conditions."""
        return self.value("i1", f"and i1 {left.name}, {right.name}")

    def store_all(self, stores: Sequence[tuple[Value, Value]], may_stream: Value | None) -> None:
        """Store each vector to its address: non-temporal if `may_stream` holds (None: never) and alignment allows."""
        if may_stream is None:
            for vector, address in stores:
                self.store(vector, address, 1)
            return
        first = stores[0][1]
        others = [self.value("i64", f"ptrtoint ptr {address.name} to i64") for _, address in stores[1:]]
        streaming = self.both(may_stream, self.is_aligned(first, *others))
        with self.when(streaming):
            for vector, address in stores:
                self.store(vector, address, 1, streaming=True)
        with self.when(self.negated(streaming)):
            for vector, address in stores:
                self.store(vector, address, 1)

    def prefetch(self, address: Value, *, written: bool = False) -> None:
        """Prefetch the cache line at an address, which may be invalid; `written`: for a store."""
        intrinsic = "llvm.prefetch.p0"
        self._declared[f"declare void @{intrinsic}(ptr, i32, i32, i32)"] = None
        self._lines.append(f"  call void @{intrinsic}(ptr {address.name}, i32 {int(written)}, i32 2, i32 1)")

    def barrier(self) -> None:
        """Keep loads and stores on their sides of this place in the machine code; no instruction stands for it."""
        self._lines.append('  fence syncscope("singlethread") acq_rel')

    def scratch(self, nbytes: int) -> Value:
        """Allocate memory on the stack, 64-byte aligned; only outside loops."""
        return self.value("ptr", f"alloca [{nbytes} x i8], align 64")

    # Memory shared by threads

    def load_shared(self, address: Value) -> Value:
        """Load a 64-bit word with acquire ordering."""
        return self.value("i64", f"load atomic i64, ptr {address.name} acquire, align 8")

    def store_shared(self, number: int, address: Value) -> None:
        """Store a 64-bit word with release ordering."""
        self._lines.append(f"  store atomic i64 {number}, ptr {address.name} release, align 8")

    def exchange(self, address: Value, number: int) -> Value:
        """Atomically exchange a 64-bit word (acquire and release); returns the old word."""
        return self.value("i64", f"atomicrmw xchg ptr {address.name}, i64 {number} acq_rel")

    def replace_if(self, address: Value, expected: int, number: int) -> Value:
        """Compare-and-swap of a 64-bit word (acquire and release); returns whether it succeeded."""
        pair = f"cmpxchg ptr {address.name}, i64 {expected}, i64 {number} acq_rel acquire"
        return self.value("i1", f"extractvalue {{ i64, i1 }} {self.value('{ i64, i1 }', pair).name}, 1")

    def fetch_add(self, address: Value, number: Value | int) -> Value:
        """Atomically add to a 64-bit counter (relaxed); returns the old value."""
        added = constant(number) if isinstance(number, int) else number
        return self.value("i64", f"atomicrmw add ptr {address.name}, i64 {added.name} monotonic")

    def pause(self, architecture: str) -> None:
        """Emit a spin-wait hint (`pause`, `yield`); `architecture` is that of a `Target`."""
        if architecture == "x86_64":
            self._declared["declare void @llvm.x86.sse2.pause()"] = None
            self._needs.add("sse2")
            self._lines.append("  call void @llvm.x86.sse2.pause()")
        else:
            self._lines.append("  fence seq_cst")

    # Control

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Run the body if the condition is true."""
        self._count += 1
        label = f"when{self._count}"
        self._lines += [f"  br i1 {condition.name}, label %{label}, label %{label}.end", f"{label}:"]
        self._block = label
        yield
        self._lines += [f"  br label %{label}.end", f"{label}.end:"]
        self._block = f"{label}.end"

    def either(self, condition: Value, yes: Callable[[], Value], no: Callable[[], Value]) -> Value:
        """The value of `yes()` if the condition is true, else that of `no()`; the other one's code does not run."""
        self._count += 1
        label = f"either{self._count}"
        self._lines.append(f"  br i1 {condition.name}, label %{label}.yes, label %{label}.no")
        edges = []
        for way, make in (("yes", yes), ("no", no)):
            self._block = f"{label}.{way}"
            self._lines.append(f"{self._block}:")
            value = make()
            edges.append(f"[ {value.name}, %{self._block} ]")
            self._lines.append(f"  br label %{label}.end")
        self._block = f"{label}.end"
        self._lines.append(f"{self._block}:")
        return self.value(value.type, f"phi {value.type} {', '.join(edges)}")

    @contextmanager
    def loop(self, start: Value | int, stop: Value | int, step: Value | int = 1) -> Iterator[Value]:
        """Run the body with an index from `start` while it is below `stop`."""
        begin, end, stride = (constant(x) if isinstance(x, int) else x for x in (start, stop, step))
        with self._counted(begin, end, stride, ()) as (index, _):
            yield index

    @contextmanager
    def steps(self, start: Value | int, stop: Value, step: int) -> Iterator[Value]:
        """A loop by steps of `step` places; the last one is moved back to end at `stop`, and has no scalar tail."""
        latest = self.add(stop, -step)
        with self.loop(start, stop, step) as place:
            yield self.smaller(place, latest)

    @contextmanager
    def fold(self, stop: Value, initial: Sequence[Value]) -> Iterator[tuple[Value, list[Value]]]:
        """A loop from 0 with loop-carried values in registers.

        The body replaces the entries of the list. After the loop the list has the values of the last iteration, or
        `initial` if there was none.
        """
        with self._counted(constant(0), stop, constant(1), initial) as turn:
            yield turn

    @contextmanager
    def _counted(
        self, start: Value, stop: Value, step: Value, initial: Sequence[Value]
    ) -> Iterator[tuple[Value, list[Value]]]:
        """A loop with an index and carried values, each a phi of its first value and that of the turn before."""
        before = self._block
        self._count += 1
        label, index = f"loop{self._count}", Value("i64", f"%i{self._count}")
        carried = [Value(value.type, f"%c{self._count}.{place}") for place, value in enumerate(initial)]
        self._lines += [f"  br label %{label}", f"{label}:"]
        phis = len(self._lines)
        self._lines += [""] * (1 + len(carried))
        inside = self.compare("icmp slt", index, stop)
        self._lines += [f"  br i1 {inside.name}, label %{label}.body, label %{label}.end", f"{label}.body:"]
        self._block = f"{label}.body"
        self._loops.append(label)
        values = list(carried)
        yield index, values
        self._loops.pop()
        after = self.binary("add nsw", index, step)
        turns = [(index, start, after), *zip(carried, initial, values, strict=True)]
        for place, (phi, first, then) in enumerate(turns, phis):
            edges = f"[ {first.name}, %{before} ], [ {then.name}, %{self._block} ]"
            self._lines[place] = f"  {phi.name} = phi {phi.type} {edges}"
        self._lines += [f"  br label %{label}", f"{label}.end:"]
        self._block = f"{label}.end"
        values[:] = carried

    def give(self, value: Value) -> None:
        """Return a value at the function's end."""
        self._result = f"{value.type} {value.name}"

    def call_for(self, type_: str, function: Value, *arguments: Value) -> Value:
        """Call the function at an address and return its result."""
        passed = ", ".join(f"{argument.type} {argument.name}" for argument in arguments)
        return self.value(type_, f"call {type_} {function.name}({passed})")

    @contextmanager
    def forever(self) -> Iterator[None]:
        """Repeat the body until `leave` ends the loop."""
        self._count += 1
        label = f"forever{self._count}"
        self._lines += [f"  br label %{label}", f"{label}:"]
        self._block = label
        self._loops.append(label)
        yield
        self._loops.pop()
        self._lines += [f"  br label %{label}", f"{label}.end:"]
        self._block = f"{label}.end"

    def leave(self, condition: Value) -> None:
        """Break out of the innermost loop if the condition is true."""
        self._count += 1
        label = f"stay{self._count}"
        self._lines += [f"  br i1 {condition.name}, label %{self._loops[-1]}.end, label %{label}", f"{label}:"]
        self._block = label


def permuting(itemsize: int) -> str:
    """The instruction set of AVX-512 that permutes a line's elements of so many bytes by positions in a vector."""
    return {1: "avx512vbmi", 2: "avx512bw"}.get(itemsize, "avx512f")


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
