"""The operations as functions: anything array-like in, tensors out."""

from __future__ import annotations

from .crops import gather_crops, plan_gather_crops
from .gather import gather, gather_elements, gather_nd, scatter_elements, scatter_nd
from .gather_plans import plan_gather, plan_gather_elements, plan_gather_nd, plan_scatter_elements, plan_scatter_nd
from .relayout import plan_relayout, relayout, synchronize

__all__ = [
    "gather",
    "gather_crops",
    "gather_elements",
    "gather_nd",
    "plan_gather",
    "plan_gather_crops",
    "plan_gather_elements",
    "plan_gather_nd",
    "plan_relayout",
    "plan_scatter_elements",
    "plan_scatter_nd",
    "relayout",
    "scatter_elements",
    "scatter_nd",
    "synchronize",
]
