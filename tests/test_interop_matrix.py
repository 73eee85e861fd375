"""What goes between libraries: producer, consumer, layout and type, each stated and tried.

A cell says "same" (the same address, and writing or reading it there is seen), "copy" (the library copies unasked) or
"refused" (an exception before anything is done). The tables stand in docs/interop.md, word for word.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.dtypes import ELEMENT_TYPES
from stridedgpu.iobinding import bind_input

pytestmark = pytest.mark.interop

PAGE = Path(__file__).parents[1] / "docs" / "interop.md"
SIZES = (2, 3, 8)
TYPES = ("uint8", "float32", "float16", "int64", "bool", "complex64", "bfloat16", "float8_e4m3fn")


def library(name):
    """A library that this environment may lack."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f"{name} is what is tried", exc_type=ImportError)


# What is exported


def tensor_of(dtype="float32"):
    """Numbers, at an address that every library takes as it is."""
    tensor = sg.empty(SIZES, dtype, alignment=64, device="cpu")
    bits = tensor.reinterpret("uint8")
    bits[...] = np.arange(bits.layout.element_count, dtype=np.uint8).reshape(bits.sizes) % 2
    return tensor


def padded():
    tensor = sg.zeros(SIZES, "float32", row_pitch_bytes=64, alignment=64, device="cpu")
    tensor[...] = tensor_of()
    return tensor


def read_only():
    memory = tensor_of()
    values = memory.numpy()
    values.flags.writeable = False
    return sg.asarray(values)


LAYOUTS = {
    "packed": tensor_of,
    "permuted": lambda: tensor_of().permute((2, 0, 1)),
    "padded": padded,
    "broadcast": lambda: tensor_of()[:1].broadcast_to((4, 3, 8)),
    "offset view": lambda: tensor_of()[1:, :, 4:],
    "flipped": lambda: tensor_of()[:, ::-1],
    "read-only": read_only,
    "empty": lambda: sg.empty((0, 3, 8), "float32", device="cpu"),
}

# Who takes it: a function from a tensor to an object of the library, and one from that to an address


def to_numpy(tensor):
    return np.asarray(tensor)


def to_numpy_dlpack(tensor):
    return np.from_dlpack(tensor)


def to_torch(tensor):
    return library("torch").from_dlpack(tensor)


def to_jax(tensor):
    return library("jax.numpy").from_dlpack(tensor)


def to_ort_value(tensor):
    return library("onnxruntime").OrtValue.from_dlpack(tensor)


def to_ort_binding(tensor):
    library("onnxruntime")
    return Bound(tensor)


class Bound:
    """The call that an `IOBinding` gets; a session is run in `test_a_session_reads_and_writes_tensors`."""

    def __init__(self, tensor):
        self.tensor = bind_input(self, "x", tensor)

    def bind_input(self, name, device, number, element, sizes, address):
        assert (name, device, number, sizes) == ("x", "cpu", 0, tuple(sizes))
        self.address = address


CONSUMERS = {
    "`numpy.asarray`": to_numpy,
    "`numpy.from_dlpack`": to_numpy_dlpack,
    "`torch.from_dlpack`": to_torch,
    "`jax.numpy.from_dlpack`": to_jax,
    "`OrtValue.from_dlpack`": to_ort_value,
    "`bind_input` of ONNX Runtime": to_ort_binding,
}


def address_of(found):
    """Where a library's array has its element at coordinates 0."""
    for name in ("data_ptr", "unsafe_buffer_pointer"):
        if hasattr(found, name):
            return getattr(found, name)()
    return found.address if isinstance(found, Bound) else found.ctypes.data


def values_of(found):
    """The elements of a library's array, as bytes in the order of the coordinates."""
    if isinstance(found, Bound):
        return found.tensor.numpy().tobytes()
    return sg.asarray(found).numpy().tobytes()


def outcome(take, tensor):
    """One cell."""
    try:
        found = take(tensor)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        assert str(error), "a refusal says why"
        return "refused"
    if tensor.layout.element_count == 0:
        return "same"
    if not isinstance(found, Bound) and sg.asarray(found).element != tensor.element:
        return f"copy as {sg.asarray(found).element}"
    assert values_of(found) == tensor.numpy().tobytes()
    return "same" if address_of(found) == tensor.operand.address else "copy"


# Who gives it: a library's array of a type and a layout, for asarray


def from_numpy(dtype):
    return np.ones(SIZES, ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype_of(dtype)))


def dtype_of(name):
    return getattr(ml_dtypes, name, name)


def from_torch(dtype):
    torch = library("torch")
    return torch.ones(SIZES).to(getattr(torch, dtype))


def from_jax(dtype):
    jnp = library("jax.numpy")
    if dtype == "int64":
        return library("jax").numpy.ones(SIZES, "int32")
    return jnp.ones(SIZES, dtype_of(dtype))


def from_ort(dtype):
    return library("onnxruntime").OrtValue.ortvalue_from_numpy(np.ones(SIZES, dtype_of(dtype)))


def from_pillow(dtype):
    modes = {"uint8": "L", "float32": "F", "bool": "1"}
    if dtype not in modes:
        raise TypeError(f"Pillow has no mode of {dtype}.")
    return library("PIL.Image").new(modes[dtype], (8, 3), 255 if dtype == "bool" else 1)


def from_memoryview(dtype):
    return memoryview(np.ones(SIZES, dtype_of(dtype)))


PRODUCERS = {
    "NumPy": from_numpy,
    "PyTorch": from_torch,
    "JAX": from_jax,
    "ONNX Runtime": from_ort,
    "Pillow": from_pillow,
    "`memoryview`": from_memoryview,
}


def taken(make, dtype):
    """One cell: "same" and "same, read-only" are shared memory."""
    try:
        given = make(dtype)
    except (RuntimeError, TypeError, ValueError):
        return "none"
    try:
        tensor = sg.asarray(given)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        assert str(error), "a refusal says why"
        return "refused"
    wanted = "int32" if dtype == "int64" and make is from_jax else dtype
    assert tensor.element == ELEMENT_TYPES[wanted]
    ones = np.ones(tensor.sizes, dtype_of(wanted))
    assert tensor.numpy().tobytes() == ones.tobytes(), (make, dtype, tensor)
    address = np.asarray(given).ctypes.data if isinstance(given, memoryview) else None
    if make is from_pillow:
        return "copy"
    shared = tensor.operand.address == (address_of(given) if address is None else address)
    return ("same, read-only" if tensor.buffer.readonly else "same") if shared else "copy"


def table(corner, rows, columns, cell):
    """A table as the page has it."""
    lines = [[corner, *columns], ["---"] * (len(columns) + 1)]
    lines += [[row, *(cell(rows[row], columns[column]) for column in columns)] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_columns(names):
    return {name: name for name in names}


def exported_layouts():
    return table("consumer", CONSUMERS, LAYOUTS, lambda take, make: outcome(take, make()))


def exported_types():
    return table("consumer", CONSUMERS, as_columns(TYPES), lambda take, dtype: outcome(take, tensor_of(dtype)))


def taken_types():
    return table("producer", PRODUCERS, as_columns(TYPES), taken)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("made", [exported_layouts, exported_types, taken_types])
def test_the_matrix_is_what_the_page_says(made):
    for name in ("torch", "jax", "onnxruntime", "PIL"):
        library(name)
    found = made()
    print(f"\n{found}")
    assert found in PAGE.read_text()
