"""What takes the place of a good argument in a malformed call: nonsense, or the good one with something wrong.

Each has a title, which is the same in every run. What could be true and is not, such as an array interface with more
rows than there is memory, is left out: nobody can refuse it. So is what never ends, such as an endless iterator.
"""

from __future__ import annotations

import array
import decimal
import fractions
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from harness.lying_producers import Liar, array_interface

import stridedgpu as sg

if TYPE_CHECKING:
    from harness.malformed_calls import Scene

__all__ = ["NONSENSE", "SABOTAGE", "Spoiled", "spoiled"]


class SabotageError(Exception):
    """The error of an object that is looked at."""


class SabotagedValueError(ValueError):
    """The same, where a library may take it for one of its own."""


class SabotagedAttributeError(AttributeError):
    """The same, where `hasattr` takes it for "no"."""


SABOTAGE: Final = (SabotageError, SabotagedValueError, SabotagedAttributeError)


@dataclass(frozen=True)
class Spoiled:
    """An argument that was spoiled, what it became, and the value."""

    name: str
    title: str
    value: Any


class Text(str):
    """A text of a class of its own."""

    __slots__ = ()


class Whole(int):
    """An integer of a class of its own."""

    __slots__ = ()


_DUNDERS: Final = (
    "__array__",
    "__array_interface__",
    "__bool__",
    "__cuda_array_interface__",
    "__dlpack__",
    "__dlpack_device__",
    "__eq__",
    "__float__",
    "__getattr__",
    "__getitem__",
    "__hash__",
    "__index__",
    "__int__",
    "__iter__",
    "__len__",
    "__repr__",
    "__str__",
)
_BASES: Final[tuple[type, ...]] = (object, int, str, tuple, list, float, np.ndarray, dict)


def _sabotaged(scene: Scene) -> tuple[str, Any]:
    """An object one of whose methods raises."""
    dunder, error, base = scene.pick(*_DUNDERS), scene.pick(*SABOTAGE), scene.pick(object, object, *_BASES)

    def fails(*_: object, **__: object) -> Any:
        raise error(f"{dunder} fails")

    if dunder == "__getattr__":
        members: dict[str, Any] = {dunder: lambda self, name: fails()}
    elif dunder.endswith("interface__"):
        members = {dunder: property(fails)}
    else:
        members = {dunder: fails}
    if dunder == "__eq__":
        members["__hash__"] = base.__hash__
    if dunder == "__dlpack__" and scene.often():
        members["__dlpack_device__"] = lambda self: (1, 0)
    content: dict[type, tuple[Any, ...]] = {
        int: (2,), str: ("NCHW",), tuple: ((1, 2),), list: ([1, 2],), float: (2.0,), np.ndarray: ((2, 3),), dict: (),
    }  # fmt: skip
    value = type("Sabotaged", (base,), members)(*content.get(base, ()))
    if base is np.ndarray:
        value[...] = 1
    return f"{base.__name__} with {dunder} that raises {error.__name__}", value


def _answering(scene: Scene) -> tuple[str, Any]:
    """An object whose methods return what they may not."""
    dunder, answer = scene.pick(
        ("__len__", -1),
        ("__len__", 1 << 62),
        ("__index__", "1"),
        ("__index__", -(1 << 70)),
        ("__float__", "1"),
        ("__float__", float("nan")),
        ("__array__", None),
        ("__array__", "text"),
        ("__array__", np.array([None])),
        ("__iter__", 3),
        ("__dlpack__", None),
        ("__dlpack__", b"dltensor"),
        ("__bool__", 2),
        ("__fspath__", 3),
        ("__complex__", None),
        ("shape", (2, -3)),
        ("value", "x"),
        ("ctypes", None),
    )
    members: dict[str, Any] = {dunder: (lambda self, *_, **__: answer) if dunder.startswith("__") else answer}
    if dunder == "__dlpack__":
        members["__dlpack_device__"] = lambda self: (1, 0)
    if dunder == "__len__":
        members["__getitem__"] = lambda self, place: [1, 2][place]
    return f"object with {dunder} of {answer!r}", type("Answering", (), members)()


def _recursive() -> list[Any]:
    value: list[Any] = [1]
    value.append(value)
    return value


def _deep(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _released() -> sg.StridedTensor:
    tensor = sg.zeros((2, 3), "float32", device="cpu")
    tensor.release()
    return tensor


def _closed_view() -> memoryview:
    view = memoryview(bytearray(24))
    view.release()
    return view


NONSENSE: Final[dict[str, Callable[[], Any]]] = {
    **{repr(value): (lambda value=value: value) for value in (
        None, True, False, -1, 0, 1, 3, 2**31, 2**32, 2**62, -(2**63), 2**63, 2**64, 2**70, 10**30, 2.5, -0.0, 1e300,
        float("nan"), float("inf"), float("-inf"), 1 + 2j, "", "nonsense", "NCHW", "NNHW", "é", "\0", "a" * 300, b"1",
        b"", (), (0,), (-1, 2), (0, 0), (5, 5, 5), (0.5, 0.5), (2**31, 2**31), (2**62, 2**62), (2**70,), (1,) * 40,
        (float("nan"), 1.0), (None, 2), ("a", "b"), [], [1], [1, [2]], [[]], [[1, 2], [3]], [None], ["a"], {"a": 1},
        {}, frozenset({1, 2}), slice(None), slice(0, -1, 0), Ellipsis,
    )},
    "an object": object,
    "a function": lambda: len,
    "a type": lambda: np.float32,
    "a class": lambda: Text,
    "a module": lambda: np,
    "an error": lambda: ValueError("x"),
    "a range": lambda: range(2),
    "an iterator": lambda: iter([1, 2]),
    "a generator": lambda: (number for number in (1, 2)),
    "a str of a subclass": lambda: Text("NCHW"),
    "an int of a subclass": lambda: Whole(2),
    "a Fraction": lambda: fractions.Fraction(1, 3),
    "a Decimal": lambda: decimal.Decimal("NaN"),
    "an int64": lambda: np.int64(2),
    "a uint64": lambda: np.uint64(2**64 - 1),
    "a float32 NaN": lambda: np.float32("nan"),
    "a bool of NumPy": lambda: np.bool_(True),
    "a str of NumPy": lambda: np.str_("NCHW"),
    "a datetime64": lambda: np.datetime64("2020-01-01"),
    "a list in itself": _recursive,
    "a list 40 deep": lambda: _deep(40),
    "a list 500 deep": lambda: _deep(500),
    "an array of two": lambda: np.arange(2),
    "an array of text": lambda: np.array(["a"]),
    "an array of objects": lambda: np.array([None, 1], object),
    "an array of complex": lambda: np.array([1j, 2]),
    "an array of NaN": lambda: np.full((2, 2), np.nan),
    "an array of bool": lambda: np.ones(2, bool),
    "an array of dates": lambda: np.array(["2020-01-01"], "datetime64[D]"),
    "an array of records": lambda: np.zeros(2, [("a", "i4"), ("b", "f4")]),
    "an array of long doubles": lambda: np.ones(2, np.longdouble),
    "an empty array": lambda: np.zeros((0, 3)),
    "an array of rank 0": lambda: np.array(3),
    "an array of rank 40": lambda: np.zeros((1,) * 40, np.uint8),
    "an array of another byte order": lambda: np.arange(4, dtype=">i4"),
    "a masked array": lambda: np.ma.masked_array([1, 2], [True, False]),
    "an array repeated without end": lambda: np.broadcast_to(np.uint8(1), (2**31, 2**31)),
    "an array.array": lambda: array.array("u", "ab"),
    "a bytearray": lambda: bytearray(7),
    "a view that was released": _closed_view,
    "a frame": lambda: sg.Frame.over("nv12", bytearray(36), (4, 6)),
    "a list of a frame": lambda: [sg.Frame.over("nv12", bytearray(36), (4, 6))],
    "a tensor": lambda: sg.zeros((2, 2), "float32", device="cpu"),
    "a tensor that was released": _released,
    "a tensor on the emulated device": lambda: sg.zeros((2, 3, 4, 5), "float32", device="cuda-emulated"),
    "an empty tensor": lambda: sg.zeros((2, 0), "float32", device="cpu"),
    "a layout": lambda: sg.Layout((2, 2)),
    "a descriptor": lambda: sg.BufferTensorDesc("float32", (2, 3, 4, 5)),
    "UINT4": lambda: sg.DataType.UINT4,
    "UNKNOWN": lambda: sg.DataType.UNKNOWN,
    "'cuda'": lambda: "cuda",
    "'cuda:99'": lambda: "cuda:99",
    "'cuda-emulated'": lambda: "cuda-emulated",
    "'cpu:1'": lambda: "cpu:1",
    "'auto'": lambda: "auto",
}  # fmt: skip

_LIES: Final[tuple[dict[str, Any], ...]] = (
    {"strides": (2**62, 2**62)},
    {"strides": (-(2**62), 4)},
    {"strides": (2**63, 4)},
    {"strides": (2**70, 4)},
    {"strides": (4,)},
    {"strides": "no"},
    {"strides": (None, 4)},
    {"strides": (12.0, 4.0)},
    {"shape": (-1, 3)},
    {"shape": (2**62, 2**62)},
    {"shape": (2**63, 1)},
    {"shape": (2**70, 1)},
    {"shape": None},
    {"shape": 3},
    {"shape": (2.0, 3.0)},
    {"shape": ("a", 3)},
    {"data": (0, False)},
    {"data": (-8, False)},
    {"data": (2**64 - 4, False)},
    {"data": (2**64, False)},
    {"data": (2**70, False)},
    {"data": ("x", False)},
    {"data": 3},
    {"data": ()},
    {"data": (2**63,)},
    {"typestr": "nonsense"},
    {"typestr": ""},
    {"typestr": "<f3"},
    {"typestr": "|O8"},
    {"typestr": "|V0"},
    {"typestr": 4},
    {"typestr": None},
    {"version": -1},
    {"version": "3"},
    {"version": None},
    {"mask": 3},
    {"offset": 2**62},
    {"descr": 3},
    {"stream": 0},
    {"stream": "x"},
    {"device": "x"},
)
_DLPACK_LIES: Final[tuple[tuple[dict[str, Any], Any], ...]] = (
    *(({"ndim": ndim}, (1, 0)) for ndim in (-1, -(2**31), 65, 2**31 - 1)),
    *(({"shape": [size, 3]}, (1, 0)) for size in (-1, -(2**63), 2**62, 2**63 - 1)),
    *(({"strides": [stride, 1]}, (1, 0)) for stride in (2**62, -(2**62), 2**63 - 1, -(2**63))),
    ({"shape": None}, (1, 0)),
    *(({"data": word}, (1, 0)) for word in (0, 2**64 - 8)),
    *(({"byte_offset": word}, (1, 0)) for word in (2**63, 2**64 - 8)),
    *(({"code": code}, (1, 0)) for code in (3, 5, 9, 255)),
    *(({"bits": bits}, (1, 0)) for bits in (0, 1, 4, 7, 12, 255)),
    *(({"lanes": lanes}, (1, 0)) for lanes in (0, 65535)),
    *(({"device": [kind, number]}, (1, 0)) for kind, number in ((2, 0), (1, 3), (-1, -1), (99, 0))),
    *(({}, device) for device in ((2, 0), (2, -1), (99, 1), (1,), (1, 0, 0), None, "cpu", (1.5, 0), 3)),
)  # fmt: skip


def _lying(scene: Scene, good: Any) -> tuple[str, Any]:
    """An object whose description of its memory is impossible."""
    shape, dtype = (good.shape, good.dtype) if isinstance(good, np.ndarray) and good.ndim else ((2, 3), np.float32)
    array_there = scene.array(shape, np.dtype(dtype).str)
    if scene.often(0.4):
        lies, device = scene.pick(*_DLPACK_LIES)
        return f"DLPack with {lies} on {device}", Liar(array_there, lies, device)
    kind, lies = (
        scene.pick("__array_interface__", "__array_interface__", "__cuda_array_interface__"),
        scene.pick(*_LIES),
    )
    told = {**array_there.__array_interface__, **lies}
    if scene.often(0.1):
        del told[scene.pick("shape", "typestr", "data")]
        return f"{kind} without a part and {lies}", array_interface(kind, told, array_there)
    return f"{kind} with {lies}", array_interface(kind, told, array_there)


def spoiled(scene: Scene, name: str, good: Any) -> Spoiled:
    """The argument, spoiled in one of the ways there are for it."""
    kind = scene.rng.random()
    if name == "out" or (name == "dst" and kind < 0.3):
        near = _of_out(scene, good)
    elif isinstance(good, (np.ndarray, sg.StridedTensor)):
        near = _of_array(scene, good)
    else:
        near = _of_value(scene, good)
    if kind < 0.5 and near is not None:
        title, value = near
    elif kind < 0.58:
        title, value = _sabotaged(scene)
    elif kind < 0.64:
        title, value = _answering(scene)
    elif kind < 0.74:
        title, value = _lying(scene, good)
    else:
        title = scene.pick(*NONSENSE)
        value = NONSENSE[title]()
    return Spoiled(name, title, value)


def _of_value(scene: Scene, good: Any) -> tuple[str, Any] | None:
    """A number, a text or a sequence with something wrong."""
    if isinstance(good, bool) or good is None:
        return None
    if isinstance(good, (int, float)):
        return scene.pick(
            ("one less", good - 1),
            ("one more", good + 1),
            ("negative", -good),
            ("a thousand times", good * 1000),
            ("2**40 times", good * 2**40),
            ("a fraction", good + 0.5),
            ("a text", str(good)),
            ("a list", [good]),
            ("an array", np.array(good)),
            ("an array of one", np.array([good])),
            ("an integer of NumPy", np.int64(good)),
            ("an integer of 8 bits", np.uint8(int(good) % 256)),
        )
    if isinstance(good, str):
        return scene.pick(
            ("without its first letter", good[1:]),
            ("with its last letter twice", good + good[-1:]),
            ("backwards", good[::-1]),
            ("in the other case", good.swapcase()),
            ("with a blank", f" {good}"),
            ("of a subclass", Text(good)),
            ("of NumPy", np.str_(good)),
            ("as bytes", good.encode()),
            ("as a list", list(good)),
        )
    if isinstance(good, (tuple, list)) and good:
        return _of_sequence(scene, good)
    return None


def _of_sequence(scene: Scene, good: Any) -> tuple[str, Any]:
    entries = list(good)
    place = int(scene.rng.integers(len(entries)))
    if scene.often():
        title, entry = scene.pick(*((title, make()) for title, make in _ENTRIES))
        if scene.often(0.3) and (changed := _of_entry(scene, entries[place])) is not None:
            title, entry = changed
        return f"with {title} at {place}", type(good)([*entries[:place], entry, *entries[place + 1 :]])
    return scene.pick(
        ("without its last", entries[:-1]),
        ("with its last twice", [*entries, entries[-1]]),
        ("backwards", entries[::-1]),
        ("twice", entries * 2),
        ("nested", [entries]),
        ("as an iterator", iter(entries)),
        ("as a set", tuple(dict.fromkeys(map(str, entries)))),
        ("as a dict", dict.fromkeys(range(len(entries)))),
        ("as an array of objects", _objects(entries)),
        ("as an array of float", _floats(entries)),
        ("as a text", ",".join(str(type(entry).__name__) for entry in entries)),
    )


def _of_entry(scene: Scene, entry: Any) -> tuple[str, Any] | None:
    if isinstance(entry, (np.ndarray, sg.StridedTensor)):
        return _of_array(scene, entry)
    return _of_value(scene, entry)


def _objects(entries: list[Any]) -> Any:
    value = np.empty(len(entries), object)
    for place, entry in enumerate(entries):
        value[place] = entry
    return value


def _floats(entries: list[Any]) -> Any:
    try:
        return np.array(entries, float)
    except (TypeError, ValueError):
        return np.zeros(len(entries))


_ENTRIES: Final[tuple[tuple[str, Callable[[], Any]], ...]] = tuple(
    (title, NONSENSE[title])
    for title in (
        "None", "True", "-1", "0", "2147483648", repr(2**62), repr(2**64), repr(2**70), "2.5", "nan", "inf", "(1+2j)",
        "'nonsense'", "()", "an object", "an int64", "a float32 NaN", "an array of two", "an empty array",
        "an array of rank 0", "a tensor that was released", "a frame", "a tensor on the emulated device", "1e+300",
    )
)  # fmt: skip


def _of_array(scene: Scene, good: Any) -> tuple[str, Any]:
    """An array or tensor with something wrong."""
    if isinstance(good, sg.StridedTensor):
        return scene.pick(
            ("its first", good[:1]),
            ("without its last axis", good[..., 0] if good.ndim else good),
            ("with another axis", good.unsqueeze(0)),
            ("empty", good[:0] if good.ndim else good),
            ("repeated", good[:1].broadcast_to((7, *good.sizes[1:])) if good.ndim else good),
            ("backwards", good[..., ::-1] if good.ndim else good),
            ("as bytes", good.numpy().tobytes()),
            ("of other elements", good.reinterpret("int8") if good.ndim and good.strides[-1] == 1 else good),
            ("in a list", [good]),
            ("its descriptor", good.layout),
            ("on the emulated device", good.to_device("cuda-emulated")),
        )
    changes: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("of float64", lambda: good.astype(np.float64)),
        ("of complex", lambda: good.astype(np.complex64)),
        ("of bool", lambda: good.astype(bool)),
        ("of int8", lambda: (good % 100).astype(np.int8)),
        ("of text", lambda: good.astype(str)),
        ("of objects", lambda: good.astype(object)),
        ("of another byte order", lambda: good.astype(good.dtype.newbyteorder(">"))),
        ("negative", lambda: -good.astype(np.int64)),
        ("huge", lambda: good.astype(np.int64) + 2**62),
        ("of NaN", lambda: np.full(good.shape, np.nan)),
        ("of uint64 beyond int64", lambda: np.full(good.shape, 2**64 - 1, np.uint64)),
        ("transposed", lambda: good.T),
        ("with another axis", lambda: good[None]),
        ("without its last axis", lambda: good[..., 0]),
        ("its first", lambda: good[:1]),
        ("empty", lambda: good[:0]),
        ("empty inside", lambda: good[..., :0]),
        ("backwards", lambda: good[::-1, ...]),
        ("repeated", lambda: np.broadcast_to(good, (3, *good.shape))),
        ("repeated without end", lambda: np.broadcast_to(good.dtype.type(1), (2**40, *good.shape[1:]))),
        ("read-only", lambda: _readonly(good)),
        ("over itself", lambda: np.lib.stride_tricks.as_strided(good, strides=(0,) * good.ndim)),
        ("as a list", good.tolist),
        ("as bytes", good.tobytes),
        ("in a list", lambda: [good]),
        ("as a tensor elsewhere", lambda: sg.asarray(good).to_device("cuda-emulated")),
        ("as a matrix of a subclass", lambda: np.ma.masked_array(good)),
        ("misaligned", lambda: _misaligned(good)),
    )
    title, change = scene.pick(*changes)
    return title, change()


def _readonly(good: Any) -> Any:
    view = good.view()
    view.flags.writeable = False
    return view


def _misaligned(good: Any) -> Any:
    value = np.empty(good.nbytes + 1, np.uint8)[1:].view(good.dtype).reshape(good.shape)
    value[...] = good
    return value


def _of_out(scene: Scene, good: Any) -> tuple[str, Any]:
    """What cannot be written, or is not what the operation makes; nothing of it may change."""
    if isinstance(good, sg.Frame):
        return scene.pick(
            ("an array", np.zeros((3, *good.sizes), np.uint8)),
            ("a frame of bytes", sg.Frame.over("nv12", bytes(36), (4, 6))),
            ("a frame over itself", sg.Frame.over("nv12", bytearray(36), (4, 6), plane_offsets_bytes=(0, 0))),
            ("a larger frame", sg.Frame.over("nv12", bytearray(96), (8, 8))),
            ("a grey frame", sg.Frame.over("gray", bytearray(24), (4, 6))),
            ("a frame of 10 bits", sg.Frame.over("p010", np.zeros(36, np.uint16), (4, 6))),
            ("its first plane", good.planes[0]),
        )
    if not isinstance(good, sg.StridedTensor):
        return ("bytes", b"no")
    sizes, strides = good.sizes, good.strides
    array_there = good.numpy()
    title, make = scene.pick(
        ("read-only", lambda: sg.asarray(_readonly(array_there), dims=good.dims)),
        ("over itself", lambda: good.as_strided(sizes, (0, *strides[1:]))),
        ("rows that meet", lambda: good.as_strided(sizes, tuple(max(stride // 3, 1) for stride in strides))),
        ("one row less", lambda: good[:-1]),
        ("empty", lambda: good[:0]),
        ("with another axis", lambda: good.unsqueeze(0)),
        ("without its first axis", lambda: good[0]),
        ("of other axes", lambda: good.permute(tuple(range(good.ndim))[::-1])),
        ("of int32", lambda: np.zeros(sizes, np.int32)),
        ("of complex", lambda: np.zeros(sizes, np.complex64)),
        ("of bool", lambda: np.zeros(sizes, bool)),
        ("of objects", lambda: np.zeros(sizes, object)),
        ("of text", lambda: np.zeros(sizes, "U3")),
        ("of another byte order", lambda: np.zeros(sizes, array_there.dtype.newbyteorder(">"))),
        ("a list", array_there.tolist),
        ("bytes", lambda: bytes(good.nbytes)),
        ("a copy", array_there.copy),
        ("a masked array", lambda: np.ma.masked_array(array_there.copy())),
        ("elsewhere", lambda: good.to_device("cuda-emulated")),
        ("released", _released),
        ("a layout", lambda: good.layout),
        ("its class", lambda: sg.StridedTensor),
        ("the class of frames", lambda: sg.Frame),
        ("misaligned", lambda: _misaligned(array_there)),
    )
    return title, make()
