"""Files from anybody: each is read, or refused in one sentence before its size is believed, and none is run."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import zlib
from contextlib import suppress
from dataclasses import asdict
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from harness.profiles import examples
from hypothesis import HealthCheck, given, settings, strategies as st

import stridedgpu as sg
from benchmarks.suite.records import read_results
from stridedgpu.commands.folder_job import FolderJob, Shard, ShardRecord, read_record, start, write_shard
from stridedgpu.preprocess.decoding import Decoder, opened_image
from stridedgpu.preprocess.files import FileError, ImageError, read_array

PACKAGE = Path(sg.__file__).parent

drawn = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
many = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(4000))


def sentence(error: BaseException) -> str:
    """The error's text, which is one line that ends in a full stop."""
    text = str(error)
    assert text.endswith("."), text
    assert "\n" not in text, text
    return text


# Arrays


def npy(header: str | bytes, content: bytes = bytes(96), version: int = 1, length: int | None = None) -> bytes:
    """A `.npy` file with this header, and with this length of it instead of its own."""
    text = header.encode() if isinstance(header, str) else header
    count = len(text) if length is None else length
    return b"\x93NUMPY" + bytes((version, 0)) + struct.pack("<H" if version == 1 else "<I", count) + text + content


def described(shape: str, descr: str = "'|u1'", order: str = "False") -> bytes:
    return npy(f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n")


ARRAYS = {
    "nothing": b"",
    "half a prefix": b"\x93NUM",
    "another version": b"\x93NUMPY\x09\x00" + bytes(100),
    "half a header": npy("{'descr': '|u1', 'fortran_order'", b""),
    "a header of 4 GB": npy("{}", version=2, length=2**32 - 1),
    "a header longer than NumPy reads": npy(" " * 20_000 + "{}", version=2),
    "no dict": npy("5\n"),
    "no literal": npy("__import__('os')\n"),
    "a key that has no hash": npy("{[]: 1}\n"),
    "an unfinished text": npy("{'descr\n"),
    "9000 minus signs": npy("-" * 9000 + "1\n"),
    "3000 brackets": npy("(" * 3000 + ")" * 3000 + "\n"),
    "bytes that are no text": npy(b"\xff\xfe{}", version=3),
    "more elements than bytes": described("(1000,)"),
    "2^62 elements": described("(4611686018427387904,)"),
    "beyond 64 bits": described("(0, 9223372036854775808000)"),
    "a product beyond 64 bits": described("(4294967296, 4294967296, 4294967296)"),
    "a negative size": described("(-1, 4)"),
    "two negative sizes": described("(-2, -3)"),
    "a bool for a size": described("(True, 4, 3)"),
    "a fraction for a size": described("(2.5,)"),
    "65 axes": described(f"({'1, ' * 65})"),
    "a size in words": described("'many'"),
    "no order": described("(3,)", order="None"),
    "objects": described("(3,)", "'|O'"),
    "objects in a record": described("(3,)", "[('a', '|O')]"),
    "no type": described("(3,)", "'|q9'"),
    "a type of 2^40 bytes": described("(3,)", "'|S1099511627776'"),
}


@pytest.mark.parametrize("content", ARRAYS.values(), ids=ARRAYS)
def test_a_header_that_cannot_be_true_is_refused_in_a_sentence(tmp_path, content):
    path = tmp_path / "array.npy"
    path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        read_array(path)
    assert sentence(caught.value).startswith(f"{str(path)!r} is not a readable .npy file: ")


NOBODY_WRITES = """
import os, sys
from pathlib import Path
import stridedgpu as sg
from stridedgpu.commands.folder_job import FolderJob, Shard, read_record, start
from stridedgpu.preprocess.decoding import Decoder, opened_image
from stridedgpu.preprocess.files import read_array

folder = Path(sys.argv[1])

def pipe(name):
    os.mkfifo(folder / name)
    return folder / name

def loaded(errors):
    step = sg.Preprocess(crop=4, device="cpu", errors=errors)
    return list(sg.load([folder / "f.png", folder / "f.png"], step, threads=1))

picture = pipe("f.png")
for read in (
    lambda: read_array(pipe("f.npy")),
    lambda: Decoder().frame(picture, "f.png"),
    lambda: opened_image(picture, "f.png"),
    lambda: loaded("raise"),
    lambda: print(loaded("skip")),
    lambda: Decoder("simplejpeg").frame(picture, "f.png"),
):
    try:
        read()
    except sg.StridedGpuError as error:
        print(error)
"""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")
def test_a_pipe_is_refused_and_its_writer_not_waited_for(tmp_path):
    pytest.importorskip("PIL", reason="Pillow decodes the images: pip install stridedgpu[cli]")
    command = [sys.executable, "-c", NOBODY_WRITES, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    array, image, mask, row, skipped, *quick = done.stdout.splitlines()
    assert array.endswith("f.npy' is not an ordinary file; save the array to one first.")
    for text in (image, mask, row):
        assert text.endswith("f.png' is not an ordinary file; save the image to one first.")
    assert skipped == "[]"
    assert len(quick) == 1
    assert re.search("is not an ordinary file|is not installed", quick[0])


literals = st.recursive(
    st.sampled_from(
        ["0", "1", "3", "-1", "True", "None", "2**3", "1e9", "'|u1'", "'<f4'", "'|O'", "'>U9'", str(2**63)]
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda parts: f"({''.join(part + ', ' for part in parts)})"),
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
    ),
    max_leaves=6,
)
headers = st.one_of(
    st.builds(described, literals, literals, st.sampled_from(["False", "True", "0"])),
    st.builds(described, st.lists(st.sampled_from([-1, 0, 1, 2, 3, 2**31, 2**62, 2**70]), max_size=5).map(repr)),
    st.builds(npy, st.binary(max_size=60), version=st.integers(1, 3)),
    st.builds(npy, st.text("{}()[]'-+*,: \\descrshape01", max_size=60), version=st.integers(1, 3)),
)


def check_array(path: Path, content: bytes) -> None:
    """The array lies inside the file, or the refusal is one sentence; so with what is done with it next."""
    path.write_bytes(content)
    try:
        array = read_array(path)
    except FileError as error:
        sentence(error)
        return
    assert array.nbytes <= len(content)
    assert not array.dtype.hasobject
    with suppress(sg.StridedGpuError):
        assert sg.asarray(array, copy=False).operand.span_bytes <= len(content)
    with suppress(ImageError):
        assert Decoder().frame(path, "array").shape[2] == 3


@drawn
@given(headers)
def test_drawn_headers_are_read_or_refused(tmp_path, content):
    check_array(tmp_path / "array.npy", content)


def changed(original: bytes, within: int) -> st.SearchStrategy[bytes]:
    """`original` with some of its first bytes replaced, and maybe cut off."""
    edits = st.lists(st.tuples(st.integers(0, min(within, len(original)) - 1), st.integers(0, 255)), max_size=6)

    def edited(replaced: list[tuple[int, int]], end: int) -> bytes:
        content = bytearray(original)
        for place, value in replaced:
            content[place] = value
        return bytes(content[:end])

    return st.builds(edited, edits, st.one_of(st.just(len(original)), st.integers(0, len(original))))


def saved(array: np.ndarray) -> bytes:
    stored = BytesIO()
    np.save(stored, array)
    return stored.getvalue()


DAMAGED = changed(saved(np.arange(60, dtype=np.uint8).reshape(4, 5, 3)), 128)


@drawn
@given(DAMAGED)
def test_damaged_arrays_are_read_or_refused(tmp_path, content):
    check_array(tmp_path / "array.npy", content)


@pytest.mark.slow
@many
@given(st.one_of(headers, DAMAGED))
def test_arrays_are_read_or_refused_many_times(tmp_path, content):
    check_array(tmp_path / "array.npy", content)


# Images

SIDE = 60_000


def picture() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (9, 11, 3), dtype=np.uint8)


def encoded(kind: str) -> bytes:
    image = pytest.importorskip("PIL.Image", reason="Pillow decodes the images: pip install stridedgpu[cli]")
    stored = BytesIO()
    image.fromarray(picture()).save(stored, kind)
    return stored.getvalue()


def replaced(content: bytes, place: int, layout: str, *values: int) -> bytes:
    return content[:place] + struct.pack(layout, *values) + content[place + struct.calcsize(layout) :]


def huge_png(side: int = SIDE) -> bytes:
    header = replaced(encoded("PNG")[12:29], 4, ">II", side, side)
    return encoded("PNG")[:12] + header + struct.pack(">I", zlib.crc32(header)) + encoded("PNG")[33:]


def huge_jpeg() -> bytes:
    content = encoded("JPEG")
    return replaced(content, content.index(b"\xff\xc0") + 5, ">HH", SIDE, SIDE)


def huge_tiff() -> bytes:
    """Both sizes in the directory: entries of tag, type, count and value."""
    content = encoded("TIFF")
    (directory,) = struct.unpack_from("<I", content, 4)
    for entry in (directory + 2, directory + 14):
        tag, kind, count, _ = struct.unpack_from("<HHII", content, entry)
        assert tag in (256, 257)
        content = replaced(content, entry, "<HHII", tag, kind, count, SIDE)
    return content


HUGE = {
    "BMP": lambda: replaced(encoded("BMP"), 18, "<ii", SIDE, SIDE),
    "GIF": lambda: replaced(encoded("GIF"), 6, "<HH", SIDE, SIDE),
    "JPEG": huge_jpeg,
    "PNG": huge_png,
    "PPM": lambda: b"P6 60000 60000 255\n" + bytes(300),
    "TIFF": huge_tiff,
    "WEBP": lambda: replaced(encoded("WEBP"), 26, "<HH", 16383, 16383),  # 14 bits each
}


@pytest.fixture(params=["pillow", "pillow-draft", "simplejpeg"])
def decoder(request):
    if request.param == "simplejpeg":
        pytest.importorskip("simplejpeg", reason="an optional decoder: pip install stridedgpu[load]")
    return Decoder(request.param)


@pytest.fixture
def nothing_is_decoded(monkeypatch):
    """Decoding, of which no byte may be done, ends in an error of another text."""
    files = pytest.importorskip("PIL.ImageFile", reason="Pillow decodes the images: pip install stridedgpu[cli]")

    def load(self, *_):
        raise RuntimeError("it was decoded")

    monkeypatch.setattr(files.ImageFile, "load", load)


@pytest.mark.parametrize("kind", HUGE)
def test_a_header_of_60000_by_60000_is_refused_before_it_is_decoded(kind, decoder, nothing_is_decoded):
    with pytest.raises(ImageError, match=r"decompression bomb: at most \d+ pixels are read") as caught:
        decoder.frame(HUGE[kind](), "picture")
    sentence(caught.value)
    with pytest.raises(ImageError, match="decompression bomb"):
        opened_image(HUGE[kind](), "mask")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_header_that_pillow_only_warns_of_is_refused_too(kind, decoder, nothing_is_decoded, monkeypatch):
    monkeypatch.setattr("PIL.Image.MAX_IMAGE_PIXELS", 60)  # of 99
    with pytest.raises(ImageError, match="decompression bomb: at most 60 pixels are read"):
        decoder.frame(encoded(kind), "picture")


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\nshowpage\n"


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for Ghostscript is a shell script")
def test_a_picture_starts_no_program_whatever_it_is_called(tmp_path, monkeypatch, decoder):
    image = pytest.importorskip("PIL.Image", reason="Pillow decodes the images: pip install stridedgpu[cli]")
    plugin = pytest.importorskip("PIL.EpsImagePlugin")
    ghostscript, trace = tmp_path / "bin" / "gs", tmp_path / "it ran"
    ghostscript.parent.mkdir()
    ghostscript.write_text(f'#!/bin/sh\n: > "{trace}"\n', encoding="utf-8")
    ghostscript.chmod(0o700)
    monkeypatch.setenv("PATH", f"{ghostscript.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(plugin, "gs_binary", None)
    (tmp_path / "e.png").write_bytes(EPS)
    for read in (lambda: decoder.frame(tmp_path / "e.png", "e.png"), lambda: opened_image(EPS, "e.png")):
        with pytest.raises(ImageError, match="is not an image in a format that Pillow reads"):
            read()
    assert not trace.exists()
    with suppress(OSError, SyntaxError, ValueError), image.open(tmp_path / "e.png") as opened:
        opened.load()
    assert trace.exists(), "Pillow alone runs it, or this test shows nothing"


LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
import numpy as np, PIL.PngImagePlugin
import stridedgpu as sg

folder = Path(sys.argv[1])
step = sg.Preprocess(crop=4, device="cpu", errors="skip")
good = folder / "good.png"
list(sg.load([good], step, threads=1))  # all that is imported has its memory
pages = int(Path("/proc/self/statm").read_text().split()[0])
most = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (200 << 20), most))
loader = sg.load([good, folder / "hungry.png", good], step, threads=1)
print(*(batch.shape for batch in loader), loader.skipped)
try:
    list(sg.load([folder / "hungry.png"], sg.Preprocess(crop=4, device="cpu"), threads=1))
except sg.StridedGpuError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is read from /proc")
def test_a_picture_that_wants_more_memory_than_there_is_is_an_unusable_one(tmp_path):
    """Its header says that it has 81 million pixels, whose 324 MB Pillow allocates before it reads one."""
    (tmp_path / "good.png").write_bytes(encoded("PNG"))
    (tmp_path / "hungry.png").write_bytes(huge_png(9000))
    command = [sys.executable, "-c", LITTLE_MEMORY, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    shapes, refusal = done.stdout.splitlines()
    assert shapes == "(2, 3, 4, 4) 1"
    assert refusal.endswith("hungry.png' cannot be read as an image: out of memory for its pixels.")


def check_image(decoder: Decoder, content: bytes) -> None:
    """The image has RGB pixels within Pillow's limit, or the refusal is one sentence."""
    for read in (lambda: decoder.frame(content, "picture").shape, lambda: (*opened_image(content, "picture").size, 3)):
        try:
            height, width, channels = read()
        except ImageError as error:
            text = sentence(error)
            assert text.startswith(f"picture ({len(content)} bytes")
        else:
            assert (height > 0, width > 0, channels) == (True, True, 3)


KINDS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP", "AVIF")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@settings(drawn, max_examples=examples(24))
@given(data=st.data())
def test_damaged_pictures_are_read_or_refused(kind, decoder, data):
    check_image(decoder, data.draw(changed(encoded(kind), 400)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@settings(many, max_examples=examples(1000))
@given(data=st.data())
def test_damaged_pictures_are_read_or_refused_many_times(kind, decoder, data):
    check_image(decoder, data.draw(changed(encoded(kind), 400)))


# JSON: manifests, listings and records of shards, results of benchmarks


@pytest.fixture
def job(tmp_path):
    """A job of three images in two shards, of which the first is written."""
    for number in range(3):
        path = tmp_path / f"photos/{number % 2}/{number}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, picture())
        path.rename(path.with_suffix(".png"))
    job = FolderJob(tmp_path / "photos", tmp_path / "out", 2, sg.Preprocess("image", crop=8, device="cpu"))
    write_shard(job, start(job)[0])
    return job


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")
@pytest.mark.parametrize("name", ["manifest", "listing", "record", "results"])
def test_a_pipe_among_files_of_json_is_refused(job, name, monkeypatch):
    record, results = job.path(0).with_suffix(".json"), job.out / "results.json"
    path = {"manifest": job.manifest, "listing": job.listing, "record": record, "results": results}[name]
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)  # with a writer, opening it does not wait
    monkeypatch.setattr("pathlib.Path.open", lambda *_, **__: pytest.fail("it is waited for"))
    monkeypatch.setattr("pathlib.Path.read_text", lambda *_, **__: pytest.fail("it is waited for"))
    with pytest.raises(FileError, match="is not an ordinary file"):
        {"record": lambda: read_record(job, 0), "results": lambda: read_results(path)}.get(name, lambda: start(job))()
    os.close(writer)


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(("a", "step", "shard")), inner)
    ),
    max_leaves=5,
)
RECORD = asdict(ShardRecord(0, ["a/0.png"], [0], {}, 10, 20))


@st.composite
def texts_of(draw: st.DrawFn, original: object) -> str:
    """JSON of any value, of `original` with an entry changed or lost, or no JSON."""
    kind = draw(st.sampled_from(("entry", "lost", "value", "text", "deep", "digits")))
    if kind == "text":
        return draw(st.text('{}[]",:0123456789eE+-ntf', max_size=40))
    if kind in ("deep", "digits"):
        return "[" * 100_000 if kind == "deep" else "9" * 5000
    if kind == "value":
        return json.dumps(draw(values))
    altered = dict(original)
    name = draw(st.sampled_from(sorted(altered)))
    del altered[name]
    return json.dumps(altered if kind == "lost" else altered | {name: draw(values)})


@drawn
@given(text=texts_of(RECORD))
def test_drawn_records_are_read_or_refused(job, text):
    path = job.path(0).with_suffix(".json")
    path.write_text(text, encoding="utf-8")
    try:
        record = read_record(job, 0)
    except sg.StridedGpuError as error:
        assert sentence(error).startswith(f"{str(path)!r} is not the record of a shard")
        return
    sums = record.bytes_read + record.bytes_written + len(record.pictures) + len(record.failures)
    assert isinstance(sums, int)
    assert all(isinstance(reason, str) for reason in record.failures.values())


@drawn
@given(data=st.data())
def test_drawn_manifests_are_those_of_the_job_or_refused(job, data):
    original = job.manifest.read_text(encoding="utf-8")
    try:
        text = data.draw(texts_of(json.loads(original)))
        job.manifest.write_text(text, encoding="utf-8")
        for act in (lambda: start(job), lambda: write_shard(job, Shard(0, 0, 0))):
            try:
                act()
            except sg.StridedGpuError as error:
                assert re.search(r"is not a manifest of shards|holds shards of other", sentence(error))
    finally:
        job.manifest.write_text(original, encoding="utf-8")


LISTINGS = {
    "no JSON": b"0/0.png\n",
    "a number": b"5\n",
    "deep": b"[" * 100_000 + b"\n",
    "no text": b'"\xff\xfe\n',
    "a name outside": b'"../secret.png"\n',
    "an absolute name": b'"/etc/secret.png"\n',
    "a null byte": b'"a\\u0000.png"\n',
    "half a character": b'"\\ud800.png"\n',
}


@pytest.mark.parametrize("line", LISTINGS.values(), ids=LISTINGS)
def test_a_line_that_is_no_name_inside_the_folder_is_refused(job, line):
    job.listing.write_bytes(line)
    for act in (lambda: start(job), lambda: write_shard(job, Shard(0, 1, 0))):
        with pytest.raises(sg.StridedGpuError, match="is not a listing of images: give a new --out") as caught:
            act()
        sentence(caught.value)


def test_a_listing_that_was_cut_off_meanwhile_makes_no_shorter_shard(job):
    shards = start(job)
    job.listing.write_bytes(b"".join(job.listing.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(sg.StridedGpuError, match="has lost images since the job began"):
        write_shard(job, Shard(1, shards[1].count, shards[1].start))


@drawn
@given(text=texts_of({"format": 1, "provenance": {}, "workloads": [], "curves": []}))
def test_drawn_results_are_read_or_refused(tmp_path, text):
    path = tmp_path / "results.json"
    path.write_text(text, encoding="utf-8")
    try:
        assert read_results(path).workloads == ()
    except sg.StridedGpuError as error:
        assert str(path) in sentence(error)


# What is read at all


NEVER = {
    # what a file could decide by it: the pattern, and a line that it finds
    "text is evaluated": (r"(?<![\w.])(?:eval|exec)\(", "value = eval(text)"),
    "objects are unpickled": (r"pickle\.(?:loads?|Unpickler)|allow_pickle=True|np\.load\(", "np.load(path)"),
    "archives are unpacked": (
        r"tarfile\.open\((?!.*mode=\"w\")|zipfile|extractall|unpack_archive",
        "tarfile.open(path)",
    ),
    "shards are opened by other libraries": (r"safe_open\(|load_file\(|zarr\.open", "safe_open(path)"),
    "images of any format are opened": (r"Image\.open\((?!.*formats=|path\)\.\")", "with Image.open(path) as image:"),
    "a shell is started": (r"shell=True|os\.system\(|os\.popen\(", "subprocess.run(line, shell=True)"),
}
"""What no source of the package has. Tar files, safetensors and zarr are written, and never read."""

OF_THE_PACKAGE = {("devices/cuda/cubins.py", "archives are unpacked")}
"""Sources that read a file of the installed package itself, which is trusted as its code is."""


def test_no_source_lets_a_file_decide_more_than_values():
    for what, (pattern, example) in NEVER.items():
        assert re.search(pattern, example), what
    found = [
        (path.relative_to(PACKAGE).as_posix(), what)
        for path in PACKAGE.rglob("*.py")
        for text in [path.read_text(encoding="utf-8")]
        for what, (pattern, _) in NEVER.items()
        if re.search(pattern, text)
    ]
    assert {*found} == OF_THE_PACKAGE
