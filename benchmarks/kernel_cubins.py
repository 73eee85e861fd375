"""Compile the commonest kernels for each architecture: the zip file that sdist and wheel bring (`cubins.py`).

    python benchmarks/kernel_cubins.py            write stridedgpu/devices/cuda/cubins.zip, before `python -m build`
    python benchmarks/kernel_cubins.py FILE       write another file

The kernels are those that plans name for the GPUs of an architecture: `warmup()`'s relayouts; resizes, letterboxes and
crops of uint8 images to planes and pixels, as they are, divided by 255 or normalised; and the benchmark's workloads.
Any other kernel is compiled at its first use. The file is the same bytes for the same sources and compiler, which is
NVRTC through cuda-bindings.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import kernel_facts
import resize_model
from harness.emulator import machine_code

import stridedgpu as sg
from benchmarks.suite.resizes import RESIZES
from stridedgpu.api.warmup import COMMON, common_plan
from stridedgpu.devices.cuda import cubins
from stridedgpu.devices.cuda.gpu import KNOWN_GPUS, GpuProperties
from stridedgpu.devices.cuda.plan import GpuPlanner
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.problems.device_plan import Problem

RESULTS = (
    ("uint8", "NHWC", {}),
    ("uint8", "NCHW", {}),
    *(
        (dtype, "NCHW", options)
        for dtype in ("float16", "float32")
        for options in ({"scale": 1 / 255}, {"normalize": "imagenet"})
    ),
)
"""What images of bytes become: type, order and options."""

SIZE, PHOTOS = (224, 224), ((240, 320), (375, 500), (480, 640), (1080, 1920), (2160, 3840))
"""Heights and widths of results, and of images that are resized to them: how far images shrink chooses the kernel."""

BATCHES = (1, 8, 64, 256)
"""Images of a batch; a small batch has other tiles than a large one."""


class Kernel(NamedTuple):
    """An instantiation, and the architecture that it is compiled for."""

    sources: tuple[str, ...]
    name: str
    architecture: int


def common_kernels() -> set[Kernel]:
    """The commonest kernels of every architecture."""
    return {
        Kernel(sources, name, architecture)
        for architecture, capabilities in cubins.RUNS_ON.items()
        for gpu in KNOWN_GPUS.values()
        if gpu.compute_capability in capabilities
        for sources, name in kernels_of(gpu)
    }


def kernels_of(gpu: GpuProperties) -> Iterator[tuple[tuple[str, ...], str]]:
    """Sources and names of the commonest kernels of a GPU."""
    planner = GpuPlanner("cuda:0", gpu)
    for problem in common_problems():
        launch = planner.plan(problem).launch
        assert launch is not None, "every problem moves something"
        yield launch.sources, launch.name
    for sources, names in kernel_facts.kernels(gpu).items():
        yield from ((sources, name) for name in names)


def common_problems() -> Iterator[Problem]:
    """Relayouts, resizes and crops that image pipelines begin with."""
    for count in BATCHES:
        yield from (common_plan(case, "cuda", count).plan.problem for case in COMMON)
        for dtype, order, options in RESULTS:
            photos, target = images("uint8", "NHWC", count, SIZE), images(dtype, order, count, SIZE)
            yield sg.plan_relayout(photos, target, **options, device="cuda").plan.problem
            yield sg.plan_gather_crops(photos, SIZE, out=target, **options, device="cuda").plan.problem
    for (dtype, order, options), size in itertools.product(RESULTS, PHOTOS):
        photos, target = images("uint8", "NHWC", 8, size), images(dtype, order, 8, SIZE)
        for rule in ("pillow-bilinear", "opencv-linear"):
            values = {"interpolation": rule, "passes": "horizontal", **options}
            yield sg.plan_resize(photos, target, **values, device="cuda").plan.problem
    for work in RESIZES.values():
        yield resize_model.problem_of(work)


def images(dtype: str, order: str, count: int, size: tuple[int, int]) -> sg.BufferTensorDesc:
    """A descriptor of a batch of RGB images."""
    sizes = (count, 3, *size)
    return sg.BufferTensorDesc(dtype, sizes, sg.calculate_strides(order, sizes), guaranteed_base_offset_alignment=64)


def compiled(kernel: Kernel) -> tuple[str, bytes]:
    """A kernel's entry of the file."""
    source, options = joined_source(*kernel.sources), (*cubins.OPTIONS, *cubins.CUPYS_OPTIONS)
    _, code, (symbol,) = machine_code._compile(source, [kernel.name], f"sm_{kernel.architecture}", options)
    return cubins.entry_name(source, kernel.name, kernel.architecture), cubins.Cubin(symbol, code).packed()


def entries(kernels: Iterable[Kernel]) -> dict[str, bytes]:
    """Each kernel's entry, compiled by as many threads as there are cores."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(pool.map(compiled, sorted(kernels)))


def write(path: Path, contents: Mapping[str, bytes]) -> None:
    """Write the file: the same bytes for the same entries."""
    part = path.with_name(f"{path.name}.part")
    with zipfile.ZipFile(part, "w") as archive:
        for name, content in sorted(contents.items()):
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 9)
    part.replace(path)


def main(arguments: list[str]) -> None:
    """Write the file, and say what is in it."""
    path = Path(arguments[0]) if arguments else Path(cubins.__file__).with_name(cubins.FILE_NAME)
    start = time.perf_counter()
    kernels = common_kernels()
    write(path, entries(kernels))
    for architecture, count in sorted(Counter(kernel.architecture for kernel in kernels).items()):
        print(f"sm_{architecture}: {count} kernels")
    megabytes, seconds = path.stat().st_size / 1e6, time.perf_counter() - start
    print(f"{path}: {megabytes:.2f} MB in {seconds:.0f} s, by NVRTC {kernel_facts.compiler()}")


if __name__ == "__main__":
    main(sys.argv[1:])
