"""Pictures of layouts, tensors and plans: `text` for a terminal, `svg` for a document, `html` to explore.

>>> from stridedgpu import picture
>>> from stridedgpu.values.layout import Layout
>>> picture.text(Layout((2, 3))).splitlines()[-1]
'value  A B C D E F'
"""

from stridedgpu.drawing.characters import text
from stridedgpu.drawing.page import html
from stridedgpu.drawing.svg import svg

__all__ = ["html", "svg", "text"]
