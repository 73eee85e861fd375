"""The contact sheet: the pixels that a network sees, whatever they were normalised to, and their names."""

from __future__ import annotations

import numpy as np
import pytest

from stridedgpu.__main__ import main
from stridedgpu.commands import contact_sheet
from stridedgpu.commands.contact_sheet import _GAP, _MOST, _SIDE, _TEXT

Image = pytest.importorskip("PIL.Image", reason="Pillow decodes the images: pip install stridedgpu[cli]")

COUNT = 9
HEADING = _TEXT + 2 * _GAP
"""The row of pixels at which the first window begins."""


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Images larger than a window, of the sheet's size, and one that is broken."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(1)
    for number in range(COUNT):
        path = tmp_path / "photos" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(random.integers(0, 256, (9, 10, 3), dtype=np.uint8))
        coarse.resize((_SIDE + 20, _SIDE + 11)).save(path)
    (tmp_path / "photos/a/broken.png").write_bytes(b"no image")
    return tmp_path


def run(*options, size=_SIDE):
    given = ["preprocess", "photos", "--size", str(size), "--device", "cpu", *options]
    return main([*given, "--errors", "skip"])


def windows(path, count, height=_SIDE, width=_SIDE):
    """The windows of a sheet."""
    with Image.open(path) as opened:
        sheet = np.asarray(opened.convert("RGB"))
    rows = [divmod(place, 8) for place in range(count)]
    places = [(HEADING + row * (height + _TEXT + 2 * _GAP), _GAP + column * (_SIDE + _GAP)) for row, column in rows]
    return np.stack([sheet[top : top + height, left : left + width] for top, left in places])


def sheet_size(path):
    with Image.open(path) as sheet:
        return sheet.size


def seen(*options):
    """What the network sees, as bytes."""
    plain = ("--normalize", "--mean", "--std", "--arithmetic", "--dtype", "--layout", "--channels", "--clip")
    kept = [word for word in options if not word.startswith(plain)]
    assert run(*kept, "--dtype=uint8", "--layout=NHWC", "--out", "plain.npy") == 3
    return np.load("plain.npy")


DECLARED = {
    "bytes": ["--dtype=uint8"],
    "floats of 0 to 255": [],
    "imagenet": ["--normalize=imagenet"],
    "blue first": ["--normalize=imagenet", "--channels=bgr"],
    "one value for all channels": ["--mean=0.5", "--std=0.25"],
    "divided": ["--normalize=clip", "--arithmetic=divide"],
    "v2 of torchvision": ["--normalize=clip", "--arithmetic=torchvision-v2"],
    "transformers": ["--normalize=siglip", "--arithmetic=transformers"],
    "transformers with Pillow": ["--normalize=imagenet", "--arithmetic=transformers-pil"],
    "half": ["--normalize=imagenet", "--dtype=float16"],
    "rows of pixels": ["--normalize=imagenet", "--layout=NHWC"],
    "images innermost": ["--normalize=imagenet", "--layout=CHWN", "--channels=bgr"],
    "integers": ["--mean=0.5019607843137255", "--std=0.00392156862745098", "--dtype=int8"],
    "the whole range as clip": ["--clip=0,255", "--normalize=inception"],
    "drawn windows": ["--normalize=imagenet", "--random-crop", "--flip", "--seed=7", "--epoch=3"],
}


@pytest.mark.parametrize("options", DECLARED.values(), ids=DECLARED)
def test_a_sheet_has_the_pixels_that_the_network_sees(photos, options):
    assert run(*options, "--preview", "sheet.png", "--out", "batch.npy") == 3
    assert np.array_equal(windows("sheet.png", COUNT), seen(*options))


def test_a_clip_shows_what_is_left(photos):
    assert run("--clip=50,200", "--normalize=0..1", "--preview", "sheet.png", "--out", "batch.npy") == 3
    expected = np.rint((np.clip(seen().astype(float), 50, 200) - 50) / 150 * 255)
    assert np.abs(windows("sheet.png", COUNT) - expected).max() <= 1


def test_grey_is_grey(photos):
    assert run("--mode=gray", "--normalize=unit", "--preview", "sheet.png", "--out", "batch.npy") == 3
    expected = np.repeat(seen("--mode=gray"), 3, axis=3)
    assert np.array_equal(windows("sheet.png", COUNT), expected)


def test_samples_of_16_bits(photos):
    deep = np.random.default_rng(3).integers(0, 4096, (_SIDE, _SIDE), dtype=np.uint16)
    Image.fromarray(deep).save("deep.png")
    given = ["preprocess", "deep.png", "--size", str(_SIDE), "--deep", "--maximum", "4095", "--normalize", "imagenet"]
    assert main([*given, "--preview", "sheet.png", "--out", "batch.npy"]) == 0
    expected = np.rint(deep / 4095 * 255)
    assert np.abs(windows("sheet.png", 1)[0] - expected[..., np.newaxis]).max() <= 1


@pytest.mark.parametrize(
    "size, shown", [((20, 10), (160, 80)), ((320, 480), (107, 160)), ((1, 400), (1, 160))], ids=str
)
def test_windows_are_fitted(photos, size, shown):
    options = ("--letterbox", "--preview", "sheet.png", "--out", "batch.npy")
    assert run(*options, size="x".join(map(str, size))) == 3
    assert sheet_size("sheet.png") == (8 * (_SIDE + _GAP) + _GAP, 2 * (shown[0] + _TEXT + 2 * _GAP) + HEADING)
    if size == (20, 10):
        whole = np.load("batch.npy").astype(np.uint8).transpose(0, 2, 3, 1)
        assert np.array_equal(windows("sheet.png", COUNT, 160, 80), whole.repeat(8, axis=1).repeat(8, axis=2))


def test_a_sheet_of_shards_is_that_of_one_batch(photos, capsys):
    options = ("--normalize=imagenet", "--random-crop", "--flip", "--seed=7", "--preview")
    assert run(*options, "one.png", "--out", "batch.npy") == 3
    assert run(*options, "shards/sheet.png", "--shards", "4", "--out", "shards") == 3
    assert "preview  9 of 9 images in 'shards/sheet.png'" in capsys.readouterr().out
    assert (photos / "one.png").read_bytes() == (photos / "shards/sheet.png").read_bytes()
    assert run(*options, "again.png", "--shards", "4", "--out", "shards") == 3, "when nothing was left to do"
    assert (photos / "one.png").read_bytes() == (photos / "again.png").read_bytes()


def test_images_of_a_large_job_are_at_equal_distances(photos, monkeypatch):
    monkeypatch.setattr(contact_sheet, "_MOST", 3)
    assert run("--dtype=uint8", "--layout=NHWC", "--preview", "sheet.png", "--out", "batch.npy") == 3
    assert np.array_equal(windows("sheet.png", 3), np.load("batch.npy")[[0, 3, 6]])
    assert run("--dtype=uint8", "--shards", "2", "--preview", "shards.png", "--out", "shards") == 3
    assert (photos / "sheet.png").read_bytes() == (photos / "shards.png").read_bytes()


def test_names_are_below_the_windows_and_long_ones_end_as_they_do(photos):
    from PIL import ImageDraw, ImageFont

    (photos / "photos/a/broken.png").unlink()
    (photos / f"photos/{'m' * 100}12.png").write_bytes((photos / "photos/a/0.png").read_bytes())
    options = ("--size", str(_SIDE), "--device", "cpu", "--preview", "sheet.png", "--out", "batch.npy")
    assert main(["preprocess", "photos", *options]) == 0
    font = ImageFont.load_default(_TEXT)
    room = ImageDraw.Draw(Image.new("L", (1, 1)))
    count = next(count for count in range(100, 0, -1) if room.textlength(f"..{'m' * count}12.png", font) <= _SIDE)
    with Image.open("sheet.png") as sheet:
        heading = Image.new("RGB", (sheet.width, _GAP + _TEXT), contact_sheet._PAPER)
        words = f"{COUNT + 1} of {COUNT + 1} images, {_SIDE} x {_SIDE} of float32, as the network sees them"
        ImageDraw.Draw(heading).text((_GAP, _GAP), words, contact_sheet._INK, font)
        assert sheet.crop((0, 0, sheet.width, _GAP + _TEXT)).tobytes() == heading.tobytes()
        for place, name in ((0, "a/0.png"), (8, "b/7.png"), (9, f"..{'m' * count}12.png")):
            row, column = divmod(place, 8)
            left, top = _GAP + column * (_SIDE + _GAP), HEADING + row * (_SIDE + _TEXT + 2 * _GAP) + _SIDE
            expected = Image.new("RGB", (_SIDE, _TEXT + _GAP), contact_sheet._PAPER)
            ImageDraw.Draw(expected).text((0, 2), name, contact_sheet._INK, font)
            shown = sheet.crop((left, top, left + _SIDE, top + _TEXT + _GAP))
            assert shown.tobytes() == expected.tobytes(), name


def test_names_may_be_any_and_of_any_length(photos):
    pixels = (photos / "photos/a/0.png").read_bytes()
    for name in ("line\nend.png", "x" * 200 + ".png", "\N{CJK UNIFIED IDEOGRAPH-56FE}.png", "\udcff.png"):
        (photos / "photos" / name).write_bytes(pixels)
    assert run("--preview", "sheet.png", "--out", "batch.npy") == 3
    assert sheet_size("sheet.png")[0] == 8 * (_SIDE + _GAP) + _GAP


REFUSED = {
    "of another format": ("sheet.jpg", "--preview 'sheet.jpg': the sheet is a PNG; give a name that ends in .png."),
    "among the images": ("photos/a/sheet.png", "lies in the folder of images 'photos', and would be one of them the"),
    "nowhere": ("no/sheet.png", "'no/sheet.png' cannot be written: there is no folder"),
    "a folder": ("folder.png", "'folder.png' is a folder; give the name of a file"),
}


@pytest.mark.parametrize("to", [("--out", "batch.npy"), ("--shards", "2", "--out", "shards")], ids=["batch", "shards"])
@pytest.mark.parametrize("name, message", REFUSED.values(), ids=REFUSED)
def test_sheets_that_cannot_be_written_are_refused_before_the_work(photos, to, name, message, capsys):
    (photos / "folder.png").mkdir()
    before = sorted(photos.rglob("*"))
    assert run("--preview", name, *to) == 2
    assert message in capsys.readouterr().err
    assert sorted(photos.rglob("*")) == before


def test_a_sheet_has_a_name_of_its_own(photos, capsys):
    with pytest.raises(SystemExit, match="2"):
        run("--preview", "x.png", "--raw", "x.png", "--out", "batch.npy")
    assert "--raw and --preview name the same file 'x.png'" in capsys.readouterr().err


def test_a_sheet_has_the_most_images_that_its_help_names(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["preprocess", "--help"])
    assert f"up to {_MOST} images" in " ".join(capsys.readouterr().out.split())
