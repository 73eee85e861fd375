"""What batches of resizes ask of a GPU, computed and not measured (`kernel_model.py`).

    python benchmarks/resize_model.py             a table, for an H200 unless `a100`, `b200` or `5090` follows; names of
                                                  works may follow
    python benchmarks/resize_model.py --tiles     the same without products of matrices

Each work is a batch of 64 images or frames of one size, in records of their own. Bytes that must move are each pixel
that taps reach once, of a frame its samples, and each element of the result once.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from benchmarks.suite.resizes import BATCH, RESIZES, ResizeWork
from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cuda.frames import frame_record
from stridedgpu.devices.cuda.policy import ResizeProductsPolicy, policy, using
from stridedgpu.devices.cuda.resize import ResizeSample, choose_resize, resize_launch, resize_records
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.operand import Operand
from stridedgpu.problems.resize_problem import ResizeProblem, ResizeRule, ResizeWindow
from stridedgpu.values.conversion import conversion
from stridedgpu.values.dtypes import element_type
from stridedgpu.values.interpolation import interpolation_named
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import packed_strides
from stridedgpu.values.tensor_spec import TensorSpec

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from harness.emulator.machine_code import disassembled
from kernel_model import MACHINES, SOURCE, Machine, model

WITHOUT_PRODUCTS = replace(policy(), resize=replace(policy().resize, products=ResizeProductsPolicy(tiles=())))
"""All resizes by sums of one thread each."""


def frame_of(work: ResizeWork) -> FrameOperand | None:
    """One frame, over no more memory than any format needs; None for images."""
    return None if work.format is None else work.frame(bytes(work.frame_bytes)).operand


def problem_of(work: ResizeWork) -> ResizeProblem:
    """What is planned."""
    frame = frame_of(work)
    source = element_type("uint8") if frame is None else frame.element
    target = element_type(work.element)
    made = conversion(source, target, source_channels=3, **work.options)
    sizes, picture = (BATCH, 3, *work.target), (3, *work.source)
    layout = Layout(picture, packed_strides(picture, "HWC"))
    surface = None if frame is None else frame.surface
    window = ResizeWindow(layout, (0.0, 0.0, *map(float, work.source)), (0, 0, *work.target), surface=surface)
    spec = TensorSpec(Layout(sizes, packed_strides(sizes, work.order)), target, 32)
    rule = ResizeRule(interpolation_named(work.interpolation), work.passes)
    fill = bytes(3 * source.itemsize)
    return ResizeProblem(spec, made, rule, 3, (1, 3), fill, window, reads_frames=frame is not None)


def record_of(work: ResizeWork, address: int) -> bytes:
    """The record of the frame at an address; empty for images."""
    frame = frame_of(work)
    if frame is None:
        return b""
    there = Buffer(address, frame.planes[0].buffer.nbytes, owner=None, alignment=16)
    planes = tuple(Operand(there, plane.layout, plane.element) for plane in frame.planes)
    return frame_record(replace(frame, planes=planes))


def computed(work: ResizeWork, machine: Machine = MACHINES["h200"]) -> dict[str, object]:
    """The figures of one work on a GPU."""
    problem = problem_of(work)
    window = problem.window
    assert window is not None
    choice = choose_resize(problem, machine.gpu)
    picture = window.layout.span * problem.conversion.source.itemsize
    taps, place = problem.taps(window), problem.visible(window)
    addresses = [SOURCE + number * picture for number in range(BATCH)]
    samples = [
        ResizeSample(window, taps, address, number, place, record_of(work, address))
        for number, address in enumerate(addresses)
    ]
    launch = resize_launch(choice, [sample.taps for sample in samples])
    code = disassembled(joined_source(*launch.sources), [launch.name], machine.architecture)[launch.name]
    figures = model(launch, code, problem.bytes_moved, records=resize_records(samples, 1), machine=machine)
    tiles = choice.tiles
    tile = "" if tiles is None else f"{tiles.height}x{tiles.width}"
    return {"tile": tile, "shared_bytes": launch.shared_bytes, **figures}


def main(words: list[str]) -> None:
    """Print the table."""
    headings: list[str] = []
    machine = next((MACHINES[word] for word in words if word in MACHINES), MACHINES["h200"])
    with using(WITHOUT_PRODUCTS) if "--tiles" in words else nullcontext():
        for name in [word for word in words if word in RESIZES] or RESIZES:
            figures = computed(RESIZES[name], machine)
            if not headings:
                headings = list(figures)
                print("work".ljust(18), *(key.replace("_", " ") for key in headings), sep=" | ")
            print(name.ljust(18), *(str(value).rjust(len(key)) for key, value in figures.items()), sep=" | ")


if __name__ == "__main__":
    main(sys.argv[1:])
