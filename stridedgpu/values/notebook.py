"""`Drawn`: a value that notebooks show as a picture."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

__all__ = ["Drawn"]

_PICTURES: Final = "stridedgpu.drawing.page"
"""The module that draws. It lies on a higher floor: a value knows its name, and loads it when a notebook asks."""


class Drawn:
    """A layout or descriptor that draws itself in notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The picture: the elements, and the memory under them."""
        page: Any = import_module(_PICTURES)
        markup: str = page.fragment(self)
        return markup
