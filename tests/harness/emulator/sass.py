"""The disassembly of a kernel as values: instructions, their operands, and where branches lead.

parsed("        /*0060*/                   IMAD.SHL.U32 R27, R0, 0x4, RZ ;")[0].operands
"""

from __future__ import annotations

import dataclasses
import re
import struct

__all__ = ["Instruction", "Memory", "Number", "Predicate", "Register", "parsed"]

_LINE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?([\w.]+)\s*(.*?)\s*;")
_LABEL = re.compile(r"^(\.L_\w+):")
_TARGET = re.compile(r"`\((\.L_\w+)\)")
_CONSTANT = re.compile(r"([-~|]*)c\[(0x\w+)\]\[(?:(U?R\w+)\+?)?(0x\w+)?\]")
_MEMORY = re.compile(r"(?:desc\[UR\w+\])?\[([^\]]*)\]")
_REGISTER = re.compile(r"([-~|]*)(U?R(?:\d+|Z))((?:\.\w+)*)\|?")
_PREDICATE = re.compile(r"(!?)(U?P(?:\d|T|R))")

_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}


@dataclasses.dataclass(frozen=True, slots=True)
class Register:
    """R5, UR5, with what stands before it ("-", "~", "|") and behind (".B1"); RZ and URZ are number 255."""

    number: int
    uniform: bool
    sign: str = ""
    part: str = ""

    @property
    def is_zero(self) -> bool:
        """RZ or URZ: 0, whatever is written to it."""
        return self.number == 255


@dataclasses.dataclass(frozen=True, slots=True)
class Predicate:
    """P0, UP0, either of them inverted; PT is number 7, and PR, all of them at once, number -1."""

    number: int
    uniform: bool
    inverted: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Number:
    """An immediate: its 32 bits as an integer, and what it is to an instruction of floats."""

    bits: int
    real: float


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    """An address: registers and a distance in bytes; `bank` is that of constants, None for other memory.

    `sign` is what a constant is changed by, as of a register.
    """

    registers: tuple[Register, ...]
    distance: int
    bank: int | None = None
    sign: str = ""


Operand = Register | Predicate | Number | Memory | str


@dataclasses.dataclass(frozen=True, slots=True)
class Instruction:
    """`@guard name.modifiers operands`; `target` is the place of the instruction that a branch leads to."""

    guard: Predicate | None
    name: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    target: int | None
    text: str

    @property
    def nbytes(self) -> int:
        """What a load or store moves for each lane: its last size modifier, 4 if it has none."""
        return next((_BYTES[modifier] for modifier in reversed(self.modifiers) if modifier in _BYTES), 4)

    @property
    def is_load(self) -> bool:
        """A load from global or shared memory."""
        return self.name in ("LDG", "LD", "LDS")

    @property
    def is_store(self) -> bool:
        """A store to global or shared memory."""
        return self.name in ("STG", "ST", "STS")

    @property
    def moved(self) -> tuple[Register, ...]:
        """The registers of a load or a store: one, or two with 16 bytes each, of which loads name the upper first."""
        named = tuple(operand for operand in self.operands if isinstance(operand, Register))
        return named[::-1] if self.is_load else named

    @property
    def address(self) -> Memory:
        """Where a load or a store goes."""
        return next(operand for operand in self.operands if isinstance(operand, Memory))

    def registers_read(self) -> set[int]:
        """The registers of lanes that it reads, both of those that are read as 64 bits.

        Of a wide product, and of a product's upper half, these are the addend's; its factors have 32.
        """
        names_all = self.is_store or self.name == "LDGSTS"
        read = (self.address,) if self.is_load else self.operands if names_all else self.operands[1:]
        adds_pair = self.name == "IMAD" and self.modifiers[:1] in {("WIDE",), ("HI",)}
        found = set()
        for operand in read:
            for register in operand.registers if isinstance(operand, Memory) else (operand,):
                if not isinstance(register, Register) or register.uniform or register.is_zero:
                    continue
                words = self.nbytes // 4 // len(self.moved) if self.is_store and operand is register else 1
                words = 2 if "64" in register.part or (adds_pair and operand is read[-1]) else words
                found |= {register.number + step for step in range(max(1, words))}
        return found

    def registers_written(self) -> set[int]:
        """The registers of lanes that a load fills."""
        if not self.is_load:
            return set()
        words = range(max(1, self.nbytes // 4 // len(self.moved)))
        return {first.number + step for first in self.moved if not first.is_zero for step in words}


def parsed(assembly: str) -> list[Instruction]:
    """The instructions of one kernel's part of nvdisasm's output, in their order."""
    labels: dict[str, int] = {}
    lines: list[re.Match[str]] = []
    for line in assembly.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(lines)
        elif match := _LINE.search(line):
            lines.append(match)
    return [_instruction(line, labels) for line in lines]


def _instruction(line: re.Match[str], labels: dict[str, int]) -> Instruction:
    guard, name, operands = line.groups()
    base, *modifiers = name.split(".")
    target = _TARGET.search(operands)
    words = _TARGET.sub("", operands).replace(".reuse", "").split(",")
    return Instruction(
        _predicate(guard) if guard else None,
        base,
        tuple(modifiers),
        tuple(_operand(word.strip()) for word in words if word.strip()),
        labels[target[1]] if target else None,
        f"{name} {operands}",
    )


def _predicate(word: str) -> Predicate:
    match = _PREDICATE.fullmatch(word)
    assert match, word
    name = match[2].removeprefix("U")
    number = {"PT": 7, "PR": -1}.get(name)
    return Predicate(int(name[1]) if number is None else number, match[2].startswith("U"), bool(match[1]))


def _register(word: str) -> Register:
    match = _REGISTER.fullmatch(word)
    assert match, word
    uniform = match[2].startswith("U")
    digits = match[2].removeprefix("U")[1:]
    return Register(255 if digits == "Z" else int(digits), uniform, match[1], match[3])


def _operand(word: str) -> Operand:
    if constant := _CONSTANT.search(word):
        sign, bank, register, distance = constant.groups()
        return Memory((_register(register),) if register else (), int(distance or "0", 16), int(bank, 16), sign)
    if memory := _MEMORY.fullmatch(word):
        parts = memory[1].replace("+-", "+~").split("+") if memory[1] else []
        registers = tuple(_register(part) for part in parts if "R" in part)
        numbers = [int(part.replace("~", "-"), 16) for part in parts if "R" not in part]
        return Memory(registers, sum(numbers))
    if _PREDICATE.fullmatch(word):
        return _predicate(word)
    if _REGISTER.fullmatch(word):
        return _register(word)
    try:
        if "0x" in word:
            value = int(word, 16)
            return Number(value % 2**32, float(value))
        real = float(word.replace("+INF", "inf").replace("-INF", "-inf").replace("+QNAN", "nan"))
        return Number(struct.unpack("<I", struct.pack("<f", real))[0], real)
    except ValueError:
        return word
