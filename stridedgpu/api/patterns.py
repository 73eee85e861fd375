"""Axes named by patterns, as in einops: reordered, split or merged, as a view or as a copy."""

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
    """The same memory with its axes in the form of an einops pattern: never a copy.

    `pattern` names the axes of `src`, in the order of `src.sizes`, and then those of the result, as in einops'
    `rearrange`: parentheses split an axis on the left and merge axes on the right, `...` stands for all unnamed axes,
    `1` for an axis of size 1. `sizes` are sizes of named axes, in elements, if they do not follow from the others.

    Raises `LayoutError` if the pattern does not fit the sizes, or if it merges axes that are not contiguous in memory:
    `rearrange` then copies the elements.

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
    """The same as `view` if there is such a view, else a packed copy of the elements, in one pass.

    Arguments and errors are those of `view`. `made.buffer is src.buffer` is True if memory is shared.

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
