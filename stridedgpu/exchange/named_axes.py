"""Axes that an array names itself, as xarray's do: the letters of those names.

| letter | names, in any case |
|---|---|
| N | n, batch, sample |
| T | t, time |
| B | b |
| C | c, band, channel, wavelength, s |
| D | d, z, depth, level |
| H | h, y, row, height, lat, latitude, northing |
| W | w, x, column, width, lon, longitude, easting |

T and B are then N, C or D, as `axis_letters` says. A plural counts as its singular. The names are those of the
conventions for climate and satellite data (CF, rioxarray, OME). An array of whose axes one has another name, or two the
same letter, names none.
"""

from __future__ import annotations

from typing import Final

from stridedgpu.values.errors import LayoutError
from stridedgpu.values.strides import axis_letters

_NAMES: Final = {
    "N": ("n", "batch", "sample"),
    "T": ("t", "time"),
    "B": ("b",),
    "C": ("c", "band", "channel", "wavelength", "s"),
    "D": ("d", "z", "depth", "level"),
    "H": ("h", "y", "row", "height", "lat", "latitude", "northing"),
    "W": ("w", "x", "column", "width", "lon", "longitude", "easting"),
}
_LETTERS: Final = {name: letter for letter, names in _NAMES.items() for name in names}


def named_axes(obj: object) -> str | None:
    """The letters of an object's axes, in their order, if its attribute `dims` is a tuple of known names.

    >>> from types import SimpleNamespace
    >>> named_axes(SimpleNamespace(dims=("time", "band", "y", "x")))
    'NCHW'
    """
    names: object = getattr(obj, "dims", None)
    if not isinstance(names, tuple) or not names or not all(isinstance(name, str) for name in names):
        return None
    letters = [_letter(name.lower()) for name in names]
    axes = axis_letters("".join(letter for letter in letters if letter is not None))
    return axes if len(axes) == len(set(axes)) == len(names) else None


def check_named_axes(obj: object, dims: str) -> None:
    """Raise `LayoutError` if an object names its axes otherwise than `dims`."""
    named = named_axes(obj)
    if named is not None and named != axis_letters(dims):
        raise LayoutError(
            f"dims={dims!r} contradicts the names of this {type(obj).__name__}'s axes, "
            f"{', '.join(map(repr, obj.dims))} ({named!r}): leave dims= out, or give its .values."  # type: ignore[attr-defined]
        )


def _letter(name: str) -> str | None:
    return _LETTERS.get(name) or _LETTERS.get(name.removesuffix("s"))
