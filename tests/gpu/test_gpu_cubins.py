"""On a GPU: machine code that the package brings runs without a compiler, and what is damaged is compiled."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import pytest
from harness.gpu_at_hand import PRELUDE

import stridedgpu as sg
from stridedgpu.devices.cuda import cubins
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.devices.cuda.status import cuda_status

STATUS = cuda_status()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(STATUS.device_count == 0, reason=str(STATUS.reason))]

CALLS = {
    "relayout": "images.relayout(layout='NCHW', dtype='float32', normalize='imagenet')",
    "crop": "sg.gather_crops(images, [[3, 5]] * 2, (32, 32), dtype='float32', normalize='imagenet')",
    "resize": "sg.resize(images, (24, 32), dtype='float32', normalize='imagenet', passes='horizontal')",
}

CHILD = (
    PRELUDE
    + """
import pathlib, sys
import cupy, numpy as np, stridedgpu as sg
from stridedgpu.devices.cuda import cubins

compiled = []
program = cupy.cuda.nvrtc.createProgram
cupy.cuda.nvrtc.createProgram = lambda *given: compiled.append(given) or program(*given)
cubins._archive = lambda: pathlib.Path(sys.argv[1])
here = sg.asarray(np.random.default_rng(7).integers(0, 256, (2, 48, 64, 3), dtype=np.uint8), dims='NHWC')
there = here.to_device('cuda')
for call in sys.argv[2:]:
    ran, expected = (eval(call, {'sg': sg, 'images': images}) for images in (there, here))
    assert ran.device == 'cuda:0' and ran.numpy().tobytes() == expected.numpy().tobytes(), call
print(len(compiled))
"""
)


def programs(path, calls, cache) -> int:
    """How often a fresh process with that file calls the compiler; its bits are the CPU's."""
    environment = {**os.environ, "CUPY_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", CHILD, str(path), *calls]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def launches():
    """The launch of each call."""
    pixels = sg.empty((2, 3, 48, 64), "uint8", layout="NHWC", device="cuda")
    options = {"normalize": "imagenet", "device": "cuda"}
    moved = sg.empty(pixels.sizes, "float32", device="cuda")
    resized = sg.empty((2, 3, 24, 32), "float32", device="cuda")
    plans = {
        "relayout": sg.plan_relayout(pixels, moved, **options),
        "crop": sg.plan_gather_crops(pixels, (32, 32), dtype="float32", **options),
        "resize": sg.plan_resize(pixels, resized, passes="horizontal", **options),
    }
    return {name: plan.plan.launch for name, plan in plans.items()}


def compiled(launch, architecture):
    """A launch's kernel, by the NVRTC that CuPy found."""
    import cupy

    nvrtc = cupy.cuda.nvrtc
    program = nvrtc.createProgram(joined_source(*launch.sources), "kernels.cu", (), ())
    nvrtc.addNameExpression(program, launch.name)
    nvrtc.compileProgram(program, (f"-arch=sm_{architecture}", *cubins.OPTIONS, *cubins.CUPYS_OPTIONS))
    made = cubins.Cubin(nvrtc.getLoweredName(program, launch.name), nvrtc.getCUBIN(program))
    nvrtc.destroyProgram(program)
    return made


@pytest.fixture(scope="module")
def stored():
    """The entries of the calls' kernels."""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    capability = properties["major"] * 10 + properties["minor"]
    found = [architecture for architecture, runs_on in cubins.RUNS_ON.items() if capability in runs_on]
    if not found:
        pytest.skip(f"a release has no machine code for sm_{capability}")
    return {
        name: (
            cubins.entry_name(joined_source(*launch.sources), launch.name, found[0]),
            compiled(launch, found[0]).packed(),
        )
        for name, launch in launches().items()
    }


def written(path, entries):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return path


def test_the_first_relayout_crop_and_resize_of_a_process_compile_nothing(stored, tmp_path):
    path = written(tmp_path / "cubins.zip", stored.values())
    assert programs(path, CALLS.values(), tmp_path) == 0
    assert not [*tmp_path.glob("*.cubin")]


@pytest.mark.parametrize("damage", ["cut", "another byte", "another program", "empty", "missing"])
def test_what_is_damaged_is_compiled(stored, tmp_path, damage):
    name, content = stored["relayout"]
    path = written(tmp_path / "cubins.zip", [(name, content)])
    whole = path.read_bytes()
    if damage == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "another byte":
        path.write_bytes(whole[:400] + bytes([whole[400] ^ 1]) + whole[401:])
    elif damage == "another program":  # its checksum is right, and the driver refuses it
        written(path, [(name, content.partition(b"\0")[0] + b"\0no machine code")])
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
    assert programs(path, [CALLS["relayout"]], tmp_path) > 0
