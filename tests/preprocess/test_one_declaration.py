"""One declaration, the same bytes: a loop, `sg.load`, PyTorch, the command line; `test_engines.py` has the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.__main__ import main

Image = pytest.importorskip("PIL.Image", reason="Pillow decodes the images: pip install stridedgpu[cli]")

COUNT, EPOCH, SIZE = 24, 2, (40, 44)
DECLARED = {"crop": 32, "flip": True, "seed": 9, "normalize": "imagenet", "dtype": "float32", "device": "cpu"}


def pixels():
    """Pictures of one size."""
    return np.random.default_rng(8).integers(0, 256, (COUNT, *SIZE, 3), dtype=np.uint8)


def step():
    """The declaration, in the epoch that is compared."""
    made = sg.Preprocess("image", **DECLARED)
    made.set_epoch(EPOCH)
    return made


@pytest.fixture(scope="module")
def expected():
    """What a loop over single images makes, each by its number."""
    declared = step()
    return np.stack([declared({"image": [picture]}, [number])["image"][0] for number, picture in enumerate(pixels())])


def check(made, expected):
    assert np.ascontiguousarray(made).tobytes() == expected.tobytes()


def rows():
    return [{"image": picture, "number": number} for number, picture in enumerate(pixels())]


@pytest.mark.parametrize("size", [1, 7, COUNT])
def test_a_loop_over_batches(expected, size):
    declared, whole = step(), pixels()
    parts = [slice(first, first + size) for first in range(0, COUNT, size)]
    check(np.concatenate([declared({"image": whole[part]}, range(COUNT)[part])["image"] for part in parts]), expected)


def test_pictures_of_pillow(expected):
    made = step()({"image": [Image.fromarray(picture) for picture in pixels()]}, range(COUNT))
    check(made["image"], expected)


@pytest.mark.parametrize("threads", [1, 3])
def test_load(expected, threads):
    loader = sg.load(rows(), step(), batch=5, threads=threads)
    check(np.concatenate([batch["image"] for batch in loader]), expected)


def test_the_command_line(tmp_path):
    """Its keys are the files' names, and its epoch is the first."""
    names = [f"{number:02}.png" for number in range(COUNT)]
    for name, picture in zip(names, pixels(), strict=True):
        Image.fromarray(picture).save(tmp_path / name)
    options = ["--size", "32", "--random-crop", "--flip", "--seed", "9", "--normalize", "imagenet", "--device", "cpu"]
    assert main(["preprocess", str(tmp_path), "--out", str(tmp_path / "out.npy"), *options]) == 0
    declared = sg.Preprocess("image", **DECLARED)
    check(np.load(tmp_path / "out.npy"), declared({"image": list(pixels())}, names)["image"])


WINDOWS = {
    "random areas in epoch 3": (
        {"random_resized_crop": True, "crop": 32, "flip": True, "seed": 4},
        ["--random-resized-crop", "--flip", "--seed", "4", "--epoch", "3"],
    ),
    "letterbox": ({"letterbox": 32}, ["--letterbox"]),
    "letterbox, mirrored, of another value": (
        {"letterbox": 32, "fill": (1, 2, 3), "flip": True, "seed": 0},
        ["--letterbox", "--fill", "1,2,3", "--flip"],
    ),
    "padded": (
        {"pad": (1, 2, 3, 8), "fill": 9, "crop": 32, "flip": True, "seed": 0},
        ["--pad", "1,2,3,8", "--fill", "9", "--random-crop", "--flip"],
    ),
    "resized and padded": ({"resize": (24,), "pad": 6, "crop": 32}, ["--resize", "24", "--pad", "6"]),
}


@pytest.mark.parametrize("declared, options", WINDOWS.values(), ids=WINDOWS)
def test_the_command_line_declares_every_window(tmp_path, declared, options):
    """In one batch, all compared with NumPy, and in shards."""
    names = [f"{number:02}.png" for number in range(COUNT)]
    (tmp_path / "in").mkdir()
    for name, picture in zip(names, pixels(), strict=True):
        Image.fromarray(picture).save(tmp_path / "in" / name)
    step = sg.Preprocess(**declared, normalize="clip", device="cpu")
    expected = np.stack(step(list(pixels()), names, epoch=3 if "--epoch" in options else 0))
    command = ["preprocess", str(tmp_path / "in"), "--size", "32", "--normalize", "clip", "--device", "cpu", *options]
    assert main([*command, "--out", str(tmp_path / "out.npy"), "--compare"]) == 0
    check(np.load(tmp_path / "out.npy"), expected)
    assert main([*command, "--out", str(tmp_path / "shards"), "--shards", "1"]) == 0
    check(np.load(tmp_path / "shards" / "shard-00000-of-00001.npy"), expected)


VALUES = {
    "12 bits": ({"normalize": "0..1", "maximum": 4095}, ["--deep", "--normalize", "0..1", "--maximum", "4095"]),
    "16 bits, kept": ({"dtype": "uint16"}, ["--deep", "--dtype", "uint16"]),
    "16 bits, padded": ({"pad": 4, "fill": 156, "normalize": "unit"}, "--deep --pad 4 --fill 156 --normalize unit"),
    "12 bits, letterboxed": (
        {"crop": None, "letterbox": 32, "maximum": 4095, "normalize": "unit"},
        "--deep --letterbox --maximum 4095 --normalize unit",
    ),
    "a window of values, padded": (
        {"pad": 4, "fill": 51, "clip": (30.5, 200), "normalize": "0..1"},
        "--pad 4 --fill 51 --clip 30.5,200 --normalize 0..1",
    ),
    "the middle of transformers": ({"resize": (37,), "center": "floor"}, "--resize 37 --center floor"),
    "a window of values": ({"clip": (30.5, 200), "normalize": "siglip"}, "--clip 30.5,200 --normalize siglip"),
    "a window of 16 bits": ({"clip": (1000, 9000), "normalize": "0..1"}, "--deep --clip 1000,9000 --normalize 0..1"),
    "grey": ({"mode": "gray", "normalize": "inception"}, "--mode gray --normalize inception"),
    "grey of 16 bits": (
        {"mode": "gray", "dtype": "uint16", "resize": (36,)},
        "--deep --mode gray --dtype uint16 --resize 36",
    ),
    "drawn colours": (
        {"gain": (0.5, 1.5), "offset": (-0.1, 0.2), "seed": 3, "random_crop": False, "normalize": "clip"},
        "--gain 0.5,1.5 --offset=-0.1,0.2 --seed 3 --normalize clip",
    ),
    "divided": (
        {"arithmetic": "divide", "normalize": "imagenet", "channels": (2, 1, 0)},
        "--arithmetic divide --normalize imagenet --channels bgr",
    ),
    "another filter": (
        {"resize": (36,), "interpolation": "pillow-lanczos", "passes": "pillow-13"},
        "--resize 36 --interpolation pillow-lanczos --passes pillow-13",
    ),
    "torch's filter and transformers' arithmetic": (
        {"resize": (36,), "interpolation": "torch-bicubic", "arithmetic": "transformers", "normalize": "clip"},
        "--resize 36 --interpolation torch-bicubic --arithmetic transformers --normalize clip",
    ),
    "whole numbers of 8 bits, columns first": (
        {"mean": 0.5, "std": 0.007843137254901961, "dtype": "int8", "channels": (2, 1, 0), "layout": "NWCH"},
        "--mean 0.5 --std 0.007843137254901961 --dtype int8 --channels bgr --layout NWCH",
    ),
    "doubles": (
        {"normalize": "imagenet", "dtype": "float64", "layout": "NHWC"},
        "--normalize imagenet --dtype float64 --layout NHWC",
    ),
    "mean and std": ({"mean": 0.5, "std": (0.2, 0.3, 0.4)}, "--mean 0.5 --std 0.2,0.3,0.4"),
    "as it lies": ({"exif": False, "dtype": "uint8"}, "--no-exif --dtype uint8"),
}


@pytest.mark.parametrize("declared, options", VALUES.values(), ids=VALUES)
def test_the_command_line_declares_every_value(tmp_path, declared, options):
    """In one batch, all compared with NumPy, and in shards."""
    options = options.split() if isinstance(options, str) else options
    names = [f"{number:02}.png" for number in range(3)]
    (tmp_path / "in").mkdir()
    turned = Image.Exif()
    turned[0x0112] = 6
    given = []
    for name, picture in zip(names, pixels(), strict=False):
        if "--deep" in options:
            image = Image.fromarray(picture[..., 0].astype(np.uint16) * 257 + picture[..., 1])
        else:
            image = Image.fromarray(picture)
        image.save(tmp_path / "in" / name, **({"exif": turned} if "--no-exif" in options else {}))
        given.append(Image.open(tmp_path / "in" / name))
    step = sg.Preprocess(**{"crop": 32, "device": "cpu", "channels": (0, 1, 2), **declared})
    if "mode" in declared:
        step = replace(step, channels=None)
    expected = np.stack(step(given, names))
    command = ["preprocess", str(tmp_path / "in"), "--size", "32", "--device", "cpu", *options]
    assert main([*command, "--out", str(tmp_path / "out.npy"), "--compare"]) == 0
    check(np.load(tmp_path / "out.npy"), expected)
    assert main([*command, "--out", str(tmp_path / "shards"), "--shards", "1"]) == 0
    check(np.load(tmp_path / "shards" / "shard-00000-of-00001.npy"), expected)
    loader = sg.load([tmp_path / "in" / name for name in names], replace(step, key=None), batch=3, threads=2)
    if step.seed is None:
        check(next(iter(loader)), expected)


def test_sg_load_of_every_window():
    for declared, _ in WINDOWS.values():
        step = sg.Preprocess(**declared, device="cpu")
        expected = np.stack(step(list(pixels()), range(COUNT), epoch=0))
        check(np.concatenate(list(sg.load(list(pixels()), step, batch=5, threads=2))), expected)


class Numbered:
    """A map-style data set of dicts."""

    def __len__(self):
        return COUNT

    def __getitem__(self, number):
        return {"image": Image.fromarray(pixels()[number]), "number": number}


@pytest.mark.interop
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_the_data_loader(expected, workers):
    data = pytest.importorskip("torch.utils.data", reason="PyTorch's loader is what this test is about")
    declared = step()
    loader = data.DataLoader(declared.dataset(Numbered()), 5, num_workers=workers, collate_fn=declared.collate)
    check(np.concatenate([batch["image"].numpy() for batch in loader]), expected)
