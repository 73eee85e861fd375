"""Pictures as a command writes them: printed, or as a file of SVG or HTML."""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from pathlib import Path
from typing import Any, Final

from stridedgpu import picture
from stridedgpu.preprocess.npy import check_writable, replacement

__all__ = ["add_outputs", "put"]

_PIPE_COLUMNS: Final = 100


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """The arguments that name a file."""
    outputs = parser.add_mutually_exclusive_group()
    outputs.add_argument("--html", metavar="OUT.html", type=Path, help="write a page to explore, instead of printing")
    outputs.add_argument("--svg", metavar="OUT.svg", type=Path, help="write a drawing, instead of printing")


def put(chosen: argparse.Namespace, thing: object, title: str, **options: Any) -> None:
    """Print the picture, or write it to the chosen file."""
    out = chosen.html or chosen.svg
    if out is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # dots and ellipses, if the terminal has no Unicode
        columns = shutil.get_terminal_size((_PIPE_COLUMNS, 24)).columns
        print(picture.text(thing, width=columns, **options))
        return
    check_writable(out)
    markup = picture.html(thing, title=title, **options) if chosen.html else picture.svg(thing, **options)
    with replacement(out) as file:
        file.write(markup.encode())
    print(f"wrote {str(out)!r}")
