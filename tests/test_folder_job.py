"""A folder into shards: the pixels of one batch, nothing lost or doubled after a kill, and flat memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.__main__ import main

Image = pytest.importorskip("PIL.Image", reason="Pillow decodes the pictures: pip install stridedgpu[cli]")

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
    """The rows of all shards and their pictures, and what failed."""
    shards = sorted(out.glob("shard-*.npy"))
    records = [json.loads(path.with_suffix(".json").read_text()) for path in shards]
    names = [name for record in records for name in record["pictures"]]
    failures = {name: reason for record in records for name, reason in record["failures"].items()}
    return np.concatenate([np.load(path) for path in shards]), names, failures


def whole_batch(folder):
    """The same by one batch of the good pictures."""
    good = sorted(path for path in (folder / "photos").rglob("*.png") if path.stem.isdigit())
    assert main(["preprocess", *map(str, good), "--out", str(folder / "whole.npy"), *OPTIONS]) == 0
    return np.load(folder / "whole.npy"), [str(path.relative_to(folder / "photos")) for path in good]


@pytest.mark.parametrize("shards", [1, 3, 60])
def test_shards_hold_every_picture_once(folder, shards, capsys):
    assert main(arguments(folder, shards)) == 0
    printed = capsys.readouterr().out
    assert f"{COUNT}, {COUNT} of them in this run" in printed
    assert "pictures a second" in printed
    assert "smaller than --size" in printed
    pixels, names, failures = contents(folder / "out")
    expected, good = whole_batch(folder)
    assert names == good
    assert pixels.tobytes() == expected.tobytes()
    assert sorted(failures) == ["part0/small.png", "part1/broken.png"]
    assert len(list((folder / "out").iterdir())) == 2 * shards + 1


def test_a_second_run_does_what_is_missing(folder, capsys):
    assert main(arguments(folder, 5)) == 0
    before = contents(folder / "out")
    untouched = (folder / "out/shard-00000-of-00005.npy").stat().st_mtime_ns
    (folder / "out/shard-00002-of-00005.json").unlink()
    (folder / "out/shard-00004-of-00005.json").unlink()
    (folder / "out/shard-00004-of-00005.npy").unlink()
    capsys.readouterr()
    assert main(arguments(folder, 5)) == 0
    assert "5, 2 of them written by this run" in capsys.readouterr().out
    after = contents(folder / "out")
    assert after[0].tobytes() == before[0].tobytes()
    assert after[1:] == before[1:]
    assert (folder / "out/shard-00000-of-00005.npy").stat().st_mtime_ns == untouched
    assert main(arguments(folder, 5)) == 0
    assert "nothing was left to do" in capsys.readouterr().out


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed by POSIX's signal")
def test_a_killed_run_is_finished_by_the_next(folder):
    environment = os.environ | {"PYTHONPATH": str(Path(sg.__file__).parents[1])}
    command = [sys.executable, "-m", "stridedgpu", *arguments(folder, 52)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list((folder / "out").glob("shard-*.json")) and time.monotonic() < deadline:
        time.sleep(0.001)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    begun = len(list((folder / "out").glob("shard-*.json")))
    assert 0 < begun < 52
    for path in (folder / "out").glob("shard-*.npy"):
        np.load(path)  # whole, whether or not it has a record
    assert main(arguments(folder, 52)) == 0
    pixels, names, _ = contents(folder / "out")
    expected, good = whole_batch(folder)
    assert names == good
    assert pixels.tobytes() == expected.tobytes()


@pytest.mark.parametrize("change", ["option", "shards", "picture"])
def test_other_shards_are_not_mixed_in(folder, change, capsys):
    assert main(arguments(folder, 2)) == 0
    given = arguments(folder, 3 if change == "shards" else 2)
    if change == "option":
        given += ["--dtype", "float16"]
    if change == "picture":
        (folder / "photos/part0/000.png").rename(folder / "photos/part0/other.png")
    assert main(given) == 2
    named = {"option": "step", "shards": "shards", "picture": "pictures"}[change]
    assert f"holds shards of other {named}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "given, said",
    [
        (("--shards", "0"), "not a positive integer"),
        (("--shards", "2", "--layout", "CHWN"), "picture by picture"),
        (("--shards", "2", "--row-pitch", "512"), "--row-pitch"),
        (("--shards", "2", "--samples"), "one folder"),
        (("--engine", "ray"), "give --shards too"),
    ],
)
def test_refusals(folder, given, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["preprocess", str(folder / "photos"), "--out", str(folder / "out"), *given])
    assert said in capsys.readouterr().err
    assert not (folder / "out").exists()
