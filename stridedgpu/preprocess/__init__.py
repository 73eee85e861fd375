"""`Preprocess`, one declared step for loops, loaders and engines: the declaration, and the worker that runs it."""

from __future__ import annotations

from .step import Preprocess

__all__ = ["Preprocess"]
