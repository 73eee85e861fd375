"""What TorchCodec gives, as its Python modules define it: doubles over NumPy's arrays.

| class | of | source |
|---|---|---|
| `Frame`, `FrameBatch` | one image and several, RGB, (C, H, W) over memory (H, W, C) | torchcodec/_frame.py |
| `RawFrame` | a decoder's frame, with one tensor for each kind of sample | torchcodec/decoders/_blocks/_frame.py |
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import stridedgpu as sg


@dataclass
class Frame:
    """One image, iterated by its fields."""

    data: Any
    pts_seconds: float = 0.0
    duration_seconds: float = 0.04

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, field.name) for field in fields(self))


@dataclass
class FrameBatch:
    """Images or clips, iterated by their first axis."""

    data: Any
    pts_seconds: Any = None
    duration_seconds: Any = None

    def __post_init__(self) -> None:
        if self.data.ndim < 3:
            raise ValueError(f"data must be at least 3-dimensional, got {self.data.shape = }")

    def __iter__(self) -> Iterator[FrameBatch]:
        return map(FrameBatch, self.data)

    def __getitem__(self, key: Any) -> FrameBatch:
        return FrameBatch(self.data[key])

    def __len__(self) -> int:
        return len(self.data)


@dataclass
class RawFrame:
    """A frame as its decoder has it, before rotation."""

    pixel_format: str
    height: int
    width: int
    planes: tuple[Any, ...]
    color_space: str = "unknown"
    color_range: str = "unknown"
    rotation: float = 0.0


@contextmanager
def loaded() -> Iterator[None]:
    """The doubles are in the place of TorchCodec."""
    with pytest.MonkeyPatch.context() as patch:
        load(patch)
        yield


def load(monkeypatch: Any) -> None:
    """Have the doubles in the place of TorchCodec."""
    monkeypatch.setitem(sys.modules, "torchcodec", SimpleNamespace(Frame=Frame, FrameBatch=FrameBatch))
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", SimpleNamespace(RawFrame=RawFrame))


def raw_frame(form: str, frame: sg.Frame, **stated: Any) -> RawFrame:
    """The frame of FFmpeg's format `form` over the planes of a `Frame` of the same format."""
    samples, (_, width) = frame.operand.samples, frame.sizes
    parts = []
    for kind in samples.channels:
        plane = frame.planes[kind.plane].numpy()
        columns = samples.planes[kind.plane].row_elements(width) // kind.step
        first = plane[..., kind.first :] if plane.ndim == 3 else plane
        steps = plane.strides[0], kind.step * plane.itemsize
        parts.append(np.lib.stride_tricks.as_strided(first, (len(plane), columns), steps))
    return RawFrame(form, *frame.sizes, tuple(parts), **stated)
