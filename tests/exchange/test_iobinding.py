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
