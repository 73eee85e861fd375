"""`torch.ops.stridedgpu`: equal to the functions, and carried by PyTorch's compiler."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.typing import ConversionKeywords, ResultKeywords

torch = pytest.importorskip("torch", reason="the operators are PyTorch's")
library = pytest.importorskip("torch.library")
adapter = pytest.importorskip("stridedgpu.adapters.torch")
ops = torch.ops.stridedgpu


def frames(count=2, height=30, width=40, channels=3):
    values = np.random.default_rng(7).integers(0, 256, (count, height, width, channels), dtype=np.uint8)
    return torch.from_numpy(values)


PILLOW = {"passes": "horizontal"}
STEP = sg.Preprocess(resize=20, crop=16, normalize="imagenet", passes="horizontal", device="cpu")
RANDOM = sg.Preprocess(crop=16, random_resized_crop=True, flip=True, seed=5, passes="horizontal", device="cpu")
WHOLE = sg.Preprocess(mode="gray", dims="NHWC", layout="NHWC", dtype="float16", pad=1, device="cpu")
TEXTS = {name: adapter.declared(step) for name, step in (("step", STEP), ("random", RANDOM), ("whole", WHOLE))}
IMAGES = [frames()[0], frames()[1, :25]]
ORIGINS = torch.tensor([[0, 2], [20, 35]])
BOXES = torch.tensor([[0, 0, 10, 10.5], [1, 1, 20, 30]])
MIX = torch.tensor([[0.3, 0.5, 0.2]], dtype=torch.float64)

CASES = {
    # the operator, its arguments, its keyword arguments, and the same by the library
    "relayout": (
        ops.relayout.default,
        (frames(),),
        {"dims": "NHWC", "layout": "NCHW", "dtype": torch.float32, "mean": [0.5], "std": [0.1, 0.2, 0.3]},
        lambda: sg.relayout(frames(), dims="NHWC", layout="NCHW", dtype="float32", mean=0.5, std=[0.1, 0.2, 0.3]),
    ),
    "relayout in the source's order": (
        ops.relayout.default,
        (frames().permute(0, 2, 1, 3),),
        {"dims": "NWHC", "channels": [2, 0], "dtype": torch.int16},
        lambda: sg.relayout(frames().permute(0, 2, 1, 3), dims="NWHC", channels=[2, 0], dtype="int16"),
    ),
    "relayout of plain axes": (
        ops.relayout.default,
        (frames().permute(3, 2, 1, 0)[1:, ::2],),
        {"scale": [2.0]},
        lambda: sg.relayout(frames().permute(3, 2, 1, 0)[1:, ::2], scale=2.0),
    ),
    "relayout with a matrix": (
        ops.relayout.default,
        (frames(),),
        {"dims": "NHWC", "matrix": MIX},
        lambda: sg.relayout(frames(), dims="NHWC", matrix=MIX),
    ),
    "resize": (
        ops.resize.default,
        (frames(), [8, 9]),
        {"dims": "NHWC", "layout": "NCHW", "channels": [2, 1, 0], **PILLOW},
        lambda: sg.resize(frames(), (8, 9), dims="NHWC", layout="NCHW", channels=[2, 1, 0], **PILLOW),
    ),
    "resize of a plane, by its shorter side": (
        ops.resize.default,
        (frames()[0, :, :, 0], [8]),
        {"box": [1.0, 2.0, 21.0, 33.5], **PILLOW},
        lambda: sg.resize(frames()[0, :, :, 0], 8, box=[1.0, 2.0, 21.0, 33.5], **PILLOW),
    ),
    "gather_crops": (
        ops.gather_crops.default,
        (frames(), ORIGINS, [8, 9]),
        {"dims": "NHWC", "flip": torch.tensor([True, False]), "fill": [1, 2, 3], "layout": "NHWC"},
        lambda: sg.gather_crops(
            frames(), ORIGINS, (8, 9), dims="NHWC", flip=[True, False], fill=[1, 2, 3], layout="NHWC"
        ),
    ),
    "gather_crops of volumes": (
        ops.gather_crops.default,
        (frames().reshape(2, 5, 6, 40, 3), torch.tensor([[0, 1, 2], [1, 2, 3]]), [2]),
        {"dims": "NDHWC"},
        lambda: sg.gather_crops(frames().reshape(2, 5, 6, 40, 3), [[0, 1, 2], [1, 2, 3]], 2, dims="NDHWC"),
    ),
    "gather_crops of boxes in a list": (
        ops.gather_crops.images,
        (IMAGES, None, [8]),
        {"dims": "HWC", "boxes": BOXES, "dtype": torch.float16, **PILLOW},
        lambda: sg.gather_crops(IMAGES, size=8, boxes=BOXES, dims="HWC", dtype="float16", **PILLOW),
    ),
    "preprocess": (ops.preprocess.default, (frames(), TEXTS["step"]), {}, lambda: in_order(STEP, frames())),
    "preprocess a list": (
        ops.preprocess.images,
        (IMAGES, TEXTS["step"]),
        {},
        lambda: in_order(STEP, IMAGES),
    ),
    "preprocess by chance": (
        ops.preprocess.default,
        (frames(), TEXTS["random"]),
        {"keys": torch.tensor([3, 9]), "epoch": 2},
        lambda: in_order(RANDOM, frames(), [3, 9], epoch=2),
    ),
    "preprocess without a window": (
        ops.preprocess.default,
        (frames(), TEXTS["whole"]),
        {},
        lambda: in_order(WHOLE, frames()),
    ),
}


def in_order(step, *arguments, **options):
    """The result of a step with its axes in canonical order, N, C, H, W."""
    result = np.stack(step(*arguments, **options))
    return np.moveaxis(result, [step.layout.index(axis) for axis in "NCHW"], range(4))


def into(operator):
    """The `out=` variant of an operator."""
    packet = getattr(ops, operator._schema.name.split("::")[1])
    return packet.images_out if operator._overloadname == "images" else packet.out


@pytest.mark.parametrize("case", CASES)
def test_an_operator_is_the_function_and_the_fake_has_its_sizes_strides_and_type(case):
    operator, arguments, options, expected = CASES[case]
    result = operator(*arguments, **options)
    same = expected()
    assert torch.equal(result, torch.as_tensor(np.asarray(same)))
    strides = getattr(same, "strides", None)
    if isinstance(same, sg.StridedTensor):
        assert result.stride() == strides
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        fake = operator(*arguments, **options)
    assert (fake.shape, fake.stride(), fake.dtype) == (result.shape, result.stride(), result.dtype)


@pytest.mark.parametrize("name, function", [(one.__name__, one) for one in (sg.relayout, sg.resize, sg.gather_crops)])
def test_an_operator_has_the_arguments_of_the_function(name, function):
    """All but those that PyTorch decides: devices, streams, pitches and alignments."""
    own = [one for one in inspect.signature(function).parameters if one not in ("device", "out", "stream", "options")]
    own += [one for one in ResultKeywords.__annotations__ if one not in ("row_pitch_bytes", "alignment")]
    own += ConversionKeywords.__annotations__
    schema = getattr(ops, name).default._schema
    assert {argument.name for argument in schema.arguments} == set(own)


@pytest.mark.parametrize("case", CASES)
def test_an_operator_writes_into_out(case):
    operator, arguments, options, _ = CASES[case]
    expected = operator(*arguments, **options)
    padded = torch.zeros((*expected.shape[:-1], expected.shape[-1] + 3), dtype=expected.dtype)
    options = {name: value for name, value in options.items() if name != "layout"}
    out = padded[..., 1:-2]
    assert into(operator)(*arguments, **options, out=out) is None
    assert torch.equal(out, expected)
    assert not padded[..., 0].any()
    assert not padded[..., -2:].any()


@pytest.mark.parametrize("case", CASES)
def test_pytorchs_own_check_of_operators_passes(case):
    operator, arguments, options, _ = CASES[case]
    assert set(library.opcheck(operator, arguments, options).values()) == {"SUCCESS"}
    out = torch.empty_like(operator(*arguments, **options))
    options = {name: value for name, value in options.items() if name != "layout"}
    assert set(library.opcheck(into(operator), arguments, {**options, "out": out}).values()) == {"SUCCESS"}


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")  # opcheck reads it
def test_tensors_that_need_a_gradient_are_read_and_results_need_none():
    batch = torch.rand(2, 3, 9, 9, requires_grad=True)
    text = adapter.declared(sg.Preprocess(dims="NCHW", crop=4, device="cpu"))
    assert set(library.opcheck(ops.preprocess.default, (batch, text)).values()) == {"SUCCESS"}
    for images in (batch, list(batch)):
        result = ops.preprocess(images, text)
        assert not result.requires_grad
        assert torch.equal(result, ops.preprocess(batch.detach(), text))


def network_input(batch):
    small = ops.resize(batch, [24], dims="NHWC", passes="horizontal")
    planes = ops.relayout(small, dims="NCHW", dtype=torch.float32, scale=[1 / 255])
    return ops.preprocess(batch, TEXTS["step"]).sum() + planes.mean(dim=(2, 3)).sum()


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_compiled_function_is_one_graph(dynamic):
    compiled = torch.compile(network_input, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for sizes in ((2, 30, 40), (3, 50, 31)):
        batch = frames(*sizes)
        assert torch.equal(compiled(batch), network_input(batch))


def test_a_compiled_function_writes_into_its_argument():
    def fill(batch, out):
        ops.preprocess.out(batch, TEXTS["step"], out=out)
        return out + 1

    compiled = torch.compile(fill, fullgraph=True, backend="aot_eager")
    out = torch.zeros((2, 3, 16, 16))
    more = compiled(frames(), out)
    assert torch.equal(out, ops.preprocess(frames(), TEXTS["step"]))
    assert torch.equal(more, out + 1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the compiler's own modules
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_the_compiler_of_pytorch_runs_the_operators(dynamic, monkeypatch, tmp_path):
    """Inductor, which builds code for the processor, and finds none that it kept."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    compiled = torch.compile(network_input, fullgraph=True, dynamic=dynamic)
    for sizes in ((2, 30, 40), (3, 50, 31)):
        torch.testing.assert_close(compiled(frames(*sizes)), network_input(frames(*sizes)))


@pytest.mark.filterwarnings("ignore")  # of the exporter's own modules
def test_an_exported_program_holds_the_step(tmp_path):
    class Input(torch.nn.Module):
        def forward(self, batch):
            return ops.preprocess(batch, TEXTS["step"])

    program = torch.export.export(Input(), (frames(),))
    torch.export.save(program, tmp_path / "input.pt2")
    loaded = torch.export.load(tmp_path / "input.pt2").module()
    assert torch.equal(loaded(frames()), ops.preprocess(frames(), TEXTS["step"]))


STEPS = (
    STEP,
    RANDOM,
    WHOLE,
    sg.Preprocess(letterbox=(8, 9), fill=(1, 2, 3), normalize="0..1", arithmetic="divide"),
    sg.Preprocess(crop=8, random_crop=True, gain=(0.5, 1.5), seed=-(2**62), flip=0.25),
    sg.Preprocess(matrix=[[0.25, 0.5, 0.25]], clip=(-1000, 400), center="round", device="cpu"),
)


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_the_text_of_a_step_is_the_step(step):
    again = adapter._step(adapter.declared(step), "cpu")
    assert again == dataclasses.replace(step, device="cpu", output="tensor")


def test_a_step_runs_where_its_images_are():
    elsewhere = adapter.declared(dataclasses.replace(STEP, device="cuda:3", column="image", alignment=64))
    assert elsewhere == TEXTS["step"]


@pytest.mark.parametrize(
    "options, says",
    [
        ({"errors": "skip"}, "errors='skip' drops rows"),
        ({"mask": "mask", "crop": 8}, "names columns that belong to the images"),
        ({"row_pitch_bytes": 64}, "row_pitch_bytes=64: PyTorch allocates the result"),
        ({"layout": "NHWC8"}, "layout='NHWC8': PyTorch allocates the result"),
    ],
)
def test_a_step_whose_result_is_not_one_packed_tensor_has_no_text(options, says):
    with pytest.raises(sg.LayoutError, match=says):
        adapter.declared(sg.Preprocess("image", **options))


@pytest.mark.parametrize("text", ["crop=2", "[2]", "3"])
def test_other_texts_are_no_steps(text):
    with pytest.raises(sg.LayoutError, match="is not the text of a step"):
        ops.preprocess(frames(), text)


def test_errors_are_those_of_the_library():
    with pytest.raises(sg.LayoutError, match="must have the axes H and W"):
        ops.resize(frames(), [8, 8], dims="NCDW")
    with pytest.raises(sg.LayoutError, match="does not order the axes of this tensor, which has 4 plain axes"):
        ops.relayout(frames(), layout="NHWC")
    with pytest.raises(sg.LayoutError, match="out has sizes"):
        ops.relayout(frames(), dims="NHWC", out=torch.empty(2, 3, 30, 41, dtype=torch.uint8))
    with pytest.raises(sg.LayoutError, match="origins= or boxes= is missing"):
        ops.gather_crops(frames(), None, [8], dims="NHWC")
    with pytest.raises(sg.LayoutError, match="sources is empty"):
        ops.gather_crops.images([], ORIGINS, [8], dims="HWC")
    with pytest.raises(sg.LayoutError, match="images is a list, whose images may differ in size"):
        ops.preprocess(IMAGES, TEXTS["whole"])
    with pytest.raises(sg.BindingError):
        batch = frames()
        ops.relayout(batch, out=batch)


def test_work_on_a_gpu_is_ordered_on_pytorchs_current_stream(monkeypatch):
    """PyTorch for CUDA was not at hand: a tensor, its stream and CuPy's context are stand-ins here."""
    entered = []
    streams = ModuleType("stridedgpu.devices.cuda.runtime.streams")
    streams.current_on = lambda device, stream: entered.append((device, stream))
    monkeypatch.setitem(sys.modules, "stridedgpu.devices.cuda.runtime", ModuleType("stridedgpu.devices.cuda.runtime"))
    monkeypatch.setitem(sys.modules, streams.__name__, streams)
    monkeypatch.setattr(adapter, "device_named", entered.append)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=1000 + device.index))
    adapter._on_current_stream(SimpleNamespace(device=torch.device("cuda", 2)))
    assert entered == ["cuda:2", (2, 1002)]
