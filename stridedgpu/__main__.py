"""The command line: `python -m stridedgpu` and one of `preprocess`, `show`, `explain` and `info`.

Whatever is wrong with what was given ends in one line on stderr and exit code 2, and leaves no file behind.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import NoReturn

from . import __version__
from .backends.selection import devices
from .batching import Comparison, Recipe, compare, make_batch, memory_of
from .bench.command import add_bench
from .console import progress
from .errors import StridedGpuError
from .folder_command import add_folder_options, run_folder_job
from .images import find_pictures, sample_pictures
from .npy import check_writable, replacement, write_array, write_elements
from .show import add_explain, add_show
from .strides import AXIS_LETTERS
from .tensor import StridedTensor

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
# name: mean and std of red, green and blue, in units of 0..1
NORMALIZATIONS = {
    "unit": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
}
LIBRARIES = {
    "numpy": "numpy",
    "pillow": "stridedgpu[cli]",
    "rich": "stridedgpu[cli]",
    "scikit-image": "stridedgpu[demo]",
    "llvmlite": "stridedgpu[cpu]",
    "ml_dtypes": "stridedgpu[ml-dtypes]",
    "cupy-cuda12x": "stridedgpu[cuda12]",
    "cupy-cuda13x": "stridedgpu[cuda13]",
}
REFUSED, INTERRUPTED, BROKEN_PIPE = 2, 130, 1


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose refusal is one line, without the usage that argparse puts before it."""

    def error(self, message: str) -> NoReturn:
        """Print `message` on stderr and exit with code 2."""
        self.exit(REFUSED, f"{self.prog}: {_one_line(message)}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 2 refused, 130 interrupted."""
    parser = build_parser()
    chosen = parser.parse_args(arguments)
    try:
        with _termination_unwinds():
            chosen.run(chosen)
            sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away: leave Python nothing to flush into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except MemoryError as problem:
        reason = str(problem) or "not enough of it is free"
        return _refuse(parser, f"out of memory: {reason}; use fewer pictures, a smaller --size or a narrower --dtype")
    except StridedGpuError as problem:
        return _refuse(parser, str(problem))
    except OSError as problem:
        return _refuse(parser, f"{problem.filename or 'output'!r}: {problem.strerror or problem}")
    return 0


def _refuse(parser: argparse.ArgumentParser, message: str) -> int:
    print(f"{parser.prog}: {_one_line(message)}", file=sys.stderr)
    return REFUSED


def _one_line(message: str) -> str:
    return " ".join(message.split())


@contextmanager
def _termination_unwinds() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise SystemExit, so that files half-way written are taken away."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = OneLineParser(
        prog="stridedgpu", description="Image and feature tensors in strided memory.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"stridedgpu {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_preprocess(commands)
    add_show(commands)
    add_explain(commands)
    add_bench(commands)
    info = commands.add_parser("info", help="print the version, the devices and the libraries", allow_abbrev=False)
    info.set_defaults(run=run_info)
    return parser


def _add_preprocess(commands: argparse._SubParsersAction[OneLineParser]) -> None:
    parser = commands.add_parser(
        "preprocess",
        help="photographs in, one batch for a network out",
        description=(
            "Decode photographs, crop their centres and write them as one batch, in one fused relayout a picture: "
            "layout, element type, channel order and normalisation in a single pass over the pixels. "
            "The camera's orientation (EXIF) is applied, grey becomes RGB, alpha is dropped, "
            "and of an animation the first picture is taken."
        ),
        allow_abbrev=False,
    )
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
    add("--size", metavar="N|HxW", type=_size, default=(224, 224), help="centre crop in pixels (default: 224)")
    add(
        "--resize",
        metavar="N",
        type=_positive,
        help="first scale the shorter side to N pixels (bilinear, by Pillow); without it the pixels stay exact",
    )
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
        choices=NORMALIZATIONS,
        help="(pixel/255 - mean)/std with the figures that such networks were trained with; unit is pixel/255",
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
        default=32,
        help="alignment of the batch's first byte, a power of two (default: 32)",
    )
    add("--row-pitch", metavar="BYTES", type=_positive, help="from one row to the next (default: no padding)")
    add("--device", help="cpu, cuda or cuda:N (default: the first CUDA device that works, else cpu)")
    add_folder_options(parser)
    parser.set_defaults(run=run_preprocess, refuse=parser.error)


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


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
    """What a pixel of 0..255 is multiplied by, and what is added then, for each output channel."""
    mean, std = chosen.mean, chosen.std
    if (mean is None) != (std is None):
        given, missing = ("--mean", "--std") if std is None else ("--std", "--mean")
        chosen.refuse(f"{given} needs {missing} beside it: pixels become (pixel/255 - mean)/std")
    if chosen.normalize is not None:
        if mean is not None:
            chosen.refuse("--normalize and --mean/--std exclude each other: give one of them")
        step = -1 if chosen.channels == "bgr" else 1
        mean, std = (figures[::step] for figures in NORMALIZATIONS[chosen.normalize])
    if mean is None:
        return None, None
    if min(std) < 1e-6:
        chosen.refuse(f"argument --std: {min(std)} is too small; in units of 0..1 a deviation is at least 1e-6")
    return tuple(1 / (255 * s) for s in std), tuple(-m / s for m, s in zip(mean, std, strict=True))


def run_preprocess(chosen: argparse.Namespace) -> None:
    """Photographs in, a batch out, then a summary of what was done."""
    if not chosen.images and not chosen.samples:
        chosen.refuse("no pictures: name files or folders, or give --samples")
    scale, bias = _scale_and_bias(chosen)
    if chosen.shards is not None:
        _print_table(run_folder_job(chosen, scale, bias))
        return
    if chosen.engine is not None or chosen.address is not None:
        chosen.refuse("--engine and --address are for a folder in parts: give --shards too")
    recipe = Recipe(
        size=chosen.size,
        resize=chosen.resize,
        layout=chosen.layout,
        dtype=chosen.dtype,
        scale=scale,
        bias=bias,
        bgr=chosen.channels == "bgr",
        alignment=chosen.alignment,
        row_pitch_bytes=chosen.row_pitch,
        device=chosen.device,
        zero_padding=chosen.raw is not None,
    )
    pictures = find_pictures(chosen.images) + (sample_pictures() if chosen.samples else [])
    _check_outputs(chosen, pictures)
    with progress(len(pictures), "pictures") as step:
        batch, crops = make_batch(pictures, recipe, step)
    comparison = compare(batch, crops, recipe)
    with ExitStack() as files:
        write_array(files.enter_context(replacement(chosen.out)), batch.permute(recipe.layout).numpy())
        if chosen.raw is not None:
            write_elements(files.enter_context(replacement(chosen.raw)), memory_of(batch).numpy())
    written = " and ".join(repr(str(path)) for path in (chosen.out, chosen.raw) if path is not None)
    print(f"wrote {written}: {_counted(len(pictures), 'picture')}")
    _print_table(summary(batch, comparison))


def _check_outputs(chosen: argparse.Namespace, pictures: Sequence[Path]) -> None:
    """Refuse outputs that cannot be written, before the work, and outputs that would take the place of an input."""
    outputs = [path for path in (chosen.out, chosen.raw) if path is not None]
    sources = {path.resolve() for path in pictures}
    for path in outputs:
        check_writable(path)
        if path.resolve() in sources:
            chosen.refuse(f"{str(path)!r} is one of the pictures; give the batch a name of its own")
    if len({path.resolve() for path in outputs}) < len(outputs):
        chosen.refuse(f"--out and --raw name the same file {str(chosen.out)!r}; give each its own")


def summary(batch: StridedTensor, comparison: Comparison) -> list[tuple[str, str]]:
    """What was made and how fast, as pairs of a label and a text."""
    held = batch.buffer.nbytes
    padding = held - batch.layout.element_count * batch.itemsize
    axes = "N={} C={} H={} W={}"
    return [
        ("sizes", f"{axes.format(*batch.sizes)}, {batch.dtype}"),
        ("strides", f"{axes.format(*batch.strides)} elements"),
        ("memory", f"{held:,} bytes, {padding:,} of them padding, aligned to {batch.alignment} bytes"),
        ("device", batch.device),
        ("relayout", _timing(comparison.seconds, comparison)),
        ("plain NumPy", _timing(comparison.numpy_seconds, comparison)),
        ("compared", f"{_speed(comparison)} (medians of {comparison.runs} runs); every bit is equal to NumPy's"),
    ]


def _timing(seconds: float, comparison: Comparison) -> str:
    speed = f"{comparison.bytes_moved / seconds / 1e9:.2f} GB/s read and written"
    return f"{seconds * 1e3:.2f} ms for {_counted(comparison.pictures, 'picture')}, {speed}"


def _speed(comparison: Comparison) -> str:
    ratio = comparison.numpy_seconds / comparison.seconds
    if ratio < 1:
        return f"relayout took {1 / ratio:.1f} times as long"
    return f"relayout was {ratio:.1f} times as fast"


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def run_info(_chosen: argparse.Namespace) -> None:
    """The version, what can be computed on and why the rest cannot, and which libraries are there."""
    print(f"stridedgpu {__version__}, Python {platform.python_version()}, {platform.platform()}")
    print("devices")
    _print_table(
        [
            (device.name, device.description if device.available else f"not available: {device.reason}")
            for device in devices()
        ]
    )
    print("libraries")
    _print_table([(name, _version_of(name, extra)) for name, extra in LIBRARIES.items()])


def _version_of(library: str, extra: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return f'not installed: pip install "{extra}"'


def _print_table(rows: Sequence[tuple[str, str]]) -> None:
    width = max(len(label) for label, _ in rows)
    for label, text in rows:
        print(f"  {label:{width}}  {_one_line(text)}")


if __name__ == "__main__":
    sys.exit(main())
