"""Images that cannot be used: they end a job or are left out, counted, and listed with their reasons."""

from __future__ import annotations

import json

import numpy as np
import pytest

from stridedgpu.__main__ import main
from stridedgpu.commands.preprocess import SKIPPED

Image = pytest.importorskip("PIL.Image", reason="Pillow decodes the images: pip install stridedgpu[cli]")

COUNT = 40
BROKEN = {"003.png": "cannot identify", "011.png": "smaller than --size 16x16", "039.png": "is not an image"}


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Images of one colour each, their number, and among them broken ones, the last one included."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(COUNT):
        Image.fromarray(np.full((20, 24, 3), number, np.uint8)).save(folder / f"{number:03}.png")
    Image.fromarray(np.zeros((5, 5, 3), np.uint8)).save(folder / "011.png")
    (folder / "003.png").write_bytes((folder / "000.png").read_bytes()[:20])
    (folder / "039.png").write_bytes(b"no image")
    return folder


def run(*options):
    given = ["preprocess", "photos", "--size", "16", "--dtype", "uint8", "--device", "cpu", *options]
    return main([str(option) for option in given])


def numbers(batch, layout="NCHW"):
    """The number of each row's image, whose pixels all have it."""
    rows = np.moveaxis(batch, layout.index("N"), 0).reshape(batch.shape[layout.index("N")], -1)
    assert (rows == rows[:, :1]).all()
    return rows[:, 0].tolist()


def numbers_of_shards(folder):
    return numbers(np.concatenate([np.load(path) for path in sorted(folder.glob("*.npy"))]))


GOOD = [number for number in range(COUNT) if f"{number:03}.png" not in BROKEN]

MEMORY = {
    "streamed": (),
    "a row pitch": ("--row-pitch", "64", "--raw", "batch.bin"),
    "images innermost": ("--layout", "CHWN"),
}


@pytest.mark.parametrize("options", MEMORY.values(), ids=MEMORY)
def test_a_batch_is_made_without_them(photos, options, capsys):
    assert run("--errors", "skip", *options, "--out", "batch.npy") == SKIPPED
    batch = np.load("batch.npy")
    assert numbers(batch, "CHWN" if "CHWN" in options else "NCHW") == GOOD
    said = capsys.readouterr().out
    raw = ", 'batch.bin'" if "--raw" in options else ""
    assert f"wrote 'batch.npy'{raw} and 'batch.manifest.json': 37 images\n" in said
    assert f"N={len(GOOD)} C=3 H=16 W=16" in said
    assert "skipped  3 of 40 images, each with its reason in 'batch.manifest.json'" in said
    manifest = json.loads((photos.parent / "batch.manifest.json").read_text(encoding="utf-8"))
    assert manifest["pictures"] == [f"photos/{number:03}.png" for number in GOOD]
    assert list(manifest["skipped"]) == [f"photos/{name}" for name in BROKEN]
    for name, reason in manifest["skipped"].items():
        assert name in reason
        assert " ".join(reason.split()) in said
    if "--raw" in options:
        raw = np.fromfile("batch.bin", np.uint8)
        rows = np.append(raw, np.zeros(48, np.uint8))  # the last row's padding is not stored
        assert numbers(rows.reshape(len(GOOD), 3, 16, 64)[..., :16]) == GOOD


def test_the_exit_code_is_the_one_that_scripts_test():
    assert SKIPPED == 3


def test_a_batch_ends_at_the_first_one_by_default(photos, capsys):
    before = sorted(photos.parent.rglob("*"))
    assert run("--out", "batch.npy") == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert any(name in said.err for name in BROKEN)
    assert sorted(photos.parent.rglob("*")) == before


def test_a_batch_without_broken_images_has_a_manifest_too(photos, capsys):
    for name in BROKEN:
        (photos / name).unlink()
    assert run("--errors", "skip", "--out", "batch.npy") == 0
    assert "skipped  0\n" in capsys.readouterr().out
    manifest = json.loads((photos.parent / "batch.manifest.json").read_text(encoding="utf-8"))
    assert len(manifest["pictures"]) == len(GOOD)
    assert manifest["skipped"] == {}
    assert manifest["size"] == [16, 16]


@pytest.mark.parametrize(
    "out, manifest",
    [("all.npy", "all.manifest.json"), ("v1.2", "v1.2.manifest.json"), ("v1.2.npy", "v1.2.manifest.json")],
)
def test_the_manifest_has_the_name_of_its_batch(photos, out, manifest):
    assert run("--errors", "skip", "--out", out) == SKIPPED
    assert (photos.parent / manifest).is_file()


def test_a_link_of_the_manifests_name_is_replaced_and_not_followed(photos):
    (photos.parent / "own.txt").write_text("something of the user's", encoding="utf-8")
    (photos.parent / "batch.manifest.json").symlink_to("own.txt")
    assert run("--errors", "skip", "--out", "batch.npy") == SKIPPED
    assert (photos.parent / "own.txt").read_text(encoding="utf-8") == "something of the user's"
    assert not (photos.parent / "batch.manifest.json").is_symlink()


def test_a_folder_is_no_batch(photos, capsys):
    assert run("--errors", "skip", "--out", ".") == 2
    assert "'.' is a folder; give the name of a file" in capsys.readouterr().err


def test_a_batch_of_broken_images_alone_is_refused(photos, capsys):
    for number in GOOD:
        (photos / f"{number:03}.png").unlink()
    assert run("--errors", "skip", "--out", "batch.npy") == 2
    assert "no image is left of 3; the first one: 'photos/003.png'" in capsys.readouterr().err
    assert not list(photos.parent.glob("batch*"))


def test_a_broken_image_among_those_compared_is_skipped(photos, capsys):
    assert run("--errors", "skip", "--compare=some", "--out", "batch.npy") == SKIPPED
    assert "every bit of the first 8 images" in capsys.readouterr().out


def test_the_manifest_takes_no_name_of_another_output(photos, capsys):
    with pytest.raises(SystemExit, match="2"):
        run("--errors", "skip", "--out", "batch.npy", "--raw", "batch.manifest.json")
    assert "--raw and the manifest name the same file 'batch.manifest.json'" in capsys.readouterr().err


def test_shards_leave_them_out_by_default(photos, capsys):
    assert run("--shards", "4", "--out", "shards") == SKIPPED
    assert "skipped  3 of 40 images, each with its reason in 'shards/manifest.json'" in capsys.readouterr().out
    manifest = json.loads((photos.parent / "shards/manifest.json").read_text(encoding="utf-8"))
    assert list(manifest["skipped"]) == list(BROKEN)
    assert numbers_of_shards(photos.parent / "shards") == GOOD
    assert run("--shards", "4", "--out", "shards") == SKIPPED, "images are missing, whichever run left them out"


def test_the_manifest_of_shards_says_what_is_skipped_when_all_are_done(photos):
    for name in BROKEN:
        (photos / name).unlink()
    assert run("--shards", "4", "--out", "shards") == 0
    assert json.loads((photos.parent / "shards/manifest.json").read_text(encoding="utf-8"))["skipped"] == {}


def test_shards_end_at_the_first_one_where_that_is_wanted_and_go_on_without_it(photos, capsys):
    assert run("--shards", "4", "--errors", "raise", "--out", "shards") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "003.png" in said
    assert not list((photos.parent / "shards").glob("shard*"))
    assert "skipped" not in json.loads((photos.parent / "shards/manifest.json").read_text(encoding="utf-8"))
    assert run("--shards", "4", "--errors", "skip", "--out", "shards") == SKIPPED
    assert numbers_of_shards(photos.parent / "shards") == GOOD


def test_many_reasons_are_counted(photos, capsys):
    for number in GOOD[:10]:
        (photos / f"{number:03}.png").write_bytes(b"no image")
    assert run("--errors", "skip", "--out", "batch.npy") == SKIPPED
    said = capsys.readouterr().out
    assert "skipped  13 of 40 images" in said
    assert said.count("photos/0") == 5
    assert said.endswith("           and 8 others\n")
