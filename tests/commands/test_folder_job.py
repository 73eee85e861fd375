"""A folder into shards: the pixels of one batch, nothing lost or doubled after a kill, and flat memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.__main__ import main
from stridedgpu.commands.folder import _task_needs, on_ray
from stridedgpu.commands.folder_job import FolderJob, FolderJobError, start, write_shard
from stridedgpu.commands.preprocess import SKIPPED
from stridedgpu.preprocess.decoding import Decoder
from stridedgpu.preprocess.loader import BatchMaker

PIL = pytest.importorskip("PIL", reason="Pillow decodes the images: pip install stridedgpu[cli]")
Image = pytest.importorskip("PIL.Image", reason="Pillow decodes the images: pip install stridedgpu[cli]")

OPTIONS = ("--size", "20x24", "--normalize", "imagenet", "--layout", "NHWC", "--device", "cpu")
COUNT = 50


@pytest.fixture
def folder(tmp_path):
    """Pictures of several sizes in two folders, one too small and one damaged."""
    random = np.random.default_rng(2)
    for number in range(COUNT):
        path = tmp_path / "photos" / f"part{number % 2}" / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (*random.integers(24, 50, 2), 3), dtype=np.uint8)).save(path)
    Image.fromarray(random.integers(0, 256, (10, 10, 3), dtype=np.uint8)).save(tmp_path / "photos/part0/small.png")
    (tmp_path / "photos/part1/broken.png").write_bytes(b"no picture")
    return tmp_path


def arguments(folder, shards, out="out", *more):
    return ["preprocess", str(folder / "photos"), "--shards", str(shards), "--out", str(folder / out), *OPTIONS, *more]


def contents(out):
    """The rows of all shards and their images, and what failed."""
    shards = sorted(out.glob("shard-*.npy"))
    records = [json.loads(path.with_suffix(".json").read_text(encoding="utf-8")) for path in shards]
    names = [name for record in records for name in record["pictures"]]
    failures = {name: reason for record in records for name, reason in record["failures"].items()}
    return np.concatenate([np.load(path) for path in shards]), names, failures


def whole_batch(folder, *options):
    """The same by one batch of the good images, in a folder of their own."""
    good = sorted(path for path in (folder / "photos").rglob("*.png") if path.stem.isdigit())
    names = [path.relative_to(folder / "photos") for path in good]
    for name in names:
        (folder / "good" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "good" / name).write_bytes((folder / "photos" / name).read_bytes())
    assert main(["preprocess", str(folder / "good"), "--out", str(folder / "whole.npy"), *OPTIONS, *options]) == 0
    return np.load(folder / "whole.npy"), [str(name) for name in names]


@pytest.mark.parametrize("shards", [1, 3, 60])
def test_shards_hold_every_picture_once(folder, shards, capsys):
    assert main(arguments(folder, shards)) == SKIPPED
    printed = capsys.readouterr().out
    assert f"{COUNT}, {COUNT} of them in this run" in printed
    assert "images a second" in printed
    assert "smaller than --size" in printed
    pixels, names, failures = contents(folder / "out")
    expected, good = whole_batch(folder)
    assert names == good
    assert pixels.tobytes() == expected.tobytes()
    assert sorted(failures) == ["part0/small.png", "part1/broken.png"]
    assert len(list((folder / "out").iterdir())) == 2 * shards + 2


@pytest.mark.parametrize(
    "chance", [("--flip",), ("--random-crop",), ("--random-crop", "--flip", "--seed", "5")], ids=" ".join
)
def test_chance_is_that_of_one_batch_whatever_the_shards(folder, chance):
    expected, good = whole_batch(folder, *chance)
    centred, _ = whole_batch(folder)
    assert expected.tobytes() != centred.tobytes()
    for shards in (1, 7):
        assert main(arguments(folder, shards, f"out{shards}", *chance)) == SKIPPED
        pixels, names, _ = contents(folder / f"out{shards}")
        assert names == good
        assert pixels.tobytes() == expected.tobytes()


def test_one_batch_and_shards_are_made_by_one_declaration(folder, monkeypatch):
    declared = {}
    make = BatchMaker.__init__

    def recorded(maker, step, pictures, *more):
        declared.setdefault(repr(replace(step, output="numpy")), []).extend(pictures._keys)
        make(maker, step, pictures, *more)

    monkeypatch.setattr(BatchMaker, "__init__", recorded)
    chance = ("--random-crop", "--flip", "--seed", "5", "--channels", "bgr")
    assert main(arguments(folder, 2, "out", *chance)) == SKIPPED
    (names,) = declared.values()
    assert sorted(names) == sorted(contents(folder / "out")[1] + list(contents(folder / "out")[2]))
    whole_batch(folder, *chance)
    (both,) = declared.values()
    assert set(both[COUNT + 2 :]) < set(names)


def test_a_second_run_does_what_is_missing(folder, capsys):
    assert main(arguments(folder, 5)) == SKIPPED
    before = contents(folder / "out")
    untouched = (folder / "out/shard-00000-of-00005.npy").stat().st_mtime_ns
    (folder / "out/shard-00002-of-00005.json").unlink()
    (folder / "out/shard-00004-of-00005.json").unlink()
    (folder / "out/shard-00004-of-00005.npy").unlink()
    capsys.readouterr()
    assert main(arguments(folder, 5)) == SKIPPED
    assert "5, 2 of them written by this run" in capsys.readouterr().out
    after = contents(folder / "out")
    assert after[0].tobytes() == before[0].tobytes()
    assert after[1:] == before[1:]
    assert (folder / "out/shard-00000-of-00005.npy").stat().st_mtime_ns == untouched
    assert main(arguments(folder, 5)) == SKIPPED
    assert "nothing was left to do" in capsys.readouterr().out


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed by POSIX's signal")
def test_a_killed_run_is_finished_by_the_next(folder):
    environment = os.environ | {"PYTHONPATH": str(Path(sg.__file__).parents[1])}
    command = [sys.executable, "-m", "stridedgpu", *arguments(folder, 52)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    while process.poll() is None and not list((folder / "out").glob("shard-*.json")):
        time.sleep(0.001)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    begun = len(list((folder / "out").glob("shard-*.json")))
    assert 0 < begun < 52
    for path in (folder / "out").glob("shard-*.npy"):
        np.load(path)  # whole, whether or not it has a record
    assert main(arguments(folder, 52)) == SKIPPED
    pixels, names, _ = contents(folder / "out")
    expected, good = whole_batch(folder)
    assert names == good
    assert pixels.tobytes() == expected.tobytes()


CHANGES = {
    "option": ("step", ["--dtype", "float16"]),
    "flip": ("step", ["--flip"]),
    "random crop": ("step", ["--random-crop"]),
    "resize": ("step", ["--resize", "40"]),
    "decoder": ("decoder", ["--decoder", "pillow-draft"]),
    "shards": ("shards (2, now 3)", ["--shards", "3"]),
    "renamed": ("images (where it had 'part0/000.png', there is 'part0/002.png' now)", []),
    "new": ("images (where it had 'part1/broken.png', there is 'part1/aa.png' now)", []),
    "gone": ("images (where it had 'part1/broken.png', there is nothing now)", []),
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_shards_are_not_mixed_in(folder, change, capsys):
    assert main(arguments(folder, 2)) == SKIPPED
    said, options = CHANGES[change]
    photos = folder / "photos"
    if change == "renamed":
        (photos / "part0/000.png").rename(photos / "part0/other.png")
    if change == "new":
        (photos / "part1/aa.png").write_bytes(b"one more")
    if change == "gone":
        (photos / "part1/broken.png").unlink()
    before = {path: path.stat().st_mtime_ns for path in (folder / "out").iterdir()}
    capsys.readouterr()
    assert main([*arguments(folder, 2), *options]) == 2
    error = capsys.readouterr().err
    assert f"holds shards of other {said}" in error
    assert error.count("\n") == 1
    assert {path: path.stat().st_mtime_ns for path in (folder / "out").iterdir()} == before


def test_where_no_shard_is_yet_a_job_may_change(folder):
    (folder / "out").mkdir()
    (folder / "out/manifest.json").write_text("{}", encoding="utf-8")
    assert main(arguments(folder, 2)) == SKIPPED
    assert len(contents(folder / "out")[1]) == COUNT


def test_another_device_goes_on_with_the_shards(folder, capsys):
    assert main(arguments(folder, 2)) == SKIPPED
    given = arguments(folder, 2)
    capsys.readouterr()
    assert main([argument for argument in given if argument not in ("--device", "cpu")]) == SKIPPED
    assert "nothing was left to do" in capsys.readouterr().out


@pytest.mark.parametrize("resize", [None, 40])
def test_the_manifest_records_decoder_versions_and_geometry(folder, resize):
    assert main([*arguments(folder, 2), *([] if resize is None else ["--resize", str(resize)])]) == SKIPPED
    manifest = json.loads((folder / "out/manifest.json").read_text(encoding="utf-8"))
    assert manifest["decoder"].split(",")[0] == f"Pillow {PIL.__version__}"
    assert manifest["stridedgpu"] == sg.__version__
    assert manifest["size"] == [20, 24]
    assert manifest["resize"] == (None if resize is None else [resize])
    assert manifest["keys"] == "names in the folder"
    rule = [None, None] if resize is None else ["pillow-bilinear", "pillow-13"]
    assert [manifest["interpolation"], manifest["passes"]] == rule


def test_another_decoder_is_refused_and_another_stridedgpu_is_not(folder, monkeypatch, capsys):
    assert main(arguments(folder, 2)) == SKIPPED
    manifest = folder / "out/manifest.json"
    record = folder / "out/shard-00001-of-00002.json"
    manifest.write_text(
        json.dumps(json.loads(manifest.read_text(encoding="utf-8")) | {"stridedgpu": "0.0.1"}), encoding="utf-8"
    )
    before = {path: path.read_bytes() for path in (folder / "out").iterdir()}
    record.unlink()
    assert main(arguments(folder, 2)) == SKIPPED
    assert {path: path.read_bytes() for path in (folder / "out").iterdir()} == before
    record.unlink()
    capsys.readouterr()
    began = json.loads(manifest.read_text(encoding="utf-8"))["decoder"]
    monkeypatch.setattr(Decoder, "version", "Pillow 1.0")
    assert main(arguments(folder, 2)) == 2
    said = f"holds shards of other decoder ({began!r}, now 'Pillow 1.0'): give a new --out, or what it began with."
    assert said in capsys.readouterr().err
    assert not record.exists()


def test_a_worker_with_another_decoder_writes_no_shard(folder, monkeypatch):
    job = FolderJob(folder / "photos", folder / "out", 2, sg.Preprocess("image", crop=8, device="cpu"))
    first, _ = start(job)
    monkeypatch.setattr(Decoder, "version", "Pillow 1.0")
    with pytest.raises(FolderJobError, match="holds shards of other decoder"):
        write_shard(job, first)
    assert not job.path(0).exists()


@pytest.mark.parametrize("place", ["images", "out"])
def test_a_file_is_no_folder(folder, capsys, place):
    given = arguments(folder, 2)
    given[1 if place == "images" else 5] = str(folder / "photos/part0/000.png")
    with pytest.raises(SystemExit, match="2"):
        main(given)
    said = {"images": "is for a folder of images, which", "out": "000.png' is a file, and shards are written into a"}
    assert said[place] in capsys.readouterr().err


def test_a_folder_that_is_missing_is_said_to_be_missing(folder, capsys):
    given = arguments(folder, 2)
    given[1] = str(folder / "fotos")
    with pytest.raises(SystemExit, match="2"):
        main(given)
    assert f"there is no folder {given[1]!r}\n" in capsys.readouterr().err
    assert not (folder / "out").exists()


@pytest.mark.parametrize("name", ["all.npy", "all.tar", "all.safetensors", "ALL.NPY"])
def test_the_name_of_a_file_is_no_folder(folder, capsys, name):
    given = arguments(folder, 2)
    given[5] = str(folder / name)
    with pytest.raises(SystemExit, match="2"):
        main(given)
    said = f"argument --out: {given[5]!r} is a file's name, and shards are written into a folder"
    assert said in capsys.readouterr().err
    assert not (folder / name).exists()


def test_ray_that_is_not_there_is_refused_before_anything_is_written(folder, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(arguments(folder, 2, "out", "--engine", "ray")) == 2
    assert "--engine ray needs Ray, which is not installed: pip install ray" in capsys.readouterr().err
    assert not (folder / "out").exists()


def test_a_task_asks_for_a_part_of_a_gpu_where_one_is_asked_for():
    assert _task_needs("auto", {"CPU": 8, "GPU": 2}) == {"num_cpus": 1}
    assert _task_needs("cuda", {"CPU": 8, "GPU": 2}) == {"num_cpus": 1, "num_gpus": 1 / 16}
    with pytest.raises(sg.StridedGpuError, match="the Ray cluster has no GPU; give --device cpu"):
        _task_needs("cuda", {"CPU": 8})
    with pytest.raises(sg.StridedGpuError, match="Ray chooses among GPUs; give --device cuda"):
        _task_needs("cuda:1", {"CPU": 8, "GPU": 2})


class RayInline:
    """What `on_ray` uses of Ray: tasks are carried out when their results are taken, the last one first."""

    class exceptions:  # noqa: N801 - Ray's name
        class RayError(Exception):
            pass

    def __init__(self, failing=None):
        self.failing, self.asked = failing, None

    def cluster_resources(self):
        return {"CPU": 2}

    def remote(self, **needs):
        self.asked = needs
        return lambda task: SimpleNamespace(remote=lambda *arguments: (task, arguments))

    def wait(self, waiting, num_returns):
        return waiting[-num_returns:], waiting[:-num_returns]

    def get(self, ready):
        task, (job, shard) = ready
        if shard.number == self.failing:
            raise self.exceptions.RayError("the worker died")
        return task(job, shard)


def test_rays_records_are_those_of_its_shards(folder, monkeypatch):
    ray, threads, counted = RayInline(), sg.get_num_threads(), []
    monkeypatch.setitem(sys.modules, "ray", ray)
    job = FolderJob(folder / "photos", folder / "out", 3, sg.Preprocess("image", crop=8, device="cpu", errors="skip"))
    shards = start(job)
    try:
        records = list(on_ray(job, shards, lambda: counted.append(1)))
        assert sg.get_num_threads() == 1
    finally:
        sg.set_num_threads(threads)
    assert [record.shard for record in records] == [2, 1, 0]
    assert len(counted) == sum(shard.count for shard in shards) == COUNT + 2
    assert ray.asked == {"max_retries": 3, "num_cpus": 1}
    assert all(job.path(number).exists() for number in range(3))


def test_a_shard_that_ray_gives_up_is_named(folder, monkeypatch):
    ray = RayInline(failing=1)
    monkeypatch.setitem(sys.modules, "ray", ray)
    job = FolderJob(folder / "photos", folder / "out", 2, sg.Preprocess("image", crop=8, device="cpu", errors="skip"))
    with pytest.raises(FolderJobError, match="shard 1 failed on Ray, and the same command begins it anew: the worker"):
        next(on_ray(job, start(job), lambda: None))


def test_what_listing_holds_does_not_grow_with_the_names(tmp_path):
    for place in range(20):
        (tmp_path / f"photos/{place}").mkdir(parents=True)
        for number in range(100):
            (tmp_path / f"photos/{place}/photograph-{place}-{number}.jpg").touch()
    job = FolderJob(tmp_path / "photos", tmp_path / "out", 7, sg.Preprocess("image", crop=8))
    for compares in (False, True):
        if compares:
            (job.out / "shard-00000-of-00007.npy").touch()
        peaks = []
        for _ in range(4):  # in some runs Python makes room for what it remembers itself
            tracemalloc.start()
            shards = start(job)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert sum(shard.count for shard in shards) == 2000
        assert min(peaks) < 2000 * 40, "a list of the names alone takes twice as much"


def test_a_manifest_that_is_none_is_refused(folder, capsys):
    assert main(arguments(folder, 2)) == SKIPPED
    for text in ("{", "[]", "{}", "[" * 200_000):
        (folder / "out/manifest.json").write_text(text, encoding="utf-8")
        assert main(arguments(folder, 2)) == 2
        assert "is not a manifest of shards: give a new --out" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"shard": 0}', "[" * 200_000])
def test_a_record_that_is_none_is_refused(folder, capsys, text):
    assert main(arguments(folder, 2)) == SKIPPED
    next((folder / "out").glob("shard-*.json")).write_text(text, encoding="utf-8")
    assert main(arguments(folder, 2)) == 2
    assert "is not the record of a shard: remove it, and run the job again" in capsys.readouterr().err


@pytest.mark.parametrize("label", [-1, 1 << 63, True, 1.5, "0"], ids=str)
def test_a_label_that_shards_cannot_hold_is_refused(folder, capsys, label):
    assert main(arguments(folder, 1)) == SKIPPED
    path = folder / "out/shard-00000-of-00001.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    record["labels"][0] = label
    path.write_text(json.dumps(record), encoding="utf-8")
    assert main(arguments(folder, 1)) == 2
    assert "is not the record of a shard" in capsys.readouterr().err
    listing = folder / "out/pictures.jsonl"
    lines = listing.read_text(encoding="utf-8").splitlines()
    listing.write_text("\n".join([json.dumps(["part0/000.png", label]), *lines[1:], ""]), encoding="utf-8")
    assert main(arguments(folder, 1)) == 2
    assert "is not a listing of images" in capsys.readouterr().err


@pytest.mark.parametrize(
    "names",
    [("manifest.json",), ("pictures.jsonl", "shard-00001-of-00002.npy"), ("shard-00001-of-00002.json",)],
    ids=["manifest", "shard", "record"],
)
def test_links_in_the_folder_of_shards_are_replaced_and_not_followed(folder, names):
    out = folder / "out"
    out.mkdir()
    theirs = folder / "theirs.txt"
    theirs.write_text("something of the user's", encoding="utf-8")
    for name in names:
        (out / name).symlink_to(theirs)
    assert main(arguments(folder, 2)) == SKIPPED
    assert theirs.read_text(encoding="utf-8") == "something of the user's"
    assert not any(path.is_symlink() for path in out.iterdir())


def test_a_run_that_was_killed_while_it_listed_begins_anew(folder):
    (folder / "out").mkdir()
    (folder / "out/pictures.jsonl").write_text('"part0/000.png"\n"half a na', encoding="utf-8")
    assert main(arguments(folder, 2)) == SKIPPED
    assert len(contents(folder / "out")[1]) == COUNT


def test_a_picture_that_goes_away_meanwhile_is_a_failure(folder, monkeypatch):
    missing = folder / "photos/part1/001.png"

    decode = Decoder.frame

    def gone_by_then(decoder, path, name):
        missing.unlink(missing_ok=True)
        return decode(decoder, path, name)

    monkeypatch.setattr(Decoder, "frame", gone_by_then)
    assert main(arguments(folder, 2)) == SKIPPED
    _, names, failures = contents(folder / "out")
    assert len(names) == COUNT - 1
    assert "No such file" in failures["part1/001.png"]


@pytest.mark.skipif(sys.platform == "win32", reason="file names there are text")
def test_names_may_be_any(folder):
    picture = (folder / "photos/part0/000.png").read_bytes()
    odd = [
        "line\nend.png",
        'quote".png',
        os.fsdecode("zoë.png".encode()),
        os.fsdecode(b"\xff.png"),
        "LOUD.PNG",
        "a.b.png",
    ]
    for name in odd:
        (folder / "photos/part0" / name).write_bytes(picture)
    (folder / "photos/loop.png").symlink_to("loop.png")
    (folder / "photos/linked").symlink_to("part0")
    (folder / "photos/linked.png").symlink_to("part0/000.png")
    assert main(arguments(folder, 3)) == SKIPPED
    pixels, names, _ = contents(folder / "out")
    assert {f"part0/{name}" for name in odd} | {"linked.png"} <= set(names)
    assert len(names) == len(pixels) == COUNT + len(odd) + 1


@pytest.mark.parametrize(
    "given, said",
    [
        (("--shards", "0"), "0 is not an integer from 1 to 99999"),
        (("--shards", "1000000000"), "is not an integer from 1 to 99999"),
        (("--shards", "2", "--layout", "CHWN"), "image by image"),
        (("--shards", "2", "--row-pitch", "512"), "--row-pitch"),
        (("--shards", "2", "--compare", "all"), "--compare is for one batch"),
        (("--shards", "2", "--samples"), "one folder"),
        (("--shards", "2", "--alignment", "64"), "--alignment"),
        (("--shards", "2", "--seed", "1"), "--seed decides"),
        (("--shards", "2", "--address", "auto"), "give --engine ray too"),
        (("--engine", "ray"), "give --shards too"),
        (("--address", "auto"), "give --shards too"),
    ],
)
def test_refusals(folder, given, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["preprocess", str(folder / "photos"), "--out", str(folder / "out"), *given])
    assert said in capsys.readouterr().err
    assert not (folder / "out").exists()
