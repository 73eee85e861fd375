"""The main job as its users write it without stridedgpu: two threads decode and resize, NumPy normalises into a file.

    python benchmarks/loading_loops.py WAY FOLDER THREADS OUT.npy

`bench_loading.py` starts it, so that each way has a process of its own, as the command line has. WAY is a function of
this module: `decode_*` decodes alone, `resized_*` is the whole loop.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def by_threads(work, files, threads):
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, files):
            pass


def decode_pillow(path):
    from PIL import Image

    return np.asarray(Image.open(path).convert("RGB"))


def decode_only(path):
    """Pillow without the array: what no way that decodes by Pillow can go below."""
    from PIL import Image

    return Image.open(path).convert("RGB")


def decode_simplejpeg(path):
    import simplejpeg

    return simplejpeg.decode_jpeg(path.read_bytes())


def decode_cv2(path):
    import cv2

    return cv2.imread(str(path))


def loop_to_file(decode_and_resize, files, threads, out):
    """Ten lines of anybody: decode and resize by threads, normalise by NumPy, into a file that is mapped."""
    batch = np.lib.format.open_memmap(out, "w+", np.float32, (len(files), 3, 224, 224))
    mean, std = (np.array(values, np.float32)[:, None, None] * 255 for values in (MEAN, STD))

    def work(number):
        window = decode_and_resize(files[number])
        batch[number] = (window.transpose(2, 0, 1).astype(np.float32) - mean) / std

    by_threads(work, range(len(files)), threads)
    batch.flush()


def middle(pixels):
    top, left = ((size - 224) // 2 for size in pixels.shape[:2])
    return pixels[top : top + 224, left : left + 224]


def resized_pillow(path):
    from PIL import Image

    image = Image.open(path).convert("RGB")
    scale = 256 / min(image.size)
    return middle(np.asarray(image.resize([int(side * scale) for side in image.size], Image.Resampling.BILINEAR)))


def resized_cv2(path):
    import cv2

    cv2.setNumThreads(1)  # the threads are those of the loop
    pixels = cv2.imread(str(path))[..., ::-1]
    scale = 256 / min(pixels.shape[:2])
    return middle(
        cv2.resize(pixels, [int(side * scale) for side in pixels.shape[1::-1]], interpolation=cv2.INTER_LINEAR)
    )


def resized_simplejpeg(path):
    from PIL import Image

    image = Image.fromarray(decode_simplejpeg(path))
    scale = 256 / min(image.size)
    return middle(np.asarray(image.resize([int(side * scale) for side in image.size], Image.Resampling.BILINEAR)))


def main():
    way, folder, threads, out = sys.argv[1:]
    files, work = sorted(Path(folder).rglob("*.jpg")), globals()[way]
    if way.startswith("decode"):
        by_threads(work, files, int(threads))
    else:
        loop_to_file(work, files, int(threads), out)


if __name__ == "__main__":
    main()
