"""`RawProblem`: packed samples of a raw sensor as numbers of 16 bits, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from stridedgpu.values.raw_formats import RawFormat
from stridedgpu.values.tensor_spec import TensorSpec


@dataclass(frozen=True, slots=True)
class RawProblem:
    """Images of one format; `target` has the axes H, W, and rows of the source lie `pitch` bytes apart.

    `alignment` is the power of two, in bytes, known to divide the address of the first row.
    """

    samples: RawFormat
    pitch: int
    alignment: int
    target: TensorSpec

    @property
    def groups(self) -> int:
        """The groups of a row."""
        return self.target.layout.sizes[1] // self.samples.count

    @property
    def is_empty(self) -> bool:
        """Whether there are no samples."""
        return self.target.layout.element_count == 0

    @property
    def bytes_moved(self) -> int:
        """The bytes that must be read and written."""
        height, width = self.target.layout.sizes
        return height * (self.groups * self.samples.nbytes + width * self.target.element.itemsize)

    def describe(self) -> list[str]:
        """The problem in lines, as plans explain it."""
        height, width = self.target.layout.sizes
        return [
            f"{self.samples.name} images of {height} x {width} samples, rows {self.pitch} bytes apart",
            f"writes {self.target.element} in steps of {self.target.layout.strides} elements along H, W",
            f"{self.bytes_moved} bytes must move",
        ]
