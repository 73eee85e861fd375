"""Compiles CUDA sources with NVRTC, without a GPU, and reads what came out: registers, spills, load and store widths.

    code = compile_kernels(joined_source("indexing.cuh") + KERNEL, ["copy<sg::uint32>"], "sm_90")
    code["copy<sg::uint32>"].loads        # {128: 4}: four loads of 128 bits from global memory

What was read is kept in a cache by the hash of all that went into it.

The options are those of `devices/cuda/runtime/kernels.py`. CuPy adds `-ftz=true`, so it is given here too: `.ftz` on an
instruction in the PTX is then a place where subnormals are lost.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from .cache import cache_directory

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
OPTIONS = ("-std=c++20", "-default-device", "-ftz=true")

_KERNELS_PER_PROGRAM = 64
"""A program has a tenth of a second of its own, and text of which each kernel has 100 kB."""

_ACCESS = re.compile(r"\b(LDGSTS|LDG|STG|LD|ST)\.([A-Z0-9_.]+)")
_RESOURCES = re.compile(r"Function (\S+):\s*\n\s*(.*)")
_FUNCTION = re.compile(r"^\.text\.(\S+):\n(.*?)(?=^\.text\.|\Z)", re.MULTILINE | re.DOTALL)
_ENTRY = re.compile(r"\.entry (\w+)\((.*?)^}", re.MULTILINE | re.DOTALL)


class CompileError(Exception):
    """NVRTC refused a source; the message is its log."""


@dataclasses.dataclass(frozen=True)
class Disassembly:
    """One kernel's machine code as text, and cuobjdump's figures of it; `shared_bytes` are those known beforehand."""

    registers: int
    stack_bytes: int
    shared_bytes: int
    text: str


@dataclasses.dataclass(frozen=True)
class KernelCode:
    """What can be read from one kernel's machine code.

    `instructions` counts them, addresses and all, up to the last EXIT; what follows is filling. `local_accesses` are
    loads and stores of local memory: spilled registers, or arrays that are not in registers. `flushing` are the PTX
    instructions that take subnormals for zero. `bulk_copies` are those to shared memory. `load_bits`, `store_bits` and
    `copy_bits` are the widths of the instructions that go to global memory, in their order; the last ones are copies to
    shared memory that a thread asks for.
    """

    registers: int
    stack_bytes: int
    shared_bytes: int
    instructions: int
    local_accesses: int
    bulk_copies: int
    flushing: list[str]
    load_bits: list[int]
    store_bits: list[int]
    copy_bits: list[int]

    @property
    def loads(self) -> Counter[int]:
        """How many loads of each width, in bits, there are."""
        return Counter(self.load_bits)

    @property
    def stores(self) -> Counter[int]:
        """How many stores of each width, in bits, there are."""
        return Counter(self.store_bits)

    @property
    def copies(self) -> Counter[int]:
        """How many copies to shared memory of each width, in bits, a thread asks for."""
        return Counter(self.copy_bits)

    @classmethod
    def read(cls, ptx: str, code: Disassembly) -> KernelCode:
        """From the kernel's own part of PTX and machine code."""
        return cls(
            registers=code.registers,
            stack_bytes=code.stack_bytes,
            shared_bytes=code.shared_bytes,
            instructions=code.text[: code.text.rfind("EXIT")].count(" ;"),
            local_accesses=len(re.findall(r"\b(?:LDL|STL)\b", code.text)),
            bulk_copies=len(re.findall(r"\bUBLKCP\b", code.text)),
            flushing=[line.strip() for line in ptx.splitlines() if ".ftz" in line],
            load_bits=_widths(code.text, "LDG", "LD"),
            store_bits=_widths(code.text, "STG", "ST"),
            copy_bits=_widths(code.text, "LDGSTS"),
        )

    @classmethod
    def from_json(cls, text: str) -> KernelCode:
        """What `to_json` wrote."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        """All fields as text."""
        return json.dumps(vars(self))


def why_unavailable() -> str | None:
    """Why nothing can be compiled and inspected here, or None if it can be."""
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None:
        return "cuda-bindings is not installed"
    try:
        _nvrtc_version()
    except Exception as error:  # noqa: BLE001 - cuda-bindings raises RuntimeError or its own errors without a library
        return f"NVRTC cannot be loaded: {error}"
    for tool in ("cuobjdump", "nvdisasm"):
        if _tool(tool) is None:
            return f"there is no {tool} (nvidia-cuda-{tool} has it)"
    return None


def compile_kernels(
    source: str, kernels: Sequence[str], architecture: str, options: Sequence[str] = OPTIONS
) -> dict[str, KernelCode]:
    """The machine code of the named kernels, by name.

    Raises:
        CompileError: NVRTC refused the source.
    """
    places = {name: _place(source, name, architecture, options) for name in kernels}
    missing = [name for name in places if not places[name].exists()]
    for first in range(0, len(missing), _KERNELS_PER_PROGRAM):
        some = missing[first : first + _KERNELS_PER_PROGRAM]
        for name, code in _compiled(source, some, architecture, options).items():
            # Written aside and moved, so that another process never reads half of it.
            with tempfile.NamedTemporaryFile("w", dir=places[name].parent, delete=False) as file:
                file.write(code.to_json())
            pathlib.Path(file.name).replace(places[name])
    return {name: KernelCode.from_json(place.read_text(encoding="utf-8")) for name, place in places.items()}


def disassembled(
    source: str, kernels: Sequence[str], architecture: str, options: Sequence[str] = OPTIONS
) -> dict[str, Disassembly]:
    """The machine code of the named kernels as text, by name; nothing is kept."""
    return {name: assembly for name, _, assembly in _read(source, kernels, architecture, options)}


def _place(source: str, kernel: str, architecture: str, options: Sequence[str]) -> pathlib.Path:
    """Where a kernel's code is kept: by all that it comes from and by how it is read."""
    read_by = pathlib.Path(__file__).read_text(encoding="utf-8")
    key = "\0".join([source, kernel, architecture, *options, repr(_nvrtc_version()), read_by])
    return cache_directory() / hashlib.sha256(key.encode()).hexdigest()[:32]


def _compiled(source: str, kernels: Sequence[str], architecture: str, options: Sequence[str]) -> dict[str, KernelCode]:
    """The machine code of kernels that are not in the cache."""
    found = _read(source, kernels, architecture, options)
    return {name: KernelCode.read(ptx, assembly) for name, ptx, assembly in found}


def _read(
    source: str, kernels: Sequence[str], architecture: str, options: Sequence[str]
) -> Iterator[tuple[str, str, Disassembly]]:
    """Each kernel's name, and its own part of the PTX and of the machine code."""
    ptx, cubin, lowered = _compile(source, kernels, architecture, options)
    with tempfile.TemporaryDirectory(prefix="stridedgpu-") as directory:
        file = pathlib.Path(directory, "kernels.cubin")
        file.write_bytes(cubin)
        resources = dict(_RESOURCES.findall(_output("cuobjdump", "--dump-resource-usage", file)))
        assembly = dict(_FUNCTION.findall(_output("nvdisasm", "--print-code", file)))
    entries = dict(_ENTRY.findall(ptx))
    for name, symbol in zip(kernels, lowered, strict=True):
        usage = dict(field.split(":", 1) for field in resources[symbol].split() if ":" in field)
        counts = (int(usage[key]) for key in ("REG", "STACK", "SHARED"))
        yield name, entries[symbol], Disassembly(*counts, assembly[symbol])


def _compile(
    source: str, kernels: Sequence[str], architecture: str, options: Sequence[str]
) -> tuple[str, bytes, list[str]]:
    """PTX, machine code, and the kernels' symbols in both."""
    from cuda.bindings import nvrtc

    program = _checked(nvrtc.nvrtcCreateProgram(source.encode(), b"kernels.cu", 0, [], []))
    try:
        for name in kernels:
            _checked(nvrtc.nvrtcAddNameExpression(program, name.encode()))
        words = [option.encode() for option in (f"-arch={architecture}", *options)]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(words), words)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = b" " * _checked(nvrtc.nvrtcGetProgramLogSize(program))
            _checked(nvrtc.nvrtcGetProgramLog(program, log))
            raise CompileError(log.rstrip(b"\0").decode(errors="replace")[:8000])
        lowered = [_checked(nvrtc.nvrtcGetLoweredName(program, name.encode())).decode() for name in kernels]
        ptx = b" " * _checked(nvrtc.nvrtcGetPTXSize(program))
        _checked(nvrtc.nvrtcGetPTX(program, ptx))
        cubin = b" " * _checked(nvrtc.nvrtcGetCUBINSize(program))
        _checked(nvrtc.nvrtcGetCUBIN(program, cubin))
        return ptx.rstrip(b"\0").decode(), cubin, lowered
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _checked(answer: tuple[Any, ...]) -> Any:
    from cuda.bindings import nvrtc

    if answer[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"NVRTC: {answer[0].name}")
    return answer[1] if len(answer) == 2 else None


@functools.cache
def _nvrtc_version() -> tuple[int, int]:
    from cuda.bindings import nvrtc

    status, major, minor = nvrtc.nvrtcVersion()
    _checked((status,))
    return int(major), int(minor)


def _widths(assembly: str, *instructions: str) -> list[int]:
    """The widths of the named instructions, in bits."""
    accesses = _ACCESS.findall(assembly)
    return [_width(modifiers.split(".")) for name, modifiers in accesses if name in instructions]


def _width(modifiers: Sequence[str]) -> int:
    """The bits that one load or store moves: its last size modifier, 32 if it has none."""
    sizes = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}
    return next((sizes[modifier] for modifier in reversed(modifiers) if modifier in sizes), 32)


@functools.cache
def _tool(name: str) -> str | None:
    """A binary from PyPI's nvidia packages, or from a CUDA toolkit on the path."""
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations or () if spec else ():
        for found in sorted(pathlib.Path(place).glob(f"*/bin/{name}")):
            return str(found)
    return shutil.which(name)


def _output(tool: str, *arguments: str | pathlib.Path) -> str:
    path = _tool(tool)
    assert path is not None, why_unavailable()
    command = [path, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
