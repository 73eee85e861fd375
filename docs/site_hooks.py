"""What the pages take from elsewhere when the site is built: the drawings of the library, and the text of README.md.

In a page, `<!-- picture: NAME -->` becomes an SVG, `<!-- explore: NAME -->` an HTML picture, and `<!-- readme -->`
the text of README.md, whose links into `docs/` are links between pages and whose other links are their words.
"""

from __future__ import annotations

import re
from pathlib import Path
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


def on_page_markdown(markdown: str, **_: object) -> str:
    """The page with README.md's text at its mark."""
    if "<!-- readme -->" not in markdown:
        return markdown
    readme = Path(__file__).resolve().parents[1].joinpath("README.md").read_text(encoding="utf-8")
    pages = readme.replace("](docs/", "](")
    files = re.sub(r"(?<!!)\[([^\]]+)\]\((?!\w+:)([A-Z]+\.md|benchmarks/[^)]*)\)", r"\1", pages)
    return markdown.replace("<!-- readme -->", files)


def on_page_content(html: str, **_: object) -> str:
    """The page with its pictures, which Markdown has passed on as comments."""
    drawn = pictures()

    def draw(found: re.Match[str]) -> str:
        thing, options = drawn[found[2]]
        markup = picture.svg(thing, **options) if found[1] == "picture" else fragment(thing, **options)
        return f'<div style="overflow-x:auto">{markup}</div>'

    return re.sub(r"<!-- (picture|explore): ([\w-]+) -->", draw, html)
