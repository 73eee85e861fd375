"""Executes the machine code of a block, for what it does and how: 32 lanes a warp, one instruction at a time.

    block = Block(parsed(assembly), memory, parameters, threads=256, blocks=10, number=7)
    block.run()

Known are the instructions of sm_90, sm_100 and sm_120 that this project's kernels consist of; another one is an
`UnknownInstructionError`. Lanes that took different ways meet again where their ways do: those that lag behind in the
code go first.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np

from .sass import Instruction, Memory, Number, Operand, Predicate, Register
from .sass_operations import OPERATIONS

__all__ = ["Block", "Bytes", "UnknownInstructionError", "Warp", "Watch"]

Lanes = np.ndarray[Any, Any]

_LANES: Final = 32
_WORD: Final = np.uint64(2**32)
_WITHOUT_EFFECT: Final = {
    *("NOP", "LDGDEPBAR", "BSSY", "BSYNC", "BREAK", "BMOV", "YIELD", "WARPSYNC", "ENDCOLLECTIVE"),
    *("FENCE", "MEMBAR"),  # of memory that has one order here
}

PARAMETERS_AT: Final = {"sm_80": 0x160, "sm_90": 0x210, "sm_100": 0x380, "sm_120": 0x380}
"""Where a kernel's parameters begin in the bank of constants; up to sm_90 the extents of block and grid are first."""


class UnknownInstructionError(Exception):
    """An instruction that is not among those of `Warp`."""


class Bytes(Protocol):
    """Memory: rows of bytes at addresses."""

    def read(self, addresses: Lanes, nbytes: int) -> Lanes:
        """A row of `nbytes` for each address."""

    def write(self, addresses: Lanes, rows: Lanes) -> None:
        """The rows to their addresses."""


class Watch(Protocol):
    """Who is told of what a warp does."""

    def issue(self, warp: Warp, instruction: Instruction) -> None:
        """An instruction, of whichever lanes."""

    def access(self, warp: Warp, instruction: Instruction, addresses: Lanes, nbytes: int) -> None:
        """A load or store of some lanes, `nbytes` at each address."""

    def copy(self, warp: Warp, instruction: Instruction, barrier: int, addresses: Lanes) -> None:
        """A bulk copy: vectors of 16 bytes from these addresses, which a barrier counts."""

    def wait(self, warp: Warp, barrier: int) -> None:
        """A wait at a barrier of bulk copies."""

    def wait_for_copies(self, warp: Warp) -> None:
        """A wait for all that the warp has asked for with LDGSTS, each of which is an access as a load is."""


class SharedMemory:
    """The memory of one block, as long as any block's."""

    def __init__(self) -> None:
        self._bytes = np.zeros(228 << 10, np.uint8)

    def read(self, addresses: Lanes, nbytes: int) -> Lanes:
        return self._bytes[addresses[:, None].astype(np.int64) + np.arange(nbytes)]

    def write(self, addresses: Lanes, rows: Lanes) -> None:
        self._bytes[addresses[:, None].astype(np.int64) + np.arange(rows.shape[1])] = rows


class Block:
    """Block `number` of a launch along one axis; `parameters` are the bytes of the kernel's one parameter."""

    def __init__(
        self,
        code: Sequence[Instruction],
        memory: Bytes,
        parameters: bytes,
        threads: int,
        blocks: int,
        number: int,
        watch: Watch | None = None,
        architecture: str = "sm_90",
    ) -> None:
        shared = SharedMemory()
        extents = struct.pack("<6I", threads, 1, 1, blocks, 1, 1)
        constants = np.frombuffer(extents.ljust(PARAMETERS_AT[architecture], b"\0") + parameters + bytes(16), np.uint8)
        self.warps = [
            Warp(code, memory, shared, constants, first, number, watch) for first in range(0, threads, _LANES)
        ]

    def run(self) -> None:
        """All warps, from barrier to barrier, to their ends."""
        running = self.warps
        while running:
            running = [warp for warp in running if warp.run()]


class Warp:
    """32 threads of a block, the first of them number `first`."""

    def __init__(
        self,
        code: Sequence[Instruction],
        memory: Bytes,
        shared: Bytes,
        constants: Lanes,
        first: int,
        block: int,
        watch: Watch | None,
    ) -> None:
        self.first = first
        self._code, self._memory, self._shared, self._constants = code, memory, shared, constants
        self._watch = watch
        self._numbers = {
            "SR_TID.X": first + np.arange(_LANES, dtype=np.uint64),
            "SR_CTAID.X": np.full(_LANES, block, np.uint64),
        }
        self._registers = {uniform: np.zeros((256, _LANES), np.uint64) for uniform in (False, True)}
        self._predicates = {False: np.zeros((8, _LANES), bool), True: np.zeros((8, _LANES), bool)}
        for file in self._predicates.values():
            file[7] = True
        self._places = np.zeros(_LANES, np.int64)
        self._alive = np.ones(_LANES, bool)

    def run(self) -> bool:
        """On to the next barrier; False when all lanes have finished."""
        while self._alive.any():
            place = self._places[self._alive].min()
            lanes = self._alive & (self._places == place)
            one = self._code[place]
            self._places[lanes] += 1
            if self._watch is not None:
                self._watch.issue(self, one)
            if one.guard is not None:
                lanes = lanes & self.truth(one.guard)
            if one.name == "BAR":
                return True
            if lanes.any():
                self._execute(one, lanes)
        return False

    def _execute(self, one: Instruction, lanes: Lanes) -> None:
        name = one.name
        if name == "EXIT":
            self._alive &= ~lanes
        elif name in ("BRA", "CALL"):  # the compiler ends loops of sm_80 by calls that nothing returns from
            if "DIV" not in one.modifiers:  # which leaves only where lanes have gone different ways
                conditions = [self.truth(operand) for operand in one.operands if isinstance(operand, Predicate)]
                self._places[np.logical_and.reduce([lanes, *conditions])] = one.target
        elif one.is_load or one.is_store:
            self._move(one, lanes)
        elif name == "LDSM":
            self._load_matrices(one)
        elif name in ("LDC", "ULDC", "LDCU"):
            self._load_constant(one, lanes)
        elif name == "UBLKCP":
            self._copy(one)
        elif name == "LDGSTS":
            self._copy_async(one, lanes)
        elif name == "DEPBAR":
            if self._watch is not None:
                self._watch.wait_for_copies(self)
        elif name == "SYNCS":
            self._barrier(one, lanes)
        elif name == "VOTEU":
            assert "ANY" in one.modifiers, one.text
            found = np.full(_LANES, (lanes & self.truth(one.operands[-1])).any())
            self.set_predicate(one.operands[0], found, lanes)
        elif name == "ELECT":
            self.set_predicate(one.operands[0], np.arange(_LANES) == np.argmax(lanes), lanes)
        elif operation := OPERATIONS.get(name) or OPERATIONS.get(name.removeprefix("U")):
            operation(self, one, lanes)
        elif name not in _WITHOUT_EFFECT:
            raise UnknownInstructionError(one.text)

    def value(self, operand: Operand) -> Lanes:
        """32 bits a lane, unsigned, with "-" and "~" done."""
        if isinstance(operand, Number):
            return np.full(_LANES, operand.bits, np.uint64)
        assert isinstance(operand, Register | Memory), operand
        value = self._word(operand)
        if isinstance(operand, Register) and ".B" in operand.part:
            value = value >> np.uint64(8 * int(operand.part[-1])) & np.uint64(0xFF)
        if "~" in operand.sign:
            return value ^ (_WORD - np.uint64(1))
        return (_WORD - value) % _WORD if "-" in operand.sign else value

    def pair(self, operand: Operand) -> Lanes:
        """The 64 bits of two registers that follow each other, or of an immediate."""
        if isinstance(operand, Number):
            return np.full(_LANES, int(operand.real) % 2**64, np.uint64)
        assert isinstance(operand, Register | Memory), operand
        if isinstance(operand, Register) and operand.is_zero:
            return np.zeros(_LANES, np.uint64)
        low, high = self._word(operand), self._word(operand, 1)
        whole = low | high << np.uint64(32)
        return np.uint64(0) - whole if "-" in operand.sign else whole

    def _word(self, operand: Register | Memory, step: int = 0) -> Lanes:
        """A register's bits as they are, or a constant's, `step` words behind it."""
        if isinstance(operand, Register):
            return self._registers[operand.uniform][operand.number + step]
        return self._constant(self._address(operand), step).astype(np.uint64)

    def signed(self, operand: Operand) -> Lanes:
        """32 bits a lane as a signed number."""
        return self.value(operand).astype(np.uint32).view(np.int32).astype(np.int64)

    def real(self, operand: Operand) -> Lanes:
        """32 bits a lane as a float32."""
        if isinstance(operand, Number):
            return np.full(_LANES, operand.real, np.float32)
        assert isinstance(operand, Register | Memory), operand
        value = self._word(operand).astype(np.uint32).view(np.float32)
        value = np.abs(value) if "|" in operand.sign else value
        return -value if "-" in operand.sign else value

    def truth(self, predicate: Operand) -> Lanes:
        """A predicate of each lane, inverted or not."""
        assert isinstance(predicate, Predicate), predicate
        value = self._predicates[predicate.uniform][predicate.number]
        return ~value if predicate.inverted else value

    def all_predicates(self) -> Lanes:
        """P0 to P6 as bits."""
        weights = np.uint64(1) << np.arange(7, dtype=np.uint64)
        return (self._predicates[False][:7] * weights[:, None]).sum(0, dtype=np.uint64)

    def special(self, name: str) -> Lanes:
        """A special register: the thread's number or the block's; all others are 0, as in a block that is alone."""
        return self._numbers.get(name, np.zeros(_LANES, np.uint64))

    def set(self, register: Operand, value: Lanes, lanes: Lanes, step: int = 0) -> None:
        """Some lanes of a register, or of one `step` behind it; of a uniform one, what the first of them says."""
        assert isinstance(register, Register), register
        if register.is_zero:
            return
        bits = value.astype(np.uint64) & (_WORD - np.uint64(1))
        row = self._registers[register.uniform][register.number + step]
        if register.uniform:
            row[:] = bits[lanes][0]
        else:
            row[lanes] = bits[lanes]

    def set_pair(self, register: Operand, value: Lanes, lanes: Lanes) -> None:
        """64 bits to two registers."""
        self.set(register, value, lanes)
        self.set(register, value >> np.uint64(32), lanes, 1)

    def set_predicate(self, predicate: Operand, value: Lanes, lanes: Lanes) -> None:
        """Some lanes of a predicate; of a uniform one, what the first of them says."""
        assert isinstance(predicate, Predicate), predicate
        row = self._predicates[predicate.uniform][predicate.number]
        if predicate.number == 7:
            return
        if predicate.uniform:
            row[:] = value[lanes][0]
        else:
            row[lanes] = value[lanes]

    def _address(self, memory: Operand) -> Lanes:
        assert isinstance(memory, Memory), memory
        address = np.full(_LANES, memory.distance % 2**64, np.uint64)
        for register in memory.registers:
            value = self.pair(register) if "64" in register.part else self.value(register)
            scale = re.search(r"\.X(\d+)", register.part)
            address = address + value * np.uint64(scale[1] if scale else 1)
        return address

    def _move(self, one: Instruction, lanes: Lanes) -> None:
        """A load or a store."""
        nbytes = one.nbytes
        where = self._shared if one.name.endswith("S") else self._memory
        addresses = self._address(one.address)[lanes]
        assert not (addresses % np.uint64(nbytes)).any(), f"{one.text}: misaligned"
        if self._watch is not None:
            self._watch.access(self, one, addresses, nbytes)
        if one.is_load:
            words = np.zeros((addresses.size, max(nbytes, 4)), np.uint8)
            words[:, :nbytes] = where.read(addresses, nbytes)
            if {"S8", "S16"} & set(one.modifiers):
                words[:, nbytes:] = np.where(words[:, nbytes - 1 : nbytes] & 0x80, 0xFF, 0)
            for place, word in enumerate(words.view(np.uint32).T):
                value = np.zeros(_LANES, np.uint64)
                value[lanes] = word
                self.set(one.moved[place // 4], value, lanes, place % 4)
        else:
            steps = [
                register.number + (0 if register.is_zero else step)
                for register in one.moved
                for step in range(max(1, nbytes // 4 // len(one.moved)))
            ]
            words = self._registers[False][steps][:, lanes].T.astype(np.uint32)
            where.write(addresses, np.ascontiguousarray(words).view(np.uint8)[:, :nbytes])

    def _load_matrices(self, one: Instruction) -> None:
        """Matrices of 8 rows of 16 bytes from shared memory, a register each; lane l names row l % 8 of matrix l / 8.

        Lane l receives bytes 4 (l % 4) to 4 (l % 4) + 3 of row l / 4; transposed, 16 bits each of column l / 4 of rows
        2 (l % 4) and 2 (l % 4) + 1.
        """
        register, memory = one.operands
        count = int(one.modifiers[-1])
        addresses = self._address(memory)[: 8 * count]
        assert not (addresses % np.uint64(16)).any(), f"{one.text}: misaligned"
        if self._watch is not None:
            self._watch.access(self, one, addresses, 16)
        matrices = self._shared.read(addresses, 16).view(np.uint16).reshape(count, 8, 8)
        if "MT88" in one.modifiers:
            matrices = matrices.transpose(0, 2, 1)
        words = np.ascontiguousarray(matrices).view(np.uint32).reshape(count, _LANES)
        for step, word in enumerate(words):
            self.set(register, word, np.ones(_LANES, bool), step)

    def _copy_async(self, one: Instruction, lanes: Lanes) -> None:
        """Each lane's bytes from global to shared memory, which are there at once."""
        to, source = one.operands
        places, addresses = self._address(to)[lanes], self._address(source)[lanes]
        assert not ((places | addresses) % np.uint64(one.nbytes)).any(), f"{one.text}: misaligned"
        if self._watch is not None:
            self._watch.access(self, one, addresses, one.nbytes)
        self._shared.write(places, self._memory.read(addresses, one.nbytes))

    def _copy(self, one: Instruction) -> None:
        """A bulk copy to shared memory: its place there and the barrier's, the source, and how many 16 bytes."""
        to, source, count = one.operands
        assert isinstance(to, Memory), one.text
        place, barrier = divmod(int(self.pair(to.registers[0])[0]), 2**32)[::-1]
        vectors = np.arange(int(self.value(count)[0]) & 0xFFFF, dtype=np.uint64) * np.uint64(16)
        assert isinstance(source, Memory), one.text
        addresses = self.pair(source.registers[0])[0] + vectors
        assert not (addresses[:1] % np.uint64(16)).any(), f"{one.text}: misaligned"
        if self._watch is not None:
            self._watch.copy(self, one, barrier, addresses)
        self._shared.write(np.uint64(place) + vectors, self._memory.read(addresses, 16))

    def _barrier(self, one: Instruction, lanes: Lanes) -> None:
        """A barrier of bulk copies, which are made when they are asked for: there is nothing to wait for."""
        if "PHASECHK" in one.modifiers:
            self.set_predicate(one.operands[0], np.ones(_LANES, bool), lanes)
            if self._watch is not None:
                self._watch.wait(self, int(self._address(one.address)[lanes][0]))

    def _constant(self, addresses: Lanes, step: int) -> Lanes:
        """The words `step` words behind some addresses."""
        bytes_at = addresses.astype(np.int64)[:, None] % 2**32 + 4 * step + np.arange(4)
        return self._constants[np.minimum(bytes_at, self._constants.size - 1)].view(np.uint32)[:, 0]

    def _load_constant(self, one: Instruction, lanes: Lanes) -> None:
        register, memory = one.operands
        for step in range(max(1, one.nbytes // 4)):
            word = self._constant(self._address(memory), step)
            self.set(register, word & np.uint32(256 ** min(one.nbytes, 4) - 1), lanes, step)
