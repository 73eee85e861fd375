"""Producers whose memory is not what they say: the lies, drawn field by field, and what becomes of a producer."""

from __future__ import annotations

import ast
import ctypes
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from harness.dlpack_structures import managed
from hypothesis import strategies as st

import stridedgpu as sg

__all__ = [
    "Liar",
    "array_interface",
    "buffer_lies",
    "dlpack_lies",
    "in_a_process_of_its_own",
    "interface_lies",
    "listen",
    "lying_buffer",
    "what_becomes_of",
]

EDGES = (0, 1, -1, 3, 2**31 - 1, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63))
WORDS = (0, 8, 2**63, 2**64 - 8, 2**64 - 1)

REFUSED, COULD_BE_TRUE = "refused", "could be true"


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Each field with a lie, or without."""
    return st.fixed_dictionaries({}, optional=fields)


edges = st.lists(st.sampled_from(EDGES), min_size=2, max_size=2)
dlpack_lies = some(
    ndim=st.sampled_from((-(2**31), -1, 0, 1, 2, 65, 2**31 - 1)),
    shape=edges | st.none(),
    strides=edges | st.none(),
    data=st.sampled_from(WORDS),
    byte_offset=st.sampled_from(WORDS),
    device=st.lists(st.integers(-1, 20), min_size=2, max_size=2),
    code=st.integers(0, 20),
    bits=st.sampled_from((0, 1, 4, 7, 8, 32, 64, 255)),
    lanes=st.sampled_from((0, 1, 2, 65535)),
)
interface_lies = some(
    shape=st.lists(st.sampled_from(EDGES), max_size=3).map(tuple),
    strides=st.lists(st.sampled_from(EDGES), max_size=3).map(tuple),
    data=st.tuples(st.sampled_from((*WORDS, -1, 2**64)), st.booleans()),
    typestr=st.sampled_from(("<f4", ">f4", "<f8", "|b1", "|O8", "<V0", "nonsense", "")),
    version=st.integers(-1, 9),
)
buffer_lies = some(
    buf=st.sampled_from(WORDS[1:]),
    len=st.sampled_from([edge for edge in EDGES if edge >= 0]),
    shape=st.lists(st.sampled_from([edge for edge in EDGES if edge >= 0]), min_size=2, max_size=2),
    strides=edges,
    readonly=st.integers(0, 1),
)


class Liar:
    """An array whose capsules have other fields, and which may name another device.

    What is `passed_on` of a request goes to the array.
    """

    def __init__(
        self,
        array: Any,
        lies: Mapping[str, Any],
        device: tuple[int, int],
        passed_on: tuple[str, ...] = ("max_version",),
    ) -> None:
        self.array, self.lies, self.device, self.passed_on = array, lies, device, passed_on

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **request: Any) -> Any:
        capsule = self.array.__dlpack__(**{name: request[name] for name in request if name in self.passed_on})
        tensor = managed(capsule).tensor
        for name, lie in self.lies.items():
            if isinstance(lie, list):
                for place, entry in enumerate(lie[: max(tensor.ndim, 0)] if tensor.ndim <= 2 else lie):
                    if getattr(tensor, name):
                        getattr(tensor, name)[place] = entry
            else:
                setattr(tensor, name, lie)
        return capsule


def array_interface(name: str, told: Mapping[str, Any], owner: object) -> Any:
    """A producer with one of the two array interfaces."""
    return type("Liar", (), {name: dict(told), "owner": owner})()


class _View(ctypes.Structure):
    """`Py_buffer` of CPython's C API."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_view_of = ctypes.pythonapi.PyMemoryView_FromBuffer
_view_of.restype, _view_of.argtypes = ctypes.py_object, (ctypes.POINTER(_View),)


def lying_buffer(array: np.ndarray[Any, np.dtype[Any]], lies: Mapping[str, Any]) -> memoryview:
    """A view of a matrix of float32 through the buffer protocol, with other fields; `array` has to outlive it."""
    pair = ctypes.c_ssize_t * 2
    view = _View(array.ctypes.data, None, array.nbytes, 4, 0, 2, b"f", pair(*array.shape), pair(*array.strides))
    for name, lie in lies.items():
        setattr(view, name, pair(*lie) if isinstance(lie, list) else lie)
    made: memoryview = _view_of(view)
    return made


def what_becomes_of(producer: Any, take: Callable[..., sg.StridedTensor] = sg.asarray, **options: Any) -> str:
    """Take the producer's memory and, at the end, let it go: it is refused, or it could be true.

    Raises `ValueError` for memory that cannot be true.
    """
    try:
        tensor = take(producer, **options)
    except sg.StridedGpuError:
        return REFUSED
    start, stop = tensor.buffer.address, tensor.buffer.address + tensor.buffer.nbytes
    # A failed assertion would print the tensor, whose memory need not be there.
    if not 0 <= start <= stop <= 2**64 or min(tensor.layout.sizes, default=0) < 0:
        raise ValueError(f"{tensor.layout} from {start:#x} to {stop:#x} cannot be true")
    return COULD_BE_TRUE


def in_a_process_of_its_own(work: Callable[[], object]) -> None:
    """Do the work in a fork; what it raises, or what ends it, fails here."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - the child ends here
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the process ended with {os.waitstatus_to_exitcode(status)}"


def listen() -> None:
    """Answer each line of standard input, a protocol and lies about an array of CuPy, with what becomes of it."""
    import cupy

    array = cupy.asarray(np.arange(6.0, dtype=np.float32).reshape(2, 3))
    for line in sys.stdin:
        protocol, lies, device = ast.literal_eval(line)
        if protocol == "DLPack":
            producer = Liar(array, lies, device, ("max_version", "stream"))
        else:
            producer = array_interface("__cuda_array_interface__", {**array.__cuda_array_interface__, **lies}, array)
        print(what_becomes_of(producer, copy=False), flush=True)
