"""The facts of every workload that no machine changes, recorded and compared: what guards fast paths without a timer.

    python benchmarks/kernel_facts.py             say what differs from benchmarks/facts/kernels.json
    python benchmarks/kernel_facts.py --write     record what is now, to be read in the diff and committed
    python benchmarks/kernel_facts.py --model     what each launch asks of a GPU, computed (`kernel_model.py`); a GPU,
                                                  h200 without one, and names of workloads may follow

The workloads are those of the benchmark, frames of 1080p, and, of what is computed, gathers in the modes of
`kernels_alone.py` and its resizes. For each launch: family and widths, bytes that must move,
index width, kernel, grid and block. Where NVRTC and the disassembler are installed, also how many instructions the
kernel's machine code has for sm_90, and, of the benchmark's workloads, what it asks of a GPU; instructions are compared
to one when the compiler is the recorded one, and with a margin when it is another, and what is computed from them with
the recorded one only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

import stridedgpu as sg
from benchmarks.suite.facts import Step, facts_of, gathers_of, steps_of
from benchmarks.suite.resizes import RESIZES
from benchmarks.suite.workloads import WORKLOADS, Crops, Embed, Workload, workloads_named
from stridedgpu.devices.cuda.crops import crop_records
from stridedgpu.devices.cuda.gpu import REFERENCE_GPU, GpuProperties
from stridedgpu.devices.cuda.plan import GpuPlanner
from stridedgpu.devices.cuda.sources import joined_source
from stridedgpu.problems.crop_windows import Crops as Windows
from stridedgpu.values.layout import Layout

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from harness.emulator import machine_code
from harness.emulator.warp import UnknownInstructionError
from kernel_model import MACHINES, SOURCE, Machine, model
from resize_model import computed as computed_resize

RECORDED = Path(__file__).parent / "facts" / "kernels.json"
ARCHITECTURE = "sm_90"
GUARDED = {gpu: MACHINES[gpu] for gpu in ("h200", "b200", "5090")}
"""The GPUs whose figures are recorded."""
MARGIN = 0.25
"""By how much another compiler's code may be longer before it is looked at."""


def planned_facts() -> dict[str, object]:
    """What the planner decides, by workload."""
    frames = {name: {"launches": [step.facts]} for name, step in frame_steps().items()}
    return {workload.name: facts_of(workload) for workload in WORKLOADS} | frames


@cache
def frame_steps(gpu: GpuProperties = REFERENCE_GPU) -> dict[str, Step]:
    """Frames of 1080p by every kernel that reads them, to pixels and to planes."""
    planner = GpuPlanner("cuda:0", gpu)
    pixels = sg.BufferTensorDesc("uint8", (3, 1080, 1920), (1, 5760, 3))
    planes, gray = sg.BufferTensorDesc("float16", (3, 1080, 1920)), sg.BufferTensorDesc("float16", (1, 1080, 1920))
    cases = {
        "frame-nv12-pixels": (_frame("nv12"), pixels, {}),
        "frame-nv12-planes": (_frame("nv12"), planes, {"scale": 1 / 255}),
        "frame-i420-planes": (_frame("i420"), planes, {"scale": 1 / 255}),
        "frame-yuyv-pixels": (_frame("yuyv"), pixels, {}),
        "frame-p010-planes": (_frame("p010"), planes, {"scale": 1 / 65535}),
        "frame-linear": (_frame("nv12", chroma="linear"), planes, {"scale": 1 / 255}),
        "frame-gray": (_frame("nv12"), gray, {"scale": 1 / 255, "matrix": [[0.2126, 0.7152, 0.0722]]}),
    }
    return {
        name: Step.of(planner.plan(sg.plan_relayout(frame, target, device="cuda", **values).plan.problem))
        for name, (frame, target, values) in cases.items()
    }


def _frame(name: str, **options: str) -> sg.Frame:
    """A frame of 1080p, with no more memory than any format needs."""
    return sg.Frame.over(name, bytes(1080 * 1920 * 3), (1080, 1920), **options)


def instruction_counts() -> dict[str, int]:
    """Instructions of each kernel that any workload launches, by name."""
    counts = {}
    for sources, names in kernels().items():
        compiled = machine_code.compile_kernels(joined_source(*sources), sorted(names), ARCHITECTURE)
        counts |= {name: code.instructions for name, code in compiled.items()}
    return dict(sorted(counts.items()))


def kernels(gpu: GpuProperties = REFERENCE_GPU) -> dict[tuple[str, ...], set[str]]:
    """The kernels of all workloads on a GPU, by their sources."""
    found: dict[tuple[str, ...], set[str]] = {}
    for workload in WORKLOADS:
        unwaited = gathers_of(workload, gpu).values() if isinstance(workload, Embed) else ()
        for step in (*steps_of(workload, gpu), *unwaited):
            found.setdefault(step.launch.sources, set()).add(step.launch.name)
    for step in frame_steps(gpu).values():
        found.setdefault(step.launch.sources, set()).add(step.launch.name)
    return found


@cache
def disassembled(sources: tuple[str, ...], machine: Machine) -> dict[str, machine_code.Disassembly]:
    """The machine code of all workloads' kernels from these sources."""
    names = sorted(kernels(machine.gpu)[sources])
    return machine_code.disassembled(joined_source(*sources), names, machine.architecture)


def computed_facts(machine: Machine, names: tuple[str, ...] = ()) -> dict[str, list[dict]]:
    """What each launch asks of a GPU, by workload; not where a call's cost is the question."""
    named = [name for name in names if name not in RESIZES and name not in frame_steps()]
    workloads = [one for one in workloads_named(tuple(named)) if one.measures == "speed"] if named or not names else []
    facts = {one.name: [computed(one, step, machine) for step in steps_of(one, machine.gpu)] for one in workloads}
    for embed in workloads:
        if isinstance(embed, Embed):
            for mode, step in gathers_of(embed, machine.gpu).items():
                facts[embed.name + mode] = [computed(embed, step, machine)]
    for name, work in RESIZES.items():
        if not names or name in names:
            facts[name] = [computed_resize(work, machine)]
    if machine.gpu is not REFERENCE_GPU:
        return facts
    for name, step in frame_steps().items():
        if not names or name in names:
            facts[name] = [computed(None, step, machine)]
    return facts


def computed(workload: Workload | None, step: Step, machine: Machine) -> dict:
    """What one launch asks of a GPU, or the instruction that the executor does not know."""
    code = disassembled(step.launch.sources, machine)[step.launch.name]
    try:
        return model(step.launch, code, step.bytes_moved, indices(workload), records(workload), machine)
    except UnknownInstructionError as error:
        return {"unknown_instruction": str(error)}


def indices(workload: Workload | None) -> np.ndarray | None:
    """Every row once, in random order."""
    if not isinstance(workload, Embed):
        return None
    return np.random.default_rng(0).permutation(workload.sizes["gpu"][0]).astype(workload.index_type)


def records(workload: Workload | None) -> bytes:
    """Windows anywhere in the frames, every other one mirrored, as the workload has them."""
    if not isinstance(workload, Crops):
        return b""
    frames, channels, height, width, windows, side = workload.sizes["gpu"]
    frame = Layout((channels, height, width), (1, width * channels, channels))
    random = np.random.default_rng(0)
    origins = random.integers(0, (height - side, width - side), (windows, 2))
    crops = Windows((frame,) * windows, origins, [bool(number % 2) for number in range(windows)])
    addresses = SOURCE + random.integers(0, frames, windows) * frame.span
    return crop_records(crops, addresses, (side, side), 1).tobytes()


def compiler() -> str:
    return ".".join(map(str, machine_code._nvrtc_version()))


def recorded() -> dict:
    return json.loads(RECORDED.read_text(encoding="utf-8"))


def changed_plans(held: dict) -> list[str]:
    """A line for each workload whose launches are not those recorded."""
    now = json.loads(json.dumps(planned_facts()))
    lines = [f"{name}: no longer a workload" for name in held["workloads"].keys() - now.keys()]
    for name, facts in now.items():
        before = held["workloads"].get(name, {"launches": []})["launches"]
        if len(facts["launches"]) != len(before):
            lines.append(f"{name}: {len(before)} launches recorded, {len(facts['launches'])} now")
            continue
        for number, (old, new) in enumerate(zip(before, facts["launches"], strict=True)):
            differs = [f"{key} {old.get(key)} -> {new[key]}" for key in new if new[key] != old.get(key)]
            lines += [f"{name}, launch {number}: {'; '.join(differs)}"] if differs else []
    return lines


def changed_code(held: dict) -> list[str]:
    """A line for each kernel whose code is longer or shorter than recorded."""
    now, before = instruction_counts(), held["instructions"]
    same = held["compiler"] == compiler()
    lines = [f"{name}: not recorded" for name in now.keys() - before.keys()]
    for name in now.keys() & before.keys():
        old, new = before[name], now[name]
        if (new != old) if same else (new > old * (1 + MARGIN)):
            lines.append(f"{name}: {old} instructions recorded, {new} now")
    return sorted(lines)


def changed_model(held: dict) -> list[str]:
    """A line for each launch of which something else is computed than recorded."""
    if held["compiler"] != compiler():
        return []
    lines = []
    for gpu, machine in GUARDED.items():
        for name, launches in computed_facts(machine).items():
            before = held["computed"][gpu].get(name, [])
            for number, new in enumerate(launches):
                old = before[number] if number < len(before) else {}
                differs = [f"{key} {old.get(key)} -> {new[key]}" for key in new if new[key] != old.get(key)]
                lines += [f"{name}, launch {number}, on a {gpu}: {'; '.join(differs)}"] if differs else []
    return lines


def print_model(names: Sequence[str]) -> None:
    """The computed facts as a table."""
    gpu, *workloads = names if names and names[0] in MACHINES else ("h200", *names)
    facts = computed_facts(MACHINES[gpu], tuple(workloads))
    rows = [(name, figures) for name, launches in facts.items() for figures in launches]
    headings = None
    for name, figures in rows:
        if headings != list(figures):
            headings = list(figures)
            print(f"{'':18}", *(key.replace("_", " ") for key in headings), sep=" | ")
        print(name.ljust(18), *(str(value).rjust(len(key)) for key, value in figures.items()), sep=" | ")


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--model"]:
        print_model(arguments[1:])
        return 0
    if arguments == ["--write"]:
        held = {
            "architecture": ARCHITECTURE,
            "compiler": compiler(),
            "instructions": instruction_counts(),
            "workloads": planned_facts(),
            "computed": {gpu: computed_facts(machine) for gpu, machine in GUARDED.items()},
        }
        RECORDED.parent.mkdir(exist_ok=True)
        RECORDED.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
        return 0
    held = recorded()
    reason = machine_code.why_unavailable()
    lines = changed_plans(held) + (
        [f"instructions not compared: {reason}"] if reason else changed_code(held) + changed_model(held)
    )
    print("\n".join(lines) or "nothing differs from what is recorded")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
