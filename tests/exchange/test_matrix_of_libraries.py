"""What goes between libraries: every producer, consumer, layout and type, tried, and what the page says of it.

A tensor is made of a library's array with `asarray`, and handed to a consumer. The outcome is the same address with
the same values there, a copy, or a refusal for one of the reasons that are stated. The tables between two marks in
docs/interop.md are these outcomes, word for word; running this file as a program writes them there.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import types
import warnings
from functools import cache, partial
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from harness.fake_gpus import two_gpus

import stridedgpu as sg
from stridedgpu.devices.cuda.status import cuda_status
from stridedgpu.iobinding import bind_input

pytestmark = pytest.mark.interop

STATUS = cuda_status()
PAGE = Path(__file__).parents[2] / "docs" / "interop.md"
MARKS = ("<!-- tried: begin -->", "<!-- tried: end -->")
LIBRARIES = ("torch", "jax", "onnx", "onnxruntime")

SIZES = (2, 3, 8)
TYPES = ("uint8", "int64", "float16", "float32", "float64", "bool", "complex64", "bfloat16", "float8_e4m3fn")
LAYOUTS = ("packed", "permuted", "padded", "broadcast", "offset view", "flipped", "read-only", "empty")

SAME, READ_ONLY, COPY, NARROWED, NONE = "same", "same, read-only", "copy", "narrowed", "-"
LETTERS = {SAME: "=", READ_ONLY: "r", COPY: "c", NARROWED: "n", NONE: "-"}

REASONS = (
    ("runs backwards", "an axis that runs backwards does not leave by DLPack: `relayout` first"),
    ("compact\\) striding", "JAX wants compact memory: `relayout` first"),
    ("contiguous", "ONNX Runtime's DLPack wants packed, row-major memory: `bind_input`, or `relayout` first"),
    ("max_version|readonly|read-only", "memory is read-only, which this consumer cannot be told: `copy` first"),
    ("Unsupported dtype in DLTensor", "NumPy's DLPack lacks the type: `numpy()`, or `reinterpret` for its bits"),
    (
        "GetOrtValueDataType|GetDlpackDataType",
        "ONNX Runtime's DLPack lacks the type: `bind_input`, or `reinterpret` for its bits",
    ),
    ("not currently registered", "ONNX Runtime has no inputs of the type"),
    ("__cuda_array_interface__ has no", "the CUDA Array Interface lacks the type: DLPack, or `reinterpret`"),
    ("cannot be exported as such", "a capsule of CuPy's cannot say that memory is read-only: `copy` first"),
)
"""What refusals are known by, and what the page says of each."""


def library(name):
    """A library that this environment may lack."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f"{name} is what is tried", exc_type=ImportError)


def numpy_type(dtype):
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


# Who gives: an array of a layout and a type, or None where the library has no such


def bits(sizes, dtype):
    """Elements of which every type makes something, at an address that every library takes as it is."""
    nbytes = int(np.prod(sizes)) * numpy_type(dtype).itemsize
    memory = np.arange(nbytes + 64, dtype=np.uint8)
    start = -memory.ctypes.data % 64
    held = memory[start : start + nbytes]
    held %= 2
    return held.view(numpy_type(dtype)).reshape(sizes)


def from_numpy(layout, dtype):
    array = bits((2, 3, 16) if layout == "padded" else SIZES, dtype)
    if layout == "read-only":
        array.flags.writeable = False
    return VIEWS_OF_ARRAYS.get(layout, lambda found: found)(array)


VIEWS_OF_ARRAYS = {
    "permuted": lambda array: array.transpose(2, 0, 1),
    "padded": lambda array: array[..., :8],
    "broadcast": lambda array: np.broadcast_to(array[:1], (4, 3, 8)),
    "offset view": lambda array: array[1:, :, 4:],
    "flipped": lambda array: array[:, ::-1],
    "empty": lambda array: array[:0],
}


def from_torch(layout, dtype):
    torch = library("torch")
    if layout in ("flipped", "read-only"):
        return None
    sizes = (2, 3, 16) if layout == "padded" else SIZES
    array = (torch.arange(int(np.prod(sizes)) * numpy_type(dtype).itemsize, dtype=torch.uint8) % 2).view(
        getattr(torch, dtype)
    )
    views = VIEWS_OF_ARRAYS | {
        "permuted": lambda array: array.permute(2, 0, 1),
        "broadcast": lambda array: array[:1].expand(4, 3, 8),
    }
    return views.get(layout, lambda found: found)(array.reshape(sizes))


def from_jax(layout, dtype):
    jnp = library("jax.numpy")
    if layout not in ("packed", "empty") or dtype in ("int64", "float64"):
        return None  # arrays are packed, and hold 64 bits where they are told to beforehand
    return jnp.array(from_numpy(layout, dtype))


def from_ort(layout, dtype):
    ort_value = library("onnxruntime").OrtValue
    if layout not in ("packed", "empty") or dtype == "complex64":
        return None
    array = from_numpy(layout, dtype)
    if dtype in ("bfloat16", "float8_e4m3fn"):
        number = library("onnx").TensorProto.DataType.Value({"bfloat16": "BFLOAT16"}.get(dtype, "FLOAT8E4M3FN"))
        return ort_value.ortvalue_from_numpy_with_onnx_type(array.view(f"u{array.itemsize}"), number)
    return ort_value.ortvalue_from_numpy(array)


def from_memoryview(layout, dtype):
    if dtype in ("bfloat16", "float8_e4m3fn"):
        return None  # the buffer protocol has no letter for them
    return memoryview(from_numpy(layout, dtype))


def from_stridedgpu(layout, dtype):
    tensor = sg.empty(SIZES, dtype, row_pitch_bytes=128 if layout == "padded" else None, alignment=64, device="cpu")
    tensor[...] = sg.asarray(bits(SIZES, dtype))
    if layout == "broadcast":
        return tensor[:1].broadcast_to((4, 3, 8))
    if layout == "read-only":
        return sg.from_pointer(tensor.operand.address, SIZES, dtype, owner=tensor, readonly=True)
    if layout == "permuted":
        return tensor.permute((2, 0, 1))
    return tensor if layout == "padded" else VIEWS_OF_ARRAYS.get(layout, lambda found: found)(tensor)


PRODUCERS = {
    "a tensor": from_stridedgpu,
    "NumPy": from_numpy,
    "PyTorch": from_torch,
    "JAX": from_jax,
    "ONNX Runtime": from_ort,
    "`memoryview`": from_memoryview,
}


# Who takes: a function from a tensor to what holds it there, and its address


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


class Session:
    """A session that has run on the tensor, in place of an array; `bind_input` is called as the session's own."""

    def __init__(self, tensor):
        self.binding = identity_session(tensor.element.name).io_binding()
        self.tensor = bind_input(self, "x", tensor)
        self.binding.bind_output("y")
        identity_session(tensor.element.name).run_with_iobinding(self.binding)
        (self.answer,) = self.binding.get_outputs()

    def bind_input(self, *arguments):
        self.address = arguments[-1]
        self.binding.bind_input(*arguments)


@cache
def identity_session(dtype):
    onnx, runtime = library("onnx"), library("onnxruntime")
    names = {"float16": "FLOAT16", "float32": "FLOAT", "float64": "DOUBLE", "float8_e4m3fn": "FLOAT8E4M3FN"}
    kind = onnx.TensorProto.DataType.Value(names.get(dtype, dtype.upper()))
    ends = [onnx.helper.make_tensor_value_info(name, kind, ["a", "b", "c"]) for name in ("x", "y")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "same", ends[:1], ends[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=9)
    return runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


CONSUMERS = {
    "`numpy.asarray`": to_numpy,
    "`numpy.from_dlpack`": to_numpy_dlpack,
    "`torch.from_dlpack`": to_torch,
    "`jax.numpy.from_dlpack`": to_jax,
    "`OrtValue.from_dlpack`": to_ort_value,
    "`bind_input`, and a run": Session,
}


def address_of(found):
    """Where an array or a tensor of any library has its element at coordinates 0."""
    if isinstance(found, memoryview):
        found = np.asarray(found)
    if isinstance(found, sg.StridedTensor):
        return found.operand.address
    for name in ("data_ptr", "unsafe_buffer_pointer"):
        if hasattr(found, name):
            return getattr(found, name)()
    return found.address if isinstance(found, Session) else found.ctypes.data


def values_there(found, tensor):
    """The elements that a consumer has, as bytes in the order of the coordinates."""
    if isinstance(found, Session):
        found = found.answer
        found = sg.from_pointer(found.data_ptr(), tensor.sizes, tensor.element.name, owner=found)
    return sg.asarray(found).numpy().tobytes()


# On a device: an object with one protocol alone, over the stand-in's memory, which is this process's


def on_a_device(layout, dtype, device="cuda:1"):
    """A tensor of a device, the stand-in's second one."""
    held = sg.empty(SIZES, dtype, row_pitch_bytes=128 if layout == "padded" else None, device=device)
    if layout == "read-only":
        return sg.from_pointer(held.operand.address, SIZES, dtype, device=device, owner=held, readonly=True)
    if layout == "broadcast":
        return held[:1].broadcast_to((4, 3, 8))
    if layout == "permuted":
        return held.permute((2, 0, 1))
    return held if layout == "padded" else VIEWS_OF_ARRAYS.get(layout, lambda found: found)(held)


def only_array_interface(tensor):
    return types.SimpleNamespace(__cuda_array_interface__=tensor.__cuda_array_interface__)


def only_dlpack(tensor):
    class OnlyDlpack:
        def __dlpack__(self, **request):
            return tensor.__dlpack__(**request)

        def __dlpack_device__(self):
            return tensor.__dlpack_device__()

    found = OnlyDlpack()
    sg.asarray(found)  # which refuses what cannot leave
    return found


PROTOCOLS = {"CUDA Array Interface": only_array_interface, "DLPack": only_dlpack}


def there_and_back(gpus, layout, dtype, protocol):
    """One cell: from a tensor on a device through a protocol into a tensor again."""
    tensor = on_a_device(layout, dtype)
    gpus.pointer_devices[tensor.operand.address] = 1
    try:
        found = PROTOCOLS[protocol](tensor)
    except (BufferError, AttributeError) as error:
        return refusal(error)
    back = sg.asarray(found)
    assert (back.sizes, back.element) == (tensor.sizes, tensor.element)
    if tensor.layout.element_count:
        assert (back.device, back.strides, back.operand.address) == ("cuda:1", tensor.strides, tensor.operand.address)
    return READ_ONLY if back.buffer.readonly else SAME


def on_devices():
    """The table of both protocols."""
    with pytest.MonkeyPatch.context() as monkeypatch, two_gpus(monkeypatch) as gpus:
        return table(
            "on a CUDA device",
            LAYOUTS,
            PROTOCOLS,
            lambda layout, protocol: (
                f"`{''.join(letter(there_and_back(gpus, layout, dtype, protocol)) for dtype in TYPES)}`"
            ),
        )


# Outcomes


def refusal(error):
    """The number of a refusal's reason, as the page counts them."""
    found = [number for number, (pattern, _) in enumerate(REASONS, 1) if re.search(pattern, str(error))]
    assert len(found) == 1, f"a refusal of no stated reason, or of several: {error!r}"
    return found[0]


REFUSALS = (BufferError, RuntimeError, TypeError, ValueError)


@cache
def taken(producer, layout, dtype):
    """What `asarray` makes of an array, and the outcome."""
    given = PRODUCERS[producer](layout, dtype)
    if given is None:
        return None, NONE
    try:
        tensor = sg.asarray(given)
    except REFUSALS as error:
        return None, refusal(error)
    assert tensor.element.name == dtype
    assert tensor.sizes == {"permuted": (8, 2, 3), "broadcast": (4, 3, 8), "empty": (0, 3, 8)}.get(
        layout, (1, 3, 4) if layout == "offset view" else SIZES
    )
    if tensor.layout.element_count and address_of(given) != tensor.operand.address:
        return tensor, COPY
    return tensor, READ_ONLY if tensor.buffer.readonly else SAME


@cache
def outcome(producer, layout, dtype, consumer):
    """One cell: from a library's array through a tensor to another library."""
    tensor, found = taken(producer, layout, dtype)
    if tensor is None:
        return found
    expected = tensor.numpy().tobytes()
    try:
        there = CONSUMERS[consumer](tensor)
    except Exception as error:  # noqa: BLE001 - ONNX Runtime's have no other base
        assert isinstance(error, REFUSALS) or "onnxruntime" in type(error).__module__
        return refusal(error)
    if not isinstance(there, Session) and not hasattr(there, "data_type") and sg.asarray(there).element.name != dtype:
        assert (sg.asarray(there).element.name, dtype) in (("int32", "int64"), ("float32", "float64"))
        return NARROWED
    assert values_there(there, tensor) == expected
    if isinstance(there, np.ndarray):
        assert not (there.flags.writeable and (tensor.buffer.readonly or tensor.layout.is_broadcast))
    if tensor.layout.element_count and address_of(there) != tensor.operand.address:
        return COPY
    return SAME


# Tables


def table(corner, rows, columns, cell):
    lines = [[corner, *columns], ["---"] * (len(columns) + 1)]
    lines += [[row, *(cell(row, column) for column in columns)] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def word(found):
    return f"refused ({found})" if isinstance(found, int) else found


def letter(found):
    return str(found) if isinstance(found, int) else LETTERS[found]


def every_cell(row, column):
    producer, layout = row.split(", ")
    if column == "`asarray`":
        found = [taken(producer, layout, dtype)[1] for dtype in TYPES]
    else:
        found = [outcome(producer, layout, dtype, column) for dtype in TYPES]
    return f"`{''.join(map(letter, found))}`"


def rows_of_arrays():
    return [
        f"{producer}, {layout}"
        for producer in PRODUCERS
        for layout in LAYOUTS
        if any(taken(producer, layout, dtype)[1] != NONE for dtype in TYPES)
    ]


def everything():
    """What stands between the marks."""
    out, into = partial(outcome, "a tensor"), [name for name in PRODUCERS if name != "a tensor"]
    legend = "; ".join(f"`{symbol}` {name}" for name, symbol in LETTERS.items() if name != NONE)
    count = sum(taken(*row.split(", "), dtype)[1] != NONE for row in rows_of_arrays() for dtype in TYPES)
    return "\n\n".join(
        (
            versions(),
            "Into a tensor, with `sg.asarray`, by layout (float32) and by type (packed):",
            table("producer", into, LAYOUTS, lambda name, layout: word(taken(name, layout, "float32")[1])),
            table("producer", into, TYPES, lambda name, dtype: word(taken(name, "packed", dtype)[1])),
            "Out of a tensor of the library's own, by layout (float32) and by type (packed):",
            table("consumer", CONSUMERS, LAYOUTS, lambda name, layout: word(out(layout, "float32", name))),
            table("consumer", CONSUMERS, TYPES, lambda name, dtype: word(out("packed", dtype, name))),
            "What is refused, and what to do instead:",
            "\n".join(f"{number}. {said}" for number, (_, said) in enumerate(REASONS, 1)),
            (
                f"And all of it, from each library's array through a tensor to each consumer, {count * len(CONSUMERS)} "
                f"ways. A cell has a letter for each of {', '.join(TYPES)}: {legend}; a number is a reason from above; "
                f"`{LETTERS[NONE]}` an array that the producer cannot have."
            ),
            table("from", rows_of_arrays(), ("`asarray`", *CONSUMERS), every_cell),
            (
                "The protocols of a GPU, out of a tensor and into another, by the same letters, found over a stand-in "
                "for CuPy; the tests that want a GPU try CuPy itself:"
            ),
            on_devices(),
        )
    )


def versions():
    """What is tried: another version of a library may take more, or less."""
    named = (f"{name} {importlib.metadata.version(name).partition('+')[0]}" for name in ("numpy", *LIBRARIES))
    return f"Found with {', '.join(named)}."


@pytest.mark.filterwarnings("ignore")
def test_the_page_says_what_is_found():
    for name in LIBRARIES:
        library(name)
    if versions() not in PAGE.read_text(encoding="utf-8"):
        pytest.skip(f"the page is of other versions than these: {versions()}")
    found = everything()
    print(f"\n{found}")
    assert found in PAGE.read_text(encoding="utf-8"), f"python {Path(__file__).name} writes what is found into the page"


@pytest.mark.gpu
@pytest.mark.skipif(STATUS.device_count == 0, reason=str(STATUS.reason))
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", TYPES)
def test_cupy_and_torch_share_the_memory_of_a_gpu(layout, dtype):
    import cupy

    takes = {"CUDA Array Interface": [cupy.asarray], "DLPack": [cupy.from_dlpack]}
    torch = library("torch") if importlib.util.find_spec("torch") else None
    if torch is not None and torch.cuda.is_available():
        takes["DLPack"].append(torch.from_dlpack)
    tensor = on_a_device(layout, dtype, "cuda:0")
    cannot = {
        "CUDA Array Interface": layout == "flipped" or dtype in ("bfloat16", "float8_e4m3fn"),
        "DLPack": layout in ("flipped", "read-only"),
    }
    for protocol, consumers in takes.items():
        for take in consumers:
            if cannot[protocol]:
                with pytest.raises((BufferError, TypeError)):
                    take(tensor)
            elif not (take is cupy.from_dlpack and dtype == "float8_e4m3fn"):  # which CuPy's DLPack may not have yet
                there = take(tensor)
                back = sg.asarray(there)
                assert (back.sizes, back.element) == (tensor.sizes, tensor.element)
                assert 0 in tensor.sizes or back.operand.address == tensor.operand.address


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = PAGE.read_text(encoding="utf-8")
        before, after = text.split(MARKS[0])[0], text.split(MARKS[1])[1]
        PAGE.write_text(f"{before}{MARKS[0]}\n\n{everything()}\n\n{MARKS[1]}{after}", encoding="utf-8")
