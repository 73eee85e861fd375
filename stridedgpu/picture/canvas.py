"""The parts of SVG pictures: a canvas that grows, boxes, text and colours."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Final

from .cells import Coordinates
from .subject import Subject

__all__ = ["CHARACTER", "COLOURS", "MARGIN", "ROW", "WIDEST", "Canvas", "box", "centred", "colour_of", "joined"]

COLOURS: Final = ("#d55e00", "#009e73", "#0072b2", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#7f7f7f")
"""Okabe and Ito's palette, safe for colour-blind readers; red, green and blue come first."""

ROW: Final = 24
CHARACTER: Final = 7.2
MARGIN: Final = 12
WIDEST: Final = 960
"""In pixels: the height of a row of cells, the width of a character, the margin, and the width of a full line."""

_STYLE: Final = """
.sg-svg{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.sg-svg text{fill:currentColor}
.sg-svg rect{stroke:currentColor;stroke-opacity:.45}
.sg-svg .sg-title{font-weight:600}
.sg-svg .sg-small{font-size:9px;opacity:.8}
.sg-svg .sg-ruler{stroke:currentColor;stroke-width:2.5}
.sg-svg .sg-vector{fill:none;stroke-width:2;stroke-opacity:.9}
.sg-svg .sg-touched{stroke-opacity:1;stroke-width:2}
svg:root{color:#1f2328;background:#fff}
@media (prefers-color-scheme:dark){svg:root{color:#e6edf3;background:#0d1117}}
"""


_HATCH: Final = (
    '<pattern id="sg-hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path d="M0 0V6" stroke="currentColor" stroke-opacity=".5"/></pattern>'
)


@dataclass
class Canvas:
    """The SVG elements so far, and their extent."""

    parts: list[str] = field(default_factory=list)
    width: float = 0
    height: float = 0

    def add(self, markup: str, right: float, bottom: float) -> None:
        """Add an element that reaches to `right` and `bottom`."""
        self.parts.append(markup)
        self.width, self.height = max(self.width, right), max(self.height, bottom)

    def words(self, x: float, y: float, words: str, style: str = "") -> None:
        """Add a line of text with its baseline at `y`."""
        small = style == "sg-small"
        length = len(words) * (CHARACTER * 0.75 if small else CHARACTER)
        named = f' class="{style}"' if style else ""
        self.add(f'<text x="{x:g}" y="{y:g}"{named}>{escape(words)}</text>', x + length, y + 4)

    def document(self, name: str) -> str:
        """The canvas as one self-contained SVG element; `name` is its accessible name."""
        width, height = self.width + MARGIN, self.height + MARGIN
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="sg-svg" role="img" aria-label="{escape(name)}" '
            f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}">'
            f"<title>{escape(name)}</title><style>{_STYLE}</style>"
            f"<defs>{_HATCH}</defs>{''.join(self.parts)}</svg>"
        )


def colour_of(subject: Subject, at: Coordinates) -> str:
    """The colour of an element, by its channel."""
    axis = subject.coloured_axis
    return COLOURS[(0 if axis is None else at[axis]) % len(COLOURS)]


def box(x: float, y: float, width: float, height: float, fill: str, *, touched: bool) -> str:
    """A cell; cells that a warp or tile touches have a strong border."""
    opacity = "" if fill.startswith("url") else ' fill-opacity=".3"'
    strong = ' class="sg-touched"' if touched else ""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}"{opacity}{strong}/>'


def centred(words: str, x: float, y: float, style: str = "") -> str:
    """Text centred at `x`."""
    named = f' class="{style}"' if style else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="middle"{named}>{escape(words)}</text>'


def joined(at: Coordinates) -> str:
    """Coordinates as text."""
    return ",".join(map(str, at))
