"""The public API as a type checker sees it: what it takes, what it gives, and what it refuses."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import subprocess
import sys
import typing
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.problems.index_rule import Mode
from stridedgpu.values.arithmetic import NORMALISATIONS
from stridedgpu.values.dtypes import ELEMENT_TYPES
from stridedgpu.values.interpolation import INTERPOLATIONS

ROOT = Path(sg.__file__).parents[1]

USES = """
import array
import mmap

import numpy as np
import stridedgpu as sg
from stridedgpu.iobinding import bind_input

class Capsules:
    def __dlpack__(self, *, stream: object = None) -> object:
        raise NotImplementedError
    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

frames = sg.asarray(np.zeros((2, 4, 5, 3), np.uint8), dims="NHWC")
reveal_type(frames)  # StridedTensor
reveal_type(frames.sizes)  # tuple[int, ...]
reveal_type(frames.dims)  # str | None
reveal_type(frames.data_type)  # DataType
reveal_type(frames.desc)  # BufferTensorDesc
reveal_type(frames[..., ::2])  # StridedTensor
reveal_type(frames.numpy())  # ndarray
reveal_type(frames == frames)  # bool
reveal_type(sg.from_dlpack(Capsules()))  # StridedTensor
reveal_type(sg.from_pointer(4096, (2, 3), "float32", owner=None))  # StridedTensor
planes = sg.relayout(frames, layout="NCHW", dtype="float16", scale=1 / 255, bias=[0.1, 0.2, 0.3])
reveal_type(planes)  # StridedTensor
for view in planes:
    reveal_type(view)  # StridedTensor
plan = sg.plan_relayout(frames, planes.desc)
reveal_type(plan)  # RelayoutPlan
reveal_type(plan.explain())  # str
reveal_type(plan(frames, planes))  # None
reveal_type(sg.gather(frames, [0, 1]))  # StridedTensor
reveal_type(sg.calculate_strides("NHWC", (1, 3, 4, 5)))  # tuple[int, ...]
reveal_type(sg.devices()[0].available)  # bool
reveal_type(bind_input(object(), "x", frames))  # StridedTensor

capsules: sg.typing.SupportsDLPack = np.zeros(3)
interface: sg.typing.SupportsArrayInterface = np.zeros(3)
exported: sg.typing.SupportsDLPack = frames
integers: list[list[int]] = [[1, 2], [3, 4]]
arrays: list[np.ndarray] = [np.zeros(3), np.ones(3)]
reveal_type(sg.asarray(integers))  # StridedTensor
reveal_type(sg.asarray(arrays))  # StridedTensor
reveal_type(sg.asarray([[1, 2], (3, 4.5)]))  # StridedTensor
reveal_type(sg.asarray([frames, frames]))  # StridedTensor
reveal_type(sg.asarray(np.float32(3)))  # StridedTensor
reveal_type(sg.asarray(range(3)))  # StridedTensor
reveal_type(sg.asarray(bytearray(3)))  # StridedTensor
reveal_type(sg.asarray(memoryview(b"abc")))  # StridedTensor
reveal_type(sg.asarray(mmap.mmap(-1, 64)))  # StridedTensor
reveal_type(sg.asarray(array.array("d")))  # StridedTensor
reveal_type(sg.asarray(Capsules(), dtype=np.float32))  # StridedTensor
reveal_type(sg.gather_crops([np.zeros((4, 6, 3))], [[0, 0]], (2, 2), flip=[True], fill=(1, 2, 3)))  # StridedTensor
reveal_type(sg.scatter_nd(frames, [[0]], frames[:1]))  # StridedTensor
per_channel = np.array([1.0, 2.0, 3.0])
reveal_type(sg.relayout(frames, scale=per_channel, bias=np.float32(1)))  # StridedTensor
reveal_type(sg.relayout(frames, normalize="imagenet"))  # StridedTensor
reveal_type(sg.relayout(frames, mean=0.5, std=[1, 2, 3], out=np.zeros((2, 3, 4, 5))))  # StridedTensor
reveal_type(sg.frombuffer(mmap.mmap(-1, 64), (4, 16), np.uint8, row_pitch_bytes=16))  # StridedTensor
reveal_type(sg.picture.text(frames))  # str
reveal_type(sg.resize(frames, 224, device="cuda-emulated"))  # StridedTensor
reveal_type(sg.letterbox(frames, 640))  # StridedTensor
step = sg.Preprocess(interpolation="opencv-area", normalize="imagenet", layout="NHWC")
reveal_type(step({"image": frames}))  # dict[str, Any]
reveal_type(step([frames]))  # list[Any]
reveal_type(step(frames, out=planes))  # StridedTensor
reveal_type(step(frames))  # ndarray
left_on_the_device = sg.Preprocess(crop=224, output="tensor")
reveal_type(left_on_the_device(np.zeros((2, 256, 256, 3), np.uint8)))  # StridedTensor
def run(given: sg.Preprocess) -> None:
    reveal_type(given(frames))  # ndarray
reveal_type(sg.prefetch([frames]))  # Iterator[StridedTensor]
reveal_type(sg.prefetch([3], device="cuda"))  # Iterator[Any]
with frames as given:
    reveal_type(given)  # StridedTensor
given[0] = 3
given[0] = np.zeros(3)

sg.from_dlpack(3)  # error: arg-type
sg.asarray(object())  # error: arg-type
sg.asarray(None)  # error: arg-type
sg.asarray("pixels")  # error: arg-type
sg.asarray(["pixels"])  # error: list-item
sg.asarray({1, 2})  # error: arg-type
sg.asarray(frames, dtype=3)  # error: arg-type
sg.relayout(object())  # error: call-overload
sg.relayout(frames, stream="fast")  # error: call-overload
sg.gather(frames, "0")  # error: arg-type
sg.plan_relayout(np.zeros(3), frames)  # error: call-overload
sg.plan_gather(frames, None)  # error: arg-type
given[0] = "white"  # error: assignment
sg.relayout(frames, layouts="NCHW")  # error: call-overload
sg.relayout(frames, rounding="up")  # error: call-overload
sg.relayout(frames, normalize="coco")  # error: call-overload
sg.gather(frames, [0], mode="wrapped")  # error: arg-type
sg.resize(frames, (2, 2), interpolation="bilinear")  # error: arg-type
sg.Preprocess(interpolation="bilinear")  # error: arg-type
sg.Preprocess(normalize="coco")  # error: arg-type
sg.Preprocess(output="jax")  # error: type-var
step(object())  # error: call-overload
sg.relayout(frames, scale="fast")  # error: arg-type
frames.relayout(row_pitch_bytes="512")  # error: arg-type
sg.empty(("4",), "uint8")  # error: arg-type
sg.from_pointer(4096, (2, 3), "float32")  # error: call-arg
plan(frames)  # error: call-arg
"""


LIBRARIES = """
import jax.numpy as jnp
import onnxruntime
import stridedgpu as sg
import torch
from PIL import Image

reveal_type(sg.asarray(torch.zeros(3), dtype=torch.float16))  # StridedTensor
reveal_type(sg.from_dlpack(torch.zeros(3)))  # StridedTensor
reveal_type(sg.Preprocess(output="torch")(torch.zeros(1, 2, 2, 3)))  # Tensor
reveal_type(sg.gather([torch.zeros(3)], torch.zeros(3)))  # StridedTensor
reveal_type(sg.asarray(jnp.zeros(3)))  # StridedTensor
reveal_type(sg.from_dlpack(jnp.zeros(3)))  # StridedTensor
reveal_type(sg.asarray(Image.new("L", (3, 4)), dims="HW"))  # StridedTensor
reveal_type(sg.asarray(onnxruntime.OrtValue.ortvalue_from_numpy(jnp.zeros(3))))  # StridedTensor

sg.from_dlpack(Image.new("L", (3, 4)))  # error: arg-type
sg.relayout(torch.float32)  # error: call-overload
"""


@pytest.mark.slow
def test_a_type_checker_reveals_what_the_api_says(tmp_path):
    check(USES, tmp_path)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.interop
def test_it_takes_what_other_libraries_hold(tmp_path):
    for name in ("jax", "onnxruntime", "torch", "PIL"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is what is tried")
    check(LIBRARIES, tmp_path, "--ignore-missing-imports", "--follow-imports=silent")


def check(source, folder, *options):
    """Run mypy on a program, and hold what it says of each line against the comment there."""
    pytest.importorskip("mypy", reason="the type checker")
    (folder / "uses.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(folder), *options]
    done = subprocess.run(
        [*command, str(folder / "uses.py")],
        cwd=folder,
        env=os.environ | {"MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    found = {}
    for line, kind, said in re.findall(r"^uses\.py:(\d+): (error|note): (.*)$", done.stdout, re.MULTILINE):
        found.setdefault(int(line), []).append((kind, said))
    assert found, done.stdout + done.stderr
    for number, line in enumerate(source.splitlines(), 1):
        _, _, stated = line.partition("  # ")
        said = found.pop(number, [])
        if not stated:
            assert not said, (line, said)
        elif stated.startswith("error: "):
            assert any(kind == "error" and f"[{stated[7:]}]" in text for kind, text in said), (line, said)
        else:
            (text,) = [text for kind, text in said if kind == "note"]
            plain = re.sub(r"\b(?:\w+\.)+", "", text).replace("builtins.", "")
            assert plain.startswith(f'Revealed type is "{stated}'), (line, said)


def test_protocols_know_what_they_describe():
    tensor = sg.zeros((2, 3), "float32", device="cpu")
    assert isinstance(tensor, sg.typing.SupportsDLPack)
    assert isinstance(np.zeros(3), sg.typing.SupportsArrayInterface)
    assert not isinstance([1, 2], sg.typing.SupportsDLPack)


@pytest.fixture(params=["this Python's", "Python 3.12's"])
def protocol_check(request, monkeypatch):
    """How `isinstance` looks for an attribute of a protocol: by `hasattr` until 3.11, without reading it since 3.12."""
    if request.param == "Python 3.12's":

        def is_defined(instance, name):
            return inspect.getattr_static(instance, name, None) is not None

        monkeypatch.setattr(typing, "hasattr", is_defined, raising=False)  # `typing` of 3.11 finds this one first


def test_tensors_on_the_cpu_lack_cudas_array_interface(protocol_check):
    tensor = sg.zeros((2, 3), "float32", device="cpu")
    assert not hasattr(tensor, "__cuda_array_interface__")
    assert not isinstance(tensor, sg.typing.SupportsCudaArrayInterface)


def test_device_tensors_have_the_array_interface(gpus, protocol_check):
    assert isinstance(sg.zeros((2, 3), "float32", device="cuda"), sg.typing.SupportsCudaArrayInterface)


def test_a_class_that_has_more_than_the_array_interface_is_checked_for_all_of_it():
    @typing.runtime_checkable
    class Streamed(sg.typing.SupportsCudaArrayInterface, sg.typing.SupportsCudaStream, typing.Protocol):
        """Memory and the stream that orders its work."""

    memory = SimpleNamespace(__cuda_array_interface__={})
    assert isinstance(memory, sg.typing.SupportsCudaArrayInterface)
    assert not isinstance(memory, Streamed)
    assert isinstance(SimpleNamespace(__cuda_array_interface__={}, __cuda_stream__=tuple), Streamed)


def test_the_names_of_rules_are_those_of_the_tables():
    assert set(get_args(sg.typing.Interpolation)) == set(INTERPOLATIONS)
    assert get_args(sg.typing.IndexMode) == get_args(Mode)
    assert get_args(sg.typing.Rounding) == ("nearest", "truncate")
    assert get_args(sg.typing.Normalization) == tuple(NORMALISATIONS)
    assert set(get_args(get_args(sg.typing.DTypeLike)[0])) == set(ELEMENT_TYPES)


def test_types_can_be_joined_when_a_program_runs():
    assert all(getattr(sg.typing, name) | None for name in sg.typing.__all__)


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "stridedgpu" / "py.typed").exists()
    assert sorted(set(sg.typing.__all__)) == sg.typing.__all__
