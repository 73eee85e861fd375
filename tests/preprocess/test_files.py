"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

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
