"""torchvision's transforms of PIL images, for the tests that have them as the oracle."""

from __future__ import annotations

import sys
from typing import Any

import pytest

__all__ = ["torchvision_transforms"]


def torchvision_transforms() -> Any:
    """`torchvision.transforms`; the test skips where there is none.

    The wheel for CUDA beside PyTorch for the CPU registers kernels of operators that it could not load. The transforms
    are Python and Pillow, and need no more than the operators' names.
    """
    torch = pytest.importorskip("torch", reason="the oracle is torchvision")
    try:
        return pytest.importorskip("torchvision.transforms", reason="the oracle is torchvision")
    except RuntimeError:
        for module in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[module]
        _OPERATORS.append(torch.library.Library("torchvision", "FRAGMENT"))
        for operator in ("nms", "qnms"):
            _OPERATORS[0].define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return pytest.importorskip("torchvision.transforms")


_OPERATORS: list[Any] = []
"""The operators live as long as the library that defines them."""
