"""Random numbers that depend on a sample and a seed alone: the same in any process, batch and order.

A sample is identified by its key: an integer (an index), a string or bytes (a name), or, without one, its own pixels.
The random words are a BLAKE2 hash of seed and key. They are the same on every machine and with every version of NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from stridedgpu.api.tensor import StridedTensor
from stridedgpu.values.errors import LayoutError

__all__ = ["Draw", "draw", "pixel_key", "uniforms"]

_WORD_BITS: Final = 64
_PERSON: Final = b"stridedgpu draw"


@dataclass(frozen=True, slots=True)
class Draw:
    """Three random words of 64 bits, each for one decision."""

    row: int
    column: int
    mirrored: int

    def origin(self, sizes: tuple[int, int], window: tuple[int, int]) -> tuple[int, int]:
        """The origin of a window in an image of `sizes`: row and column, in pixels, uniformly distributed."""
        spare = (sizes[0] - window[0] + 1, sizes[1] - window[1] + 1)
        return (self.row * spare[0] >> _WORD_BITS, self.column * spare[1] >> _WORD_BITS)

    def flips(self, probability: float) -> bool:
        """Whether to mirror: True with this probability."""
        return self.mirrored < int(probability * 2**_WORD_BITS)


def draw(seed: int, key: object) -> Draw:
    """The words of the sample with that key. Raises `LayoutError` for a key that is no integer, string or bytes.

    >>> draw(1, "cat.png") == draw(1, "cat.png"), draw(1, "cat.png") == draw(2, "cat.png")
    (True, False)
    >>> draw(1, "cat.png").origin((480, 640), (224, 224))
    (192, 377)
    """
    digest = blake2b(_key_bytes(key), digest_size=24, key=str(seed).encode(), person=_PERSON).digest()
    row, column, mirrored = (int.from_bytes(digest[start : start + 8], "little") for start in (0, 8, 16))
    return Draw(row, column, mirrored)


def uniforms(seed: int, key: object, count: int) -> Iterator[float]:
    """`count` uniform numbers in [0, 1) for the sample with that key, independent of the words of `draw`.

    >>> all(0 <= number < 1 for number in uniforms(1, "cat.png", 4))
    True
    """
    sample = _key_bytes(key)
    for number in range(count):
        person = b"area %d" % number
        digest = blake2b(sample, digest_size=8, key=str(seed).encode(), person=person).digest()
        # A float64 has 53 bits: the result is always below 1.
        yield (int.from_bytes(digest, "little") >> 11) / 2**53


def pixel_key(image: StridedTensor, axes: str) -> bytes:
    """A key made of an image's sizes, type and elements, in the order of `axes`, whatever its layout in memory."""
    array = np.ascontiguousarray(image.permute(axes).numpy())
    digest = blake2b(f"{array.shape} {image.element}".encode(), digest_size=16)
    digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.digest()


def _key_bytes(key: object) -> bytes:
    """A key as bytes; each type of key has a prefix of its own."""
    plain: Any = key.item() if hasattr(key, "item") and getattr(key, "ndim", 1) == 0 else key
    if isinstance(plain, bool):
        pass
    elif isinstance(plain, int):
        return b"i%d" % plain
    elif isinstance(plain, str):
        return b"s" + plain.encode("utf-8", "surrogatepass")
    elif isinstance(plain, bytes):
        return b"b" + plain
    raise LayoutError(f"key {key!r} is no integer, string or bytes; name a column that holds one for each sample.")
