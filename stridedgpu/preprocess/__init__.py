"""One declared step for loops, loaders and engines: its declaration, and the worker that keeps to it."""

from __future__ import annotations

from .step import Preprocess

__all__ = ["Preprocess"]
