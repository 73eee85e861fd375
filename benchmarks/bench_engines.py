"""From which size an engine pays: JPEG files to batches by a loop, `sg.load`, Ray Data and Dask, at growing counts.

    python benchmarks/bench_engines.py [--counts 64 512 2048] [--rounds 2] [--workers 2]

Every way decodes by Pillow, runs the ImageNet training recipe and adds up one number of each image, so that no pixels
cross a process. An engine's start is timed by itself: a program pays it once. The ways take turns, and the best round
of each is shown, by the clock, as engines work in processes of their own. Needs Ray, Dask, Pillow and scikit-image.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from bench_loading import make_images

import stridedgpu as sg

BATCH = 64
DECLARED = {
    "random_resized_crop": True,
    "crop": 224,
    "flip": 0.5,
    "seed": 1,
    "normalize": "imagenet",
    "device": "cpu",
}


class Recipe:
    """Paths in, one number for each image out: what a worker of an engine runs."""

    def __init__(self):
        self.step = sg.Preprocess(**DECLARED)
        self.step.set_epoch(0)

    def __call__(self, batch):
        from PIL import Image

        paths = list(batch["path"])
        made = self.step([Image.open(path) for path in paths], paths)
        return {"first": np.array([float(image[0, 0, 0]) for image in made])}


def by_loop(files):
    recipe = Recipe()
    return sum(len(recipe({"path": files[n : n + BATCH]})["first"]) for n in range(0, len(files), BATCH))


def by_load(files, workers):
    return sum(len(batch) for batch in sg.load(files, sg.Preprocess(**DECLARED), batch=BATCH, threads=workers))


def by_ray(files, workers):
    import ray

    made = ray.data.from_items([{"path": path} for path in files]).map_batches(
        Recipe, batch_size=BATCH, compute=ray.data.ActorPoolStrategy(size=workers)
    )
    return len(made.take_all())


def dask_part(paths):
    return Recipe()({"path": paths})["first"]


def by_dask(files, workers):
    import dask

    parts = [dask.delayed(dask_part)(files[n : n + BATCH]) for n in range(0, len(files), BATCH)]
    return sum(map(len, dask.compute(*parts, scheduler="processes", num_workers=workers)))


def start_ray(workers):
    """Ray with a processor more than workers, which reading takes. Returns the seconds."""
    import ray

    began = time.perf_counter()
    ray.init(num_cpus=workers + 1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", type=int, nargs="+", default=[64, 512, 2048])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    chosen = parser.parse_args()
    workers = chosen.workers
    ways = {
        "loop, one process": by_loop,
        f"sg.load, {workers} threads": partial(by_load, workers=workers),
        f"Ray Data, {workers} actors": partial(by_ray, workers=workers),
        f"Dask, {workers} processes": partial(by_dask, workers=workers),
    }
    with tempfile.TemporaryDirectory() as folder:
        files = [str(path) for path in make_images(Path(folder), max(chosen.counts))]
        by_loop(files[:BATCH])  # imports what is not imported yet, for all
        print(f"Ray's start: {start_ray(workers):.1f} s")
        for count in chosen.counts:
            best = {}
            for _ in range(chosen.rounds):
                for name, way in ways.items():
                    began = time.perf_counter()
                    assert way(files[:count]) == count
                    best[name] = min(best.get(name, 1e9), time.perf_counter() - began)
            base = best[next(iter(ways))]
            print(f"{count} files (load average {os.getloadavg()[0]:.1f})")
            for name, seconds in best.items():
                print(f"  {name:24}{seconds:8.1f} s{count / seconds:8.0f} images/s{base / seconds:7.2f} x", flush=True)


if __name__ == "__main__":
    main()
