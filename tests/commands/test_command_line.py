"""The command line: pixels against NumPy and Pillow, every refusal, and no half-written file whatever happens."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import stridedgpu
import stridedgpu as sg
from stridedgpu.__main__ import build_parser, main
from stridedgpu.commands import job_images
from stridedgpu.commands.comparison import NumpyStep
from stridedgpu.commands.console import progress
from stridedgpu.commands.shard_formats import Npy
from stridedgpu.preprocess.loader import PART_SAMPLES

Image = pytest.importorskip("PIL.Image", reason="Pillow decodes the images: pip install stridedgpu[cli]")


def png_header(width: int, height: int) -> bytes:
    """A PNG that says it is `width` x `height` and ends there."""
    import struct
    import zlib

    ihdr = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    idat = b"IDAT" + zlib.compress(b"\0" * 64)
    chunks = (struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in (ihdr, idat, b"IEND"))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Images, damaged images and files that are none."""
    made = tmp_path_factory.mktemp("pictures")
    pixels = np.random.default_rng(5).integers(0, 256, (3, 50, 61, 3), dtype=np.uint8)
    for name, frame in zip(("a.png", "b.png", "c.png"), pixels, strict=True):
        Image.fromarray(frame).save(made / name)
    (made / "photos/inner/.cache").mkdir(parents=True)
    Image.fromarray(pixels[1]).save(made / "photos/2.png")
    Image.fromarray(pixels[2]).save(made / "photos/inner/1.PNG", format="png")
    Image.fromarray(pixels[0]).save(made / "photos/inner/.cache/thumb.png")
    (made / "photos/notes.txt").write_text("not an image", encoding="utf-8")
    (made / "empty").mkdir()
    (made / "truncated.png").write_bytes((made / "a.png").read_bytes()[:4000])
    (made / "short.png").write_bytes(png_header(300, 300))
    (made / "bomb.png").write_bytes(png_header(60000, 60000))
    (made / "smaller_bomb.png").write_bytes(png_header(10000, 10000))
    Image.fromarray(np.zeros((50, 50), np.uint16)).save(made / "deep.png")
    np.save(made / "floats.npy", np.zeros((50, 50, 3)))
    np.save(made / "frame.npy", pixels[0])
    np.save(made / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    (made / "cut.npy").write_bytes((made / "frame.npy").read_bytes()[:200])
    return made


@pytest.fixture
def folder(pictures, tmp_path, monkeypatch):
    """A working folder with copies of them, and a pipe."""
    shutil.copytree(pictures, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(stridedgpu.__file__).parents[1]))  # child processes run this same package
    os.mkfifo("pipe")
    return tmp_path


def run(*arguments: str) -> int:
    """The exit code of the command, run in this process."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as leaving:
        assert isinstance(leaving.code, int)
        return leaving.code


def python(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=600, check=False, **options
    )


def middle(frame: np.ndarray, height: int, width: int) -> np.ndarray:
    top, left = round((frame.shape[0] - height) / 2), round((frame.shape[1] - width) / 2)
    return frame[top : top + height, left : left + width]


def decoded(*names: str, size: tuple[int, int] = (32, 40)) -> np.ndarray:
    return np.stack([middle(np.asarray(Image.open(name).convert("RGB")), *size) for name in names])


def listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


# ---- pixels


def test_folders_are_searched_in_order_of_names(folder):
    assert run("preprocess", "photos", "a.png", "--size", "32x40", "--dtype", "uint8", "--out", "o.npy") == 0
    expected = decoded("photos/2.png", "photos/inner/1.PNG", "a.png").transpose(0, 3, 1, 2)
    assert np.array_equal(np.load("o.npy", allow_pickle=False), expected)


@pytest.mark.parametrize("shape", [(40, 44), (40, 44, 1), (40, 44, 3), (40, 44, 4)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_pictures(folder, shape, order):
    pixels = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    np.save("in.npy", np.asarray(pixels, order=order))
    expected = pixels if pixels.ndim == 3 else pixels[..., np.newaxis]
    expected = np.broadcast_to(expected[..., :3] if shape[-1] != 1 else expected, (40, 44, 3))
    options = ("--size", "40x44", "--dtype", "uint8", "--layout", "NHWC")
    assert run("preprocess", "in.npy", *options, "--out", "o.npy") == 0
    assert np.array_equal(np.load("o.npy", allow_pickle=False)[0], expected)
    assert run("preprocess", "in.npy", *options, "--resize", "40", "--out", "resized.npy") == 0
    assert np.array_equal(np.load("resized.npy", allow_pickle=False)[0], expected)


@pytest.mark.parametrize(
    "layout, pitch, strides",
    [("NCHW", 48, (32 * 48 * 3, 32 * 48, 48, 1)), ("NHWC", 128, (32 * 128, 1, 128, 3))],
)
def test_row_pitch_pads_the_memory_and_not_the_file(folder, capsys, layout, pitch, strides):
    size = ("--size", "32x40")
    options = ("--layout", layout, "--row-pitch", pitch, "--dtype", "uint8", "--alignment", "64", "--raw", "o.bin")
    assert run("preprocess", "a.png", "b.png", *size, *options, "--out", "o.npy") == 0
    batch = np.load("o.npy", allow_pickle=False)
    expected = decoded("a.png", "b.png").transpose(["NHWC".index(axis) for axis in layout])
    assert np.array_equal(batch, expected)
    raw = np.fromfile("o.bin", np.uint8)
    view = np.lib.stride_tricks.as_strided(raw, (2, 3, 32, 40), strides)
    assert np.array_equal(view, decoded("a.png", "b.png").transpose(0, 3, 1, 2))
    said = capsys.readouterr().out
    assert f"{raw.nbytes:,} bytes, {raw.nbytes - batch.nbytes:,} of them padding" in said
    assert "aligned to 64 bytes" in said
    assert "N={} C={} H={} W={} elements".format(*strides) in said


def test_bfloat16(folder):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="has bfloat16: pip install stridedgpu[ml-dtypes]")
    options = ("--size", "32", "--normalize", "imagenet", "--device", "cpu", "--compare")
    assert run("preprocess", "a.png", "b.png", *options, "--dtype", "bfloat16", "--out", "half.npy") == 0
    assert run("preprocess", "a.png", "b.png", *options, "--out", "whole.npy") == 0
    expected = np.load("whole.npy").astype(ml_dtypes.bfloat16)
    assert np.load("half.npy").view(ml_dtypes.bfloat16).tobytes() == expected.tobytes()


# ---- chance


def test_one_picture_given_several_times_gets_windows_of_its_own(folder):
    options = ("--random-crop", "--size", "8", "--dtype", "uint8")
    assert run("preprocess", "a.png", "a.png", "a.png", *options, "--out", "o.npy") == 0
    assert len({window.tobytes() for window in np.load("o.npy", allow_pickle=False)}) == 3
    assert run("preprocess", "a.png", *options, "--out", "one.npy") == 0
    assert np.array_equal(np.load("one.npy", allow_pickle=False)[0], np.load("o.npy", allow_pickle=False)[0])


@pytest.mark.parametrize("count", [1, 16, 17, 50])
def test_many_pictures_are_decoded_and_written_some_at_a_time(folder, count, capsys):
    pixels = np.random.default_rng(9).integers(0, 256, (count, 20, 22, 3), dtype=np.uint8)
    for number, frame in enumerate(pixels):
        np.save(f"many{number:02}.npy", frame)
    names = [f"many{number:02}.npy" for number in range(count)]
    assert run("preprocess", *names, "--size", "20x22", "--dtype", "uint8", "--layout", "NHWC", "--out", "o.npy") == 0
    assert np.array_equal(np.load("o.npy", allow_pickle=False), pixels)
    assert f"written {min(count, PART_SAMPLES)} images at a time" in capsys.readouterr().out


@pytest.mark.parametrize("job", ["batch", "shards"])
def test_decoders_warn_nobody_however_many_threads_they_are(folder, job, capsys):
    # Pillow warns of transparency that is more than one entry of a palette; here a warning would be an error.
    palette = Image.open("a.png").quantize(16)
    Path("warning").mkdir()
    for number in range(40):
        palette.save(f"warning/{number}.png", transparency=bytes(range(16)))
    with pytest.warns(UserWarning, match="Transparency"):
        Image.open("warning/0.png").convert("RGB")
    more = ("--out", "o.npy") if job == "batch" else ("--out", "shards", "--shards", "3")
    assert run("preprocess", "warning", "--size", "32", *more) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert job == "batch" or "skipped  0" in said.out


def test_the_summary_says_what_was_done(folder, capsys):
    assert run("preprocess", "a.png", "--size", "32x40", "--device", "cpu", "--out", "o.npy") == 0
    said = capsys.readouterr()
    for piece in ("wrote 'o.npy': 1 image\n", "N=1 C=3 H=32 W=40, float32", " images a second\n"):
        assert piece in said.out
    read, written = Path("a.png").stat().st_size, Path("o.npy").stat().st_size
    assert re.search(rf"time +\d+\.\d\d s, .*\n  bytes +{read:,} read and {written:,} written\n", said.out)
    assert "NumPy" not in said.out, "nothing is compared that nobody asked for"
    assert re.search(r"device +cpu\n", said.out)
    assert said.err == ""
    assert said.out.isascii()


@pytest.mark.parametrize("count, words", [(1, "1 image"), (2, "2 images")])
def test_the_summary_counts_images(folder, capsys, count, words):
    assert run("preprocess", *["a.png"] * count, "--size", "8", "--out", "o.npy") == 0
    assert f"wrote 'o.npy': {words}\n" in capsys.readouterr().out


def test_samples(folder):
    pytest.importorskip("skimage", reason="the sample images come with scikit-image: stridedgpu[demo]")
    assert run("preprocess", "--samples", "--dtype", "uint8", "--layout", "NHWC", "--out", "o.npy") == 0
    batch = np.load("o.npy", allow_pickle=False)
    assert batch.shape == (len(job_images.SAMPLES), 224, 224, 3)
    expected = decoded(*(str(picture.path) for picture in job_images.sample_images()), size=(224, 224))
    assert np.array_equal(batch, expected)


@pytest.mark.parametrize(
    "compare, which", [("--compare", "all 70"), ("--compare=all", "all 70"), ("--compare=some", "the first 8")], ids=str
)
@pytest.mark.parametrize("resize", [(), ("--resize", "40")], ids=["as it is", "resized"])
def test_pictures_are_compared_while_the_batch_is_written(folder, compare, which, resize, capsys):
    options = ("--size", "32", "--random-crop", "--flip", "--normalize", "clip", "--device", "cpu", compare)
    assert run("preprocess", *["a.png"] * 70, *options, *resize, "--out", "o.npy") == 0
    assert f"every bit of {which} images with the same step by NumPy's loops: equal" in capsys.readouterr().out
    assert len(np.load("o.npy", allow_pickle=False)) == 70


@pytest.mark.parametrize(
    "command", [(), ("preprocess",), ("explain",), ("info",), ("show",), ("size",), ("which",)], ids=str
)
def test_options_are_not_abbreviated(command, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([*command, "--hel"])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("compared, wrong", [("some", 0), ("all", 1)])
def test_a_wrong_picture_that_is_compared_is_not_written(folder, monkeypatch, compared, wrong, capsys):
    add = Npy.add

    def spoilt(target, images, rows):
        images[wrong, 0, 3, 3] = 99
        add(target, images, rows)

    monkeypatch.setattr(Npy, "add", spoilt)
    assert run("preprocess", *["a.png"] * 9, "--size", "8", "--compare", compared, "--out", "o.npy") == 2
    assert f"image {wrong} of the batch differs from NumPy's" in capsys.readouterr().err
    assert not Path("o.npy").exists()


def test_pictures_are_compared_with_numpys_loops_alone(capfd):
    step = sg.Preprocess(dtype="float16", resize=300, crop=280, flip=True, normalize="clip", passes="horizontal")
    pixels = np.random.default_rng(0).integers(0, 256, (320, 300, 3), np.uint8)
    tensor = sg.asarray(step(pixels[None])[0], dims="CHW")
    sg.set_verbose(True)
    try:
        NumpyStep(step).check_bits(tensor, pixels, "a", 0)
    finally:
        sg.set_verbose(False)
    kernels = [line.split(",")[3] for line in capfd.readouterr().err.splitlines() if line.startswith("stridedgpu,")]
    assert kernels
    assert all(kernel.startswith("numpy_") for kernel in kernels)


@pytest.mark.parametrize("decoder", ["simplejpeg", "pillow-draft"])
def test_other_decoders_are_had_by_name(folder, decoder, capsys):
    if decoder == "simplejpeg":
        pytest.importorskip("simplejpeg", reason="an optional decoder: pip install stridedgpu[load]")
    Image.fromarray(np.full((120, 160, 3), 77, np.uint8)).save("large.jpg")
    options = ("--resize", "30", "--size", "24", "--dtype", "uint8", "--decoder", decoder)
    assert run("preprocess", "large.jpg", "a.png", *options, "--out", "o.npy") == 0
    assert (np.load("o.npy", allow_pickle=False)[0] == 77).all()


# ---- refusals


PICTURE = ("preprocess", "a.png", "--size", "32")
TO = ("--out", "o.npy")
REFUSALS: dict[str, tuple[tuple[object, ...], str]] = {
    "no command": ((), "give a command: preprocess, which, show, size, explain or info"),
    "benchmarks": (("bench", "--quick"), "benchmarks run from a checkout of the repository: python -m benchmarks"),
    "a value with a minus": (("show", "--sizes", "-1,3"), "given as --name=-1"),
    "unknown command": (("convert",), "invalid choice: 'convert'"),
    "unknown option": ((*PICTURE, *TO, "--speed"), "there is no option --speed; the nearest is --seed"),
    "a slip": (("preprocess", "a.png", "--ouput", "o.npy"), "there is no option --ouput; the nearest is --out\n"),
    "an underscore": (
        (*PICTURE, *TO, "--row_pitch", "128"),
        "there is no option --row_pitch; the nearest is --row-pitch\n",
    ),
    "a beginning": ((*PICTURE, *TO, "--norm=imagenet"), "there is no option --norm; the nearest is --normalize\n"),
    "one minus": (("preprocess", "a.png", "-size", "32", *TO), "there is no option -size; the nearest is --size\n"),
    "nothing near": ((*PICTURE, *TO, "--zzz"), "there is no option --zzz; --help-all lists the options\n"),
    "nothing near of few": (("show", "--zzz"), "there is no option --zzz; --help lists the options\n"),
    "of no command": (("--verison",), "stridedgpu: there is no option --verison; the nearest is --version\n"),
    "of another command": (("show", "--sizes", "1,2", "--crop", "3"), "stridedgpu show: there is no option --crop; "),
    "one argument too many": (("info", "now"), "unrecognized arguments: now"),
    "no images": (("preprocess", *TO), "no images: name files or folders, or give --samples"),
    "no output": (PICTURE, "the following arguments are required: --out"),
    "missing file": (("preprocess", "a.png", "no.png", *TO), "there is no file or folder 'no.png'"),
    "not a file": (("preprocess", "pipe", *TO), "'pipe' is not an ordinary file"),
    "empty folder": (("preprocess", "empty", *TO), "folder 'empty' holds no images; files that end in"),
    "not an image": (("preprocess", "photos/notes.txt", *TO), "'photos/notes.txt' is not an image in a"),
    "truncated": (("preprocess", "truncated.png", "--size", "8", *TO), "'truncated.png' cannot be read"),
    "too few rows": (("preprocess", "short.png", "--size", "8", *TO), "'short.png' cannot be read as a"),
    "bomb": (("preprocess", "bomb.png", *TO), "'bomb.png' is refused as a decompression bomb"),
    "half a bomb": (("preprocess", "smaller_bomb.png", *TO), "refused as a decompression bomb"),
    "16-bit samples": (("preprocess", "deep.png", "--size", "8", *TO), "8-bit samples are read (on the command"),
    "npy of floats": (("preprocess", "floats.npy", *TO), "holds float64 sizes (50, 50, 3), which is not a"),
    "npy of objects": (("preprocess", "objects.npy", *TO), "'objects.npy' is not a readable .npy file"),
    "npy cut off": (("preprocess", "cut.npy", *TO), "'cut.npy' is not a readable .npy file"),
    "crop too large": (
        ("preprocess", "a.png", "--size", "51x20", *TO),
        "'a.png': it is 50 x 61 (height x width), smaller than --size 51x20.",
    ),
    "crop far too large": (("preprocess", "a.png", "--size", "9999999", *TO), "bytes of memory left to allocate"),
    "crop larger than resized": (
        (*PICTURE, "--resize", "20", *TO),
        "'a.png': it is 50 x 61 (height x width), 20 x 24 when resized, smaller than --size 32x32",
    ),
    "resize too large": ((*PICTURE, "--resize", "100000", *TO), "by --resize 100000 would pass"),
    "compared images": (
        ("preprocess", "--size", "32", *TO, "--compare", "a.png"),
        "argument --compare: 'a.png' is neither all nor some; images stand before --compare",
    ),
    "size": (("preprocess", "a.png", "--size", "12y9", *TO), "argument --size: '12y9' is not a size: give"),
    "size of zero": (("preprocess", "a.png", "--size", "0", *TO), "argument --size: '0' is not a size"),
    "resize": ((*PICTURE, "--resize", "-3", *TO), "argument --resize: '-3' is not a positive integer"),
    "layout": ((*PICTURE, "--layout", "NCWX", *TO), "--layout NCWW names the axis 'W' twice"),
    "layout twice": ((*PICTURE, "--layout", "NCHH", *TO), "--layout NCHH names the axis 'H' twice"),
    "filled layout": ((*PICTURE, "--layout", "NHWC8", *TO), "--layout NHWC8: files have no zeros behind pixels"),
    "dtype": ((*PICTURE, "--dtype", "float8", *TO), "argument --dtype: invalid choice: 'float8'"),
    "channels": ((*PICTURE, "--channels", "grb", *TO), "argument --channels: invalid choice: 'grb'"),
    "normalize": ((*PICTURE, "--normalize", "x", *TO), "argument --normalize: invalid choice: 'x'"),
    "seed alone": ((*PICTURE, "--seed", "3", *TO), "--seed decides --random-crop, --random-resized-crop, --flip"),
    "epoch alone": ((*PICTURE, "--epoch", "3", *TO), "--epoch decides --random-crop, --random-resized-crop, --flip"),
    "filter of no resize": (
        (*PICTURE, "--interpolation", "pillow-box", *TO),
        "--interpolation pillow-box is for --resize, --random",
    ),
    "passes of no resize": (
        (*PICTURE, "--passes", "pillow-13", *TO),
        "--passes pillow-13 is the order of Pillow's filters: add --resize",
    ),
    "maximum alone": (
        (*PICTURE, "--maximum", "200", *TO),
        "--maximum is the unit of mean and std: give these, or --normalize",
    ),
    "maximum of 8 bits": (
        (*PICTURE, "--maximum", "4095", "--normalize", "unit", *TO),
        "--maximum 4095: samples of 8 bits go to 255: give --deep",
    ),
    "maximum past 8 bits": (
        (*PICTURE, "--maximum", "256", "--normalize", "unit", *TO),
        "--maximum 256: samples of 8 bits go to 255: give --deep",
    ),
    "maximum past 16 bits": (
        ("preprocess", "deep.png", "--size", "8", "--deep", "--maximum", "65536", "--normalize", "unit", *TO),
        "--maximum 65536: samples of 16 bits go to 65535",
    ),
    "fill past 8 bits": (
        (*PICTURE, "--letterbox", "--fill", "0,256,0", *TO),
        "argument --fill: '0,256,0' is not one value of 0 to 255, or three",
    ),
    "seed before 64 bits": (
        (*PICTURE, "--flip", "--seed=-9223372036854775809", *TO),
        "must be from -9223372036854775808 to 9223372036854775807",
    ),
    "resize of zero": ((*PICTURE, "--resize", "0", *TO), "argument --resize: '0' is not a positive integer"),
    "row pitch one byte too small": ((*PICTURE, "--row-pitch", "127", *TO), "row_pitch_bytes=127"),
    "maximum of a window": (
        (*PICTURE, "--maximum", "9", "--clip", "1,2", "--normalize", "unit", *TO),
        "--maximum and --clip both say which value becomes 1",
    ),
    "divide alone": (
        (*PICTURE, "--arithmetic", "divide", *TO),
        "--arithmetic divide is how mean and std are computed: give these, or",
    ),
    "divided colours": (
        (*PICTURE, "--arithmetic", "divide", "--gain", "1,2", "--normalize", "unit", *TO),
        "--gain 1.0,2.0 is one factor and one addend: leave --arithmetic divide out",
    ),
    "range": ((*PICTURE, "--gain", "2,1", *TO), "--gain 2.0,1.0 must be two numbers in order"),
    "range of one": ((*PICTURE, "--clip", "2", *TO), "--clip 2.0 must be two numbers in order"),
    "grey of three": (
        (*PICTURE, "--mode", "gray", "--normalize", "imagenet", *TO),
        "the step has values for 1 and for 3 channels",
    ),
    "grey in an order": ((*PICTURE, "--mode", "gray", "--channels", "bgr", *TO), "--channels bgr orders colours"),
    "grey of three fills": (
        (*PICTURE, "--mode", "gray", "--letterbox", "--fill", "1,2,3", *TO),
        "three values are of red, green and blue, and --mode gray has one channel",
    ),
    "deep of 8 bits": ((*PICTURE, "--deep", *TO), "'a.png' holds samples of uint8; with --deep all images have 16"),
    "deep cut off": (
        ("preprocess", "deep.png", "--size", "8", "--deep", "--dtype", "uint8", *TO),
        "--dtype uint8 would cut samples of 16 bits off",
    ),
    "deep on a GPU": (
        ("preprocess", "deep.png", "--size", "8", "--deep", "--device", "cuda", *TO),
        "--device cuda: images of 16 bits are made on the CPU",
    ),
    "seed beyond 64 bits": (
        (*PICTURE, "--random-crop", "--seed", str(2**63), *TO),
        f"--seed {2**63} must be from {-(2**63)} to {2**63 - 1}",
    ),
    "fill of 16 bits": (
        (*PICTURE, "--letterbox", "--fill", "300", *TO),
        "argument --fill: '300' is not one value of 0 to 255, or three, red, green and blue, and none of reflect, ",
    ),
    "centre of a letterbox": (
        (*PICTURE, "--letterbox", "--center", "floor", *TO),
        "--center floor says where the middle window of --size lies",
    ),
    "letterbox of a crop": (
        (*PICTURE, "--letterbox", "--random-crop", *TO),
        "--random-crop says where the window of --size lies: give --size alone",
    ),
    "random area of a resize": (
        (*PICTURE, "--random-resized-crop", "--resize", "9", *TO),
        "resize and random_resized_crop cannot be declared together",
    ),
    "fill of nothing": ((*PICTURE, "--fill", "3", *TO), "--fill 3.0 is what surrounds an image, for --pad, "),
    "fill": ((*PICTURE, "--letterbox", "--fill", "3,-1,1", *TO), "'3,-1,1' is not one value of 0 to 255, or three"),
    "pad": ((*PICTURE, "--pad", "1,2,3", *TO), "--pad 1,2,3 must be numbers of pixels from 0: one for all sides"),
    "epoch": ((*PICTURE, "--flip", "--epoch", "-1", *TO), "argument --epoch: "),
    "seed": ((*PICTURE, "--flip", "--seed", "1.5", *TO), "argument --seed: invalid int value: '1.5'"),
    "seed too large": ((*PICTURE, "--flip", "--seed", str(2**63), *TO), "must be from"),
    "random crop too large": (
        ("preprocess", "a.png", "--size", "51", "--random-crop", *TO),
        "'a.png': it is 50 x 61 (height x width), smaller than --size 51x51",
    ),
    "mean count": (
        (*PICTURE, "--mean", "1,2", "--std", "1", *TO),
        "the step has values for 2 and for 3 channels",
    ),
    "mean not a number": ((*PICTURE, "--mean", "a", "--std", "1", *TO), "argument --mean: 'a' is not one"),
    "mean nan": ((*PICTURE, "--mean", "nan", "--std", "1", *TO), "--mean nan must be finite"),
    "std of zero": ((*PICTURE, "--mean", "0", "--std", "1,0,1", *TO), "--std 1.0,0.0,1.0 must be above 0"),
    "both": (
        (*PICTURE, "--normalize", "imagenet", "--mean", "0", "--std", "1", *TO),
        "--normalize imagenet names mean and std",
    ),
    "alignment": ((*PICTURE, "--alignment", "24", *TO), "--alignment 24 is not a power of two"),
    "alignment word": ((*PICTURE, "--alignment", "big", *TO), "argument --alignment: 'big' is not a positive"),
    "row pitch too small": ((*PICTURE, "--row-pitch", "64", *TO), "row_pitch_bytes=64"),
    "row pitch uneven": ((*PICTURE, "--row-pitch", "129", *TO), "row_pitch_bytes=129"),
    "device": ((*PICTURE, "--device", "tpu", *TO), "--device tpu is unknown"),
    "output is a folder": ((*PICTURE, "--out", "empty"), "'empty' is a folder; give the name of a file"),
    "output nowhere": ((*PICTURE, "--out", "no/o.npy"), "'no/o.npy' cannot be written: there is no folder"),
    "output below a file": ((*PICTURE, "--out", "a.png/o.npy"), "'a.png/o.npy' cannot be written: "),
    "output is a device": ((*PICTURE, "--out", "/dev/full"), "'/dev/full' is not an ordinary file"),
    "output name too long": ((*PICTURE, "--out", "o" * 300), "': File name too long"),
    "output is an input": ((*PICTURE, "--out", "./a.png"), "'a.png' is one of the images"),
    "output twice": ((*PICTURE, "--out", "o", "--raw", "./o"), "--out and --raw name the same file 'o'"),
    "raw is a folder": ((*PICTURE, *TO, "--raw", "empty"), "'empty' is a folder; give the name of a file"),
    "picture's name too long": (("preprocess", "o" * 300, *TO), "': File name too long"),
    "name with a line end": (("preprocess", "a\nb.png", *TO), r"there is no file or folder 'a\nb.png'"),
    "memory": ((*PICTURE, "--row-pitch", str(1 << 50), *TO), "bytes of memory left to allocate"),
    "more than memory": ((*PICTURE, "--row-pitch", str(1 << 70), *TO), "bytes of memory left to allocate"),
}


@pytest.mark.parametrize(
    "arguments",
    [
        ("a.png", "--size", "1"),
        ("a.png", "--size", "50x61"),
        ("a.png", "--size", "32", "--row-pitch", "128"),
        ("a.png", "--resize", "1", "--size", "1"),
        ("a.png", "--size", "8", "--maximum", "255", "--normalize", "unit"),
        ("a.png", "--size", "8", "--letterbox", "--fill", "0,255,0"),
        ("a.png", "--size", "8", "--pad", "0"),
        ("a.png", "--size", "8", "--mean", "0.5"),
        ("a.png", "--size", "8", "--std", "0.5"),
        ("a.png", "--size", "8", "--flip", "--seed", str(2**63 - 1), "--epoch", "0"),
        ("a.png", "--size", "8", "--flip", f"--seed={-(2**63)}"),
        ("deep.png", "--size", "8", "--deep", "--maximum", "65535", "--normalize", "unit"),
        ("deep.png", "--size", "50", "--deep", "--dtype", "uint16"),
    ],
    ids=" ".join,
)
def test_numbers_at_their_bounds_are_taken(folder, arguments):
    assert run("preprocess", *arguments, *TO) == 0
    assert Path("o.npy").exists()


@pytest.mark.parametrize("fill", ["reflect", "symmetric", "edge"])
@pytest.mark.parametrize("mode", ["rgb", "gray"])
def test_images_go_on_around_themselves(folder, mode, fill):
    assert run("preprocess", "a.png", "--size", "74x85", "--pad", "12", "--fill", fill, "--mode", mode, *TO) == 0
    pixels = np.asarray(Image.open("a.png").convert("L" if mode == "gray" else "RGB"))
    planes = np.moveaxis(np.atleast_3d(pixels), 2, 0)
    assert np.array_equal(np.load("o.npy")[0], np.pad(planes, [(0, 0), (12, 12), (12, 12)], mode=fill))


@pytest.mark.parametrize("arguments, message", REFUSALS.values(), ids=REFUSALS)
def test_refusals_are_one_line_and_leave_nothing(folder, capsys, arguments, message):
    before = listing(folder)
    assert run(*arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("stridedgpu")
    assert said.err.count("\n") == 1
    assert said.err.endswith("\n")
    assert message in said.err
    assert listing(folder) == before


def test_cuda_that_is_not_there_is_refused_with_the_way_to_get_it(folder, capsys):
    if any(device.name.startswith("cuda") and device.available for device in stridedgpu.devices()):
        pytest.skip("this machine has a CUDA device")
    assert run(*PICTURE, "--device", "cuda", "--out", "o.npy") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "cuda" in said.lower()
    assert not Path("o.npy").exists()


def test_missing_pillow_says_what_to_install(folder, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert run(*PICTURE, *TO) == 2
    assert 'pip install "stridedgpu[cli]"' in capsys.readouterr().err
    assert run("preprocess", "frame.npy", "--size", "32", "--out", "o.npy") == 0


def test_missing_scikit_image_says_what_to_install(folder, monkeypatch, capsys):
    monkeypatch.setattr("stridedgpu.commands.job_images.find_spec", lambda name: None)
    assert run("preprocess", "--samples", "--out", "o.npy") == 2
    assert 'pip install "stridedgpu[demo]"' in capsys.readouterr().err


def test_out_of_memory_while_decoding(folder, monkeypatch, capsys):
    def exhausted(*_arguments: object, **_options: object) -> None:
        raise MemoryError

    monkeypatch.setattr("stridedgpu.preprocess.decoding._by_pillow", exhausted)
    assert run(*PICTURE, *TO) == 2
    assert "out of memory" in capsys.readouterr().err


# ---- files


def test_an_existing_file_is_replaced_whole_and_a_link_stays_a_link(folder):
    Path("old.npy").write_bytes(b"old")
    Path("link.npy").symlink_to("old.npy")
    assert run(*PICTURE, "--out", "link.npy") == 0
    assert Path("link.npy").is_symlink()
    assert np.load("old.npy", allow_pickle=False).shape == (1, 3, 32, 32)


def test_new_files_have_the_permissions_of_the_umask(folder):
    before = os.umask(0o027)
    try:
        assert run(*PICTURE, *TO) == 0
    finally:
        os.umask(before)
    assert Path("o.npy").stat().st_mode & 0o777 == 0o640


WITHOUT_UNNAMED_FILES = "import os\nif hasattr(os, 'O_TMPFILE'): del os.O_TMPFILE\n"


@pytest.mark.parametrize("prelude", ["", WITHOUT_UNNAMED_FILES], ids=["unnamed", "named"])
def test_a_full_disk_leaves_the_old_file(folder, prelude):
    Path("o.npy").write_bytes(b"old")
    before = listing(folder)
    code = prelude + (
        "import resource, sys\n"
        "sys.dont_write_bytecode = True  # cut off by the limit, it would stay\n"
        "from stridedgpu.__main__ import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    done = python("-c", code, *PICTURE, "--out", "o.npy", "--raw", "o.bin")
    assert done.returncode == 2
    assert done.stderr == "stridedgpu: 'o.npy' cannot be written: File too large.\n"
    assert Path("o.npy").read_bytes() == b"old"
    assert listing(folder) == before


@pytest.mark.parametrize(
    "prelude, number, code",
    [
        ("", signal.SIGKILL, -signal.SIGKILL),
        ("", signal.SIGTERM, 143),
        (WITHOUT_UNNAMED_FILES, signal.SIGTERM, 143),
        pytest.param(WITHOUT_UNNAMED_FILES, signal.SIGHUP, 129, marks=pytest.mark.slow),
        pytest.param(WITHOUT_UNNAMED_FILES, signal.SIGINT, 130, marks=pytest.mark.slow),
    ],
    ids=["kill", "term", "term named", "hup named", "int named"],
)
def test_a_signal_in_the_middle_of_writing_leaves_the_old_file(folder, prelude, number, code):
    if number == signal.SIGKILL and not hasattr(os, "O_TMPFILE"):
        pytest.skip("files without a name need Linux: elsewhere a killed process leaves a hidden .part file")
    Path("o.npy").write_bytes(b"old")
    before = listing(folder)
    program = prelude + (
        "import os, signal, sys\n"
        # A shell's background jobs are started with some signals ignored, and so would this one be.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "from stridedgpu.__main__ import main\n"
        f"os.fsync = lambda descriptor: os.kill(os.getpid(), {int(number)})\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    done = python("-c", program, *PICTURE, "--out", "o.npy")
    assert done.returncode == code
    assert done.stderr == ("stridedgpu: interrupted\n" if number == signal.SIGINT else "")
    assert Path("o.npy").read_bytes() == b"old"
    assert listing(folder) == before


@pytest.mark.parametrize("name", ["stridedgpu.commands.preprocess", "numpy", "stridedgpu.preprocess.files"])
def test_an_interrupt_while_modules_are_imported_is_one_line(folder, name):
    program = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {name!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from stridedgpu.__main__ import main\n"
        "sys.exit(main())\n"
    )
    done = python("-c", program, *PICTURE, "--out", "o.npy")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stridedgpu: interrupted\n")


def test_standard_output_that_cannot_be_written(folder):
    if not Path("/dev/full").exists():
        pytest.skip("/dev/full is Linux's")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "stridedgpu", *PICTURE, "--out", "o.npy"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


def test_a_standard_output_that_is_closed(folder):
    arguments = [*PICTURE, "--out", "o.npy"]
    done = subprocess.run(
        ["bash", "-c", '"$0" -m stridedgpu "$@" >&-', sys.executable, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert Path("o.npy").stat().st_size > 0


def test_a_reader_that_leaves_early(folder):
    done = subprocess.run(
        [
            "bash",
            "-c",
            '"$0" -m stridedgpu preprocess a.png --size 8 --out o.npy | true; exit "${PIPESTATUS[0]}"',
            sys.executable,
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode in (0, 1)
    assert done.stderr == ""
    assert Path("o.npy").exists()


# ---- the terminal


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """The time of the steps of some work."""

    def __init__(self, monkeypatch, stream, columns=80):
        self.now = 0.0
        monkeypatch.setattr("stridedgpu.commands.console.time.monotonic", lambda: self.now)
        monkeypatch.setattr(
            "stridedgpu.commands.console.shutil.get_terminal_size", lambda: os.terminal_size((columns, 24))
        )
        monkeypatch.setattr(sys, "stderr", stream)

    def run(self, count, seconds):
        """So many steps of so many seconds each."""
        with progress(count, "images") as step:
            for _ in range(count):
                self.now += seconds
                step()


def test_long_work_has_a_bar_on_a_terminal(monkeypatch):
    terminal = Terminal()
    Clock(monkeypatch, terminal).run(4, 1)
    *states, cleared, _ = terminal.getvalue().split("\r")[1:]
    assert [state.rstrip() for state in states] == [
        f"[{'#' * 7:30}] images 1/4, 1 a second, 3 s left",
        f"[{'#' * 15:30}] images 2/4, 1 a second, 2 s left",
        f"[{'#' * 22:30}] images 3/4, 1 a second, 1 s left",
        f"[{'#' * 30:30}] images 4/4, 1 a second, 0 s left",
    ]
    assert cleared == " " * len(states[-1])


@pytest.mark.parametrize("columns", [10, 40, 60, 80, 200])
def test_a_bar_stays_in_its_line(monkeypatch, columns):
    terminal = Terminal()
    Clock(monkeypatch, terminal, columns).run(20, 100)
    assert max(map(len, terminal.getvalue().split("\r"))) < columns


def test_a_bar_changes_ten_times_a_second_at_most(monkeypatch):
    terminal = Terminal()
    Clock(monkeypatch, terminal).run(50_000, 1 / 10_000)
    assert 40 <= terminal.getvalue().count("images") <= 50


def test_elsewhere_there_is_a_line_a_minute(monkeypatch):
    log = io.StringIO()
    Clock(monkeypatch, log).run(14_400, 0.25)
    lines = log.getvalue().splitlines()
    assert len(lines) == 60
    assert lines[0] == "images 240/14400, 4 a second, 59 min left"
    assert lines[29] == "images 7200/14400, 4 a second, 30 min left"


@pytest.mark.parametrize("stream, seconds", [(io.StringIO(), 59), (Terminal(), 0.4)], ids=["pipe", "terminal"])
def test_short_work_shows_nothing(monkeypatch, stream, seconds):
    Clock(monkeypatch, stream).run(100, seconds / 100)
    assert stream.getvalue() == ""


def test_a_standard_error_that_is_closed(folder):
    arguments = [*PICTURE, "--out", "o.npy"]
    done = subprocess.run(
        ["bash", "-c", '"$0" -m stridedgpu "$@" 2>&-', sys.executable, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("wrote 'o.npy': 1 image\n")


def test_info(capsys):
    assert run("info") == 0
    said = capsys.readouterr().out
    assert said.startswith(f"stridedgpu {stridedgpu.__version__}, Python ")
    assert re.search(r"^  cpu +\S", said, re.MULTILINE)
    assert re.search(rf"^  numpy +{re.escape(np.__version__)}$", said, re.MULTILINE)


def test_a_warning_is_one_line(folder):
    done = python("-m", "stridedgpu", "preprocess", "a.png", "--resize", "16", "--size", "8", "--out", "o3.npy")
    other_passes = int(metadata.version("pillow").split(".")[0]) < 13
    assert done.returncode == 0
    assert re.fullmatch(r"stridedgpu: passes=None is .*\n" if other_passes else "", done.stderr), done.stderr


def test_version_and_help(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"stridedgpu {stridedgpu.__version__}\n"
    assert run("preprocess", "--help") == 0
    short = capsys.readouterr().out
    assert "alpha is dropped" in " ".join(short.split())
    assert short.count("\n") < 50
    assert "--arithmetic" not in short
    assert "--help-all" in short
    for example in re.findall(r"^  stridedgpu (preprocess .*)", short, re.MULTILINE):
        build_parser().parse_args(example.split())
    assert run("preprocess", "--help-all") == 0
    every = capsys.readouterr().out
    assert "--arithmetic" in every
    options = set(re.findall(r"^  (--[a-z-]+)", every, re.MULTILINE))
    assert set(re.findall(r"^  (--[a-z-]+)", short, re.MULTILINE)) < options
    assert len(options) > 40


def test_python_dash_m(folder):
    done = python("-m", "stridedgpu", *PICTURE, "--out", "o.npy")
    assert (done.returncode, done.stderr) == (0, "")
    done = python("-m", "stridedgpu", "preprocess", "no.png", "--out", "o2.npy")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "stridedgpu: there is no file or folder 'no.png'.\n"
