"""Nonsense for one argument at a time: it is taken for something, or refused in the library's own words."""

import linecache
import traceback
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import stridedgpu as sg

NONSENSE = {
    "None": None,
    "True": True,
    "-1": -1,
    "0": 0,
    "2**70": 1 << 70,
    "a fraction": 2.5,
    "NaN": float("nan"),
    "a complex number": 1 + 2j,
    "no text": "",
    "text": "nonsense",
    "bytes": b"1",
    "()": (),
    "(-1, 2)": (-1, 2),
    "(5, 5, 5)": (5, 5, 5),
    "(0.5, 0.5)": (0.5, 0.5),
    "a ragged list": [1, [2]],
    "a dict": {"a": 1},
    "an object": object(),
    "a slice": slice(None),
    "a function": len,
    "a type": np.float32,
    "an array": np.arange(2),
    "an array of text": np.array(["a"]),
    "an array of objects": np.array([None, 1], object),
    "an empty array": np.zeros((0, 3)),
    "an array of rank 0": np.array(3),
    "a list of an integer": [1],
    "a list of frames": [sg.Frame.over("nv12", bytearray(36), (4, 6))],
    "a frame": sg.Frame.over("nv12", bytearray(36), (4, 6)),
    "a tensor": sg.zeros((2, 2), "float32", device="cpu"),
    "a layout": sg.Layout((2, 2)),
    "DataType.UINT4": sg.DataType.UINT4,
    "DataType.UNKNOWN": sg.DataType.UNKNOWN,
}

FRAMES = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
FEATURES = sg.asarray(np.arange(2.0 * 3 * 4).reshape(2, 3, 4))
ROWS = np.array([1, 0])
TUPLES = np.array([[1, 0], [0, 2]])
LAYOUT = sg.Layout((2, 3, 4), (24, 8, 1))
DESC = sg.BufferTensorDesc("uint8", (2, 3, 4, 5))


def picture():
    return sg.asarray(FRAMES, dims="NHWC")


def batch():
    return sg.full((2, 3, 4, 5), 7, "float32", dims="NCHW", device="cpu")


def one(function, *names):
    """A function with the names of its arguments by position."""

    def call(**arguments):
        positional = [arguments.pop(name) for name in names]
        return function(*positional, **arguments)

    return call


class Session:
    """What binds, and states its inputs and outputs, as ONNX Runtime's sessions and bindings do."""

    def get_inputs(self):
        return [SimpleNamespace(name="x", type="tensor(double)", shape=[2, "many", None])]

    get_outputs = get_inputs

    def bind_input(self, *arguments):
        assert arguments[0] == "x"

    bind_output = bind_input


SMALL = sg.empty((2, 3, 2, 2), "uint8", dims="NCHW", device="cpu")
GREY = [[0.299, 0.587, 0.114]]
FRAME = sg.Frame.over("nv12", bytes(36), (4, 6))
SIZES = {
    "sizes": (2, 3, 4, 5),
    "dtype": "uint8",
    "layout": "NHWC",
    "dims": "NCHW",
    "row_pitch_bytes": 64,
    "alignment": 64,
    "device": "cpu",
}
CROP = {
    "sources": [FRAMES[0], FRAMES[1, :3]],
    "origins": [(0, 0), (-1, 1)],
    "size": (2, 2),
    "dims": "HWC",
    "flip": (True, False),
    "layout": "NCHW",
    "dtype": "float32",
    "scale": 2.0,
    "bias": (1, 2, 3),
    "channels": (2, 1, 0),
    "fill": 0,
    "rounding": "nearest",
    "row_pitch_bytes": 64,
    "alignment": 32,
    "stream": None,
}
ARITHMETIC = {"scale": 2.0, "bias": (1, 2, 3), "channels": (2, 1, 0), "rounding": "nearest"}
CALLS = {
    "calc_buffer_tensor_size": (sg.calc_buffer_tensor_size, {"data_type": "uint8", "sizes": (1, 2), "strides": (2, 1)}),
    "calculate_strides": (sg.calculate_strides, {"layout": "NHWC", "sizes": (1, 3, 4, 5), "broadcast": (True,) * 4}),
    "packed_strides": (sg.packed_strides, {"sizes": (2, 3), "order": (1, 0)}),
    "BufferTensorDesc": (
        sg.BufferTensorDesc,
        {
            "data_type": "uint8",
            "sizes": (1, 2),
            "strides": (2, 1),
            "total_tensor_size_in_bytes": 4,
            "guaranteed_base_offset_alignment": 16,
            "flags": 0,
        },
    ),
    "check_binding": (DESC.check_binding, {"offset": 0, "size_in_bytes": 120}),
    "DataType.of": (one(sg.DataType.of, "value"), {"value": "uint8"}),
    "Layout": (sg.Layout, {"sizes": (2, 3), "strides": (3, 1), "offset": 1}),
    "Layout.padded": (sg.Layout.padded, {"sizes": (1, 3, 4, 5), "order": "NHWC", "itemsize": 1, "row_pitch_bytes": 16}),
    "offset_of": (LAYOUT.offset_of, {"coordinates": (0, 1, 2)}),
    "permuted": (LAYOUT.permuted, {"axes": (2, 0, 1)}),
    "sliced": (LAYOUT.sliced, {"index": 0}),
    "Layout.broadcast_to": (LAYOUT.broadcast_to, {"sizes": (5, 2, 3, 4)}),
    "squeezed": (LAYOUT.unsqueezed(0).squeezed, {"axis": 0}),
    "unsqueezed": (LAYOUT.unsqueezed, {"axis": 0}),
    "aligned_to_rank": (LAYOUT.aligned_to_rank, {"rank": 4}),
    "split_axis": (LAYOUT.split_axis, {"axis": 2, "sizes": (2, 2)}),
    "merged_axes": (LAYOUT.merged_axes, {"first": 0, "last": 0}),
    "reshaped": (LAYOUT.reshaped, {"sizes": (6, 4)}),
    "shifted": (LAYOUT.shifted, {"distance": 3}),
    "axis_of": (LAYOUT.axis_of, {"axis": -1}),
    "empty": (sg.empty, SIZES),
    "zeros": (sg.zeros, SIZES),
    "full": (sg.full, {**SIZES, "value": 7}),
    "asarray": (
        one(sg.asarray, "obj"),
        {"obj": FRAMES, "dims": "NHWC", "dtype": "uint8", "device": "cpu", "copy": None},
    ),
    "from_dlpack": (one(sg.from_dlpack, "obj"), {"obj": FRAMES, "dims": "NHWC"}),
    "StridedTensor": (
        one(sg.StridedTensor, "buffer", "layout", "dtype"),
        {"buffer": FEATURES.buffer, "layout": LAYOUT, "dtype": "uint8", "dims": "CHW"},
    ),
    "permute": (one(lambda axes: picture().permute(axes), "axes"), {"axes": "NHWC"}),
    "broadcast_to": (one(FEATURES.broadcast_to, "sizes"), {"sizes": (5, 2, 3, 4)}),
    "squeeze": (one(FEATURES[:1].squeeze, "axis"), {"axis": 0}),
    "unsqueeze": (one(FEATURES.unsqueeze, "axis"), {"axis": 0}),
    "ensure_rank": (one(FEATURES.ensure_rank, "rank"), {"rank": 4}),
    "reinterpret": (FEATURES.reinterpret, {"dtype": "uint8", "sizes": (4, 4), "strides": (4, 1)}),
    "as_strided": (FEATURES.as_strided, {"sizes": (2, 2), "strides": (3, 1), "offset": 1}),
    "getitem": (one(lambda index: FEATURES[index], "index"), {"index": 0}),
    "setitem": (
        one(lambda index, value: batch().__setitem__(index, value), "index", "value"),
        {"index": 0, "value": 3},
    ),
    "to_device": (one(FEATURES.to_device, "device"), {"device": "cpu"}),
    "relayout": (
        one(sg.relayout, "src"),
        {
            "src": picture(),
            "layout": "NCHW",
            "dtype": "float32",
            **ARITHMETIC,
            "row_pitch_bytes": 64,
            "alignment": 32,
            "device": "cpu",
            "stream": None,
        },
    ),
    "relayout out": (one(sg.relayout, "src"), {"src": picture(), "out": batch(), **ARITHMETIC, "stream": None}),
    "plan_relayout": (
        one(sg.plan_relayout, "src", "dst"),
        {"src": picture(), "dst": batch(), "scale": 2.0, "bias": 1.0, "channels": None, "device": "cuda"},
    ),
    "plan call": (
        one(sg.plan_relayout(picture(), batch()), "src", "out", "stream"),
        {"src": picture(), "out": batch(), "stream": None},
    ),
    "gather": (
        one(sg.gather, "data", "indices"),
        {"data": FEATURES, "indices": ROWS, "axis": 0, "mode": "raise", "stream": None},
    ),
    "gather out": (one(sg.gather, "data", "indices"), {"data": FEATURES, "indices": ROWS, "out": FEATURES.copy()}),
    "gather_elements": (
        one(sg.gather_elements, "data", "indices"),
        {"data": FEATURES, "indices": np.zeros((1, 3, 4), int), "axis": 0, "mode": "clip", "stream": None},
    ),
    "gather_nd": (
        one(sg.gather_nd, "data", "indices"),
        {"data": FEATURES, "indices": TUPLES, "batch_dims": 0, "mode": "wrap", "stream": None},
    ),
    "scatter_elements": (
        one(sg.scatter_elements, "data", "indices", "updates"),
        {
            "data": FEATURES,
            "indices": np.zeros((1, 3, 4), int),
            "updates": np.zeros((1, 3, 4)),
            "axis": 0,
            "unique": False,
            "out": FEATURES.copy(),
            "stream": None,
        },
    ),
    "scatter_nd": (
        one(sg.scatter_nd, "data", "indices", "updates"),
        {"data": FEATURES, "indices": TUPLES, "updates": np.zeros((2, 4)), "unique": True, "stream": None},
    ),
    "plan_gather": (
        one(sg.plan_gather, "data", "indices"),
        {"data": FEATURES, "indices": sg.asarray(ROWS), "axis": 0, "mode": "clip", "device": "cuda"},
    ),
    "plan_scatter_nd": (
        one(sg.plan_scatter_nd, "data", "indices", "updates"),
        {
            "data": FEATURES,
            "indices": sg.asarray(TUPLES),
            "updates": sg.zeros((2, 4), "float64", device="cpu"),
            "unique": True,
        },
    ),
    "plan_gather_crops": (
        one(sg.plan_gather_crops, "sources", "size"),
        {"sources": picture(), "size": (2, 2), "dims": "NCHW", "layout": "NHWC", "matrix": GREY},
    ),
    "plan_resize call": (
        one(sg.plan_resize(picture(), SMALL), "src", "out"),
        {"src": picture(), "out": SMALL},
    ),
    "plan_gather call": (
        one(sg.plan_gather(FEATURES, sg.asarray(ROWS)), "data", "indices", "out"),
        {"data": FEATURES, "indices": sg.asarray(ROWS), "out": FEATURES.copy()},
    ),
    "plan_gather_crops call": (
        one(sg.plan_gather_crops(picture(), (2, 2)), "sources", "origins", "out"),
        {
            "sources": picture(),
            "origins": [(0, 0), (1, 1)],
            "out": SMALL,
        },
    ),
    "Frame.relayout": (FRAME.relayout, {"matrix": GREY, "scale": 2.0, "bias": 1.0, "dtype": "float32"}),
    "placements": (
        sg.Preprocess(letterbox=8, device="cpu").placements,
        {"sizes": [(4, 6), (5, 5)], "keys": None, "epoch": None},
    ),
    "placements by chance": (
        sg.Preprocess(random_resized_crop=True, crop=8, seed=1, device="cpu").placements,
        {"sizes": [(4, 6), (5, 5)], "keys": [1, 2], "epoch": 3},
    ),
    "check_bindings": (sg.check_bindings, {"inputs": [], "outputs": [], "in_place": False}),
    "bind_input": (
        sg.iobinding.bind_input,
        {"binding": Session(), "name": "x", "tensor": FEATURES, "session": Session()},
    ),
    "bind_output": (
        sg.iobinding.bind_output,
        {"binding": Session(), "name": "x", "tensor": FEATURES, "session": Session()},
    ),
    "reinterpreted": (LAYOUT.reinterpreted, {"itemsize": 2, "wanted": 4}),
    "gather_crops": (one(sg.gather_crops, "sources", "origins", "size"), CROP),
    "Preprocess": (
        sg.Preprocess,
        {
            "column": "image",
            "dims": "NHWC",
            "layout": "NCHW",
            "dtype": "float32",
            "mean": 0.5,
            "std": 0.5,
            "channels": (2, 1, 0),
            "crop": (2, 2),
            "flip": 0.5,
            "seed": 0,
            "key": "name",
            "row_pitch_bytes": None,
            "alignment": 32,
            "device": "cpu",
            "errors": "raise",
            "output": "numpy",
        },
    ),
    "Preprocess scale": (sg.Preprocess, {"scale": 2.0, "bias": 1.0}),
    "prefetch": (
        lambda **arguments: list(sg.prefetch(**arguments)),
        {"batches": [FRAMES], "device": "cpu", "depth": 2},
    ),
    "synchronize": (sg.synchronize, {"device": "cpu"}),
    "warmup": (one(sg.warmup, "src", "dst"), {"src": picture(), "dst": batch(), "scale": 1.0, "device": "cpu"}),
}
CASES = [(name, argument) for name, (_, arguments) in CALLS.items() for argument in arguments]


@pytest.mark.parametrize("name, argument", CASES, ids=[f"{name}-{argument}" for name, argument in CASES])
def test_nonsense_is_refused_in_our_own_words(name, argument):
    call, sensible = CALLS[name]
    call(**sensible)
    unlike = []
    for title, nonsense in NONSENSE.items():
        if (name, argument) == ("warmup", "src") and callable(nonsense):
            continue  # a call to warm up, which raises errors of its own
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                call(**{**sensible, argument: nonsense})
        except Exception as error:  # noqa: BLE001 - which one it is, is the question
            if not in_our_words(error):
                unlike.append(f"{title}: {type(error).__name__}: {str(error)[:110]!r} at {where(error)}")
    assert not unlike, "\n".join(unlike)


def where(error):
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}"


def in_our_words(error):
    """Whether the library raised it by a statement of its own, and of a kind that it promises."""
    if not isinstance(error, (sg.StridedGpuError, IndexError, TypeError, OverflowError)):
        return False
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return "stridedgpu/" in frame.filename and linecache.getline(frame.filename, frame.lineno).lstrip().startswith(
        "raise "
    )


def plans():
    """A plan of each kind, and the arguments that it runs on, by name."""
    picture, small = (
        sg.zeros((1, 3, 4, 6), "uint8", device="cpu", dims="NCHW"),
        sg.empty((1, 3, 2, 2), "uint8", device="cpu", dims="NCHW"),
    )
    out, indices, pairs = sg.empty((1, 3, 4, 6), "uint8", device="cpu"), sg.asarray([0]), sg.asarray([[0]])
    frame, colours = sg.Frame.over("nv12", bytearray(36), (4, 6)), sg.empty((3, 4, 6), "uint8", device="cpu")
    return {
        "relayout": (sg.plan_relayout(picture, out), {"src": picture, "out": out}),
        "gather": (sg.plan_gather(picture, indices, out=out), {"data": picture, "indices": indices, "out": out}),
        "scatter": (
            sg.plan_scatter_nd(picture, pairs, picture, out=out),
            {"data": picture, "indices": pairs, "updates": picture, "out": out},
        ),
        "crops": (
            sg.plan_gather_crops(picture, (2, 2), out=small),
            {"sources": picture, "origins": np.zeros((1, 2), np.int64), "out": small},
        ),
        "resize": (sg.plan_resize(picture, small), {"src": picture, "out": small}),
        "frame": (sg.plan_relayout(frame, colours), {"src": frame, "out": colours}),
    }


@pytest.mark.parametrize("kind", [sg.StridedTensor, sg.Frame])
@pytest.mark.parametrize("name", plans())
def test_a_plan_refuses_a_class_in_the_place_of_a_tensor(name, kind):
    plan, arguments = plans()[name]
    plan(*arguments.values())
    plan(*arguments.values())  # by addresses, once it has run
    for place in arguments:
        if place == "origins" or (name == "frame" and place == "src"):
            continue
        with pytest.raises(sg.ElementTypeError, match=f"^{place} is of type type; a plan runs on tensors"):
            plan(*({**arguments, place: kind}).values())


@pytest.mark.parametrize("channels", [[1], range(1, 2)])
def test_channels_beside_a_matrix_are_shown_as_numbers(channels):
    frame, matrix = sg.Frame.over("nv12", bytearray(36), (4, 6)), [[1, 0, 0]]
    for call in (
        lambda **options: sg.relayout(frame, **options),
        lambda **options: sg.resize(np.zeros((4, 6, 3), np.uint8), (2, 2), dims="HWC", **options),
    ):
        with pytest.raises(sg.LayoutError) as refused:
            call(matrix=matrix, channels=channels)
        assert str(refused.value).startswith("channels=(1,) and matrix= both choose channels")
