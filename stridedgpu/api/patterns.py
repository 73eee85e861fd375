"""Axes named by patterns, as in einops: seen in another order, split or merged, without a copy if that is asked for."""

from __future__ import annotations

from stridedgpu.devices.operand import Operand
from stridedgpu.exchange.array_like import operand_of
from stridedgpu.typing import TensorLike
from stridedgpu.values.axis_pattern import AxisPattern
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout

from .relayout import relayout
from .tensor import StridedTensor

__all__ = ["rearrange", "view"]


def view(src: TensorLike, pattern: str, /, **sizes: int) -> StridedTensor:
    """The same memory with its axes as an einops pattern says: never a copy.

    `pattern` names the axes of `src`, which are those that `src.sizes` counts, and then those of the result, as einops'
    `rearrange` reads it: parentheses split an axis on the left and merge axes on the right, `...` stands for all axes
    without a name, `1` for an axis of size 1. `sizes` are sizes of named axes, in elements, where they do not follow.

    Raises `LayoutError` where the pattern does not fit the sizes, and where axes merge that do not follow each other
    in memory: `rearrange` then moves the elements.

    >>> import numpy as np
    >>> frames = np.zeros((2, 28, 42, 3), np.uint8)
    >>> view(frames, "n (h p) (w q) c -> n h w p q c", p=14, q=14).sizes
    (2, 2, 3, 14, 14, 3)
    """
    operand, opened, wanted = _opened(src, pattern, sizes)
    try:
        merged = opened.reshaped(wanted)
    except LayoutError:
        raise LayoutError(
            f"pattern={pattern!r} merges axes that do not follow each other in memory (opened: sizes {opened.sizes}, "
            f"strides {opened.strides}); rearrange moves the elements."
        ) from None
    return StridedTensor.over(Operand(operand.buffer, merged, operand.element))


def rearrange(src: TensorLike, pattern: str, /, **sizes: int) -> StridedTensor:
    """The same as `view` where there is such a view, else the elements moved into one that is packed, in one pass.

    Arguments and errors are those of `view`; whether memory is shared can be asked: `made.buffer is src.buffer`.

    >>> import numpy as np
    >>> patches = rearrange(np.arange(24).reshape(1, 4, 6, 1), "n (h p) (w q) c -> n h w (p q c)", p=2, q=3)
    >>> patches.sizes, patches.numpy()[0, 0, 1].tolist()
    ((1, 2, 2, 6), [3, 4, 5, 9, 10, 11])
    """
    operand, opened, wanted = _opened(src, pattern, sizes)
    try:
        merged = opened.reshaped(wanted)
    except LayoutError:
        operand = relayout(StridedTensor.over(Operand(operand.buffer, opened, operand.element))).operand
        merged = operand.layout.reshaped(wanted)
    return StridedTensor.over(Operand(operand.buffer, merged, operand.element))


def _opened(src: TensorLike, pattern: str, sizes: dict[str, int]) -> tuple[Operand, Layout, tuple[int, ...]]:
    """The operand, its layout with an axis for each name of the pattern, and the sizes of the result."""
    operand, _ = operand_of(src)
    return operand, *AxisPattern.of(str(pattern), operand.layout.ndim).opened(operand.layout, sizes)
