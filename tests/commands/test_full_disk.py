"""A disk of 8 MB without room: what is written is whole or not there, and the same command goes on with room."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from stridedgpu.__main__ import main
from stridedgpu.commands.shard_formats import SUFFIXES

Image = pytest.importorskip("PIL.Image", reason="Pillow decodes the images: pip install stridedgpu[cli]")

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="only root mounts a small disk (tmpfs), on Linux"
    ),
]

COUNT, SIDE = 12, 64
ROOM = 60_000
"""Bytes that stay free: a picture's 49 kB fit, a shard of six does not, nor where zarr compresses it."""


@pytest.fixture
def disk(tmp_path):
    """A file system of 8 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this process may not mount a file system")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    random = np.random.default_rng(0)
    for number in range(COUNT):
        Image.fromarray(random.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)).save(folder / f"{number:02}.png")
    return folder


def fill(disk, room=0):
    """Take all of the disk but so many bytes."""
    free = os.statvfs(disk)
    with (disk / "filler").open("wb", buffering=0) as file:
        file.write(bytes(free.f_bavail * free.f_bsize - room))
    if not room:
        with pytest.raises(OSError, match="No space left"), (disk / "another").open("wb", buffering=0) as file:
            file.write(b"a byte")
        (disk / "another").unlink()


def command(photos, out, *more):
    return ["preprocess", str(photos), "--size", str(SIDE), "--device", "cpu", "--out", str(out), *more]


def refused(capsys):
    error = capsys.readouterr().err
    assert error.endswith("cannot be written: No space left on device.\n")
    assert error.count("\n") == 1


@pytest.mark.parametrize("room", [0, ROOM])
def test_a_batch_leaves_the_old_file(photos, disk, room, capsys):
    (disk / "batch.npy").write_bytes(b"old")
    fill(disk, room)
    assert main(command(photos, disk / "batch.npy")) == 2
    refused(capsys)
    assert (disk / "batch.npy").read_bytes() == b"old"
    assert sorted(path.name for path in disk.iterdir()) == ["batch.npy", "filler"]


@pytest.mark.parametrize("kind", SUFFIXES)
def test_no_shard_is_half_written_and_the_job_goes_on_with_room(photos, disk, kind, tmp_path, capsys):
    if kind == "zarr":
        pytest.importorskip("zarr", reason="writes shards: pip install stridedgpu[shards]")
    given = ("--shards", "2", "--shard-format", kind)
    fill(disk, ROOM)
    assert main(command(photos, disk / "out", *given)) == 2
    refused(capsys)
    assert sorted(path.name for path in (disk / "out").iterdir()) == ["manifest.json", "pictures.jsonl"]
    (disk / "filler").unlink()
    assert main(command(photos, disk / "out", *given)) == 0
    assert main(command(photos, tmp_path / "elsewhere", *given)) == 0
    for path in (tmp_path / "elsewhere").rglob("*"):
        if path.is_file():
            assert (disk / "out" / path.relative_to(tmp_path / "elsewhere")).read_bytes() == path.read_bytes()


def test_no_manifest_is_half_written(photos, disk, capsys):
    fill(disk)
    assert main(command(photos, disk / "out", "--shards", "2")) == 2
    refused(capsys)
    assert list((disk / "out").iterdir()) == []
    (disk / "filler").unlink()
    assert main(command(photos, disk / "out", "--shards", "2")) == 0
