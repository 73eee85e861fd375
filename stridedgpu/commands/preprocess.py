"""`stridedgpu preprocess`: photographs in, one batch for a network out, or the shards of a folder; and the summary."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stridedgpu.operations.allocation import DEFAULT_ALIGNMENT
from stridedgpu.preprocess.declaration_checks import SEEDS
from stridedgpu.preprocess.decoding import DECODERS
from stridedgpu.preprocess.image_files import ImageFile, find_images
from stridedgpu.preprocess.normalisation import NORMALISATIONS
from stridedgpu.preprocess.npy import check_writable, replacement, write_array, write_elements
from stridedgpu.preprocess.step import Preprocess
from stridedgpu.values.errors import StridedGpuError
from stridedgpu.values.strides import AXIS_LETTERS

from .batch_job import BatchFile, BatchJob, BatchMemory, batch_sizes, held_memory, make_batch, streamed_memory
from .compare import Comparison, compare, memory_of
from .console import print_table, progress
from .folder import add_folder_options, check_folder_options, run_folder_job
from .images import sample_images

__all__ = ["add_preprocess"]

DTYPES = (
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
)
DEFAULT_SEED = 0


def add_preprocess(commands: argparse._SubParsersAction[Any]) -> None:
    """The parser of `preprocess`."""
    parser = commands.add_parser(
        "preprocess",
        help="photographs in, one batch for a network out",
        description=(
            "Decode photographs, crop a window of each and write them as one batch: windows, mirroring, layout, "
            "element type, channel order and normalisation in a single pass over the pixels. "
            "The camera's orientation (EXIF) is applied, grey becomes RGB, alpha is dropped, "
            "and of an animation the first picture is taken."
        ),
        allow_abbrev=False,
    )
    _add_files(parser)
    _add_windows(parser)
    _add_pixels(parser)
    add_folder_options(parser)
    parser.set_defaults(run=run_preprocess, refuse=parser.error)


def _add_files(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "images",
        metavar="IMAGE",
        nargs="*",
        type=Path,
        help="a picture, a folder of pictures (searched to the bottom, in order of names), "
        "or a .npy file of uint8 pixels (H, W), (H, W, 3) or (H, W, 4)",
    )
    add("--samples", action="store_true", help="the photographs that scikit-image carries")
    add(
        "--out",
        metavar="FILE.npy",
        type=Path,
        required=True,
        help="the batch: logical values in C order, axes in the order of --layout; with --shards, a folder of them",
    )
    add("--raw", metavar="FILE.bin", type=Path, help="also the batch's memory as it lies, padding included")
    add(
        "--decoder",
        choices=DECODERS,
        default="pillow",
        help="pillow (default); simplejpeg: JPEG by libjpeg-turbo, where it is installed, whose pixels may differ; "
        "pillow-draft: JPEG at 1/2, 1/4 or 1/8, as --resize allows, whose pixels differ",
    )
    add(
        "--compare",
        choices=("some", "all"),
        help="compare the first pictures with NumPy, to the bit (some, the default), or all of them, which takes time",
    )
    add("--device", help="cpu, cuda or cuda:N (default: the first CUDA device that works, else cpu)")


def _add_windows(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "windows",
        "Chance depends on --seed and a picture's name alone (in the folder that was given, or the file's own; of one "
        "name, the second counts as another): the same in any batch and any shard.",
    )
    add = group.add_argument
    add("--size", metavar="N|HxW", type=_size, default=(224, 224), help="of the window, in pixels (default: 224)")
    add(
        "--resize",
        metavar="N",
        type=_positive,
        help="first scale the shorter side to N pixels (bilinear, as Pillow does); without it the pixels stay exact",
    )
    add(
        "--pad",
        metavar="N[,N..]",
        type=_padding,
        help="pixels around it: one, rows and columns, or top,left,bottom,right",
    )
    add("--random-crop", action="store_true", help="a window by chance (default: the middle)")
    add(
        "--random-resized-crop",
        action="store_true",
        help="a box by chance, 8 to 100 %% of the area and 3:4 to 4:3, resized to --size, as torchvision's",
    )
    add("--letterbox", action="store_true", help="the whole picture inside --size, with borders, as YOLO's")
    add(
        "--fill",
        metavar="V[,V,V]",
        type=_values,
        help="the borders' and pads' pixel value, 0 to 255 (114; 0 for --pad)",
    )
    add("--flip", action="store_true", help="mirror left and right, by chance one picture in two")
    add("--seed", metavar="N", type=_integer, help=f"another seed, another chance (default: {DEFAULT_SEED})")
    add("--epoch", metavar="N", type=_count, default=0, help="another epoch, another chance (default: 0)")


def _add_pixels(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("pixels").add_argument
    add(
        "--layout",
        metavar="ORDER",
        type=_layout,
        default="NCHW",
        help="order of the axes in memory, outermost first: NCHW (default), NHWC, CHWN or any other",
    )
    add("--dtype", choices=DTYPES, default="float32", help="element type (default: float32)")
    add("--channels", choices=("rgb", "bgr"), default="rgb", help="order of the channels (default: rgb)")
    add(
        "--normalize",
        choices=NORMALISATIONS,
        help="(pixel/255 - mean)/std with the figures that such networks were trained with; 0..1 and unit: pixel/255",
    )
    add(
        "--mean",
        metavar="M[,M,M]",
        type=_figures,
        help="mean in units of 0..1: one, or one a channel in the order of --channels (write --mean=-1 for a minus)",
    )
    add("--std", metavar="S[,S,S]", type=_figures, help="standard deviation, likewise; --mean goes with it")
    add(
        "--alignment",
        metavar="BYTES",
        type=_positive,
        help=f"alignment of the batch's first byte, a power of two (default: {DEFAULT_ALIGNMENT})",
    )
    add("--row-pitch", metavar="BYTES", type=_positive, help="from one row to the next (default: no padding)")


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0")
    return int(text)


def _padding(text: str) -> tuple[int, ...]:
    numbers = tuple(map(_count, text.split(",")))
    if len(numbers) not in (1, 2, 4):
        raise argparse.ArgumentTypeError(f"{text!r} has {len(numbers)} numbers of pixels; it has 1, 2 or 4")
    return numbers


def _values(text: str) -> tuple[int, ...]:
    values = tuple(map(_count, text.split(",")))
    if len(values) not in (1, 3) or max(values) > 255:
        raise argparse.ArgumentTypeError(f"{text!r} is not one value of 0 to 255, or three, red, green and blue")
    return values


def _integer(text: str) -> int:
    try:
        seed = int(text)
    except ValueError:
        seed = SEEDS.stop
    if seed not in SEEDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from {SEEDS.start} to {SEEDS.stop - 1}")
    return seed


def _size(text: str) -> tuple[int, int]:
    height, _, width = text.lower().partition("x")
    try:
        return _positive(height), _positive(width or height)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a size: give pixels as N or HEIGHTxWIDTH, such as 224 or 480x640"
        ) from None


def _layout(text: str) -> str:
    order = text.upper()
    wanted = AXIS_LETTERS.replace("D", "")
    if sorted(order) != sorted(wanted):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an order of the axes {wanted}: each letter stands once, such as NCHW or NHWC"
        )
    return order


def _figures(text: str) -> tuple[float, ...]:
    try:
        figures = tuple(float(part) for part in text.split(","))
    except ValueError:
        figures = ()
    if len(figures) not in (1, 3) or not all(abs(figure) <= 1e6 for figure in figures):
        raise argparse.ArgumentTypeError(f"{text!r} is not one number or three with commas between, each up to 1e6")
    return figures * (3 // len(figures))


def _scale_and_bias(chosen: argparse.Namespace) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """The factor of a pixel of 0..255, and the addend after it, for each output channel."""
    mean, std = chosen.mean, chosen.std
    if (mean is None) != (std is None):
        given, missing = ("--mean", "--std") if std is None else ("--std", "--mean")
        chosen.refuse(f"{given} needs {missing} beside it: pixels become (pixel/255 - mean)/std")
    if chosen.normalize is not None:
        if mean is not None:
            chosen.refuse("--normalize and --mean/--std exclude each other: give one of them")
        step = -1 if chosen.channels == "bgr" else 1
        mean, std = ((figures * (3 // len(figures)))[::step] for figures in NORMALISATIONS[chosen.normalize])
    if mean is None:
        return None, None
    if min(std) < 1e-6:
        chosen.refuse(f"argument --std: {min(std)} is too small; in units of 0..1 a deviation is at least 1e-6")
    return tuple(1 / (255 * s) for s in std), tuple(-m / s for m, s in zip(mean, std, strict=True))


def _check_chance(chosen: argparse.Namespace) -> None:
    """Refuse a seed or an epoch without an option that uses it, and choose a seed if such an option has none."""
    is_random = chosen.random_crop or chosen.random_resized_crop or chosen.flip
    for name, is_given in (("seed", chosen.seed is not None), ("epoch", chosen.epoch != 0)):
        if is_given and not is_random:
            chosen.refuse(
                f"--{name} decides --random-crop, --random-resized-crop and --flip: "
                f"give one of them too, or no --{name}"
            )
    if chosen.seed is None and is_random:
        chosen.seed = DEFAULT_SEED


def _check_windows(chosen: argparse.Namespace) -> None:
    """Refuse options of which each says what a window holds."""
    others = ("resize", "pad", "random_crop")
    for name, excluded in (("letterbox", (*others, "random_resized_crop")), ("random_resized_crop", others)):
        for other in excluded:
            if getattr(chosen, name) and getattr(chosen, other):
                first, second = (f"--{option.replace('_', '-')}" for option in (name, other))
                chosen.refuse(f"{first} and {second} exclude each other: {first} fills the window by itself")
    if chosen.fill is not None and chosen.pad is None and not chosen.letterbox:
        chosen.refuse("--fill is what surrounds a picture: give --letterbox or --pad too, or no --fill")


def run_preprocess(chosen: argparse.Namespace) -> None:
    """Preprocess photographs into a batch or shards, then print a summary."""
    if not chosen.images and not chosen.samples:
        chosen.refuse("no pictures: name files or folders, or give --samples")
    scale, bias = _scale_and_bias(chosen)
    _check_chance(chosen)
    _check_windows(chosen)
    check_folder_options(chosen)
    step = _declared(chosen, scale, bias)
    if chosen.shards is not None:
        print_table(run_folder_job(chosen, step))
    else:
        _run_batch(chosen, step)


def _declared(
    chosen: argparse.Namespace, scale: tuple[float, ...] | None, bias: tuple[float, ...] | None
) -> Preprocess:
    """What happens to a window of a picture, in one batch and in shards alike."""
    is_window = not (chosen.letterbox or chosen.random_resized_crop)
    step = Preprocess(
        "image",
        layout=chosen.layout,
        dtype=chosen.dtype,
        scale=scale,
        bias=bias,
        channels=(2, 1, 0) if chosen.channels == "bgr" else (0, 1, 2),
        resize=None if chosen.resize is None else (chosen.resize,),
        pad=chosen.pad,
        crop=None if chosen.letterbox else chosen.size,
        random_crop=chosen.random_crop if chosen.seed is not None and is_window else None,
        random_resized_crop=True if chosen.random_resized_crop else None,
        letterbox=chosen.size if chosen.letterbox else None,
        fill=chosen.fill,
        flip=True if chosen.flip else None,
        seed=chosen.seed,
        row_pitch_bytes=chosen.row_pitch,
        alignment=chosen.alignment or DEFAULT_ALIGNMENT,
        output="numpy" if chosen.shards is not None else "tensor",
        device=chosen.device or "auto",
    )
    step.set_epoch(chosen.epoch)
    return step


def _run_batch(chosen: argparse.Namespace, step: Preprocess) -> None:
    """One batch in one file: written while the next pictures are decoded, or made in memory where that is wanted."""
    pictures = find_images(chosen.images) + (sample_images() if chosen.samples else [])
    if not pictures:
        raise StridedGpuError("no pictures: a batch holds at least one.")
    _check_outputs(chosen, pictures)
    job = BatchJob(pictures, step, chosen.decoder, chosen.compare == "all")
    is_streamed = step.layout.startswith("N") and chosen.raw is None and step.row_pitch_bytes is None
    with ExitStack() as files, progress(len(pictures), "pictures") as done:
        file = files.enter_context(replacement(chosen.out))
        if is_streamed:
            samples, compared = make_batch(job, BatchFile(file, job), done)
            memory = streamed_memory(job)
        else:
            batch = BatchMemory(job)
            samples, compared = make_batch(job, batch, done)
            write_array(file, batch.tensor.permute(step.layout).numpy())
            if chosen.raw is not None:
                write_elements(files.enter_context(replacement(chosen.raw)), memory_of(batch.tensor).numpy())
            memory = held_memory(batch.tensor)
        comparison = compare(samples, job.step)
    written = " and ".join(repr(str(path)) for path in (chosen.out, chosen.raw) if path is not None)
    print(f"wrote {written}: {_counted(len(pictures), 'picture')}")
    print_table(_summary(job, memory, comparison, compared))


def _check_outputs(chosen: argparse.Namespace, pictures: Sequence[ImageFile]) -> None:
    """Before the work, refuse outputs that cannot be written or that would replace an input."""
    outputs = [path for path in (chosen.out, chosen.raw) if path is not None]
    sources = {picture.path.resolve() for picture in pictures}
    for path in outputs:
        check_writable(path)
        if path.resolve() in sources:
            chosen.refuse(f"{str(path)!r} is one of the pictures; give the batch a name of its own")
    if len({path.resolve() for path in outputs}) < len(outputs):
        chosen.refuse(f"--out and --raw name the same file {str(chosen.out)!r}; give each its own")


def _summary(
    job: BatchJob, memory: Sequence[tuple[str, str]], comparison: Comparison, compared: int
) -> list[tuple[str, str]]:
    """What was written and how fast, as pairs of a label and a text."""
    every = "every bit" if compared == len(job.pictures) else f"every bit of the first {compared}"
    return [
        ("sizes", f"N={{}} C={{}} H={{}} W={{}}, {job.step.dtype}".format(*batch_sizes(job))),
        *memory,
        ("device", job.step._worker.device),
        ("gather_crops", _timing(comparison.seconds, comparison)),
        ("plain NumPy", _timing(comparison.numpy_seconds, comparison)),
        ("compared", f"{_speed(comparison)} (medians of {comparison.runs} runs); {every} is equal to NumPy's"),
    ]


def _timing(seconds: float, comparison: Comparison) -> str:
    speed = f"{comparison.bytes_moved / seconds / 1e9:.2f} GB/s read and written"
    return f"{seconds * 1e3:.2f} ms for {_counted(comparison.pictures, 'picture')}, {speed}"


def _speed(comparison: Comparison) -> str:
    ratio = comparison.numpy_seconds / comparison.seconds
    if ratio < 1:
        return f"gather_crops took {1 / ratio:.1f} times as long"
    return f"gather_crops was {ratio:.1f} times as fast"


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
