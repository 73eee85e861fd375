"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import stridedgpu as sg
from stridedgpu.preprocess.files import SUFFIXES, ImageError, image_names, replacement


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


def folder_of(tmp_path, suffixes):
    image = pytest.importorskip("PIL.Image", reason="Pillow writes the images")
    features = pytest.importorskip("PIL.features")
    for number, suffix in enumerate(suffixes):
        path = tmp_path / f"{number:02}{suffix.upper() if number % 2 else suffix}"
        mode = {".pgm": "L", ".pbm": "1"}.get(suffix.lower(), "RGB")
        if suffix == ".avif" and not (hasattr(features, "check") and "avif" in features.get_supported()):
            continue
        options = {"save_all": True, "append_images": [image.new(mode, (9, 8))]} if suffix == ".mpo" else {}
        kind = {".jpe": "JPEG", ".jfif": "JPEG", ".apng": "PNG", ".pnm": "PPM"}.get(suffix)
        image.new(mode, (9, 8)).save(path, kind, **options) if suffix in SUFFIXES else path.write_bytes(b"none")
    return tmp_path


def test_a_folder_gives_every_image_that_is_read(tmp_path, caplog):
    folder = folder_of(tmp_path, sorted(SUFFIXES))
    step = sg.Preprocess(dtype="uint8", crop=8, device="cpu")
    assert sum(len(batch) for batch in sg.load(folder, step, batch=4)) == len(list(folder.iterdir()))
    assert caplog.text == ""


def test_images_of_other_formats_are_named(tmp_path, caplog):
    folder = folder_of(tmp_path, [".png", ".tga", ".heic", ".tga", ".txt", ".json"])
    assert list(image_names(folder)) == ["00.png"]
    assert "2 of .tga, 1 of .heic left out; files that end in .apng, .avif" in caplog.text
    (folder / "00.png").unlink()
    with pytest.raises(
        ImageError, match=r"holds no images; files that .* are read, and not its 2 of .tga, 1 of .heic\.$"
    ):
        list(image_names(folder))


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
