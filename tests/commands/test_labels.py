"""Labels of a file: the forms that data sets have, in the manifest of a batch and in the records of shards."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest

from stridedgpu.__main__ import main
from stridedgpu.commands.labels import Labels
from stridedgpu.preprocess.files import FileError

NAMES = ["a.png", "b/1, old.png", "b/two words.png", "c.png"]

FORMS = {
    "commas": 'a.png,3\n"b/1, old.png",0\nb/two words.png,3\nc.png,11\n',
    "commas with a heading": 'file,label\na.png,3\n"b/1, old.png",0\nb/two words.png,3\nc.png,11\n',
    "tabs": "a.png\t3\nb/1, old.png\t0\nb/two words.png\t3\nc.png\t11\n",
    "blanks": "a.png 3\nb/1, old.png 0\nb/two words.png 3\nc.png   11",
    "lines of Windows": "\ufeffa.png\t3\r\nb/1, old.png\t0\r\n\r\nb/two words.png\t3\r\nc.png\t11\r\n",
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_every_form_is_read(tmp_path, text):
    (tmp_path / "labels").write_text(text, encoding="utf-8", newline="")
    labels = Labels.read(tmp_path / "labels")
    assert labels.numbers == dict(zip(NAMES, (3, 0, 3, 11), strict=True))
    assert labels.classes == []


def test_words_are_numbered_in_order():
    labels = Labels.of_lines("labels", ["x.jpg,dog", "y.jpg,cat", "z.jpg,7", "w.jpg,dog"])
    assert labels.classes == ["7", "cat", "dog"]
    assert labels.numbers == {"x.jpg": 2, "y.jpg": 1, "z.jpg": 0, "w.jpg": 2}


@pytest.mark.skipif(sys.platform == "win32", reason="file names there are text")
def test_names_of_any_bytes(tmp_path):
    (tmp_path / "labels").write_bytes(b"\xff.png,1\n")
    assert Labels.read(tmp_path / "labels").of(os.fsdecode(b"\xff.png")) == 1


def test_numbers_beyond_64_bits_are_words():
    labels = Labels.of_lines("labels", ["x.jpg,7", f"y.jpg,{10**18}", f"z.jpg,{'9' * 5000}"])
    assert labels.classes == [str(10**18), "7", "9" * 5000]


def test_a_file_of_something_else_is_refused(tmp_path):
    for content, message in ((b"x" * 9, "is not a file of labels: field larger than"), (b"x,", "line 1 of ")):
        (tmp_path / "labels").write_bytes(b"a.png," + content * 30_000)
        with pytest.raises(FileError, match=message) as refused:
            Labels.read(tmp_path / "labels")
        assert len(str(refused.value)) < 500


REFUSED = {
    "three fields": (["a.png,1,train"], "line 1 of 'labels' has ['a.png', '1', 'train'], which is not an image's name"),
    "no label": (["a.png,1", "b.png,"], "line 2 of 'labels' has ['b.png', ''], which is not an image's name and one"),
    "a name alone": (["a.png 1", "b.png"], "line 2 of 'labels' has ['b.png'], which is not"),
    "two labels": (["a.png,1", "b.png,2", "a.png,3"], "line 3 of 'labels' gives 'a.png' a second label, '3'"),
}


@pytest.mark.parametrize("lines, message", REFUSED.values(), ids=REFUSED)
def test_lines_that_are_no_labels_are_refused(lines, message):
    with pytest.raises(FileError) as refused:
        Labels.of_lines("labels", lines)
    assert message in str(refused.value)


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder with an image of each name, and a broken one."""
    image = pytest.importorskip("PIL.Image", reason="Pillow decodes the images: pip install stridedgpu[cli]")
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(np.zeros((20, 20, 3), np.uint8)).save(path)
    (tmp_path / "photos/b/broken.png").write_bytes(b"no image")
    (tmp_path / "labels.csv").write_text(FORMS["commas"] + "b/broken.png,5\nelsewhere.png,6\n", encoding="utf-8")
    return tmp_path


def run(*options):
    return main(["preprocess", "photos", "--size", "16", "--device", "cpu", "--labels", "labels.csv", *options])


def test_a_batch_has_them_in_its_manifest(photos):
    assert run("--errors", "skip", "--out", "batch.npy") == 3
    manifest = json.loads((photos / "batch.manifest.json").read_text(encoding="utf-8"))
    assert manifest["pictures"] == [f"photos/{name}" for name in NAMES]
    assert manifest["labels"] == [3, 0, 3, 11]
    (photos / "photos/b/broken.png").unlink()
    (photos / "labels.csv").write_text("".join(f'"{name}",{name[0]}\n' for name in NAMES), encoding="utf-8")
    assert run("--out", "words.npy") == 0
    manifest = json.loads((photos / "words.manifest.json").read_text(encoding="utf-8"))
    assert (manifest["labels"], manifest["classes"]) == ([0, 1, 1, 2], ["a", "b", "c"])


def test_shards_have_them_in_their_records(photos):
    assert run("--shards", "2", "--out", "shards") == 3
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((photos / "shards").glob("shard*.json"))]
    assert [label for record in records for label in record["labels"]] == [3, 0, 3, 11]
    manifest = json.loads((photos / "shards/manifest.json").read_text(encoding="utf-8"))
    assert manifest["classes"] == []
    assert run("--shards", "2", "--out", "shards") == 3, "the same labels again"


@pytest.mark.parametrize("to", [("--out", "batch.npy"), ("--shards", "2", "--out", "shards")], ids=["batch", "shards"])
def test_an_image_without_a_label_is_refused_before_anything_is_written(photos, to, capsys):
    (photos / "labels.csv").write_text("a.png,1\nc.png,2\n", encoding="utf-8")
    before = sorted(photos.rglob("*"))
    assert run(*to) == 2
    said = capsys.readouterr().err
    assert said == "stridedgpu: there is no label for 'b/1, old.png' in 'labels.csv', as it has for 'a.png'.\n"
    assert sorted(photos.rglob("*")) == before


def test_a_file_that_is_missing_is_said(photos, capsys):
    (photos / "labels.csv").unlink()
    assert run("--out", "batch.npy") == 2
    assert capsys.readouterr().err == "stridedgpu: 'labels.csv': No such file or directory\n"


def test_other_labels_are_not_mixed_in(photos, capsys):
    assert run("--shards", "2", "--out", "shards") == 3
    text = (photos / "labels.csv").read_text(encoding="utf-8")
    (photos / "labels.csv").write_text(text.replace("c.png,11", "c.png,12"), encoding="utf-8")
    capsys.readouterr()
    assert run("--shards", "2", "--out", "shards") == 2
    assert "(where it had 'c.png' with label 11, there is 'c.png' with label 12 now)" in capsys.readouterr().err
    given = ["preprocess", "photos", "--size", "16", "--device", "cpu", "--shards", "2", "--out", "shards"]
    assert main(given) == 2
    assert "holds shards of other labels ('a file', now 'topmost folders')" in capsys.readouterr().err
