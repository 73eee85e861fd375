"""ONNX Runtime's IOBinding over tensors: a session reads and writes them where they lie."""

from __future__ import annotations

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.iobinding import bind_input, bind_output

SIZES = (2, 3, 4, 5)


@pytest.mark.interop
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout, pitch, copied", [("NCHW", None, False), ("NHWC", None, True), ("NCHW", 64, True)])
def test_a_session_reads_and_writes_tensors(layout, pitch, copied):
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    kind, helper = onnx.TensorProto.FLOAT, onnx.helper
    ends = [helper.make_tensor_value_info(name, kind, SIZES) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "negate", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

    given = sg.empty(SIZES, "float32", layout=layout, row_pitch_bytes=pitch, device="cpu")
    given[...] = np.random.default_rng(1).random(SIZES, np.float32)
    answer = sg.zeros(SIZES, "float32", device="cpu")
    binding = session.io_binding()
    bound = bind_input(binding, "x", given)
    bind_output(binding, "y", answer)
    session.run_with_iobinding(binding)
    assert (bound is not given) == copied
    assert np.array_equal(answer.numpy(), -given.numpy())


def test_an_output_is_packed_and_can_be_written():
    with pytest.raises(sg.LayoutError, match="not packed in row-major order"):
        bind_output(None, "y", sg.zeros(SIZES, "float32", layout="NHWC", device="cpu"))
    with pytest.raises(sg.BindingError, match="read-only"):
        bind_output(None, "y", sg.asarray(bytes(8)))


class Stated:
    """An input or output as a session states it."""

    def __init__(self, name, kind, shape):
        self.name, self.type, self.shape = name, kind, shape


class Session:
    """A session of one input and one output, and its binding."""

    def __init__(self, kind, shape):
        self.ends = [Stated("x", kind, shape)]
        self.bound = []

    def get_inputs(self):
        return self.ends

    get_outputs = get_inputs

    def bind_input(self, *arguments):
        self.bound.append(arguments)

    bind_output = bind_input


MISFITS = {
    "name": ("y", (1, 3, 4, 5), "float32", "has no (input|output) 'y'; its (input|output)s are 'x'"),
    "type": (
        "x",
        (1, 3, 4, 5),
        "uint8",
        r"is tensor\(float\), and the tensor holds uint8; relayout\(dtype=.float32",
    ),
    "sizes": ("x", (1, 3, 4, 6), "float32", r"has the sizes \['batch', 3, 4, 5\], and the tensor \(1, 3, 4, 6\)\.$"),
    "rank": ("x", (3, 4, 5), "float32", r"and the tensor \(3, 4, 5\)\.$"),
    "NHWC": ("x", (7, 4, 5, 3), "float32", r"channels come last; wrap it with asarray\(…, dims='NHWC'\)"),
}


@pytest.mark.parametrize("bind", [bind_input, bind_output])
@pytest.mark.parametrize("name, sizes, dtype, message", MISFITS.values(), ids=MISFITS.keys())
def test_what_the_model_does_not_state_is_not_bound(bind, name, sizes, dtype, message):
    session = Session("tensor(float)", ["batch", 3, 4, 5])
    with pytest.raises(sg.BindingError, match=message):
        bind(session, name, np.zeros(sizes, dtype), session=session)
    assert not session.bound
    bind(session, "x", np.zeros((7, 3, 4, 5), np.float32), session=session)
    assert len(session.bound) == 1


def test_a_model_of_channels_last_says_how_to_give_them():
    session = Session("tensor(double)", [None, 4, 5, 3])
    tensor = sg.zeros((1, 3, 4, 5), "float64", device="cpu")
    with pytest.raises(sg.BindingError, match=r"wants its channels last; give tensor\.permute\('NHWC'\)"):
        bind_input(session, "x", tensor, session=session)
    assert bind_input(session, "x", tensor.permute("NHWC"), session=session).sizes == (1, 4, 5, 3)


@pytest.mark.interop
def test_a_binding_knows_its_session():
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    helper = onnx.helper
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 3, 4, 5]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "negate", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    with pytest.raises(sg.BindingError, match="channels come last"):
        bind_input(binding, "x", np.zeros((2, 4, 5, 3), np.float32), session=session)
    pixels, answer = np.ones((2, 3, 4, 5), np.float32), np.zeros((2, 3, 4, 5), np.float32)
    bound = bind_input(binding, "x", pixels), bind_output(binding, "y", answer)
    session.run_with_iobinding(binding)
    assert (answer == -1).all(), bound
