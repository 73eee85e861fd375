"""Docstrings as mkdocstrings takes them: examples as fenced code, addresses and public names as links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

_PUBLIC = re.findall(r"^::: stridedgpu\.(\w+)$", Path(__file__).with_name("reference.md").read_text(), re.MULTILINE)
_TYPES = Path(__file__).parents[1].joinpath("stridedgpu", "typing.py").read_text()
_NAME = re.compile(rf"`({'|'.join(_PUBLIC)})`(?!\])")
_ADDRESS = re.compile(r"(?<![<(\[])(https?://[^\s,]+[^\s,.)])")


def as_markdown(text: str) -> str:
    """A docstring's text with its examples fenced.

    A paragraph that begins with `>>>` is an example, with its output. A public name in backticks leads to its entry.
    """
    blocks = re.split(r"\n{2,}", text)
    return "\n\n".join(f"```pycon\n{block}\n```" if block.startswith(">>>") else _linked(block) for block in blocks)


def _linked(block: str) -> str:
    """A paragraph with its addresses and public names as links; an indented one is code."""
    if block.startswith("    "):
        return block
    return _NAME.sub(r"[`\1`][stridedgpu.\1]", _ADDRESS.sub(r"<\1>", block))


class Examples(griffe.Extension):
    """Rewrites each docstring once, when it is loaded, and spells out `**options`."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Replace `**options: Unpack[Keywords]` by the keywords, those that the class inherits before its own.

        Griffe's `unpack_typeddict` leaves inherited keywords out.
        """
        packed = next((one for one in func.parameters if one.kind is griffe.ParameterKind.var_keyword), None)
        if packed is None or not str(packed.annotation).startswith("Unpack["):
            return
        del func.parameters[packed.name]
        for name, annotation in _keywords(str(packed.annotation)[len("Unpack[") : -1]).items():
            default = "None" if annotation.endswith("| None") else "..."
            kind = griffe.ParameterKind.keyword_only
            func.parameters.add(griffe.Parameter(name, annotation=annotation, kind=kind, default=default))


def _keywords(name: str) -> dict[str, str]:
    """The keywords of a class of `stridedgpu/typing.py`, each with its annotation."""
    found = re.search(rf"^class {name}\((\w+).*?\):\n(.*?)(?=^class |\Z)", _TYPES, re.MULTILINE | re.DOTALL)
    if found is None:
        return {}
    own = re.findall(r"^    (\w+): (.+)$", found[2], re.MULTILINE)
    return {**_keywords(found[1]), **dict(own)}
