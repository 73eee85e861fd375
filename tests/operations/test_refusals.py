"""Refusals of tensors and relayout that `error_texts.txt` does not have: type, value named, and nothing written."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu import (
    BindingError,
    DeviceError,
    ElementTypeError,
    Layout,
    LayoutError,
    StridedGpuError,
    StridedTensor,
)
from stridedgpu.devices.buffer import Buffer

SIZES = (2, 3, 4, 5)


@pytest.fixture
def world():
    """A source, places to write to, and the memory of all of them."""
    rng = np.random.default_rng(0)
    memory = {name: rng.integers(0, 256, 1200, np.uint8) for name in ("source", "out", "floats")}
    locked = memory["out"].view()
    locked.flags.writeable = False
    nhwc = Layout(SIZES, sg.calculate_strides("NHWC", SIZES), offset=4)
    return SimpleNamespace(
        memory=memory,
        source=StridedTensor(memory["source"], nhwc, "uint8", dims="NCHW"),
        plain=StridedTensor(memory["source"], Layout((6, 20)), "uint8"),
        out=StridedTensor(memory["out"], nhwc, "uint8", dims="NCHW"),
        floats=StridedTensor(memory["floats"], Layout(SIZES), "float32", dims="NCHW"),
        locked=StridedTensor(locked, nhwc, "uint8", dims="NCHW"),
        numbers=np.arange(120, dtype=np.uint8).reshape(SIZES),
    )


def refused(world, call, error, fragment):
    before = {name: bytes_.copy() for name, bytes_ in world.memory.items()}
    with pytest.raises(StridedGpuError if issubclass(error, StridedGpuError) else error) as caught:
        call(world)
    assert type(caught.value) is error
    assert fragment in str(caught.value)
    for name, bytes_ in world.memory.items():
        assert bytes_.tobytes() == before[name].tobytes(), f"{name} was written"


def set_item(tensor, index, value):
    tensor[index] = value


OUT = {
    "read-only": (lambda w: sg.relayout(w.source, out=w.locked), BindingError, "out is read-only"),
    "of other sizes": (
        lambda w: sg.relayout(w.source, out=w.out[:, :2]),
        LayoutError,
        "out has sizes (2, 2, 4, 5); this relayout makes sizes (2, 3, 4, 5)",
    ),
    "of another rank": (lambda w: sg.relayout(w.source, out=w.out[0]), LayoutError, "out has sizes (3, 4, 5)"),
    "without the channels that are chosen": (
        lambda w: sg.relayout(w.source, channels=(2, 0), out=w.out),
        LayoutError,
        "this relayout makes sizes (2, 2, 4, 5)",
    ),
    "of another type than asked": (
        lambda w: sg.relayout(w.source, dtype="float16", out=w.floats),
        LayoutError,
        "dtype=float16 is not what out holds, float32",
    ),
    "with a layout": (lambda w: sg.relayout(w.source, layout="NCHW", out=w.out), LayoutError, "leave out layout"),
    "with a pitch": (
        lambda w: sg.relayout(w.source, row_pitch_bytes=64, out=w.out),
        LayoutError,
        "leave out row_pitch",
    ),
    "with an alignment": (lambda w: sg.relayout(w.source, alignment=64, out=w.out), LayoutError, "leave out alignment"),
    "with a device": (lambda w: sg.relayout(w.source, device="cpu", out=w.out), LayoutError, "leave out device"),
    "of a frame with a device": (
        lambda w: sg.relayout(sg.Frame.over("rgbx", bytes(80), (4, 5)), device="cpu", out=w.out[0]),
        LayoutError,
        "leave out device",
    ),
    "a list": (lambda w: sg.relayout(w.source, out=[[0]]), LayoutError, "out is a list, whose memory cannot be"),
    "broadcast": (
        lambda w: sg.relayout(w.source, out=w.out[:, :, :, :1].broadcast_to(SIZES)),
        LayoutError,
        "out repeats or overlaps its own elements: Layout((2, 3, 4, 5), strides=(60, 1, 15, 0)",
    ),
    "overlapping itself": (
        lambda w: sg.relayout(w.source, out=w.out.as_strided(SIZES, (20, 10, 5, 1))),
        LayoutError,
        "out repeats or overlaps its own elements",
    ),
    "the source itself": (lambda w: sg.relayout(w.out, out=w.out), BindingError, "out shares memory with the source"),
    "the source flipped": (
        lambda w: sg.relayout(w.out, out=w.out[..., ::-1]),
        BindingError,
        "out shares memory with the source",
    ),
    "one element of the source": (
        lambda w: sg.relayout(w.plain[:, :10], out=w.plain[:, 9:19]),
        BindingError,
        "out shares memory with the source",
    ),
    "one byte of the source": (
        lambda w: sg.relayout(
            StridedTensor(w.memory["out"], Layout((4,), (8,)), "uint8"),
            out=StridedTensor(w.memory["out"], Layout((4,), offset=3), "uint16"),
            dtype="uint16",
        ),
        BindingError,
        "out shares memory with the source",
    ),
    "with a stream": (
        lambda w: sg.relayout(w.source, out=w.out, stream=7),
        DeviceError,
        "stream=7 has no meaning on the CPU",
    ),
}

LAYOUTS = {
    "unknown letter": (lambda w: w.source.relayout(layout="NHWQ"), LayoutError, "layout='NHWQ' holds 'Q'"),
    "letter twice": (lambda w: w.source.relayout(layout="NCHH"), LayoutError, "layout='NCHH' names the axis 'H' twice"),
    "other axes": (lambda w: w.source.relayout(layout="CHW"), LayoutError, "layout='CHW' does not order the axes"),
    "plain axes": (lambda w: w.plain[None, None, None].relayout(layout="HW"), LayoutError, "layout='HW'"),
    "other sizes": (
        lambda w: w.source.relayout(layout=Layout((3, 4, 5))),
        LayoutError,
        "must have the sizes (2, 3, 4, 5)",
    ),
    "layout and pitch": (
        lambda w: w.source.relayout(layout=Layout(SIZES), row_pitch_bytes=64),
        LayoutError,
        "takes no row_pitch_bytes",
    ),
    "broadcast layout": (
        lambda w: w.source.relayout(layout=Layout(SIZES, (0, 20, 5, 1))),
        LayoutError,
        "repeats or overlaps elements; make it packed",
    ),
    "pitch below a row": (
        lambda w: w.source.relayout(layout="NHWC", row_pitch_bytes=14),
        LayoutError,
        "row_pitch_bytes=14 is smaller than a row: 15 elements",
    ),
    "pitch off the elements": (
        lambda w: w.source.relayout(dtype="float32", row_pitch_bytes=66),
        LayoutError,
        "row_pitch_bytes=66 is not a multiple of the 4-byte element",
    ),
    "pitch of one axis": (
        lambda w: w.plain[0].relayout(row_pitch_bytes=64),
        LayoutError,
        "row_pitch_bytes=64 needs at least two axes",
    ),
    "alignment 24": (lambda w: w.source.relayout(alignment=24), LayoutError, "alignment=24 is not a power of two"),
    "alignment below an element": (
        lambda w: w.source.relayout(dtype="float64", alignment=4),
        LayoutError,
        "alignment=4 is below one element of float64, 8 bytes",
    ),
}

CONVERSIONS = {
    "a complex scale of NumPy": (
        lambda w: w.source.relayout(dtype="float32", scale=np.array([1j, 2, 3])),
        LayoutError,
        "must be a number, or one number a channel",
    ),
    "a scale with more rows than there is memory": (
        lambda w: w.source.relayout(dtype="float32", scale=np.broadcast_to(np.uint8(1), (2**40, 2))),
        LayoutError,
        "must be a number, or one number a channel",
    ),
    "unknown type": (lambda w: w.source.relayout(dtype="float24"), ElementTypeError, "'float24'"),
    "object type": (lambda w: w.source.relayout(dtype=object), ElementTypeError, "'object'"),
    "4-bit type": (lambda w: w.source.relayout(dtype=sg.DataType.INT4), ElementTypeError, "'int4'"),
    "complex to real": (
        lambda w: StridedTensor(w.memory["floats"], Layout((4,)), "complex64").relayout(dtype="float32"),
        ElementTypeError,
        "complex64 -> float32 would drop the imaginary part",
    ),
    "scaled complex": (
        lambda w: w.floats.relayout(dtype="complex64", scale=2.0),
        ElementTypeError,
        "scale, bias and matrix are for real elements, not float32 -> complex64",
    ),
    "float8": (
        lambda w: w.source.relayout(dtype="float8_e5m2"),
        ElementTypeError,
        "float8 moves as bits only",
    ),
    "rounding": (lambda w: w.source.relayout(rounding="up"), LayoutError, "rounding='up' is unknown"),
    "three biases for two channels": (
        lambda w: w.source.relayout(bias=(1.0, 2.0, 3.0), channels=(0, 1)),
        LayoutError,
        "bias has 3 values for 2 output channels",
    ),
    "three means for two channels": (
        lambda w: w.source.relayout(mean=(0.1, 0.2, 0.3), channels=(0, 1), dtype="float32"),
        LayoutError,
        "scale and bias, or mean and std, have 3 values for 2 output channels",
    ),
    "three means for two channels that are divided": (
        lambda w: w.source.relayout(mean=(0.1, 0.2, 0.3), arithmetic="divide", channels=(0, 1), dtype="float32"),
        LayoutError,
        "mean and std have 3 values for 2 output channels",
    ),
    "scales without channels": (
        lambda w: w.plain.relayout(scale=(1.0, 2.0)),
        LayoutError,
        "scale has 2 values for no labelled channel axis",
    ),
    "complex scale": (lambda w: w.source.relayout(scale=1j), LayoutError, "scale=1j must be a number"),
    "channels without labels": (
        lambda w: w.plain.relayout(channels=(0,)),
        LayoutError,
        "channels=(0,) needs a channel axis",
    ),
    "channel too high": (
        lambda w: w.source.relayout(channels=(0, 3)),
        LayoutError,
        "channels=(0, 3) asks for channel 3; the source has 3",
    ),
    "negative channel": (
        lambda w: w.source.relayout(channels=(-1,)),
        LayoutError,
        "channels=(-1,) asks for channel -1",
    ),
}

ASSIGNMENTS = {
    "256 in uint8": (
        lambda w: set_item(w.out, ..., 256),
        LayoutError,
        "value=256 does not fit uint8, which holds 0 to 255",
    ),
    "-1 in uint8": (lambda w: set_item(w.out, 0, -1), LayoutError, "value=-1 does not fit uint8"),
    "2^63 in int64": (
        lambda w: set_item(StridedTensor(w.memory["floats"], Layout((4,)), "int64"), 0, 2**63),
        LayoutError,
        f"value={2**63} does not fit int64",
    ),
    "sizes that do not broadcast": (
        lambda w: set_item(w.out, (0, 0), np.zeros((4, 3))),
        LayoutError,
        "sizes (4, 3) cannot broadcast to (4, 5)",
    ),
    "more axes than there are": (
        lambda w: set_item(w.out, (0, 0, 0), np.zeros((1, 5))),
        LayoutError,
        "sizes (1, 5) cannot broadcast to (5,)",
    ),
    "into read-only memory": (lambda w: set_item(w.locked, 0, 1), BindingError, "the view is read-only"),
    "into a broadcast view": (
        lambda w: set_item(w.out[:, :1].broadcast_to(SIZES), ..., 1),
        LayoutError,
        "the view repeats or overlaps its own elements",
    ),
    "from itself": (
        lambda w: set_item(w.plain, slice(1, None), w.plain[:-1]),
        BindingError,
        "the view shares memory with the source",
    ),
    "from an array over the same memory": (
        lambda w: set_item(w.plain, slice(None, None, -1), w.plain.numpy()),
        BindingError,
        "the view shares memory with the source",
    ),
    "objects": (lambda w: set_item(w.out, ..., [None]), ElementTypeError, "not array-like"),
    "text": (lambda w: set_item(w.out, ..., "seven"), ElementTypeError, "'seven' is text, no numbers"),
    "complex into real": (lambda w: set_item(w.floats, ..., 1j), ElementTypeError, "would drop the imaginary part"),
    "an index out of range": (
        lambda w: set_item(w.out, (0, 3), 1),
        IndexError,
        "index 3 is out of range for axis 1 of size 3",
    ),
}

VIEWS = {
    "reshape of a permuted tensor": (
        lambda w: w.source.reinterpret(sizes=(120,)),
        LayoutError,
        "cannot be seen as sizes (120,) without a copy; relayout first",
    ),
    "reshape to another count": (
        lambda w: w.plain.reinterpret(sizes=(7, 17)),
        LayoutError,
        "sizes=(7, 17) hold 119 elements, but sizes (6, 20) hold 120",
    ),
    "larger elements across columns": (
        lambda w: w.plain.permute((1, 0)).reinterpret("uint16"),
        LayoutError,
        "its last axis is not contiguous",
    ),
    "larger elements of an odd row": (
        lambda w: w.plain[:, :5].reinterpret("uint16"),
        LayoutError,
        "must be multiples of 2",
    ),
    "larger elements at an odd offset": (
        lambda w: w.plain[:, 1:5].reinterpret("uint32"),
        LayoutError,
        "must be multiples of 4",
    ),
    "larger elements from an odd byte": (
        lambda w: w.plain[0, 1:].reinterpret("uint16", (2,), (1,)),
        LayoutError,
        "The view starts 1 bytes into its buffer, not at a whole 2-byte element",
    ),
    "elements past the end": (
        lambda w: w.floats.reinterpret("uint8", (1201,), (1,)),
        BindingError,
        "reaches from byte 0 to 1201, outside its buffer of 1200 bytes",
    ),
    "as_strided past the end": (
        lambda w: w.out.as_strided((10,), (200,)),
        BindingError,
        "outside its buffer of 1200 bytes",
    ),
    "as_strided before the start": (
        lambda w: w.out.as_strided((2,), (1,), offset=-5),
        BindingError,
        "reaches from byte -1 to 1, outside its buffer",
    ),
    "unknown type": (lambda w: w.out.reinterpret("uint7"), ElementTypeError, "'uint7'"),
    "permutation of letters": (
        lambda w: w.out.permute("NHW"),
        LayoutError,
        "layout='NHW' does not order the axes of this tensor, which has axes NCHW",
    ),
    "permutation of plain axes by letters": (
        lambda w: w.plain[None].permute("NCHW"),
        LayoutError,
        "layout='NCHW' does not order the axes of this tensor, which has 3 plain axes: label them with dims=",
    ),
    "permutation that repeats an axis": (lambda w: w.out.permute((0, 1, 2, 2)), LayoutError, "axes=(0, 1, 2, 2)"),
    "squeeze of a size above 1": (lambda w: w.plain.squeeze(0), LayoutError, "has size 6, not 1"),
    "index by an array": (lambda w: w.out[np.array([0, 1])], LayoutError, "use gather"),
    "index by a bool": (lambda w: w.out[True], LayoutError, "index True is not basic"),
    "index out of range": (lambda w: w.out[2], IndexError, "index 2 is out of range for axis 0 of size 2"),
    "too many indices": (lambda w: w.out[0, 0, 0, 0, 0], IndexError, "5 indices for a tensor of rank 4"),
    "step 0": (lambda w: w.out[::0], LayoutError, "a step that is not 0"),
}

CREATION = {
    "negative size": (lambda w: sg.empty((2, -1), "uint8"), LayoutError, "sizes=(2, -1) must each be at least 0"),
    "UNKNOWN": (lambda w: sg.zeros((2,), sg.DataType.UNKNOWN), ElementTypeError, "'unknown'"),
    "order of another rank": (lambda w: sg.empty((2, 3), "uint8", layout="NCHW"), LayoutError, "layout='NCHW'"),
    "dims not in canonical order": (
        lambda w: sg.empty((1, 2, 3, 4), "uint8", dims="NHWC"),
        LayoutError,
        "dims='NHWC' is not in canonical order; sizes go with dims='NCHW', and layout='NHWC' says the order in memory",
    ),
    "too many dims": (lambda w: sg.empty((2,), "uint8", dims="HW"), LayoutError, "dims='HW' labels 2 axes"),
    "alignment below an element": (
        lambda w: sg.empty((2,), "complex128", alignment=8),
        LayoutError,
        "alignment=8 is below one element of complex128, 16 bytes",
    ),
    "broadcast layout": (
        lambda w: sg.empty((2, 3), "uint8", layout=Layout((2, 3), (0, 1))),
        LayoutError,
        "repeats or overlaps elements; make it packed, then broadcast_to",
    ),
    "layout of other sizes": (
        lambda w: sg.empty((2, 3), "uint8", layout=Layout((3, 2))),
        LayoutError,
        "must have the sizes (2, 3)",
    ),
    "fill of negative": (lambda w: sg.full((2,), -1, "uint64"), LayoutError, "value=-1 does not fit uint64"),
    "exabytes": (lambda w: sg.empty((1 << 60,), "uint8", device="cpu"), DeviceError, str(1 << 60)),
    "more bytes than addresses": (lambda w: sg.empty((1 << 70,), "uint8", device="cpu"), DeviceError, str(1 << 70)),
    "exabytes as a result": (
        lambda w: w.plain[:1, :1].broadcast_to((1 << 30, 1 << 30)).copy(),
        DeviceError,
        f"no {1 << 60} bytes of memory",
    ),
    "no buffer protocol": (
        lambda w: StridedTensor([1, 2], Layout((2,)), "uint8"),
        BindingError,
        "buffer=[1, 2] is neither a Buffer nor an object with the buffer protocol",
    ),
    "buffer with gaps": (
        lambda w: StridedTensor(np.zeros(8, np.uint8)[::2], Layout((2,)), "uint8"),
        BindingError,
        "buffer must be contiguous bytes",
    ),
    "layout past the buffer": (
        lambda w: StridedTensor(bytearray(8), Layout((3,), (4,)), "uint8"),
        BindingError,
        "reaches from byte 0 to 9, outside its buffer of 8 bytes",
    ),
    "layout before the buffer": (
        lambda w: StridedTensor(bytearray(8), Layout((3,), (-1,)), "uint8"),
        BindingError,
        "reaches from byte -2 to 1, outside its buffer of 8 bytes",
    ),
    "negative bytes": (lambda w: Buffer(64, -1, owner=None), BindingError, "nbytes=-1 is negative"),
    "address off its alignment": (
        lambda w: Buffer(72, 8, owner=None, alignment=16),
        BindingError,
        "The address 0x48 is not a multiple of alignment=16",
    ),
    "mapped file that ends early": (
        lambda w: StridedTensor(mmap.mmap(-1, 4096), Layout((4097,)), "uint8"),
        BindingError,
        "outside its buffer of 4096 bytes",
    ),
}

FOREIGN = {
    "a copy that was ruled out": (
        lambda w: sg.asarray([1, 2], copy=False),
        LayoutError,
        "copy=False, but list has no memory that a tensor could share",
    ),
    "a conversion without a copy": (
        lambda w: sg.asarray(w.numbers, dtype="float32", copy=False),
        LayoutError,
        "copy=False, but uint8 on cpu as float32 on cpu needs a copy",
    ),
    "an object": (lambda w: sg.asarray(object()), ElementTypeError, "object is not array-like"),
    "None": (lambda w: sg.asarray(None), ElementTypeError, "NoneType is not array-like"),
    "ragged rows of objects": (lambda w: sg.asarray([None, 1]), ElementTypeError, "list is not array-like"),
    "text": (lambda w: sg.asarray("a.png"), ElementTypeError, "'a.png' is text, no numbers: read the file"),
    "a path": (lambda w: sg.resize(Path("a.png"), 32), ElementTypeError, "'a.png' is text, no numbers"),
    "an array of objects": (lambda w: sg.asarray(np.array([None, 1])), ElementTypeError, "'object'"),
    "a structured array": (lambda w: sg.asarray(np.zeros(2, "u1,f4")), ElementTypeError, "void"),
    "dates": (lambda w: sg.asarray(np.zeros(2, "M8[s]")), ElementTypeError, "datetime64"),
    "text in an array": (lambda w: sg.asarray(np.array(["a"])), ElementTypeError, "str"),
    "a byte-swapped type": (lambda w: sg.empty((2,), np.dtype(">f4")), ElementTypeError, "byte-swapped"),
    "a byte-swapped array without a copy": (
        lambda w: sg.asarray(np.zeros(2, ">f4"), copy=False),
        ElementTypeError,
        "byte-swapped",
    ),
    "a field of a structure without a copy": (
        lambda w: sg.asarray(np.zeros(2, "u1,f4")["f1"], copy=False),
        LayoutError,
        "strides of (5,) bytes are not whole elements of 4 bytes",
    ),
    "too many dims": (lambda w: sg.asarray(w.numbers[0, 0], dims="NHWC"), LayoutError, "labels 4 axes of a tensor of"),
    "dims with a letter twice": (lambda w: sg.asarray(w.numbers, dims="NHHC"), LayoutError, "'H' twice"),
    "DLPack without a device": (
        lambda w: sg.asarray(type("Half", (), {"__dlpack__": len})()),
        LayoutError,
        "Half has __dlpack__ and no __dlpack_device__",
    ),
    "a class of tensors": (
        lambda w: sg.relayout(sg.StridedTensor),
        ElementTypeError,
        "type is not array-like: NumPy can only hold it as objects",
    ),
    "a path of no text": (
        lambda w: sg.asarray(type("Path", (), {"__fspath__": lambda self: 3})()),
        ElementTypeError,
        "Path is not array-like",
    ),
    "more entries than there is memory": (
        lambda w: sg.asarray(
            type("Long", (), {"__len__": lambda self: 2**62, "__getitem__": lambda self, place: [1][place]})()
        ),
        DeviceError,
        "no memory left for an array of this Long",
    ),
    "no DLPack": (lambda w: sg.from_dlpack([1, 2]), LayoutError, "list has no __dlpack__"),
}

DEVICES = {
    "in capitals": (lambda w: sg.empty((2,), "uint8", device="CPU"), DeviceError, "device='CPU' is unknown"),
    "numbered cpu": (lambda w: sg.empty((2,), "uint8", device="cpu:0"), DeviceError, "device='cpu:0' is unknown"),
    "no number": (lambda w: sg.empty((2,), "uint8", device="cuda:"), DeviceError, "device='cuda:' is unknown"),
    "negative number": (lambda w: w.out.to_device("cuda:-1"), DeviceError, "device='cuda:-1' is unknown"),
    "a number": (lambda w: w.out.relayout(device=0), DeviceError, "device=0 is unknown"),
}

TABLES = {
    "out": OUT,
    "layout": LAYOUTS,
    "conversion": CONVERSIONS,
    "assignment": ASSIGNMENTS,
    "view": VIEWS,
    "creation": CREATION,
    "foreign": FOREIGN,
    "device": DEVICES,
}
CASES = {f"{table}: {name}": case for table, cases in TABLES.items() for name, case in cases.items()}


@pytest.mark.parametrize("call, error, fragment", CASES.values(), ids=CASES.keys())
def test_refusal(world, call, error, fragment):
    refused(world, call, error, fragment)


@pytest.mark.parametrize("taken", [sg.asarray, lambda frame: sg.view(frame, "a b -> b a")], ids=["asarray", "view"])
def test_a_frame_of_pyav_is_no_array(monkeypatch, taken):
    library = SimpleNamespace(VideoFrame=type("VideoFrame", (), {}))
    monkeypatch.setitem(sys.modules, "av", library)
    with pytest.raises(ElementTypeError, match=r"A VideoFrame is planes, .*sg\.Frame\.of\(frame\).*sg\.relayout"):
        taken(library.VideoFrame())


def test_disjoint_views_of_one_memory_are_not_refused(world):
    """What is told apart exactly: rows beside each other, and channels between each other."""
    plain = world.plain.numpy().copy()
    sg.relayout(world.plain[:, :10], out=world.plain[:, 10:])
    assert np.array_equal(world.plain.numpy()[:, 10:], plain[:, :10])
    world.plain[:, 1::2] = world.plain[:, ::2]
    assert np.array_equal(world.plain.numpy()[:, 1::2], world.plain.numpy()[:, ::2])
    world.out[:, 0] = world.out[:, 2]
    assert np.array_equal(world.out.numpy()[:, 0], world.out.numpy()[:, 2])


def test_the_rules_of_the_error_classes():
    for error, builtin in (
        (LayoutError, ValueError),
        (BindingError, ValueError),
        (ElementTypeError, TypeError),
        (DeviceError, RuntimeError),
    ):
        assert issubclass(error, StridedGpuError)
        assert issubclass(error, builtin)


def test_a_failed_allocation_leaves_everything_usable(world):
    with pytest.raises(DeviceError):
        sg.relayout(world.plain[:1, :1].broadcast_to((1 << 31, 1 << 31)))
    assert sg.relayout(world.plain, dtype="float32").sizes == (6, 20)


PICTURE = np.zeros((4, 5, 3), np.uint8)


@pytest.mark.parametrize(
    "bad, error",
    [
        (None, ElementTypeError),
        ("photo.png", ElementTypeError),
        (np.array([None]), ElementTypeError),
        (np.zeros((4, 5, 3), "M8[s]"), ElementTypeError),
        (PICTURE[0], LayoutError),
        (PICTURE[None], LayoutError),
        (PICTURE[..., :1], LayoutError),
        (PICTURE[:0], LayoutError),
    ],
    ids=["nothing", "a path", "objects", "dates", "two axes", "four axes", "one channel", "no pixels"],
)
@pytest.mark.parametrize(
    "argument, call",
    [
        ("images", lambda images: sg.letterbox(images, 8, dims="HWC")),
        ("sources", lambda images: sg.gather_crops(images, boxes=[(0, 0, 2, 2)] * 3, size=2, dims="HWC")),
        ("images", sg.image_processor({"image_processor_type": "ViTImageProcessor", "size": 2})),
    ],
    ids=["letterbox", "gather_crops", "image_processor"],
)
def test_a_refused_list_names_its_image(argument, call, bad, error):
    if isinstance(call, sg.ImageProcessor) and getattr(bad, "size", 0) in (12, 15, 20):
        pytest.skip("an image of one channel, and two axes, are images here")
    named = f"{argument}[2]" if getattr(bad, "size", 1) or argument == "images" else "the image of boxes[2]"
    with pytest.raises((error, LayoutError)) as refused:
        call([PICTURE, PICTURE, bad])
    assert named in str(refused.value)


def test_an_error_of_an_image_of_a_list_has_a_note_that_names_it():
    class Unreadable:
        def __array__(self, *_, **__):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as failed:
        sg.letterbox([PICTURE, Unreadable()], 8, dims="HWC")
    assert failed.value.__notes__ == ["This was raised while images[1] was read."]
