"""What a job says at its end: its images, the skipped ones, how long it took, and its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

_SHOWN_REASONS: Final = 5
"""The most reasons that are printed; the manifest has all."""


def counted(number: int, thing: str) -> str:
    """A number of things, such as "1 image" and "2 images"."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def work_rows(images: int, seconds: float, read: int, written: int) -> list[tuple[str, str]]:
    """The time and the bytes of so many images, as rows of a table."""
    speed = f", {images / seconds:.1f} images a second" if images else ""
    return [("time", f"{seconds:.2f} s{speed}"), ("bytes", f"{read:,} read and {written:,} written")]


def skipped_rows(reasons: Sequence[str], count: int, manifest: Path) -> list[tuple[str, str]]:
    """The images of `count` that were skipped, with the first reasons."""
    if not reasons:
        return [("skipped", "0")]
    shown = reasons[:_SHOWN_REASONS]
    more = len(reasons) - len(shown)
    rest = [("", f"and {counted(more, 'other')}")] if more else []
    return [
        ("skipped", f"{len(reasons)} of {counted(count, 'image')}, each with its reason in {str(manifest)!r}"),
        *(("", reason) for reason in shown),
        *rest,
    ]
