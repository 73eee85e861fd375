"""What the pages are made of besides their text: pictures drawn by the library, and the reference from docstrings.

In a page, `<!-- picture: NAME -->` becomes an SVG, `<!-- explore: NAME -->` an HTML picture and `<!-- reference -->`
the reference of every public name.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

import stridedgpu
from stridedgpu import picture
from stridedgpu.operations.planned import Planned
from stridedgpu.picture.page import fragment
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


def on_page_markdown(markdown: str, **_: object) -> str:
    """The page with the reference written out."""
    return markdown.replace("<!-- reference -->", "\n".join(reference()))


def reference() -> Iterator[str]:
    """Markdown for every public name, in order of the alphabet."""
    for name in stridedgpu.__all__:
        if not name.startswith("__"):
            yield from _entry(name, getattr(stridedgpu, name))
    for name in picture.__all__:
        yield from _entry(f"picture.{name}", getattr(picture, name))


def _entry(name: str, thing: Any) -> Iterator[str]:
    """One function, class or constant."""
    yield f"## {name}\n"
    if callable(thing) and not _is_made_elsewhere(thing):
        yield f"```text\n{signature(name, thing)}\n```\n"
    yield prose(thing)
    if inspect.isclass(thing):
        ours = [vars(owner) for owner in reversed(thing.__mro__) if owner.__module__.startswith("stridedgpu")]
        for member, value in {name: value for members in ours for name, value in members.items()}.items():
            if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, (property, classmethod))):
                yield from _member(thing, member, value)


def _is_made_elsewhere(thing: Any) -> bool:
    """Enumerations, errors and plans: nobody calls their class."""
    return inspect.isclass(thing) and issubclass(thing, (Enum, Exception, Planned))


def _member(owner: Any, name: str, value: Any) -> Iterator[str]:
    """A property or method of a class."""
    called = "" if isinstance(value, property) else "()"
    yield f"### {owner.__name__}.{name}{called}\n"
    if called:
        yield f"```text\n{signature(name, getattr(owner, name))}\n```\n"
    yield prose(value)


def signature(name: str, thing: Any) -> str:
    """A call with its parameters, their types and defaults, one on each line where they are many."""
    parameters = inspect.signature(thing).parameters.values()
    entries: list[str] = []
    for parameter in parameters:
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in entries:
            entries.append("*")
        typed = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        entries.append(f"{parameter.name}{typed}{default}")
    short = f"{name}({', '.join(entries)})"
    return short if len(short) <= 100 else f"{name}(\n    " + ",\n    ".join(entries) + ",\n)"


def prose(thing: Any) -> str:
    """A docstring as Markdown: its examples as code."""
    text = inspect.getdoc(thing) or ""
    blocks = []
    for block in re.split(r"\n{2,}", text):
        is_example = block.startswith(">>>")
        blocks.append(f"```pycon\n{block}\n```" if is_example else re.sub(r"(https?://[^\s,]+[^\s,.])", r"<\1>", block))
    return "\n\n".join(blocks) + "\n"
