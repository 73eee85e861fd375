"""The commands `show` and `explain`: what they print and write, and every refusal in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu import picture
from stridedgpu.__main__ import main
from stridedgpu.devices.cuda.gpu import KNOWN_GPUS
from stridedgpu.values.layout import Layout


@pytest.fixture(autouse=True)
def _a_hundred_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("frames.npy", np.zeros((2, 4, 5, 3), np.uint8))
    np.save("swapped.npy", np.zeros((2, 3), ">u2"))
    Path("text.npy").write_text("not an array", encoding="utf-8")
    return tmp_path


def said(capsys, *arguments: str) -> str:
    assert main(arguments) == 0
    out, problems = capsys.readouterr()
    assert problems == ""
    return out.rstrip("\n")


SHOWN = {
    "pitched pixels": (
        ("--sizes", "1,3,4,5", "--layout", "NHWC", "--dtype", "uint8", "--row-pitch", "16"),
        Layout((1, 3, 4, 5), (64, 1, 16, 3)),
        {"dtype": "uint8"},
    ),
    "broadcast": (
        ("--sizes", "2,3,4,5", "--broadcast", "N,C", "--dtype", "float16"),
        Layout((2, 3, 4, 5), (0, 0, 5, 1)),
        {"dtype": "float16"},
    ),
    "broadcast by number": (("--sizes", "2,3", "--broadcast", "0"), Layout((2, 3), (0, 1)), {"dtype": "uint8"}),
    "WH": (("--sizes", "2,3", "--layout", "wh"), Layout((2, 3), (1, 2)), {"dtype": "uint8", "dims": "HW"}),
    "strides": (("--sizes", "2,3", "--strides", "5,1"), Layout((2, 3), (5, 1)), {"dtype": "uint8"}),
    "flipped": (("--sizes", "2,3", "--strides=-3,1"), Layout((2, 3), (-3, 1), offset=3), {"dtype": "uint8"}),
    "channels in eights": (
        ("--sizes", "1,3,2,2", "--layout", "NHWC8"),
        Layout((1, 3, 2, 2), (32, 1, 16, 8)),
        {"dtype": "uint8", "buffer_elements": 32},
    ),
    "blocks of channels": (
        ("--sizes", "1,5,2,2", "--layout", "NCHW4"),
        Layout((1, 2, 4, 2, 2), (32, 16, 1, 8, 4)),
        {"dtype": "uint8", "dims": ""},
    ),
    "coordinates": (
        ("--sizes", "2,2", "--labels", "coordinates"),
        Layout((2, 2)),
        {"dtype": "uint8", "labels": "coordinates"},
    ),
}


@pytest.mark.parametrize("arguments, layout, options", SHOWN.values(), ids=SHOWN)
def test_show_prints_the_layout(capsys, arguments, layout, options):
    drawn, _, figures = said(capsys, "show", *arguments).rpartition("\n\n")
    assert drawn == picture.text(layout, **options)
    assert figures.startswith(("rows ", "memory "))
    assert "DirectML  " in figures


def test_show_a_file(folder, capsys):
    tensor = sg.asarray(np.load("frames.npy"), dims="NHWC")
    assert said(capsys, "show", "frames.npy", "--dims", "NHWC") == picture.text(tensor)
    assert said(capsys, "show", "frames.npy").startswith("sizes   N=2 C=4 H=5 W=3\n")


def test_show_billions_at_once(capsys):
    out = said(capsys, "show", "--sizes", "64,3,32768,65536", "--layout", "NHWC", "--dtype", "float32")
    assert "412,316,860,416 elements" in out
    assert len(out) < 6000


def test_show_writes_a_page_and_a_drawing(folder, capsys):
    given = ("--sizes", "1,3,4,5", "--layout", "NHWC")
    assert said(capsys, "show", *given, "--html", "out.html") == "wrote 'out.html'"
    page = Path("out.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "<title>uint8 NHWC 1,3,4,5</title>" in page
    said(capsys, "show", *given, "--svg", "out.svg")
    cells = [
        node
        for node in ET.fromstring(Path("out.svg").read_text(encoding="utf-8")).iter()
        if node.get("class") == "sg-cell"
    ]
    assert len(cells) == 60


def test_the_name_of_a_file_is_escaped(folder, capsys):
    Path("frames.npy").rename("<b>&.npy")
    said(capsys, "show", "<b>&.npy", "--html", "out.html")
    page = Path("out.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;&amp;.npy" in page
    assert "<b>" not in page


def test_explain_says_how_wide_and_what_limits(capsys):
    out = said(
        capsys,
        "explain",
        "--from",
        "uint8:NHWC:8,3,224,224:pitch=680",
        "--to",
        "float16:NCHW:8,3,224,224",
        "--scale",
        "0.5",
    )
    assert out.startswith("channels_uint8x8B_float16x16B on cuda:0\n")
    assert "3612672 bytes must move: 1204224 read, 2408448 written" in out
    assert (
        "wider loads: not while the source's runs start 680 B apart, a multiple of 8 only; pad that to 688 for 16"
        in out
    )
    assert "planned for NVIDIA H200" in out


def test_explain_when_nothing_is_in_the_way(capsys):
    out = said(capsys, "explain", "--from", "uint8:NHWC:8,3,64,64", "--to", "uint8:NCHW:8,3,64,64")
    assert "loads and stores are as wide as they can be" in out


@pytest.mark.parametrize("name, numbers", [("bgr", "2,1,0"), ("BGR", "2,1,0"), ("rgb", "0,1,2")])
def test_explain_takes_channels_by_name(capsys, name, numbers):
    sides = ("explain", "--from", "uint8:NHWC:1,3,4,5", "--to", "float16:NCHW:1,3,4,5", "--channels")
    assert said(capsys, *sides, name) == said(capsys, *sides, numbers)


def test_explain_of_a_broadcast_and_of_swapped_channels(capsys):
    out = said(
        capsys,
        "explain",
        "--from",
        "uint8:NCHW:8,3,4,64:broadcast=N",
        "--to",
        "uint8:NCHW:8,3,4,64",
        "--channels",
        "2,1,0",
    )
    assert f"{3 * 4 * 64} read" in out


def test_explain_without_memory_for_it(capsys):
    size = "1,3,65536,65536"
    out = said(capsys, "explain", "--from", f"uint8:NHWC:{size}", "--to", f"float32:NCHW:{size}")
    assert "64-bit indices" in out


def test_explain_as_a_page(folder, capsys):
    sides = ("--from", "uint8:NHWC:1,3,2,16", "--to", "float16:NCHW:1,3,2,16")
    said(capsys, "explain", *sides, "--html", "plan.html")
    assert 'aria-label="source"' in Path("plan.html").read_text(encoding="utf-8")
    said(capsys, "explain", *sides, "--svg", "plan.svg")
    assert 'class="sg-vector"' in Path("plan.svg").read_text(encoding="utf-8")


TO = ("--to", "uint8:NCHW:1,3,4,5")
REFUSALS = {
    "nothing": (("show",), "give a FILE.npy or --sizes, one of them"),
    "both": (("show", "frames.npy", "--sizes", "2,3"), "give a FILE.npy or --sizes"),
    "dtype of a file": (("show", "frames.npy", "--dtype", "uint8"), "--dtype describes a tensor of --sizes"),
    "row pitch of a file": (("show", "frames.npy", "--row-pitch", "8"), "--row-pitch describes a tensor of --sizes"),
    "dims of sizes": (("show", "--sizes", "2,3", "--dims", "HW"), "--dims is for a file"),
    "no file": (("show", "none.npy"), "'none.npy' cannot be read: No such file"),
    "not an array": (("show", "text.npy"), "'text.npy' is not a readable .npy file"),
    "swapped": (("show", "swapped.npy"), "byte-swapped"),
    "dims of a file": (("show", "frames.npy", "--dims", "NHWQ"), "dims='NHWQ' holds 'Q'"),
    "sizes": (("show", "--sizes", "2,x"), "argument --sizes: '2,x' is not a list of whole numbers"),
    "strides": (("show", "--sizes", "2,3", "--strides", "a,1"), "argument --strides: 'a,1' is not a list"),
    "strides too few": (("show", "--sizes", "2,3", "--strides", "1"), "one stride for each size"),
    "strides and pitch": (("show", "--sizes", "2,3", "--strides", "5,1", "--row-pitch", "8"), "strides say all"),
    "layout": (("show", "--sizes", "2,3", "--layout", "HQ"), "layout='HQ' holds 'Q'"),
    "layout too long": (
        ("show", "--sizes", "2,3", "--layout", "NCHW"),
        "the order NCHW has 4 axes, and there are 2 sizes",
    ),
    "dtype": (("show", "--sizes", "2,3", "--dtype", "uint4"), "argument --dtype: A tensor cannot hold elements"),
    "row pitch": (("show", "--sizes", "1,3,4,5", "--layout", "NHWC", "--row-pitch", "8"), "is smaller than a row: 15"),
    "row pitch word": (("show", "--sizes", "2,3", "--row-pitch", "-8"), "'-8' is not a whole number"),
    "broadcast": (("show", "--sizes", "1,3,4,5", "--broadcast", "Q"), "broadcast axis 'Q' is unknown"),
    "broadcast blocks": (
        ("show", "--sizes", "1,8,4,5", "--layout", "NCHW4", "--broadcast", "H"),
        "its channels are split in blocks",
    ),
    "labels": (("show", "--sizes", "30,30", "--labels", "letters"), "labels='letters' can name 702"),
    "both outputs": (("show", "--sizes", "2,3", "--svg", "a", "--html", "b"), "not allowed with argument"),
    "output folder": (("show", "--sizes", "2,3", "--svg", "no/a.svg"), "there is no folder"),
    "side": (("explain", "--from", "uint8", *TO), "'uint8' is not DTYPE:ORDER:SIZES"),
    "side's order": (("explain", "--from", "uint8:NHWQ:1,3,4,5", *TO), "layout='NHWQ' holds 'Q'"),
    "side's option": (("explain", "--from", "uint8:NHWC:1,3,4,5:step=3", *TO), "'step=3' in 'uint8:NHWC"),
    "side's alignment": (("explain", "--from", "uint8:NHWC:1,3,4,5:align=3", *TO), "align=3 in"),
    "other sizes": (("explain", "--from", "uint8:NHWC:1,3,4,6", *TO), "--to has sizes (1, 3, 4, 5)"),
    "target repeats": (
        ("explain", "--from", "uint8:NHWC:1,3,4,5", "--to", "uint8:NCHW:1,3,4,5:broadcast=C"),
        "--to repeats or overlaps",
    ),
    "channels": (("explain", "--from", "uint8:NHWC:1,3,4,5", *TO, "--channels", "2,1,7"), "asks for channel 7"),
    "channels by another name": (
        ("explain", "--from", "uint8:NHWC:1,3,4,5", *TO, "--channels", "gbr"),
        "'gbr' is not a list of whole numbers",
    ),
    "scale": (("explain", "--from", "uint8:NHWC:1,3,4,5", *TO, "--scale", "x"), "'x' is not one number"),
    "one side": (("explain", "--from", "uint8:NHWC:1,3,4,5"), "the following arguments are required: --to"),
}


@pytest.mark.parametrize("arguments, message", REFUSALS.values(), ids=REFUSALS)
def test_refusals_are_one_line_and_leave_nothing(folder, capsys, arguments, message):
    before = sorted(folder.iterdir())
    try:
        code = main(arguments)
    except SystemExit as left:
        code = left.code
    out, problems = capsys.readouterr()
    assert (code, out) == (2, "")
    assert message in problems
    assert problems.startswith("stridedgpu")
    assert problems.count("\n") == 1
    assert sorted(folder.iterdir()) == before


def test_a_terminal_without_unicode_gets_question_marks():
    command = [sys.executable, "-m", "stridedgpu", "show", "--sizes", "2,3", "--strides", "5,1"]
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(root)}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=600, check=True)
    assert b"A B C ? ? D E F" in done.stdout
    assert done.stderr == b""


def test_describe_has_the_descriptor_and_whose_padding_it_is():
    tensor = sg.empty((1, 3, 4, 5), "uint8", layout="NHWC", row_pitch_bytes=16, device="cpu")
    assert tensor.describe().splitlines()[1:] == [
        "offset 0, span 63 elements, 63 bytes of a buffer of 64",
        "elements take 60 bytes; padding between them 3 bytes (4.8%), owned: it may be overwritten",
        "DirectML can describe it: 64 bytes at least",
        (
            "descriptor: UINT8, sizes (1, 3, 4, 5), strides (64, 1, 16, 3), 64 bytes in all, "
            "32 bytes of alignment guaranteed"
        ),
        "not packed, padded, not broadcast, no overlap",
        "the first element's address is a multiple of 32 bytes",
    ]
    window = tensor[:, :, 1:3, 1:3].describe()
    assert "not owned" in window
    assert "multiple of 1 bytes" in window
    repeated = sg.zeros((1, 4), "float16", device="cpu").broadcast_to((3, 4)).describe()
    assert "elements take 8 bytes; padding between them 0 bytes (0.0%)" in repeated
    assert "not packed, not padded, broadcast, elements overlap" in repeated
    windows = sg.zeros((8,), "uint8", device="cpu").as_strided((6, 3), (1, 1)).describe()
    assert "elements overlap: how much of the span is padding is not counted" in windows


# Sizes as people type them, figures, and what is planned for


@pytest.mark.parametrize(
    "typed", ["1,3,4,5", "1x3x4x5", "1X3X4X5", "1 3 4 5", "(1, 3, 4, 5)", "[1,3,4,5]", "1 x 3 x 4 x 5"]
)
def test_sizes_are_typed_as_they_come(capsys, typed):
    out = said(capsys, "size", "--sizes", typed, "--layout", "NHWC", "--dtype", "float16", "--row-pitch", "32")
    strides = sg.calculate_strides("NHWC", (1, 3, 4, 5))
    assert "sizes     N=1 C=3 H=4 W=5" in out
    assert f"strides   N=64 C={strides[1]} H=16 W=3 elements" in out
    assert "rows      32 B apart, 30 B of elements and 2 B of padding" in out
    nbytes = sg.calc_buffer_tensor_size("float16", (1, 3, 4, 5), (64, 1, 16, 3))
    assert f"DirectML  {nbytes} B, DML_TENSOR_DATA_TYPE_FLOAT16 (2)" in out


@pytest.mark.parametrize(
    "arguments, figure",
    [
        (("--sizes", "4,5", "--dtype", "bfloat16"), "DirectML  has no type for bfloat16"),
        (("--sizes", "4,0"), "DirectML  cannot describe it: "),
        (("--sizes", "2,3", "--broadcast", "0"), "memory    3 B, 0 of them padding"),
        (("--sizes", "2,3", "--strides", "5,1"), "memory    8 B, 2 of them padding"),
        (("--sizes", "7"), "sizes     7"),
    ],
)
def test_size_prints_the_figures_of_any_tensor(capsys, arguments, figure):
    assert figure in said(capsys, "size", *arguments)


@pytest.mark.parametrize(
    "sizes, layout, meant",
    [("8,480,640,3", "NHWC", "8,3,480,640"), ("480x640x3", "HWC", "3,480,640"), ("8,3,480,640", "NHWC", None)],
)
def test_channels_that_come_last_are_hinted_at(capsys, sizes, layout, meant):
    out = said(capsys, "size", "--sizes", sizes, "--layout", layout)
    assert ("hint: " in out) == (meant is not None)
    assert meant is None or f"for 3 channels give {meant}." in out


def test_a_refusal_keeps_the_hint(capsys):
    with pytest.raises(SystemExit):
        main(["explain", "--from", "uint8:NHWC:8x224x224x3", "--to", "float16:NCHW:8x3x224x224"])
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "--to has sizes (8, 3, 224, 224)" in line
    assert "hint: --from: sizes are in the order NCHW" in line
    assert line.endswith("for 3 channels give 8,3,224,224.")


COPY = ("explain", "--from", "uint8:NCHW:8x3x64x64", "--to", "uint8:NCHW:8x3x64x64")
MOVE = ("explain", "--from", "uint8:NHWC:8x3x64x64", "--to", "float16:NCHW:8x3x64x64")


@pytest.mark.parametrize("name", KNOWN_GPUS)
def test_a_plan_for_each_known_gpu_is_its_planners(capsys, name):
    gpu = KNOWN_GPUS[name]
    out = said(capsys, *COPY, "--on", name)
    assert f"planned for {gpu.name} (compute capability {gpu.compute_capability / 10}" in out
    assert f"loads {gpu.widest_access} B" in out


def test_plans_for_several_devices_follow_each_other(capsys):
    out = said(capsys, *MOVE, "--on", "cpu, b200")
    assert out.index("on cpu") < out.index("this machine's CPU") < out.index("on cuda:0") < out.index("NVIDIA B200")
    assert said(capsys, *MOVE, "--on", "all").count("planned for") == 1 + len(KNOWN_GPUS)


def test_what_nobody_knows_is_not_planned_for(capsys):
    with pytest.raises(SystemExit):
        main([*MOVE, "--on", "tpu"])
    assert "'tpu' is not known; there are cpu, t4, a100" in capsys.readouterr().err
