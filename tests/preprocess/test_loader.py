"""`load`: the batches of a loop, in order and in bounded memory, whatever the threads, batches and devices."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np
import pytest
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

import stridedgpu as sg
from stridedgpu.__main__ import main

Image = pytest.importorskip("PIL.Image", reason="Pillow decodes the images: pip install stridedgpu[cli]")

COUNT = 21
STEP = sg.Preprocess(
    crop=(12, 10), random_resized_crop=True, flip=0.5, seed=3, mean=(0.4, 0.5, 0.6), std=0.2, device="cpu"
)


def loading_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("stridedgpu load")]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    if loading_threads():
        gc.collect()  # batches that nobody refers to any more are closed
    assert loading_threads() == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images of several sizes in two folders."""
    random = np.random.default_rng(5)
    path = tmp_path_factory.mktemp("images")
    for number in range(COUNT):
        (path / f"{number % 2}").mkdir(exist_ok=True)
        pixels = random.integers(0, 256, (*random.integers(14, 40, 2), 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path / f"{number % 2}" / f"{number:02}.png")
    return path


@pytest.fixture(scope="module")
def files(folder):
    return sorted(folder.rglob("*.png"))


@pytest.fixture(scope="module")
def images(files):
    return [np.asarray(Image.open(path)) for path in files]


def whole(batches):
    return np.concatenate([np.asarray(batch) for batch in batches])


@settings(max_examples=examples(100))
@given(
    batch=st.integers(1, 25),
    threads=st.integers(1, 4),
    ahead=st.integers(1, 3),
    layout=st.sampled_from(["NCHW", "NHWC"]),
    drop_last=st.booleans(),
)
def test_batches_are_those_of_a_loop(files, images, batch, threads, ahead, layout, drop_last):
    step = sg.Preprocess(crop=9, resize=12, flip=0.5, seed=1, dtype="float16", scale=0.5, layout=layout, device="cpu")
    loader = sg.load(files, step, batch=batch, threads=threads, ahead=ahead, drop_last=drop_last)
    made = list(loader)
    assert len(made) == len(loader)
    kept = COUNT // batch * batch if drop_last else COUNT
    assert [len(part) for part in made[:-1]] == [batch] * (len(made) - 1)
    if made:
        assert whole(made).tobytes() == np.stack(step(images[:kept], range(kept))).tobytes()
    assert kept == 0 or made


def test_keys_of_a_folder_are_the_names_that_the_command_line_takes(folder, tmp_path):
    command = "--size 12 --random-crop --flip --seed 4 --dtype uint8 --layout NHWC --device cpu --out"
    assert main(["preprocess", str(folder), *command.split(), str(tmp_path / "batch.npy")]) == 0
    step = sg.Preprocess("image", crop=12, flip=0.5, seed=4, dtype="uint8", layout="NHWC", device="cpu")
    batches = list(sg.load(folder, step, batch=8))
    assert [name for batch in batches for name in batch["name"]][:2] == ["0/00.png", "0/02.png"]
    assert whole(batch["image"] for batch in batches).tobytes() == np.load(tmp_path / "batch.npy").tobytes()


@pytest.mark.parametrize(
    "store",
    [
        lambda path: path,
        str,
        lambda path: path.read_bytes(),
        lambda path: bytearray(path.read_bytes()),
        lambda path: memoryview(path.read_bytes() + b"behind")[:-6],
        Image.open,
        lambda path: Image.open(path).convert("RGB"),
        lambda path: np.asarray(Image.open(path)),
    ],
    ids=["path", "text", "bytes", "bytearray", "memoryview", "opened", "decoded", "array"],
)
@pytest.mark.parametrize("form", ["alone", "tuple", "dict"])
def test_samples_of_every_kind(files, images, store, form):
    stored = [store(path) for path in files]
    column = {"alone": None, "tuple": None, "dict": "image"}[form]
    step = sg.Preprocess(
        column, crop=12, random_resized_crop=True, flip=0.5, seed=3, mean=(0.1, 0.2, 0.3), device="cpu"
    )
    expected = np.stack(step({"image": images}, range(COUNT))["image"] if column else step(images, range(COUNT)))
    if form == "alone":
        made = list(sg.load(stored, step, batch=8, threads=2))
    elif form == "tuple":
        batches = list(sg.load([(image, row, f"{row}") for row, image in enumerate(stored)], step, batch=8))
        assert [type(batch) for batch in batches] == [tuple] * 3
        assert np.concatenate([labels for _, labels, _ in batches]).tolist() == list(range(COUNT))
        assert [name for _, _, names in batches for name in names] == [str(row) for row in range(COUNT)]
        made = [pixels for pixels, _, _ in batches]
    else:
        rows = [{"box": np.array([row, 1.0]), "image": image} for row, image in enumerate(stored)]
        batches = list(sg.load(rows, step, batch=8))
        assert [list(batch) for batch in batches] == [["box", "image"]] * 3
        assert np.concatenate([batch["box"] for batch in batches])[:, 0].tolist() == list(range(COUNT))
        made = [batch["image"] for batch in batches]
    assert whole(made).tobytes() == expected.tobytes()


def test_a_declared_key_is_taken_in_place_of_the_number(files, images):
    step = sg.Preprocess("image", crop=12, flip=0.5, seed=3, key="id", device="cpu")
    rows = [{"image": path, "id": f"x{row}"} for row, path in enumerate(files)]
    made = whole(batch["image"] for batch in sg.load(rows, step, batch=5))
    keyed = {"image": images, "id": [f"x{row}" for row in range(COUNT)]}
    assert made.tobytes() == step(keyed)["image"].tobytes()


def test_arrays_of_one_size_need_no_crop():
    frames = np.random.default_rng(0).integers(0, 4096, (10, 6, 8, 2), dtype=np.uint16)
    step = sg.Preprocess(dtype="float32", scale=0.5, device="cpu")
    assert whole(sg.load(frames, step, batch=4, threads=2)).tobytes() == step(frames).tobytes()


def test_what_is_begun_is_bounded(images):
    begun = []

    class Dataset:
        def __len__(self):
            return 400

        def __getitem__(self, number):
            begun.append(number)
            return images[number % COUNT]

    batches = iter(sg.load(Dataset(), STEP, batch=8, threads=2, ahead=2))
    for number in range(6):
        next(batches)
        for _ in range(50):
            time.sleep(0.001)
            # Two batches of one part each, and a part for each thread; the first sample is looked at once more.
            assert len(begun) <= 1 + 8 * (number + 1 + 2 + 2)
    batches.close()
    assert len(begun) < 400


@pytest.mark.parametrize("shuffle", [False, True])
def test_an_epoch_goes_on_where_its_state_says(files, shuffle):
    def loader():
        return sg.load([(path, row) for row, path in enumerate(files)], STEP, batch=4, shuffle=shuffle)

    whole_epoch = loader()
    whole_epoch.set_epoch(7)
    expected = list(whole_epoch)
    begun = loader()
    begun.set_epoch(7)
    batches = iter(begun)
    first = [next(batches) for _ in range(2)]
    state = begun.state_dict()
    assert state == {"epoch": 7, "position": 8}
    resumed = loader()
    resumed.load_state_dict(state)
    together = first + list(resumed)
    assert [labels.tolist() for _, labels in together] == [labels.tolist() for _, labels in expected]
    assert whole(pixels for pixels, _ in together).tobytes() == whole(pixels for pixels, _ in expected).tobytes()
    assert resumed.state_dict() == {"epoch": 8, "position": 0}
    batches.close()


def test_the_order_is_another_in_each_epoch_and_depends_on_seed_and_epoch(files):
    loader = sg.load([(path, row) for row, path in enumerate(files)], STEP, batch=COUNT, shuffle=True)
    [(_, first)], [(_, second)] = list(loader), list(loader)
    assert sorted(first) == sorted(second) == list(range(COUNT))
    assert first.tolist() != second.tolist()
    loader.set_epoch(0)
    [(_, again)] = list(loader)
    assert again.tolist() == first.tolist()


# ---- what cannot be used


@pytest.fixture
def damaged(files, tmp_path):
    """Files of which one is no image and one is not there, and the numbers of the good ones."""
    given = list(files)
    given[2] = tmp_path / "broken.png"
    given[2].write_bytes(b"no image")
    given[9] = tmp_path / "gone.png"
    return given, [row for row in range(COUNT) if row not in (2, 9)]


def test_an_unusable_sample_is_raised_with_its_number_in_the_place_of_its_batch(damaged):
    batches = iter(sg.load(damaged[0], STEP, batch=2))
    next(batches)
    with pytest.raises(sg.LayoutError, match=r"row 2 \(key 2\): '.*broken.png' is not an image"):
        next(batches)


@pytest.mark.parametrize("batch", [1, 2, 8, 21])
def test_unusable_samples_are_left_out_and_counted(damaged, images, batch):
    given, good = damaged
    step = sg.Preprocess(crop=12, random_resized_crop=True, seed=3, errors="skip", device="cpu")
    loader = sg.load([(path, row) for row, path in enumerate(given)], step, batch=batch)
    batches = list(loader)
    assert np.concatenate([labels for _, labels in batches]).tolist() == good
    expected = np.stack(step([images[row] for row in good], good))
    assert whole(pixels for pixels, _ in batches).tobytes() == expected.tobytes()
    assert loader.skipped == 2


def test_what_a_data_set_raises_is_raised_with_the_number():
    class Dataset:
        def __len__(self):
            return 3

        def __getitem__(self, number):
            if number == 2:
                raise ZeroDivisionError
            return np.zeros((14, 14, 3), np.uint8)

    with pytest.raises(ZeroDivisionError) as raised:
        list(sg.load(Dataset(), STEP))
    assert raised.value.__notes__ == ["Sample 2 of the source raised this."]


REFUSALS = {
    "no step": (([], None), {}, "step=None must be a Preprocess"),
    "no folder": (("nowhere", STEP), {}, "source='nowhere' is not a folder"),
    "iterator": ((iter(()), STEP), {}, "which has no length and no numbered samples"),
    "column": (([(1, 2)], sg.Preprocess("image")), {}, "column='image' is not in the samples, which have 0, 1"),
    "key": (([{"image": 1}], sg.Preprocess("image", key="id")), {}, "key='id' is not in the samples, which have 'im"),
    "mask": (([{"image": 1}], sg.Preprocess("image", crop=4, mask="m")), {}, "mask='m' is not in the samples"),
}


@pytest.mark.parametrize("arguments, options, said", REFUSALS.values(), ids=REFUSALS)
def test_refusals(arguments, options, said):
    with pytest.raises(sg.StridedGpuError, match=said):
        sg.load(*arguments, **options)


def test_masks_boxes_and_points_move_as_in_a_call(files, images, tmp_path):
    random = np.random.default_rng(2)
    step = sg.Preprocess(
        "image", crop=10, flip=True, seed=4, mask="mask", boxes="boxes", points="points", key="key", device="cpu"
    )
    rows = []
    for number, image in enumerate(images):
        mask = random.integers(0, 9, image.shape[:2], dtype=np.uint8)
        Image.fromarray(mask).save(tmp_path / f"{number}.png")
        boxes, points = random.uniform(0, 14, (number % 3, 4)), random.uniform(0, 14, (2, 2))
        rows.append({"image": image, "mask": mask, "boxes": boxes, "points": points, "key": number})
    expected = step({name: [row[name] for row in rows] for name in rows[0]})
    stored = [
        row | {"image": path, "mask": tmp_path / f"{row['key']}.png"} for row, path in zip(rows, files, strict=True)
    ]
    batches = list(sg.load(stored, step, batch=8, threads=3))
    for name in ("image", "mask"):
        made = np.concatenate([batch[name] for batch in batches])
        np.testing.assert_array_equal(made, np.stack(expected[name]))
    for name in ("boxes", "points"):
        made = [values for batch in batches for values in batch[name]]
        assert all(np.array_equal(*pair) for pair in zip(made, expected[name], strict=True))


def test_a_mask_that_does_not_fit_is_raised_with_the_sample_number():
    samples = [{"image": np.zeros((6, 6, 3), np.uint8), "mask": np.zeros((6, 6), np.uint8)} for _ in range(11)]
    samples[9]["mask"] = np.zeros((5, 6), np.uint8)
    with pytest.raises(sg.LayoutError, match="row 9 of column 'mask': the mask has sizes"):
        list(sg.load(samples, sg.Preprocess("image", crop=4, mask="mask", device="cpu")))


@pytest.mark.parametrize("exif", [True, False], ids=["upright", "as stored"])
def test_files_of_16_bits_and_turned_ones_become_what_the_step_makes_of_them(tmp_path, exif):
    random = np.random.default_rng(6)
    Image.fromarray(random.integers(0, 65536, (12, 12), dtype=np.uint16)).save(tmp_path / "deep.png")
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.fromarray(random.integers(0, 256, (12, 12, 3), dtype=np.uint8)).save(tmp_path / "turned.jpg", exif=turned)
    files = [tmp_path / "deep.png", tmp_path / "turned.jpg"]
    step = sg.Preprocess(crop=10, normalize="imagenet", exif=exif, device="cpu")
    expected = np.stack(step([Image.open(path) for path in files]))
    [made] = sg.load(files, step)
    np.testing.assert_array_equal(made, expected)


def test_the_axes_of_decoded_images_are_declared(files):
    with pytest.raises(sg.LayoutError, match="dims='NCHW': decoded images have the axes HWC"):
        list(sg.load(files, sg.Preprocess(dims="NCHW", crop=4, device="cpu")))


def test_a_state_of_more_samples_is_refused():
    loader = sg.load([np.zeros((4, 4, 3), np.uint8)], sg.Preprocess(crop=2, device="cpu"))
    with pytest.raises(sg.LayoutError, match="position=9 is behind the last of 1 samples"):
        loader.load_state_dict({"epoch": 0, "position": 9})


@pytest.mark.parametrize(
    "declared", [{"mode": "gray"}, {"mode": "gray", "normalize": "siglip"}, {"channels": (0,)}], ids=str
)
def test_files_become_grey_where_the_step_does(files, declared):
    step = sg.Preprocess(crop=12, device="cpu", **declared)
    made = np.concatenate(list(sg.load(files, step, batch=5)))
    assert np.array_equal(made, step([Image.open(file) for file in files]))


def test_no_samples_no_batches():
    assert list(sg.load([], STEP)) == []


def test_arrays_have_the_axes_and_channels_that_are_declared():
    planes = np.random.default_rng(3).integers(0, 256, (6, 2, 10, 8), np.uint8)
    batches = list(sg.load([*planes], sg.Preprocess(crop=(6, 8), dims="NCHW", dtype="uint8", device="cpu"), batch=4))
    assert np.concatenate(batches).tobytes() == np.ascontiguousarray(planes[:, :, 2:8]).tobytes()


def test_a_data_set_of_map_style_gives_its_samples_with_their_indices():
    dataset = STEP.dataset(["a", "b", "c"])
    assert len(dataset) == 3
    assert (dataset[1].index, dataset[1].sample) == (1, "b")
    assert [(one.index, one.sample) for one in dataset.__getitems__([2, 0])] == [(2, "c"), (0, "a")]


# ---- progress


def test_progress_is_told_to_a_function(files):
    told = []
    list(sg.load(files, STEP, batch=8, progress=lambda done, total: told.append((done, total))))
    assert told == [(8, COUNT), (16, COUNT), (21, COUNT)]


def test_the_bar_is_that_of_tqdm(files, capsys):
    pytest.importorskip("tqdm", reason="the bar is tqdm's: pip install stridedgpu[load]")
    list(sg.load(files, STEP, batch=8, progress=True))
    assert f"{COUNT}/{COUNT}" in capsys.readouterr().err


def test_the_bar_needs_tqdm(files, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tqdm", None)
    with pytest.raises(sg.StridedGpuError, match="progress=True needs tqdm"):
        list(sg.load(files, STEP, progress=True))


# ---- on a device


@pytest.mark.parametrize("errors", ["raise", "skip"])
@pytest.mark.parametrize(
    "resizing", [{}, {"random_resized_crop": True}, {"resize": 14}], ids=["crop", "random", "fixed"]
)
def test_a_gpu_gets_the_pixels_of_the_cpu_as_8_bit_windows(gpus, files, damaged, resizing, errors):
    declared = {"crop": 12, "flip": 0.5, "seed": 3, "mean": 0.5, "dtype": "float16", "channels": (2, 1, 0)} | resizing
    step = sg.Preprocess(errors=errors, **declared)
    given = [(path, row) for row, path in enumerate(files if errors == "raise" else damaged[0])]
    expected = list(sg.load(given, step, batch=8, device="cpu"))
    made = list(sg.load(given, step, batch=8, device="cuda:1"))
    assert {pixels.device for pixels, _ in made} == {"cuda:1"}
    assert [labels.numpy().tolist() for _, labels in made] == [labels.tolist() for _, labels in expected]
    for (ours, _), (theirs, _) in zip(made, expected, strict=True):
        assert ours.numpy().tobytes() == theirs.tobytes()
    sent = [call[1] if isinstance(call[1], int) else 0 for call in gpus.named("memcpyAsync") if call[2] == 1]
    assert max(sent) <= max(8 * 12 * 12 * 3, 8 * 8)


BORDERED = {
    "letterbox": {"letterbox": 16},
    "the border of a stated maximum": {"letterbox": 16, "maximum": 127, "fill": (51, 102, 255)},
    "pad": {"pad": 3, "crop": 16, "fill": 7},
    "a border that reflects": {"pad": (4, 3, 9, 5), "crop": 16, "seed": 2, "flip": 0.5, "fill": "reflect"},
    "a border of smaller images": {"crop": 48, "smaller": "pad", "fill": "edge"},
    "what surrounds smaller images": {"crop": 48, "smaller": "pad", "fill": (10, 20, 30)},
    "the middle of transformers": {"crop": 13, "center": "floor"},
    "grey that is repeated": {"crop": 14, "mode": "gray", "channels": (0, 0, 0), "normalize": "imagenet"},
}


@pytest.mark.parametrize("declared", BORDERED.values(), ids=BORDERED)
def test_a_gpu_gets_the_borders_and_figures_of_the_cpu(gpus, files, declared):
    step = sg.Preprocess(**{"normalize": "0..1", **declared})
    made, expected = (list(sg.load(files, step, batch=8, device=device)) for device in ("cuda:1", "cpu"))
    for ours, theirs in zip(made, expected, strict=True):
        assert ours.numpy().tobytes() == theirs.tobytes()
