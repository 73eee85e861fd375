"""PyTorch's DataLoader: the step as collate function and in an IterableDataset, in workers of either kind."""

from __future__ import annotations

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.devices.cpu import thread_count

torch = pytest.importorskip("torch", reason="torch is what these tests are about", exc_type=ImportError)

pytestmark = [
    pytest.mark.interop,
    # Forking beside the threads of PyTorch and of this library is what is tested.
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true:UserWarning"),
]

COUNT = 40
STEP = sg.Preprocess(
    "image", crop=(12, 10), flip=0.5, seed=5, key="name", mean=0.5, std=0.25, layout="NHWC", device="cpu"
)

STEP.set_epoch(0)  # several loaders draw the same samples here, and it is meant


def sample(number):
    random = np.random.default_rng(number)
    height, width = random.integers(16, 40, 2)
    pixels = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
    return {"image": pixels, "name": f"{number}.png", "label": number}


class Photographs(torch.utils.data.Dataset):
    def __len__(self):
        return COUNT

    def __getitem__(self, number):
        return sample(number)


class Batches(torch.utils.data.IterableDataset):
    """Each worker makes every n-th batch."""

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for number in range(first, COUNT // 8, step):
            samples = [sample(row) for row in range(8 * number, 8 * number + 8)]
            yield STEP({name: [entry[name] for entry in samples] for name in samples[0]})


def expected():
    """What a loop in this process makes."""
    samples = [sample(number) for number in range(COUNT)]
    return STEP({name: [entry[name] for entry in samples] for name in samples[0]})["image"]


# A spawned worker imports PyTorch anew, which takes seconds.
SPAWNED = pytest.param(2, "spawn", marks=pytest.mark.slow)
WORKERS = [(0, None), (1, "fork"), (2, "fork"), SPAWNED]


@pytest.mark.parametrize("workers, context", WORKERS)
@pytest.mark.parametrize("pin", [False, True])
def test_collated_batches_are_those_of_a_loop(workers, context, pin):
    expected()  # this process has threads and native loops of its own before it forks
    loader = torch.utils.data.DataLoader(
        Photographs(), 8, num_workers=workers, multiprocessing_context=context, collate_fn=STEP.collate, pin_memory=pin
    )
    batches = list(sg.prefetch(loader))
    assert [batch["label"].tolist() for batch in batches] == [list(range(n, n + 8)) for n in range(0, COUNT, 8)]
    assert batches[0]["name"] == [f"{number}.png" for number in range(8)]
    assert all(batch["image"].is_contiguous(memory_format=torch.channels_last) for batch in batches)
    made = torch.cat([batch["image"] for batch in batches]).permute(0, 2, 3, 1).contiguous().numpy()
    assert made.tobytes() == expected().tobytes()


@pytest.mark.parametrize("workers, context", WORKERS)
def test_an_iterable_dataset_makes_the_batches_of_a_loop(workers, context):
    loader = torch.utils.data.DataLoader(Batches(), None, num_workers=workers, multiprocessing_context=context)
    batches = sorted(loader, key=lambda batch: int(batch["label"][0]))
    made = torch.cat([torch.as_tensor(batch["image"]) for batch in batches]).numpy()
    assert made.tobytes() == expected().tobytes()


def test_samples_may_be_tuples_or_bare_pictures():
    pictures = [sample(0)["image"][:16, :16] for _ in range(3)]
    step = sg.Preprocess(scale=2.0, device="cpu")
    bare = step.collate(pictures)
    assert bare.shape == (3, 3, 16, 16)
    images, labels = step.collate([(picture, 5) for picture in pictures])
    assert torch.equal(images, bare)
    assert labels.tolist() == [5, 5, 5]
    labels, images = sg.Preprocess(1, scale=2.0, device="cpu").collate([(5, picture) for picture in pictures])
    assert torch.equal(images, bare)


def test_a_key_that_samples_lack_is_refused():
    with pytest.raises(sg.LayoutError, match="key='name' is not in the samples, which have 'image', 'label'"):
        STEP.collate([{"image": np.zeros((16, 16, 3), np.uint8), "label": 1}])
    with pytest.raises(sg.LayoutError, match="key='name' is not in the samples, which have no parts"):
        STEP.collate([np.zeros((16, 16, 3), np.uint8)])


def test_bad_samples_are_named_or_dropped():
    samples = [sample(number) for number in range(4)]
    samples[2]["image"] = samples[2]["image"][:5]
    with pytest.raises(sg.LayoutError, match=r"row 2 of column 'image' \(key '2\.png'\)"):
        STEP.collate(samples)
    skipping = sg.Preprocess("image", crop=12, errors="skip", device="cpu")
    assert skipping.collate(samples)["label"].tolist() == [0, 1, 3]


def test_a_batch_in_which_every_sample_is_bad_is_empty():
    step = sg.Preprocess("image", crop=30, errors="skip", device="cpu")
    small = np.zeros((9, 9, 3), np.uint8)
    row = {"image": small, "label": 3, "name": "a", "box": (1.0, 2.0), "more": {"weight": np.float32(1), "tag": "x"}}
    made = step.collate([row, row])
    assert made["image"].shape == (0, 3, 30, 30)
    assert (made["label"].shape, made["label"].dtype) == ((0,), torch.int64)
    assert made["name"] == made["more"]["tag"] == []
    assert [part.shape for part in made["box"]] == [(0,), (0,)]
    assert made["more"]["weight"].shape == (0,)
    assert step.skipped == 2


@pytest.mark.parametrize(
    "samples, said",
    [
        ([], "no samples"),
        ([{"picture": 1}], "'picture'"),
        ([(1,)], "are 0|have 0"),
        ([{"image": np.zeros((4, 4, 3), np.uint8)}, {"label": 1}], "sample 1 of the batch has no 'image'"),
        ([{"image": np.zeros((4, 4, 3), np.uint8)}, 7], "sample 1 of the batch has no 'image'"),
        (
            [{"image": np.zeros((4, 4, 3), np.uint8)}, {"image": np.zeros((4, 5, 3), np.uint8)}],
            "crop= makes them alike",
        ),
    ],
)
def test_refusals(samples, said):
    with pytest.raises(sg.LayoutError, match=said):
        sg.Preprocess("image", device="cpu").collate(samples)


class Plain(torch.utils.data.Dataset):
    """Pictures that are all alike to a hash of their pixels: their index alone tells them apart."""

    def __len__(self):
        return COUNT

    def __getitem__(self, number):
        columns = np.arange(40, dtype=np.uint8)
        return np.broadcast_to(columns[:, None], (30, 40, 3)), number


def random_step():
    return sg.Preprocess(crop=(12, 10), flip=True, seed=5, dtype="uint8", device="cpu")


def epochs_of(loader, begin):
    """The batches of three passes, in the order of their labels."""
    passes = []
    for number in range(3):
        begin(number)
        images, labels = (torch.cat(parts) for parts in zip(*loader, strict=True))
        passes.append(images[labels.argsort()].numpy())
    return passes


@pytest.mark.parametrize(
    "context, persistent",
    [("fork", True), ("fork", False), pytest.param("spawn", True, marks=pytest.mark.slow)],
    ids=["forked", "forked anew", "spawned"],
)
def test_epochs_reach_workers_that_are_there_already(context, persistent):
    step, expected = random_step(), []
    for epoch in range(3):
        pictures, labels = zip(*(Plain()[number] for number in range(COUNT)), strict=True)
        expected.append(np.stack(step(list(pictures), list(labels), epoch=epoch)))
    options = {"num_workers": 2, "multiprocessing_context": context, "persistent_workers": persistent}
    loader = torch.utils.data.DataLoader(step.dataset(Plain()), 7, shuffle=True, collate_fn=step.collate, **options)
    for made, wanted in zip(epochs_of(loader, step.set_epoch), expected, strict=True):
        np.testing.assert_array_equal(made, wanted)
    step.set_epoch(0)
    for made, wanted in zip(epochs_of(step.advancing(loader), lambda _: None), expected, strict=True):
        np.testing.assert_array_equal(made, wanted)
    assert not np.array_equal(expected[0], expected[1])


def test_a_loader_that_begins_no_epoch_is_told():
    step = random_step()
    loader = torch.utils.data.DataLoader(step.dataset(Plain()), 8, collate_fn=step.collate)
    list(loader)
    with pytest.warns(UserWarning, match="drawn a second time"):
        list(loader)


def test_samples_with_an_index_need_the_step_s_collate():
    loader = torch.utils.data.DataLoader(random_step().dataset(Plain()), 8)
    with pytest.raises(TypeError, match="IndexedSample"):
        next(iter(loader))
    with pytest.raises(sg.LayoutError, match="has no indices to hand on"):
        random_step().dataset(iter([1]))


class Counted(torch.utils.data.Dataset):
    """The number of threads of a call in the process that gets the sample."""

    def __init__(self, step):
        self.step = step

    def __len__(self):
        return 2

    def __getitem__(self, number):
        self.step(np.zeros((1, 8, 8, 3), np.uint8))
        return sg.get_num_threads()


@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_worker_has_one_thread(context, monkeypatch):
    step = sg.Preprocess(device="cpu")
    step(np.zeros((1, 8, 8, 3), np.uint8))

    def threads():
        return next(iter(torch.utils.data.DataLoader(Counted(step), 2, num_workers=1, multiprocessing_context=context)))

    monkeypatch.setattr(thread_count, "_chosen", None)
    assert threads().tolist() == [1, 1]
    if context == "spawn":  # read when the process starts
        monkeypatch.setenv("STRIDEDGPU_THREADS", "3")
        assert threads().tolist() == [3, 3]
    else:
        monkeypatch.setattr(thread_count, "_chosen", 3)
        assert threads().tolist() == [3, 3]


class Shared(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, number):
        return np.full((16, 16, 3), number, np.uint8), np.full((16, 16), number, np.int16), [[0.0, 0, number, 8]]


def collated_and_looked_at(samples):
    images, masks, boxes = SHARED.collate(samples)
    return images, masks, boxes, images.is_shared()


SHARED = sg.Preprocess(crop=12, mask=1, boxes=2, layout="NHWC", dtype="float16", device="cpu")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_worker_writes_into_shared_memory(workers):
    loader = torch.utils.data.DataLoader(Shared(), 4, num_workers=workers, collate_fn=collated_and_looked_at)
    for number, (images, masks, boxes, is_shared) in enumerate(loader):
        assert is_shared == (workers > 0)
        assert images.dtype == torch.float16
        assert images.is_contiguous(memory_format=torch.channels_last)
        assert (images[:, 0, 0, 0] == torch.arange(4 * number, 4 * number + 4)).all()
        assert masks.dtype == torch.int16
        assert masks[3, 0, 0] == 4 * number + 3
        assert [entry.tolist() for entry in boxes] == [[[-2, -2, 4 * number + row - 2, 6]] for row in range(4)]
