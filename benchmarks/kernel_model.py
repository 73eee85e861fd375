"""What a launch asks of a GPU, computed and not measured: its machine code is executed, for one block.

The block in the middle of the grid is executed instruction by instruction (`tests/harness/emulator/warp.py`), and
counted: what is issued, what is on its way from memory when a thread first waits for it, which cache lines and banks
each access touches. Registers and shared memory say how many blocks a multiprocessor holds. Memory is made up: zeros,
but for the tables of a launch and the indices of a gather.

Clocks are those that a block takes of one multiprocessor. Memory, waiting, instructions and accesses overlap, but not
wholly; to them come the part of a last wave that runs beside idle multiprocessors, and the launch's own microsecond.
Nothing is known here of caches, of DRAM's pages, or of how warps get in each other's way: a kernel reaches at most the
share that comes out.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np
from harness.emulator.machine_code import Disassembly
from harness.emulator.sass import Instruction, parsed
from harness.emulator.warp import Block, Warp

from stridedgpu.devices.cuda.gpu import KNOWN_GPUS, REFERENCE_GPU, GpuProperties, KernelLaunch

REGISTERS, RESERVED_SHARED_BYTES = 65536, 1 << 10
"""What one multiprocessor has, and what the driver takes of its shared memory for each block."""

ISSUED, INTEGERS, LINE_BYTES, SECTOR_BYTES = 3, 2, 128, 32
"""What one multiprocessor does in a clock: instructions, of which copies with arithmetic reach 2 to 3 of the 4 that
could be issued; those among them that compare, permute, shift and combine integers; bytes of L1 and shared memory.
Memory comes in sectors."""

START, WAIT, CACHED_WAIT, END, RAMP = 0.35, 0.8, 0.05, 0.5, 1.0
"""Microseconds of a block until its first load, of each wait for memory under load, of a wait for what the block has
read before, such as a table, and from its last load to the place that the next block takes; of a launch's ramp. All
predicted, none measured."""


@dataclass(frozen=True)
class Machine:
    """A GPU as the model sees it: `copied` is the bytes that a copy moves in a clock of one multiprocessor.

    `clocks` are those of a microsecond; `warps`, `blocks` and `shared_bytes` are what a multiprocessor holds.
    """

    gpu: GpuProperties
    copied: float
    clocks: int
    warps: int
    blocks: int
    shared_bytes: int

    @property
    def architecture(self) -> str:
        """What kernels are compiled for."""
        return f"sm_{self.gpu.compute_capability}"


MACHINES = {
    "a100": Machine(KNOWN_GPUS["a100"], 11.8, 1410, 64, 32, 164 << 10),
    "h200": Machine(REFERENCE_GPU, 16.3, 2000, 64, 32, 228 << 10),
    "b200": Machine(KNOWN_GPUS["b200"], 24.9, 1900, 64, 32, 228 << 10),
    "5090": Machine(KNOWN_GPUS["5090"], 3.9, 2400, 48, 24, 100 << 10),
}
"""Copies of 4.3 TB/s on the H200, and, predicted as 0.88 to 0.89 of the memory's peak, of 1.8, 7.0 and 1.6 TB/s."""

OVERLAP = 4
"""The exponent of the norm by which limits add up: 1 is one after another, infinity is perfect overlap."""

INTEGER_NAMES = {"IADD3", "LEA", "LOP3", "PLOP3", "SHF", "PRMT", "ISETP", "SEL", "VIMNMX", "VIADDMNMX", "P2R", "R2P"}

SOURCE, TARGET, INDICES, TABLES, RECORDS = (place << 40 for place in (1, 2, 3, 4, 5))
"""Addresses of memory that is not there."""


class MadeUpMemory:
    """Memory of any size; nothing is kept of what is written. `parameters` are a launch's, with addresses in it.

    `records` are what lies at the first address where a launch has records of samples there, and not a source.
    """

    def __init__(self, launch: KernelLaunch, indices: np.ndarray | None, records: bytes = b"") -> None:
        tables = [(TABLES + (number << 36), at, content) for number, (at, content) in enumerate(launch.tables)]
        self._regions = [(address, np.frombuffer(content, np.uint8)) for address, _, content in tables]
        addresses = {0: SOURCE, 8: TARGET} | {at: address for address, at, _ in tables}
        if indices is not None:
            self._regions.append((INDICES, indices.view(np.uint8)))
            addresses[16] = INDICES
        if records:
            self._regions.append((RECORDS, np.frombuffer(records, np.uint8)))
            addresses[0] = RECORDS
        parameters = bytearray(launch.parameters)
        for at, address in addresses.items():
            parameters[at : at + 8] = address.to_bytes(8, "little")
        self.parameters = bytes(parameters)

    def read(self, addresses: np.ndarray, nbytes: int) -> np.ndarray:
        for start, content in self._regions:
            if start <= addresses[0] < start + content.size:
                return content[(addresses - np.uint64(start)).astype(np.int64)[:, None] + np.arange(nbytes)]
        return np.zeros((addresses.size, nbytes), np.uint8)

    def write(self, addresses: np.ndarray, rows: np.ndarray) -> None:
        pass


@dataclass
class Coming:
    """What one warp has on its way from memory: the registers to be filled, and the sectors with their bytes."""

    registers: set[int] = field(default_factory=set)
    sectors: set[int] = field(default_factory=set)
    most: int = 0
    is_new: bool = False  # whether any of the sectors is the first of the block there
    waits: int = 0
    cached_waits: int = 0
    copies: int = 0  # how many bulk copies of its block have come


class Counts:
    """What the warps of a block do."""

    def __init__(self) -> None:
        self.issued = self.integers = self.lines = self.passes = self.least_passes = 0
        self.copies: dict[int, int] = {}  # the number of the last bulk copy that a barrier counts
        self.last_copy = self.copying = self.most_copying = 0  # how many were asked for; sectors on their way
        self.read: set[int] = set()
        self.written: set[int] = set()
        self.coming: defaultdict[int, Coming] = defaultdict(Coming)

    def issue(self, warp: Warp, one: Instruction) -> None:
        self.issued += 1
        self.integers += one.name in INTEGER_NAMES
        coming = self.coming[warp.first]
        if one.registers_read() & coming.registers:
            self._come(coming)

    @staticmethod
    def _come(coming: Coming) -> None:
        """All that is on its way."""
        coming.registers.clear()
        coming.sectors.clear()
        coming.waits += coming.is_new
        coming.cached_waits += not coming.is_new
        coming.is_new = False

    def access(self, warp: Warp, one: Instruction, addresses: np.ndarray, nbytes: int) -> None:
        if one.name.startswith(("LDS", "STS")):
            self.passes += passes(addresses, nbytes)
            self.least_passes += -(-np.unique(addresses).size * nbytes // LINE_BYTES)
            return
        self.lines += max(np.unique(addresses // LINE_BYTES).size, -(-addresses.size * nbytes // LINE_BYTES))
        sectors = set(np.unique(addresses // SECTOR_BYTES).tolist())
        if one.is_store:
            self.written |= sectors
            return
        if one.name == "LDGSTS":  # a pass through shared memory, for each 128 bytes
            passed = -(-addresses.size * nbytes // LINE_BYTES)
            self.passes, self.least_passes = self.passes + passed, self.least_passes + passed
        coming = self.coming[warp.first]
        coming.is_new |= not sectors <= self.read
        self.read |= sectors
        coming.registers |= one.registers_written()
        coming.sectors |= sectors
        coming.most = max(coming.most, len(coming.sectors))

    def wait_for_copies(self, warp: Warp) -> None:
        """As a load's first use is, of all that the warp has on its way."""
        coming = self.coming[warp.first]
        if coming.sectors:
            self._come(coming)

    def copy(self, _warp: Warp, _one: Instruction, barrier: int, addresses: np.ndarray) -> None:
        """A bulk copy, of 16 bytes at each address, passes through shared memory once, and through no line of L1."""
        self.last_copy += 1
        self.copies[barrier] = self.last_copy
        sectors = set(np.unique(addresses // SECTOR_BYTES).tolist())
        self.read |= sectors
        self.copying += len(sectors)
        self.most_copying = max(self.most_copying, self.copying)
        passed = -(-16 * addresses.size // LINE_BYTES)
        self.passes, self.least_passes = self.passes + passed, self.least_passes + passed

    def wait(self, warp: Warp, barrier: int) -> None:
        """All bulk copies that are on their way come with the one that a warp waits for."""
        coming = self.coming[warp.first]
        if self.copies.get(barrier, 0) > coming.copies:
            coming.copies, self.copying = self.last_copy, 0
            coming.waits += 1


def passes(addresses: np.ndarray, nbytes: int) -> int:
    """The passes that an access of shared memory takes: in each round, the most different words of one bank.

    Accesses of 8 and 16 bytes are made in rounds of 16 and 8 lanes (CUDA C++ Programming Guide, "Shared Memory").
    """
    lanes = min(32, LINE_BYTES // nbytes)
    found = 0
    for first in range(0, addresses.size, lanes):
        words = addresses[first : first + lanes, None] // 4 + np.arange(max(1, nbytes // 4))
        found += max(Counter((np.unique(words) % 32).tolist()).values())
    return found


def resident_blocks(launch: KernelLaunch, code: Disassembly, machine: Machine = MACHINES["h200"]) -> int:
    """How many blocks one multiprocessor holds; registers are handed out to a warp 256 at a time."""
    warps = -(-launch.block[0] // 32)
    registers = -(-code.registers * 32 // 256) * 256
    # The figure of the code has the driver's part in it wherever there is any.
    shared = max(code.shared_bytes, RESERVED_SHARED_BYTES) + launch.shared_bytes
    of_shared = machine.shared_bytes // (-(-shared // 128) * 128)
    return min(machine.blocks, machine.warps // warps, REGISTERS // registers // warps, of_shared)


def model(
    launch: KernelLaunch,
    code: Disassembly,
    bytes_moved: int,
    indices: np.ndarray | None = None,
    records: bytes = b"",
    machine: Machine = MACHINES["h200"],
) -> dict:
    """The figures of one launch, of which `bytes_moved` is what it has to move.

    Per byte are the instructions of a thread. The slowest of the clocks is the limit: that of memory; that of waiting,
    a block's life divided among those that a multiprocessor holds; that of issuing instructions; and that of accesses
    to L1 and shared memory. `at_most` is the share of a copy's rate.
    """
    memory, counts = MadeUpMemory(launch, indices, records), Counts()
    blocks = launch.grid[0] * launch.grid[1]
    arguments = memory, memory.parameters, launch.block[0], blocks, blocks // 2, counts, machine.architecture
    Block(parsed(code.text), *arguments).run()
    resident, multiprocessors = resident_blocks(launch, code, machine), machine.gpu.multiprocessors
    together = min(resident, -(-blocks // multiprocessors))
    in_flight = SECTOR_BYTES * (sum(coming.most for coming in counts.coming.values()) + counts.most_copying) * together
    read, written = SECTOR_BYTES * len(counts.read), SECTOR_BYTES * len(counts.written)
    moved = bytes_moved / blocks
    waits, cached = (
        max(getattr(coming, kind) for coming in counts.coming.values()) for kind in ("waits", "cached_waits")
    )
    waves = blocks / (multiprocessors * resident)
    clocks = {
        "memory": (read + written) / machine.copied,
        "waiting": machine.clocks * (START + WAIT * waits + CACHED_WAIT * cached + END) / together,
        "instructions": max(counts.issued / ISSUED, counts.integers / INTEGERS),
        "accesses": counts.passes + counts.lines,
    }
    limit = max(clocks, key=clocks.__getitem__)
    block = sum(clock**OVERLAP for clock in clocks.values()) ** (1 / OVERLAP)
    # In the last wave, multiprocessors run out of blocks one after another, unless all have as many at once.
    is_even = waves <= 1 and blocks % multiprocessors == 0
    last_wave = 1 if is_even else (waves + math.ceil(waves)) / (2 * waves)
    launched = block * last_wave * blocks / multiprocessors + RAMP * machine.clocks
    copied = bytes_moved / machine.copied / multiprocessors
    return {
        "registers": code.registers,
        "resident_blocks": resident,
        "waves": round(waves, 2),
        "instructions_per_byte": round(32 * counts.issued / moved, 2),
        "integers_per_byte": round(32 * counts.integers / moved, 2),
        "bytes_in_flight": in_flight,
        "waits": waits,
        "cached_waits": cached,
        "shared_passes": counts.passes,
        "shared_passes_at_least": counts.least_passes,
        "sector_bytes_per_byte": round((read + written) / moved, 2),
        "limit": limit,
        "microseconds": round(launched / machine.clocks, 1),
        "at_most": round(copied / launched, 2),
    }
