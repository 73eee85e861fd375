"""The file of machine code that a release brings: its kernels are those of plans, its bytes those of its sources."""

from __future__ import annotations

import pytest
from kernel_cubins import Kernel, common_kernels, compiled, entries, write
from kernel_facts import machine_code

import stridedgpu as sg
from stridedgpu.devices.cuda import cubins
from stridedgpu.devices.cuda.gpu import KNOWN_GPUS
from stridedgpu.devices.cuda.plan import GpuPlanner
from stridedgpu.devices.cuda.sources import joined_source


def test_every_architecture_has_some_ninety_kernels():
    kernels = common_kernels()
    counts = {
        architecture: sum(kernel.architecture == architecture for kernel in kernels) for architecture in cubins.RUNS_ON
    }
    assert all(80 <= count <= 100 for count in counts.values()), counts


@pytest.mark.parametrize("gpu,architecture", [("a100", 80), ("l4", 80), ("h100", 90), ("b200", 100), ("5090", 120)])
@pytest.mark.parametrize("count", [1, 32])
def test_the_first_calls_of_image_pipelines_are_among_them(gpu, architecture, count):
    """In other sizes than those listed."""
    photos = sg.BufferTensorDesc("uint8", (count, 3, 480, 640), (921600, 1, 1920, 3))
    same, small = (sg.BufferTensorDesc("float32", (count, 3, *size)) for size in ((480, 640), (256, 256)))
    options = {"normalize": "imagenet", "device": "cuda"}
    plans = (
        sg.plan_relayout(photos, same, **options),
        sg.plan_gather_crops(photos, (256, 256), dtype="float32", **options),
        sg.plan_resize(photos, small, passes="horizontal", **options),
        sg.plan_letterbox(photos, small, **options),
    )
    kernels = common_kernels()
    for plan in plans:
        launch = GpuPlanner("cuda:0", KNOWN_GPUS[gpu]).plan(plan.plan.problem).launch
        assert Kernel(launch.sources, launch.name, architecture) in kernels, launch.name


@pytest.fixture
def _compiler():
    reason = machine_code.why_unavailable()
    if reason:
        pytest.skip(reason)


@pytest.mark.usefixtures("_compiler")
def test_the_file_has_what_the_package_reads_and_the_same_bytes_each_time(tmp_path, monkeypatch):
    chosen = [kernel for kernel in common_kernels() if "copy_flat" in kernel.name and kernel.architecture == 90]
    files = [tmp_path / name for name in ("one.zip", "other.zip")]
    for path, kernels in zip(files, (chosen, chosen[::-1]), strict=True):
        write(path, entries(kernels))
    assert files[0].read_bytes() == files[1].read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"one.zip", "other.zip"}
    monkeypatch.setattr(cubins, "_archive", lambda: files[0])
    for kernel in chosen:
        cubin = cubins.stored_cubin(joined_source(*kernel.sources), kernel.name, 90)
        assert cubin.packed() == compiled(kernel)[1]
        assert cubin.code.startswith(b"\x7fELF")
        assert cubin.symbol.encode() in cubin.code


@pytest.mark.usefixtures("_compiler")
def test_no_symbol_has_the_time_and_the_process_in_its_name():
    """NVRTC names what has internal linkage after both: constants in a namespace are `inline`."""
    one_of_each = {kernel.sources: kernel for kernel in sorted(common_kernels()) if kernel.architecture == 90}
    assert [sources for sources, kernel in one_of_each.items() if b"_INTERNAL_" in compiled(kernel)[1]] == []
