"""Pictures of layouts, tensors and plans: `text` for a terminal, `svg` for a document, `html` to explore.

>>> from stridedgpu import picture
>>> from stridedgpu.values.layout import Layout
>>> picture.text(Layout((2, 3))).splitlines()[-1]
'value  A B C D E F'
"""

from __future__ import annotations

from .characters import text
from .drawing import svg
from .page import html

__all__ = ["html", "svg", "text"]
