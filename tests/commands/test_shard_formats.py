"""Shards in every format: the rows, names and labels of `.npy`, read by the libraries whose formats these are."""

from __future__ import annotations

import json
import tarfile
from io import BytesIO

import numpy as np
import pytest

from stridedgpu.__main__ import main
from stridedgpu.commands.preprocess import SKIPPED
from stridedgpu.commands.shard_formats import SUFFIXES

Image = pytest.importorskip("PIL.Image", reason="Pillow decodes the images: pip install stridedgpu[cli]")

COUNT = 45
LABELS = {"cats": 0, "dogs": 1}


@pytest.fixture
def photos(tmp_path):
    """Pictures in two folders and in none, one too small and one damaged."""
    random = np.random.default_rng(2)
    for number in range(COUNT):
        path = tmp_path / "photos" / ("cats", "dogs", "")[number % 3] / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (*random.integers(20, 30, 2), 3), dtype=np.uint8)).save(path)
    Image.fromarray(np.zeros((5, 5, 3), np.uint8)).save(tmp_path / "photos/cats/000.png")
    (tmp_path / "photos/dogs/001.png").write_bytes(b"no picture")
    return tmp_path / "photos"


def run(photos, kind, *more, shards=2):
    options = ["--size", "16", "--flip", "--layout", "NHWC", "--normalize", "imagenet", "--dtype", "float16"]
    out = photos.parent / kind
    arguments = ["preprocess", str(photos), "--shards", str(shards), "--out", str(out), "--shard-format", kind]
    return main([*arguments, *options, "--device", "cpu", *more]), out


def labels_of(names):
    return [LABELS.get(name.partition("/")[0]) for name in names]


def read_npy(path):
    return np.load(path), None


def read_tar(path):
    """The members as tarfile reads them: images, and name and label of each."""
    images, rows, classes = [], [], {}
    with tarfile.open(path) as archive:
        for member in archive:
            stem, extension = member.name.split(".")
            content = archive.extractfile(member).read()
            if extension == "npy":
                images.append(np.load(BytesIO(content)))
            elif extension == "json":
                rows.append(json.loads(content) | {"stem": stem})
            else:
                classes[stem] = int(content)
    assert [row["label"] for row in rows] == [classes.get(row["stem"]) for row in rows]
    return np.stack(images), rows


def read_webdataset(path):
    webdataset = pytest.importorskip("webdataset", reason="reads what it should: pip install stridedgpu[shards]")
    samples = list(webdataset.WebDataset(str(path), shardshuffle=False).decode())
    images, rows = read_tar(path)
    assert all(np.array_equal(sample["npy"], image) for sample, image in zip(samples, images, strict=True))
    assert [sample.get("cls") for sample in samples] == [row["label"] for row in rows]
    return images, rows


def read_safetensors(path):
    numpy = pytest.importorskip("safetensors.numpy", reason="reads what it should: pip install stridedgpu[shards]")
    tensors = numpy.load_file(path)
    return tensors["image"], [{"label": None if label < 0 else int(label)} for label in tensors["label"]]


def read_zarr(path):
    zarr = pytest.importorskip("zarr", reason="reads what it should: pip install stridedgpu[shards]")
    group = zarr.open_group(path, mode="r")
    return group["image"][...], [{"label": None if label < 0 else int(label)} for label in group["label"][...]]


READERS = {"npy": read_npy, "tar": read_tar, "webdataset": read_webdataset}
READERS |= {"safetensors": read_safetensors, "zarr": read_zarr}


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # webdataset leaves closing to the collector
@pytest.mark.parametrize("reader", READERS)
def test_every_format_holds_the_rows_of_npy(photos, reader):
    kind = "webdataset" if reader == "tar" else reader
    if kind == "zarr":
        pytest.importorskip("zarr", reason="writes such shards: pip install stridedgpu[shards]")
    _, plain = run(photos, "npy")
    done, out = run(photos, kind)
    assert done == SKIPPED
    for number in range(2):
        name = f"shard-{number:05}-of-00002"
        images, rows = READERS[reader](out / (name + SUFFIXES[kind]))
        record = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
        expected = json.loads((plain / f"{name}.json").read_text(encoding="utf-8"))
        assert record["pictures"] == expected["pictures"]
        assert record["labels"] == expected["labels"] == labels_of(record["pictures"])
        assert images.tobytes() == np.load(plain / f"{name}.npy").tobytes()
        if rows is not None:
            assert [row["label"] for row in rows] == record["labels"]
            assert [row.get("name", picture) for row, picture in zip(rows, record["pictures"], strict=True)] == (
                record["pictures"]
            )
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["format"] == kind
    assert manifest["classes"] == ["cats", "dogs"]


@pytest.mark.parametrize("shards", [1, 4, 60])
def test_keys_of_webdataset_are_unique_over_shards_and_are_lines_of_the_listing(photos, shards):
    _, out = run(photos, "webdataset", shards=shards)
    names = [json.loads(line) for line in (out / "pictures.jsonl").read_text(encoding="utf-8").splitlines()]
    keys = []
    for path in sorted(out.glob("*.tar")):
        with tarfile.open(path) as archive:
            if archive.getnames():
                _, rows = read_tar(path)
                assert all(names[int(row["stem"])] == row["name"] for row in rows)
                keys += [row["stem"] for row in rows]
    assert len(keys) == len(set(keys)) == COUNT - 2


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("kind", SUFFIXES)
def test_a_second_run_makes_what_is_missing_anew(photos, kind):
    if kind == "zarr":
        pytest.importorskip("zarr", reason="writes such shards: pip install stridedgpu[shards]")
    _, out = run(photos, kind)
    reader = READERS[kind]
    if kind == "safetensors":
        pytest.importorskip("safetensors", reason="reads what it should: pip install stridedgpu[shards]")
    shard = out / f"shard-00001-of-00002{SUFFIXES[kind]}"
    before, _ = reader(shard)
    (out / "shard-00001-of-00002.json").unlink()
    (out / f".{shard.name}.part").mkdir()  # as a run leaves it that was killed
    assert run(photos, kind)[0] == SKIPPED
    assert reader(shard)[0].tobytes() == before.tobytes()
    assert {path.suffix for path in out.iterdir() if path.name.startswith("shard")} == {".json", SUFFIXES[kind]}


def test_another_format_is_not_mixed_in(photos, capsys):
    run(photos, "npy")
    (photos.parent / "npy").rename(photos.parent / "safetensors")
    capsys.readouterr()
    assert run(photos, "safetensors")[0] == 2
    assert "holds shards of other format ('npy', now 'safetensors')" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("reader", ["npy", "tar", "webdataset", "safetensors"])
def test_bfloat16_is_what_the_format_has_for_it(photos, reader):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="has bfloat16: pip install stridedgpu[ml-dtypes]")
    _, exact = run(photos, "npy", "--dtype", "float32")
    exact.rename(photos.parent / "exact")
    kind = "webdataset" if reader == "tar" else reader
    _, out = run(photos, kind, "--dtype", "bfloat16")
    for number in range(2):
        name = f"shard-{number:05}-of-00002"
        images, _ = READERS[reader](out / (name + SUFFIXES[kind]))
        expected = np.load(photos.parent / "exact" / f"{name}.npy").astype(ml_dtypes.bfloat16)
        if reader == "safetensors":
            assert images.dtype == ml_dtypes.bfloat16
        assert images.view(ml_dtypes.bfloat16).tobytes() == expected.tobytes()


def test_bfloat16_that_zarr_has_not_is_refused(photos, capsys):
    with pytest.raises(SystemExit, match="2"):
        run(photos, "zarr", "--dtype", "bfloat16")
    assert "--dtype bfloat16: zarr has no such type; give another --shard-format, or" in capsys.readouterr().err
    assert not (photos.parent / "zarr").exists()


def test_bfloat16_without_ml_dtypes_is_refused_before_anything_is_written(photos, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    assert run(photos, "npy", "--dtype", "bfloat16")[0] == 2
    assert "pip install ml_dtypes" in capsys.readouterr().err
    assert not (photos.parent / "npy").exists()


def test_a_format_is_for_shards(photos, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["preprocess", str(photos), "--out", "batch.npy", "--shard-format", "zarr"])
    assert "--shard-format zarr is for a folder in parts: give --shards too" in capsys.readouterr().err


def test_zarr_that_is_not_there_is_said(photos, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "zarr", None)
    assert run(photos, "zarr")[0] == 2
    assert (
        'shards in zarr need zarr, which is not installed: pip install "stridedgpu[shards]"' in capsys.readouterr().err
    )
    assert not list((photos.parent / "zarr").glob("shard*"))
