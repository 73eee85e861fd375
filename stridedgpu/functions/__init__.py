"""The operations as functions: anything array-like in, tensors out."""

from __future__ import annotations

from .cropping import gather_crops
from .moving import plan_relayout, relayout, synchronize
from .picking import gather, gather_elements, gather_nd, plan_gather, scatter_elements, scatter_nd

__all__ = [
    "gather",
    "gather_crops",
    "gather_elements",
    "gather_nd",
    "plan_gather",
    "plan_relayout",
    "relayout",
    "scatter_elements",
    "scatter_nd",
    "synchronize",
]
