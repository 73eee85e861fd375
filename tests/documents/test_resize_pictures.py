"""The pictures of docs/resize.md are those that its script draws, and show what the page says of them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "resize_pictures.py"

pytestmark = [
    pytest.mark.skipif(not SCRIPT.is_file(), reason="the documentation is not here: the tests lie outside a checkout"),
    pytest.mark.skipif(importlib.util.find_spec("skimage") is None, reason="the images are scikit-image's"),
]


@pytest.mark.parametrize("name, largest", [("shrunk.png", 104), ("cubic.png", 23)])
def test_a_picture_is_what_the_script_draws(name: str, largest: int) -> None:
    """Pixel by pixel; the largest difference is the number on the page."""
    image = pytest.importorskip("PIL.Image", reason="images are read by Pillow")
    spec = importlib.util.spec_from_file_location("resize_pictures", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, script)
        spec.loader.exec_module(script)
        figure = script.FIGURES[name]
        one, other = figure.results()
        panels = figure.panels()
    assert np.abs(one.astype(int) - other).max() == largest
    with image.open(script.FOLDER / name) as drawn:
        np.testing.assert_array_equal(np.asarray(drawn), panels)
