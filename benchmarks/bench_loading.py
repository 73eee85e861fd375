"""Images a second from JPEG files to batches: `sg.load`, loaders and loops of others, and the main job, in turns.

    python benchmarks/bench_loading.py [--images 2000] [--rounds 3] [--threads 2] [--folder DIR]

JPEG files of 500x375 and 375x500 are cut from the photographs of scikit-image (quality 90). Every way makes the
ImageNet training recipe (random area, 224x224, mirrored one in two, normalised, float32 NCHW), or the evaluation recipe
for the main job (shorter side 256, middle 224x224). The ways take turns, so that a busy machine slows all; the best
round of each is shown. What is not installed is left out, and said.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from loading_loops import MEAN, STD, by_threads, decode_cv2, decode_pillow, decode_simplejpeg

import stridedgpu as sg

LOOPS = Path(__file__).with_name("loading_loops.py")
BATCH = 64
TRAIN = sg.Preprocess(random_resized_crop=True, crop=224, flip=0.5, seed=1, mean=MEAN, std=STD, device="cpu")


def make_images(folder, count):
    """`count` JPEG files, in ten folders as of classes."""
    from PIL import Image

    from stridedgpu.commands.job_images import sample_images

    photographs = [np.asarray(Image.open(file.path).convert("RGB")) for file in sample_images()]
    large = [pixels for pixels in photographs if min(pixels.shape[:2]) >= 500]
    random = np.random.default_rng(0)
    for number in range(count):
        height, width = (375, 500) if number % 4 else (500, 375)
        pixels = large[number % len(large)]
        top, left = (int(random.integers(0, spare + 1)) for spare in np.subtract(pixels.shape[:2], (height, width)))
        path = folder / f"class{number % 10}" / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[top : top + height, left : left + width]).save(path, quality=90)
    return sorted(folder.rglob("*.jpg"))


# ---- the training recipe


class Files:
    """A data set of PyTorch over files, with a transform."""

    def __init__(self, files, transform=None):
        self.files, self.transform = files, transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, number):
        from PIL import Image

        image = Image.open(self.files[number]).convert("RGB")
        return image if self.transform is None else self.transform(image)


class Pixels(Files):
    """The decoded pixels, for a step that collates."""

    def __getitem__(self, number):
        from PIL import Image

        return np.asarray(Image.open(self.files[number]).convert("RGB"))


def torchvision_transform():
    import torch
    from torchvision.transforms import v2

    return v2.Compose(
        [
            v2.RandomResizedCrop(224, antialias=True),
            v2.RandomHorizontalFlip(0.5),
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )


def pillow_and_torch(image):
    """What torchvision documents for these transforms, by Pillow and PyTorch alone."""
    import torch
    from PIL import Image

    width, height = image.size
    area = height * width
    for _ in range(10):
        target = area * torch.empty(1).uniform_(0.08, 1).item()
        ratio = float(torch.exp(torch.empty(1).uniform_(np.log(3 / 4), np.log(4 / 3))))
        columns, rows = round((target * ratio) ** 0.5), round((target / ratio) ** 0.5)
        if 0 < columns <= width and 0 < rows <= height:
            break
    columns, rows = min(columns, width), min(rows, height)
    top, left = int(torch.randint(0, height - rows + 1, (1,))), int(torch.randint(0, width - columns + 1, (1,)))
    image = image.resize((224, 224), Image.Resampling.BILINEAR, box=(left, top, left + columns, top + rows))
    if torch.rand(1) < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div(255)
    return pixels.sub_(torch.tensor(MEAN)[:, None, None]).div_(torch.tensor(STD)[:, None, None])


def by_loader(dataset, workers, collate=None):
    import torch

    loader = torch.utils.data.DataLoader(dataset, BATCH, num_workers=workers, collate_fn=collate)
    for _ in loader:
        pass


def by_load(files, threads, decoder):
    for _ in sg.load(files, TRAIN, batch=BATCH, threads=threads, decoder=decoder):
        pass


# ---- the main job

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Every way imports compiled modules, as those of installed packages are."""


def command(folder, out, *options):
    arguments = f"preprocess {folder} --resize 256 --size 224 --normalize imagenet --device cpu --out {out}".split()
    subprocess.run(
        [sys.executable, "-m", "stridedgpu", *arguments, *options],
        check=True,
        stdout=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )


def loop(way, folder, threads, out):
    subprocess.run([sys.executable, LOOPS, way, folder, str(threads), out], check=True, env=ENVIRONMENT)


# ---- tables


def processor_seconds():
    """Processor time of this process and of the children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def in_turns(ways, rounds, count, before=lambda: None):
    """Each way's best images a second by the clock, and by processor time; what cannot run is left out.

    `before` is called before each way, and not timed.
    """
    best = {}
    for number in range(rounds):
        for name, way in list(ways.items()):
            before()
            began, used = time.perf_counter(), processor_seconds()
            try:
                way()
            except (ImportError, RuntimeError, subprocess.CalledProcessError) as problem:
                print(f"  {name}: left out, {str(problem).splitlines()[0]}")
                del ways[name]
                continue
            speeds = count / (time.perf_counter() - began), count / (processor_seconds() - used)
            best[name] = tuple(map(max, speeds, best.get(name, speeds)))
        print(f"  round {number + 1}: load average {os.getloadavg()[0]:.1f}", flush=True)
    return best


def show(title, best, base):
    print(f"{title}: images a second by the clock, and a second of processor time; x is beside {base}")
    for name, (clock, processor) in best.items():
        ratios = clock / best[base][0], processor / best[base][1]
        print(f"  {name:46}{clock:6.0f}{ratios[0]:7.2f} x{processor:8.0f}{ratios[1]:7.2f} x", flush=True)


def phases(files):
    """Processor time of one thread for each phase, in ms an image, with boxes that no call had before, as in `load`.

    The taps of repeated boxes are cached: with them the step took 0.13 ms an image where it takes 0.22.
    """
    from stridedgpu.preprocess.decoding import Decoder

    sg.set_num_threads(1)
    few = files[:128]
    keys, epochs = range(len(few)), itertools.count()
    print("where the time goes (ms of processor time an image, one thread, best of 3)")
    for name in ("pillow", "simplejpeg"):
        try:
            decoder = Decoder(name)
        except sg.LayoutError:
            continue
        decoding, step, writing = [], [], []
        for _ in range(3):
            began = time.thread_time()
            pixels = [decoder.frame(path, str(path)) for path in few]
            decoding.append(time.thread_time() - began)
            began = time.thread_time()
            made = np.stack(TRAIN(pixels, keys, epoch=next(epochs)))
            step.append(time.thread_time() - began)
            with tempfile.TemporaryFile() as file:
                began = time.thread_time()
                file.write(made.data)
                writing.append(time.thread_time() - began)
        parts = (min(values) / len(few) * 1e3 for values in (decoding, step, writing))
        print("  {:12}decode {:.2f}, area, resize, flip, normalise {:.2f}, write {:.2f}".format(name, *parts))
    sg.set_num_threads(len(os.sched_getaffinity(0)))


def memory(files, threads):
    """Peak memory of the process after each of three epochs, in a process of its own."""
    code = (
        "import stridedgpu as sg; from pathlib import Path\n"
        f"step = sg.Preprocess(random_resized_crop=True, crop=224, flip=0.5, seed=1, mean={MEAN}, device='cpu')\n"
        f"files = sorted(Path({str(files[0].parents[1])!r}).rglob('*.jpg'))\n"
        f"loader = sg.load(files, step, batch={BATCH}, threads={threads}, shuffle=True)\n"
        "for epoch in range(3):\n"
        "    for batch in loader: pass\n"
        # not ru_maxrss, which a child begins with its parent's
        "    [peak] = [line for line in open('/proc/self/status') if line.startswith('VmHWM')]\n"
        "    print(int(peak.split()[1]) // 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    print(f"peak memory after each of three epochs: {', '.join(done.stdout.split())} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--folder", type=Path, help="of JPEG files in folders (default: made in a temporary folder)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary) / "photographs"
        files = sorted(folder.rglob("*.jpg"))[: chosen.images] if chosen.folder else make_images(folder, chosen.images)
        measure(chosen, folder, files, Path(temporary))


def main_job(folder, threads, temporary):
    """The ways of the main job, and decoding alone."""
    loops = {
        "Pillow, decoding alone": "decode_only",
        "simplejpeg, decoding alone": "decode_simplejpeg",
        "Pillow + NumPy": "resized_pillow",
        "cv2 (linear) + NumPy": "resized_cv2",
        "simplejpeg + Pillow + NumPy": "resized_simplejpeg",
    }
    out = temporary / "batch.npy"
    ways = {name: partial(loop, way, folder, threads, temporary / "loop.npy") for name, way in loops.items()}
    for decoder in ("pillow", "simplejpeg"):
        ways[f"stridedgpu preprocess --decoder {decoder}"] = partial(command, folder, out, "--decoder", decoder)
    return ways


def remove_outputs(temporary):
    """Every way writes a new file: to release the pages of an old one takes time."""
    for path in temporary.glob("*.npy"):
        path.unlink()


def measure(chosen, folder, files, temporary):
    import torch

    threads, rounds, count = chosen.threads, chosen.rounds, len(files)
    torch.set_num_threads(1)  # as in the workers of its loader
    torch_ways = {}
    try:
        transform = torchvision_transform()
    except (ImportError, RuntimeError) as problem:
        print(f"torchvision: left out, {str(problem).splitlines()[0]}")
    else:
        torch_ways["DataLoader + torchvision v2"] = lambda: by_loader(Files(files, transform), threads)
    torch_ways["DataLoader + Pillow and PyTorch"] = lambda: by_loader(Files(files, pillow_and_torch), threads)

    def by_collate():
        TRAIN.begin_epoch()
        by_loader(TRAIN.dataset(Pixels(files)), threads, TRAIN.collate)

    torch_ways["DataLoader + Preprocess.collate"] = by_collate
    decoders = {"Pillow": decode_pillow, "cv2": decode_cv2, "simplejpeg": decode_simplejpeg}
    ways = {
        f"{name}, {threads} threads, decoding alone": partial(by_threads, decode, files, threads)
        for name, decode in decoders.items()
    }
    ways |= torch_ways
    for decoder in ("pillow", "simplejpeg"):
        ways[f"sg.load, {threads} threads, {decoder}"] = partial(by_load, files, threads, decoder)
    show("ImageNet training recipe", in_turns(ways, rounds, count), f"Pillow, {threads} threads, decoding alone")
    decoded = [decode_pillow(path) for path in files[:256]]

    def by_step():
        TRAIN.begin_epoch()  # other boxes in each round, as in training: tables of boxes that were there are kept
        for n in range(0, len(decoded), BATCH):
            TRAIN(decoded[n : n + BATCH], range(n, min(n + BATCH, len(decoded))))

    ways = {"Preprocess on decoded images": by_step}
    if "DataLoader + torchvision v2" in torch_ways:
        from PIL import Image

        images = [Image.fromarray(pixels) for pixels in decoded]
        ways["torchvision v2 on decoded images of Pillow"] = lambda: [transform(image) for image in images]
        ways = dict(reversed(ways.items()))
    show("the same without decoding, one process", in_turns(ways, rounds, len(decoded)), next(iter(ways)))
    if len(list(folder.rglob("*.jpg"))) == count:
        show(
            "the main job, files to one .npy, each way a process of its own",
            in_turns(main_job(folder, threads, temporary), rounds, count, partial(remove_outputs, temporary)),
            "Pillow, decoding alone",
        )
    phases(files)
    memory(files, threads)
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB at most")


if __name__ == "__main__":
    main()
