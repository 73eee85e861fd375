"""`stridedgpu preprocess`: images in, one batch for a network out, or the shards of a folder; and the summary."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from stridedgpu.preprocess.decoding import DECODERS, Decoder
from stridedgpu.preprocess.files import ImageFile, check_writable, find_images, replacement, write_array, write_elements
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.values.errors import StridedGpuError
from stridedgpu.values.strides import calculate_strides

from .batch_job import BatchJob, BatchMemory, make_batch
from .comparison import NumpyStep, counted
from .console import print_table, progress
from .folder import add_folder_options, check_folder_options, run_folder_job
from .job_images import sample_images
from .preprocess_options import add_step_options, declared_step
from .shard_formats import Npy


def add_preprocess(commands: argparse._SubParsersAction[Any]) -> None:
    """The parser of `preprocess`."""
    parser = commands.add_parser(
        "preprocess",
        help="images in, one batch for a network out",
        description=(
            "Decode images, crop a window of each and write them as one batch: windows, mirroring, layout, "
            "element type, channel order and normalisation in a single pass over the pixels. "
            "The camera's orientation (EXIF) is applied, grey becomes RGB, alpha is dropped, "
            "and of an animation the first image is taken. Every option of the step is one of stridedgpu.Preprocess."
        ),
        allow_abbrev=False,
    )
    _add_files(parser)
    add_step_options(parser)
    add_folder_options(parser)
    parser.set_defaults(run=run_preprocess, refuse=parser.error)


def _add_files(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "images",
        metavar="IMAGE",
        nargs="*",
        type=Path,
        help="an image, a folder of images (searched to the bottom, in order of names), "
        "or a .npy file of pixels (H, W), (H, W, 3) or (H, W, 4), uint8, or uint16 with --deep",
    )
    add("--samples", action="store_true", help="the images that scikit-image carries")
    add(
        "--out",
        metavar="FILE.npy",
        type=Path,
        required=True,
        help="the batch, with axes in the order of --layout; with --shards, the folder of the shards",
    )
    add("--raw", metavar="FILE.bin", type=Path, help="write the batch's memory, too, with its padding")
    add(
        "--decoder",
        choices=DECODERS,
        default="pillow",
        help="pillow (default); simplejpeg: JPEG by libjpeg-turbo, if installed, with pixels that may differ; "
        "pillow-draft: JPEG at 1/2, 1/4 or 1/8 of its size, as --resize allows, with pixels that differ",
    )
    add(
        "--compare",
        choices=("some", "all"),
        help="compare with NumPy, to the bit: the first images (some, the default), or every image, which takes longer",
    )
    add("--device", help="cpu, cuda or cuda:N (default: the first CUDA device that works, else cpu)")


def run_preprocess(chosen: argparse.Namespace) -> None:
    """Preprocess images into a batch or shards, then print a summary."""
    if not chosen.images and not chosen.samples:
        chosen.refuse("no images: name files or folders, or give --samples")
    check_folder_options(chosen)
    step = declared_step(chosen)
    if chosen.shards is not None:
        print_table(run_folder_job(chosen, step))
    else:
        _run_batch(chosen, step)


def _run_batch(chosen: argparse.Namespace, step: Preprocess[Any]) -> None:
    """One batch in one file: written while the next images are decoded, or made in memory where that is wanted."""
    images = find_images(chosen.images) + (sample_images() if chosen.samples else [])
    if not images:
        raise StridedGpuError("no images: a batch holds at least one.")
    _check_outputs(chosen, images)
    job = BatchJob(images, step, Decoder.of(chosen.decoder, step, deep=chosen.deep), chosen.compare == "all")
    by_numpy = NumpyStep(step)
    is_streamed = step.layout.startswith("N") and chosen.raw is None and step.row_pitch_bytes is None
    with ExitStack() as files, progress(len(images), "images") as done:
        file = files.enter_context(replacement(chosen.out))
        target = Npy(file, step) if is_streamed else BatchMemory(job)
        first, compared = make_batch(job, target, by_numpy, done)
        if isinstance(target, Npy):
            strides, memory = calculate_strides(step.layout, job.sizes), job.memory
            target.finish()
        else:
            strides, memory = target.tensor.strides, str(target)
            write_array(file, target.tensor.permute(step.layout).numpy())
            if chosen.raw is not None:
                write_elements(files.enter_context(replacement(chosen.raw)), target.memory.numpy())
        *times, (label, ratio) = by_numpy.compared_times(first)
    written = " and ".join(repr(str(path)) for path in (chosen.out, chosen.raw) if path is not None)
    every = "every bit" if compared == len(images) else f"every bit of the first {compared}"
    print(f"wrote {written}: {counted(len(images), 'image')}")
    print_table(
        [
            ("sizes", f"N={{}} C={{}} H={{}} W={{}}, {step.dtype}".format(*job.sizes)),
            ("strides", "N={} C={} H={} W={} elements".format(*strides)),
            ("memory", memory),
            ("device", step._worker.device),
            *times,
            (label, f"{ratio}; {every} is equal to NumPy's"),
        ]
    )


def _check_outputs(chosen: argparse.Namespace, images: Sequence[ImageFile]) -> None:
    """Before the work, refuse outputs that cannot be written or that would replace an input."""
    outputs = [path for path in (chosen.out, chosen.raw) if path is not None]
    for path in outputs:
        check_writable(path)
        if _is_one_of(images, path):
            chosen.refuse(f"{str(path)!r} is one of the images; give the batch a name of its own")
    if len({path.resolve() for path in outputs}) < len(outputs):
        chosen.refuse(f"--out and --raw name the same file {str(chosen.out)!r}; give each its own")


def _is_one_of(images: Sequence[ImageFile], path: Path) -> bool:
    """Whether `path` is the file of an image, by any name."""
    if not path.exists():
        return False
    own = path.stat()
    for image in images:
        with suppress(OSError):  # the decoder reports a missing file
            if os.path.samestat(own, image.path.stat()):
                return True
    return False
