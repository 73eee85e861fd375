"""Names of arguments that `Preprocess` does not have, and what is meant by them."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

__all__ = ["unknown_argument"]

_LOADS: Final = "batch= and threads= of sg.load"

_MEANT: Final = {
    "augment": "random_resized_crop=, flip=, gain= and offset=, with seed=",
    "batch": _LOADS,
    "batch_size": _LOADS,
    "color": "mode= or channels=",
    "format": "layout= and dims=",
    "image_size": "crop=, resize= or letterbox=",
    "num_workers": _LOADS,
    "order": "layout= or dims=",
    "p": "flip= and seed=",
    "shape": "crop=, resize= or letterbox=",
    "size": "crop=, resize= or letterbox=",
    "threads": _LOADS,
    "to_tensor": "layout= and dtype=",
    "transforms": "the arguments of one declaration, such as crop=, flip= and mean=",
    "workers": _LOADS,
}
"""Names that other libraries have, and the arguments that do the same here."""


def unknown_argument(name: str, known: Collection[str]) -> str:
    """The sentence for an argument that does not exist.

    >>> unknown_argument("size", ["crop", "resize"])
    'Preprocess has no argument size=; crop=, resize= or letterbox= do that.'
    >>> unknown_argument("normalise", ["crop", "normalize"])
    'Preprocess has no argument normalise=; normalize= is one.'
    """
    if name.lower() in _MEANT:
        return f"Preprocess has no argument {name}=; {_MEANT[name.lower()]} do that."
    close = get_close_matches(name.lower(), known, 1)
    return f"Preprocess has no argument {name}=; " + (
        f"{close[0]}= is one." if close else "help(stridedgpu.Preprocess) describes those that it has."
    )
