"""Normalised numbers as NumPy computes them, by the formula of each arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["normalised"]

Array = np.ndarray[Any, Any]


def normalised(values: Array, mean: Any, std: Any, arithmetic: str, factor: float | None = None) -> Array:
    """float32 values of integers, or of floats that are not divided, channels last; `factor` is the rescale factor."""
    largest = np.iinfo(values.dtype).max if values.dtype.kind in "ui" else 1
    factor = 1 / largest if factor is None else factor
    number, numbers = np.float32, values.astype(np.float32)
    if arithmetic == "multiply":
        scale, bias = 1 / (largest * np.float64(std)), -np.float64(mean) / std
        return numbers * scale.astype(number) + bias.astype(number)
    mean, std = np.asarray(mean, number), np.asarray(std, number)
    if arithmetic == "transformers":
        return (numbers - mean * number(1 / factor)) / (std * number(1 / factor))
    if arithmetic == "transformers-pil":
        numbers = (values.astype(np.float64) * factor).astype(number)
    elif arithmetic == "torchvision-v2":
        numbers = numbers * number(1 / largest)
    else:
        assert arithmetic == "divide", arithmetic
        numbers = numbers / number(largest)
    return (numbers - mean) / std
