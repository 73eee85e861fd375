"""Without `passes=`, one warning a process says that the installed Pillow has another order of passes."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

import stridedgpu as sg

BEGINNING: Final = """
import sys, types, warnings
from importlib import metadata

import numpy as np
import stridedgpu as sg

def version(name, installed={installed!r}):
    looked_at.append(name)
    if installed is None:
        raise metadata.PackageNotFoundError(name)
    return installed

looked_at, metadata.version = [], version
warnings.simplefilter("always")
photo = np.zeros((60, 40, 3), np.uint8)
boxes = dict(size=(8, 8), boxes=[(0, 0, 30, 30)], dims="HWC")
photos, batch = (sg.empty((1, 3, side, side), "uint8") for side in (60, 8))
"""

CALLS: Final = {
    "resize": "sg.resize(photo, (8, 8), dims='HWC')",
    "resize of an exact layout": "sg.resize(photo, (8, 8), dims='HWC', row_pitch_bytes=64)",
    "letterbox": "sg.letterbox(photo, 8, dims='HWC', interpolation='pillow-bicubic')",
    "gather_crops": "sg.gather_crops([photo], **boxes)",
    "plan_resize": "sg.plan_resize(photos, batch)",
    "plan_letterbox": "sg.plan_letterbox(photos, batch, interpolation='pillow-lanczos')",
    "Preprocess": "sg.Preprocess(resize=(8, 8))",
}

SILENT: Final = {
    "OpenCV's rules": "sg.letterbox(photo, 8, dims='HWC')",
    "a rule without passes": "sg.resize(photo, (8, 8), dims='HWC', interpolation='pillow-nearest')",
    "windows that are not resized": "sg.gather_crops([photo], [[0, 0]], (8, 8), dims='HWC')",
    "a step without a resize": "sg.Preprocess(crop=8)",
    "a stated order": "sg.resize(photo, (8, 8), dims='HWC', passes='horizontal')",
    "a step with a stated order": "sg.Preprocess(resize=(8, 8), passes='pillow-13')",
}


def said(installed: str | None, *lines: str) -> list[str]:
    """What a process says on standard error in which this Pillow, or none, is installed."""
    program = "\n".join([BEGINNING.format(installed=installed), *lines, "assert len(looked_at) <= 1, looked_at"])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


@pytest.mark.parametrize("name", CALLS)
def test_the_default_warns_where_the_installed_pillow_has_another_order(name: str) -> None:
    [line, *source] = said("12.3.0", CALLS[name], *CALLS.values())
    assert line.startswith("<string>:"), "the warning is at the line of the caller"
    assert "UserWarning: passes=None is passes='pillow-13', which takes the rows first" in line
    assert "Pillow 12.3.0 is installed, which never does: passes='horizontal' has its pixels" in line
    assert not any("Warning" in rest for rest in source), "one warning a process"


@pytest.mark.parametrize("installed", [None, "13.0.0", "14.1.0.post1", "unknown"])
def test_nothing_is_said_where_the_installed_pillow_has_the_same_order_or_there_is_none(installed: str | None) -> None:
    assert said(installed, *CALLS.values()) == []


def test_nothing_is_said_of_rules_without_an_order_and_pillow_is_not_looked_for() -> None:
    assert said("12.3.0", *SILENT.values(), "assert not looked_at") == []


def test_pillow_is_not_imported_and_an_imported_one_is_asked_first() -> None:
    assert said("13.0.0", CALLS["resize"], "assert 'PIL' not in sys.modules") == []
    there = "sys.modules['PIL'] = types.SimpleNamespace(__version__='9.5.0.post1')"
    [line, *_] = said("13.0.0", there, CALLS["resize"], "assert not looked_at")
    assert "Pillow 9.5.0.post1 is installed" in line


def test_the_default_order_is_that_of_pillow_13() -> None:
    rows = sg.empty((1, 3, 600, 60), "uint8")
    batch = sg.empty((1, 3, 20, 55), "uint8")
    explained = [sg.plan_resize(rows, batch, passes=passes).explain() for passes in (None, "pillow-13", "horizontal")]
    assert explained[0] == explained[1] != explained[2]
    assert repr(sg.Preprocess(resize=(8, 8))) == "Preprocess(resize=(8, 8))"
