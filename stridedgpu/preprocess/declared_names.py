"""Names of arguments that `Preprocess` does not have, and what is meant by them."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

__all__ = ["unknown_argument"]

_LOADS: Final = "batch= and threads= of sg.load"

_MIRRORS: Final = "flip=, with seed="

_COLOURS: Final = "mode= or channels="

_MEANT: Final = {
    "augment": "random_resized_crop=, flip=, gain= and offset=, with seed=",
    "batch": _LOADS,
    "batch_size": _LOADS,
    "center_crop": "crop=",
    "color": _COLOURS,
    "color_jitter": "gain= and offset=, with seed=",
    "colour": _COLOURS,
    "format": "layout= and dims=",
    "grayscale": "mode=",
    "hflip": _MIRRORS,
    "horizontal_flip": _MIRRORS,
    "image_mean": "mean=",
    "image_size": "crop=, resize= or letterbox=",
    "image_std": "std=",
    "num_workers": _LOADS,
    "order": "layout= or dims=",
    "p": "flip= and seed=",
    "padding": "pad=",
    "random_flip": _MIRRORS,
    "random_horizontal_flip": _MIRRORS,
    "resample": "interpolation=",
    "shape": "crop=, resize= or letterbox=",
    "size": "crop=, resize= or letterbox=",
    "threads": _LOADS,
    "to_tensor": "layout= and dtype=",
    "transforms": "the arguments of one declaration, such as crop=, flip= and mean=",
    "value": "fill=",
    "workers": _LOADS,
}
"""Names that other libraries have, and the arguments that do the same here."""


_TYPED: Final = 0.8
"""The least similarity, as difflib counts it, of a name that was typed wrong; less is another word."""


def unknown_argument(name: str, known: Collection[str]) -> str:
    """The sentence for an argument that does not exist.

    >>> unknown_argument("size", ["crop", "resize"])
    'Preprocess has no argument size=; crop=, resize= or letterbox= do that.'
    >>> unknown_argument("normalise", ["crop", "normalize"])
    'Preprocess has no argument normalise=; normalize= is one.'
    """
    meant = _MEANT.get(name.lower())
    if meant is not None:
        return f"Preprocess has no argument {name}=; {meant} {'do' if ' ' in meant else 'does'} that."
    close = get_close_matches(name.lower(), known, 1, _TYPED)
    return f"Preprocess has no argument {name}=; " + (
        f"{close[0]}= is one." if close else "help(stridedgpu.Preprocess) describes those that it has."
    )
