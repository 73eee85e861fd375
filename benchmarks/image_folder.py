"""The recipe of ImageNet's training beside torchvision v2, images a second: RandomResizedCrop, flip, normalise.

    python benchmarks/image_folder.py [--images 256] [--rounds 5] [--workers 2]

Images are JPEGs of 500 x 375 made for the occasion, read as torchvision's ImageFolder reads them. Four ways of the
same recipe, in turns, the best of several rounds, by processor time of one thread (PyTorch and stridedgpu with one
thread each), first of decoded images, then with decoding:

- torchvision v2 on Pillow's images, one by one, and PyTorch's default_collate
- the step as the transform of each image, and default_collate: no key is given
- the step's collate, without keys
- the step's collate over `step.dataset`, whose keys are the indices

Then the same by the clock with DataLoader's workers; and batches that a worker writes into PyTorch's shared memory
beside those that PyTorch copies there. Needs torch, torchvision and Pillow.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
import warnings

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, default_collate

import stridedgpu as sg

try:
    from torchvision.transforms import v2
except RuntimeError:
    # A wheel for CUDA beside PyTorch for the CPU: torchvision registers kernels of operators that it could not load.
    # The transforms here are Python and Pillow.
    for module in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[module]
    OPERATORS = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        OPERATORS.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    from torchvision.transforms import v2

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BATCH = 64


class Pictures(Dataset):
    """JPEGs in memory, as ImageFolder reads them: decoded to RGB, and transformed one by one if that is given."""

    def __init__(self, encoded, transform=None, decoded=None):
        self.encoded, self.transform, self.decoded = encoded, transform, decoded

    def __len__(self):
        return len(self.encoded)

    def __getitem__(self, number):
        if self.decoded is not None:
            picture = self.decoded[number]
        else:
            picture = Image.open(io.BytesIO(self.encoded[number])).convert("RGB")
        return (picture if self.transform is None else self.transform(picture)), number


def jpegs(count):
    """Smooth noise, which compresses as photographs do."""
    random = np.random.default_rng(0)
    for _ in range(count):
        small = Image.fromarray(random.integers(0, 256, (47, 63, 3), dtype=np.uint8))
        file = io.BytesIO()
        small.resize((500, 375), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
        yield file.getvalue()


def ways(encoded, decoded):
    """Each way's data set and collate function."""
    recipe = v2.Compose(
        [
            v2.RandomResizedCrop(224, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )
    step = sg.Preprocess(random_resized_crop=True, crop=224, flip=True, seed=0, normalize="imagenet", device="cpu")
    plain = Pictures(encoded, None, decoded)
    return {
        "torchvision v2": (Pictures(encoded, recipe, decoded), default_collate, drawing_anew),
        "step as transform, no key": (Pictures(encoded, step, decoded), default_collate, step.advancing),
        "step.collate, no key": (plain, step.collate, step.advancing),
        "step.collate, index as key": (step.dataset(plain), step.collate, step.advancing),
    }


def drawing_anew(loader):
    """A loader whose transforms draw anew in each pass by themselves."""
    return loader


def seconds(work, clock):
    """The time of one pass."""
    began = clock()
    for _ in work:
        pass
    return clock() - began


def table(title, made, count, rounds, clock):
    """Images a second of every way, in turns, and how many times the first's."""
    best = dict.fromkeys(made, float("inf"))
    for _ in range(rounds):
        for name, loader in made.items():
            best[name] = min(best[name], seconds(loader, clock))
    first = next(iter(best.values()))
    print(f"\n{title}")
    for name, took in best.items():
        print(f"  {name:34} {count / took:8.0f} images/s  {first / took:5.2f}x")


class Batches(Dataset):
    """Batches that a worker makes of decoded pictures: 0 by the step's own memory, 1 by its collate."""

    def __init__(self, step, pictures, copies):
        self.step, self.pictures, self.copies = step, pictures, copies

    def __len__(self):
        return 24

    def __getitem__(self, number):
        if self.copies:
            return torch.from_numpy(np.stack(self.step(self.pictures)))
        return self.step.collate(self.pictures)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sg.set_num_threads(1)
    encoded = list(jpegs(chosen.images))
    decoded = [Image.open(io.BytesIO(picture)).convert("RGB") for picture in encoded]
    for title, held in (("decoded pictures", decoded), ("with decoding", None)):
        loaders = {
            name: passes(DataLoader(data, BATCH, collate_fn=collate))
            for name, (data, collate, passes) in ways(encoded, held).items()
        }
        table(f"{title}, processor time, one thread", loaders, chosen.images, chosen.rounds, time.process_time)
    options = {"num_workers": chosen.workers, "persistent_workers": True}
    loaders = {
        name: passes(DataLoader(data, BATCH, collate_fn=collate, **options))
        for name, (data, collate, passes) in ways(encoded, None).items()
    }
    for loader in loaders.values():
        next(iter(loader))
    table(
        f"with decoding, {chosen.workers} workers, by the clock",
        loaders,
        chosen.images,
        chosen.rounds,
        time.perf_counter,
    )
    step = sg.Preprocess(crop=224, normalize="imagenet", device="cpu")
    pictures = [np.asarray(picture) for picture in decoded[:BATCH]]
    table(
        "batches of float32 from one worker, by the clock",
        {
            name: DataLoader(Batches(step, pictures, copies), None, num_workers=1, persistent_workers=True)
            for name, copies in (("copied into shared memory", True), ("written into shared memory", False))
        },
        24 * BATCH,
        chosen.rounds,
        time.perf_counter,
    )


if __name__ == "__main__":
    main()
