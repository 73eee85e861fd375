"""`Input`: an image of the set, which a formula of integers computes alike in every language.

The formula gives 16 bits for a seed, a row, a column and a channel. Tiles of 16 x 16 pixels are noise, a slope, single
black and white pixels, or squares of four: what filters, clamped sums and rounding differ on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

FORMULA: Final = """\
uint32_t sample(uint32_t seed, uint32_t y, uint32_t x, uint32_t c) {
    uint32_t noise = (seed * 1000003u + y * 2654435769u + x * 40503u + c * 69069u) ^ 0x5bd1e995u;
    noise = (noise ^ (noise >> 15)) * 739982445u;
    noise = (noise ^ (noise >> 13)) * 695872825u;
    noise ^= noise >> 16;
    uint32_t tile = (y / 16 + x / 16) % 4, low = noise & 255;
    if (tile == 0) return noise & 65535;
    if (tile == 1) return ((3 * y + 5 * x + 40 * c) & 255) << 8 | low;
    if (tile == 2) return (x + y) % 2 ? 65535 : 0;
    return (x / 4 + y / 4 + c) % 2 ? 65280 | low : low;
}
"""
"""In C; every product and sum is one of 32 bits without a sign."""


@dataclass(frozen=True, slots=True)
class Input:
    """An array of `sizes` (H, W) or (H, W, C); one without channels is channel 0.

    `dtype` is "uint8" with the high `bits` of each sample, "uint16" with these bits moved up by `shift`, or "float32",
    the 16 bits divided by 65536.
    """

    sizes: tuple[int, ...]
    dtype: str = "uint8"
    seed: int = 0
    bits: int = 16
    shift: int = 0

    @property
    def name(self) -> str:
        """Sizes, type and what differs from the defaults."""
        parts = ["x".join(map(str, self.sizes)), self.dtype]
        parts += [f"{self.bits}-bits-up-{self.shift}"] * (self.bits < 16 and self.dtype == "uint16")
        parts += [f"seed-{self.seed}"] * (self.seed > 0)
        return ".".join(parts)

    @property
    def words(self) -> str:
        """The formula of an element."""
        sample = f"sample({self.seed}, y, x, {'c' if len(self.sizes) == 3 else '0'})"
        if self.dtype == "float32":
            return f"{sample} / 65536"
        bits = min(self.bits, 8) if self.dtype == "uint8" else self.bits
        return sample + f" >> {16 - bits}" * (bits < 16) + f" << {self.shift}" * (self.shift > 0)

    def array(self) -> NDArray[Any]:
        """The values."""
        y, x, c = np.meshgrid(*(np.arange(size) for size in (*self.sizes, 1)[:3]), indexing="ij")
        samples = samples_at(self.seed, y, x, c).reshape(self.sizes)
        if self.dtype == "float32":
            return samples.astype(np.float32) / np.float32(65536)
        bits = min(self.bits, 8) if self.dtype == "uint8" else self.bits
        return (samples >> (16 - bits) << self.shift).astype(self.dtype)


def samples_at(seed: int, y: NDArray[Any], x: NDArray[Any], c: NDArray[Any]) -> NDArray[np.uint32]:
    """`FORMULA` at rows, columns and channels."""
    y, x, c = (places.astype(np.uint32) for places in (y, x, c))
    noise = (y * np.uint32(2654435769) + x * np.uint32(40503) + c * np.uint32(69069)) + np.uint32(seed * 1000003)
    noise ^= np.uint32(0x5BD1E995)
    noise = (noise ^ (noise >> 15)) * np.uint32(739982445)
    noise = (noise ^ (noise >> 13)) * np.uint32(695872825)
    noise ^= noise >> 16
    low = noise & 255
    tiles = (
        noise & 65535,
        ((3 * y + 5 * x + 40 * c) & 255) << 8 | low,
        (x + y) % 2 * np.uint32(65535),
        (x // 4 + y // 4 + c) % 2 * np.uint32(65280) | low,
    )
    return np.choose((y // 16 + x // 16) % 4, tiles).astype(np.uint32)
