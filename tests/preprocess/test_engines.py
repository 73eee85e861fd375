"""Engines that users run already, each started here with up to 2 workers: the bits of a loop in one process."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import stridedgpu as sg

pytestmark = pytest.mark.engines

COUNT = 240
DECLARED = {"crop": (24, 20), "flip": 0.5, "seed": 11, "key": "name", "mean": (0.485, 0.456, 0.406), "std": 0.25}
STEP = sg.Preprocess("image", **DECLARED, device="cpu")
STEP.set_epoch(0)  # one step draws the same samples in many tests, and it is meant


def same_bits(first, second):
    return first.shape == second.shape and first.dtype == second.dtype and first.tobytes() == second.tobytes()


def picture(number):
    """Real ones first, where scikit-image brings them, in windows of several sizes; then noise."""
    random = np.random.default_rng(number)
    height, width = random.integers(24, 60, 2)
    photographs = real_photographs()
    if photographs and number % 2 == 0:
        return photographs[number % len(photographs)][:height, :width].copy()
    return random.integers(0, 256, (height, width, 3), dtype=np.uint8)


def real_photographs():
    if not hasattr(real_photographs, "found"):
        try:
            from stridedgpu.commands.job_images import sample_images
            from stridedgpu.preprocess.decoding import Decoder

            real_photographs.found = [Decoder().frame(picture.path, picture.name) for picture in sample_images()]
        except sg.StridedGpuError:
            real_photographs.found = []
    return real_photographs.found


@pytest.fixture(scope="module")
def rows():
    return [{"image": picture(number), "name": f"{number:04}.png", "label": number} for number in range(COUNT)]


@pytest.fixture(scope="module")
def expected(rows):
    return STEP({name: [row[name] for row in rows] for name in rows[0]})["image"]


# ---- Dask


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("scheduler", ["threads", "processes"])
@pytest.mark.parametrize("rows_a_block", [7, 16, 50])
def test_dask(workers, scheduler, rows_a_block):
    dask_array = pytest.importorskip("dask.array", reason="dask is what this test is about")
    frames = np.random.default_rng(0).integers(0, 256, (50, 30, 28, 3), dtype=np.uint8)
    step = sg.Preprocess(crop=(24, 20), flip=0.5, seed=3, layout="NHWC", dtype="float16", scale=1 / 255, device="cpu")
    blocks = dask_array.from_array(frames, chunks=(rows_a_block, -1, -1, -1))
    lazy = blocks.map_blocks(step, epoch=2, **step.dask_kwargs(blocks))
    assert lazy.shape == (50, 24, 20, 3)
    assert lazy.dtype == np.float16
    assert lazy.chunks[0] == blocks.chunks[0]
    made = lazy.compute(scheduler=scheduler, num_workers=workers)
    assert same_bits(made, step(frames, range(50), epoch=2))


def test_dask_blocks_must_hold_whole_pictures():
    dask_array = pytest.importorskip("dask.array", reason="dask is what this test is about")
    cut = dask_array.zeros((8, 16, 16, 3), chunks=(4, 8, 16, 3), dtype=np.uint8)
    with pytest.raises(sg.LayoutError, match=r"rechunk\(\{1: -1\}\)"):
        sg.Preprocess().dask_kwargs(cut)
    with pytest.raises(sg.LayoutError, match="errors='raise'"):
        sg.Preprocess(errors="skip").dask_kwargs(cut)
    with pytest.raises(sg.LayoutError, match="takes a Dask array, not a ndarray"):
        sg.Preprocess().dask_kwargs(np.zeros((8, 16, 16, 3), np.uint8))
    with pytest.raises(sg.LayoutError, match="moves its rows"):
        sg.Preprocess(layout="CHWN").dask_kwargs(cut)


# ---- Hugging Face datasets


@pytest.fixture
def hugging_face(rows, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    datasets = pytest.importorskip("datasets", reason="datasets is what this test is about")
    pil = pytest.importorskip("PIL.Image")
    datasets.disable_progress_bars()
    columns = {"image": [pil.fromarray(row["image"]) for row in rows], "name": [row["name"] for row in rows]}
    features = datasets.Features({"image": datasets.Image(), "name": datasets.Value("string")})
    return datasets.Dataset.from_dict(columns, features=features)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("workers", [None, 2])
def test_datasets_map(hugging_face, expected, workers):
    import datasets

    features = hugging_face.features.copy()
    features["image"] = datasets.Array3D((3, 24, 20), "float32")
    mapped = hugging_face.map(STEP, batched=True, batch_size=32, num_proc=workers, features=features)
    assert same_bits(np.asarray(mapped.with_format("numpy")["image"][:]), expected)


def test_datasets_set_transform(hugging_face, expected):
    hugging_face.set_transform(STEP)
    assert same_bits(hugging_face[10:30]["image"], expected[10:30])
    assert same_bits(hugging_face[7]["image"], expected[7])


# ---- Ray, whose own modules warn of what it will change in itself

quiet = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::UserWarning"
)


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray", reason="ray is what this test is about")
    pytest.importorskip("ray.data", reason="Ray Data is what this test is about")
    folder = Path(__file__).parent
    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join([str(Path(sg.__file__).parents[1]), str(folder)])}}
    ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20, runtime_env=environment
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray
    ray.shutdown()


def in_order(dataset):
    made = sorted(dataset.take_all(), key=lambda row: row["name"])
    return np.stack([row["image"] for row in made])


@quiet
@pytest.mark.parametrize("workers", [1, 2])
def test_ray_data(ray, rows, expected, workers):
    given = ray.data.from_items(rows, override_num_blocks=8)
    mapped = given.map_batches(
        sg.Preprocess,
        fn_constructor_kwargs={"column": "image", **DECLARED, "device": "cpu"},
        fn_kwargs={"epoch": 0},
        batch_size=20,
        compute=ray.data.ActorPoolStrategy(size=workers),
    )
    assert same_bits(in_order(mapped), expected)


def killed_once(marker):
    """End this process the first time that any comes here."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


class DiesOnce:
    """A step whose worker is lost in the middle of the data set."""

    def __init__(self, marker):
        self.step, self.marker = STEP, marker

    def __call__(self, batch):
        if "0100.png" in batch["name"]:
            killed_once(self.marker)
        return self.step(batch)


@quiet
def test_ray_data_with_a_worker_killed(ray, rows, expected, tmp_path):
    given = ray.data.from_items(rows, override_num_blocks=8)
    arguments = {"marker": str(tmp_path / "killed")}
    mapped = given.map_batches(
        DiesOnce, fn_constructor_kwargs=arguments, batch_size=20, compute=ray.data.ActorPoolStrategy(size=2)
    )
    assert same_bits(in_order(mapped), expected)
    assert (tmp_path / "killed").exists()


@quiet
def test_ray_data_names_a_bad_row(ray, rows):
    broken = [*rows[:5], {**rows[5], "image": rows[5]["image"][:9]}]
    arguments = {"column": "image", **DECLARED, "device": "cpu"}
    pool = ray.data.ActorPoolStrategy(size=1)
    mapped = ray.data.from_items(broken).map_batches(sg.Preprocess, fn_constructor_kwargs=arguments, compute=pool)
    with pytest.raises(Exception, match=r"column 'image' \(key '0005\.png'\): it is 9 x"):
        mapped.take_all()
    arguments["errors"] = "skip"
    pool = ray.data.ActorPoolStrategy(size=1)
    mapped = ray.data.from_items(broken).map_batches(sg.Preprocess, fn_constructor_kwargs=arguments, compute=pool)
    assert sorted(row["label"] for row in mapped.take_all()) == [0, 1, 2, 3, 4]


@dataclass(frozen=True, repr=False)
class DyingStep(sg.Preprocess):
    """A folder job's step whose worker is lost once, when it makes the first window of a shard."""

    marker: str = ""
    driver: int = field(default_factory=os.getpid)

    @property
    def _worker(self):
        if os.getpid() != self.driver:
            killed_once(self.marker)
        return super()._worker


@pytest.fixture
def photographs(rows, tmp_path):
    pil = pytest.importorskip("PIL.Image")
    (tmp_path / "photos").mkdir()
    for row in rows[:60]:
        pil.fromarray(row["image"]).save(tmp_path / "photos" / row["name"])
    (tmp_path / "photos/broken.png").write_bytes(b"no picture")
    return tmp_path


def shards(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@quiet
def test_a_folder_on_ray_is_the_folder_in_one_process(ray, photographs, capsys):
    from stridedgpu.__main__ import main
    from stridedgpu.commands.preprocess import SKIPPED

    chance = ["--random-crop", "--flip", "--seed", "4"]
    given = ["preprocess", str(photographs / "photos"), "--shards", "6", "--size", "24x20", "--device", "cpu", *chance]
    assert main([*given, "--out", str(photographs / "one")]) == SKIPPED
    assert main([*given, "--engine", "ray", "--out", str(photographs / "ray")]) == SKIPPED
    assert "60, 60 of them in this run" in capsys.readouterr().out
    assert shards(photographs / "ray") == shards(photographs / "one")


@quiet
def test_a_folder_on_ray_with_a_worker_killed(ray, photographs):
    from stridedgpu.commands import folder, folder_job

    step = sg.Preprocess("image", crop=(24, 20), device="cpu")
    single = folder_job.FolderJob(photographs / "photos", photographs / "one", 6, step)
    for shard in folder_job.start(single):
        folder_job.write_shard(single, shard)
    dying = DyingStep("image", crop=(24, 20), device="cpu", marker=str(photographs / "killed"))
    job = folder_job.FolderJob(photographs / "photos", photographs / "ray", 6, dying)
    parts = folder_job.start(job)
    records = list(folder.on_ray(job, parts, lambda: None))
    assert (photographs / "killed").exists()
    assert sorted(record.shard for record in records) == list(range(6))
    assert folder_job.missing_shards(job, parts) == []
    made, wanted = shards(photographs / "ray"), shards(photographs / "one")
    del made["manifest.json"], wanted["manifest.json"]
    assert made == wanted


@quiet
def test_image_files_through_ray_data_into_parquet(ray, photographs):
    (photographs / "photos/broken.png").unlink()
    given = ray.data.read_images(str(photographs / "photos"), include_paths=True, mode="RGB")
    arguments = {"column": "image", **DECLARED, "key": "path", "device": "cpu"}
    mapped = given.map_batches(
        sg.Preprocess, fn_constructor_kwargs=arguments, batch_size=16, compute=ray.data.ActorPoolStrategy(size=1)
    )  # of two cores, one reads
    mapped.write_parquet(str(photographs / "parquet"))
    held = sorted(ray.data.read_parquet(str(photographs / "parquet")).take_all(), key=lambda row: row["path"])
    pil = pytest.importorskip("PIL.Image")
    pictures = [np.asarray(pil.open(row["path"])) for row in held]
    expected = sg.Preprocess("image", **{**DECLARED, "key": "path"}, device="cpu")(
        {"image": pictures, "path": [row["path"] for row in held]}
    )["image"]
    assert len(held) == 60
    assert same_bits(np.stack([row["image"] for row in held]), expected)
