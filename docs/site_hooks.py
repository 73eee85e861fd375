"""The pictures of the pages, drawn by the library when the site is built.

In a page, `<!-- picture: NAME -->` becomes an SVG and `<!-- explore: NAME -->` an HTML picture.
"""

from __future__ import annotations

import re
from typing import Any

import stridedgpu
from stridedgpu import picture
from stridedgpu.drawing.page import fragment
from stridedgpu.values.layout import Layout


def pictures() -> dict[str, tuple[object, dict[str, Any]]]:
    """What is drawn under each name, and with which options."""
    pixels = stridedgpu.empty((1, 3, 2, 8), "uint8", layout="NHWC", device="cpu")
    planes = stridedgpu.empty((1, 3, 2, 8), "float16", layout="NCHW", device="cpu")
    return {
        "row-major": (Layout((2, 3)), {"dims": "HW"}),
        "column-major": (Layout((2, 3), (1, 2)), {"dims": "HW"}),
        "depth": (Layout((2, 2, 3)), {"dims": "DHW"}),
        "broadcast": (Layout((2, 3), (0, 1)), {"dims": "HW"}),
        "padded": (Layout((2, 3), (5, 1)), {"dims": "HW", "buffer_elements": 10}),
        "nchw": (Layout((1, 3, 2, 4)), {"dtype": "uint8"}),
        "nhwc": (Layout((1, 3, 2, 4), (24, 1, 12, 3)), {"dtype": "uint8"}),
        "pitched": (stridedgpu.empty((1, 3, 2, 4), "uint8", layout="NHWC", row_pitch_bytes=16, device="cpu"), {}),
        "flipped": (Layout((2, 4), (4, -1), offset=3), {"dims": "HW"}),
        "huge": (Layout((1, 3, 32768, 65536)), {"dtype": "uint8"}),
        "plan": (stridedgpu.plan_relayout(pixels, planes, scale=1 / 255, channels=(2, 1, 0)), {}),
    }


def on_page_content(html: str, **_: object) -> str:
    """The page with its pictures, which Markdown has passed on as comments."""
    drawn = pictures()

    def draw(found: re.Match[str]) -> str:
        thing, options = drawn[found[2]]
        markup = picture.svg(thing, **options) if found[1] == "picture" else fragment(thing, **options)
        return f'<div style="overflow-x:auto">{markup}</div>'

    return re.sub(r"<!-- (picture|explore): ([\w-]+) -->", draw, html)
