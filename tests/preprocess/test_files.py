"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stridedgpu.preprocess.files import replacement


def test_a_file_is_on_the_disk_before_it_replaces_another(tmp_path, monkeypatch):
    """What a machine that stops would lose: without the first step an empty file could have the name."""
    path, steps = tmp_path / "o.npy", []
    sync, replace = os.fsync, Path.replace
    path.write_bytes(b"old")

    def synced(descriptor):
        steps.append(("synced", os.fstat(descriptor).st_size, path.read_bytes()))
        sync(descriptor)

    def replaced(source, target):
        steps.append(("replaced", source.stat().st_size, target.read_bytes()))
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    with replacement(path) as file:
        file.write(bytes(5000))
    assert steps == [("synced", 5000, b"old"), ("replaced", 5000, b"old")]
    assert path.read_bytes() == bytes(5000)


@pytest.mark.parametrize("lacks", ["O_TMPFILE", "/proc"])
def test_a_system_without_files_that_have_no_name_writes_them_by_one(tmp_path, monkeypatch, lacks):
    if lacks == "O_TMPFILE":
        monkeypatch.delattr(os, lacks, raising=False)
    else:
        is_dir = Path.is_dir
        monkeypatch.setattr(Path, "is_dir", lambda path: not str(path).startswith(lacks) and is_dir(path))
    path = tmp_path / "o.npy"
    with replacement(path) as file:
        file.write(bytes(5000))
        names = [each.name for each in tmp_path.iterdir()]
    assert len(names) == 1
    assert names != [path.name], "until it is whole, a file has another name"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == bytes(5000)
