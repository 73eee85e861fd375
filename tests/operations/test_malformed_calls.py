"""A stretch of the malformed calls that `harness.malformed_calls` draws by number, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from harness.malformed_calls import BLOCK, Drawn, Scene, drawn, judged
from harness.spoiled_arguments import SabotageError

import stridedgpu as sg


def test_a_stretch_of_malformed_calls_ends_in_results_and_in_our_words(tmp_path):
    calls, file = 4 * BLOCK, tmp_path / "record"
    asked = ["-m", "harness.malformed_calls", "--first", "1000", "--calls", str(calls), "--record", str(file)]
    paths = str(Path(sg.__file__).parents[1]), str(Path(__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    ended = subprocess.run([sys.executable, *asked], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{calls} malformed calls, 0 wrong" in ended.stdout
    lines = list(map(json.loads, file.read_text(encoding="utf-8").splitlines()))
    assert [line["number"] for line in lines] == list(range(1000, 1000 + calls))
    assert any("Error: " in line["result"] for line in lines)


def test_a_call_is_the_same_whenever_it_is_drawn():
    for number in range(40):
        once, again = (drawn(number, 7) for _ in range(2))
        assert (once.operation, once.titles, *once.arguments) == (again.operation, again.titles, *again.arguments)
        pairs = zip(once.guards, again.guards, strict=True)
        assert all(first.memory.tobytes() == second.memory.tobytes() for first, second in pairs)


def outcome(function, guarded=None):
    """What is said of a function that takes an array, whose memory is compared."""
    scene = Scene(np.random.default_rng(0))
    src = scene.array((2, 3), "uint8") if guarded is None else guarded(scene)
    return judged(0, Drawn("a test's", function, {"src": src}, (), scene.guards)).wrong


def failing(error):
    def call(src):
        raise error

    return call


@pytest.mark.parametrize(
    "error, words",
    [
        (KeyError("src"), "KeyError: 'src' at"),
        (AssertionError("src"), "AssertionError: src"),
        (ValueError("src is wrong"), "another's words: ValueError: src is wrong"),
    ],
    ids=str,
)
def test_errors_of_others_are_wrong(error, words):
    assert words in outcome(failing(error))


def test_an_error_of_the_spoiled_object_may_pass():
    assert outcome(failing(SabotageError("its own"))) is None


def test_bytes_that_change_are_wrong():
    def written(src):
        src[0, 1] += 1

    def raised(src):
        written(src)
        sg.relayout(src, dtype="text")

    assert "changed, and the call returned" in outcome(written)
    assert "changed, and the call raised" in outcome(raised)
    assert "changed, and the call raised" in outcome(
        raised, lambda scene: scene.may_write(scene.array((2, 3), "uint8"))
    )
    assert outcome(written, lambda scene: scene.may_write(scene.array((2, 3), "uint8"))) is None
    beside = outcome(
        lambda src: np.add(src.base, 1, out=src.base), lambda scene: scene.may_write(scene.array((2, 3), "uint8"))
    )
    assert "byte 0 of" in beside


def test_an_error_that_names_nothing_is_wrong(monkeypatch):
    monkeypatch.setattr("harness.malformed_calls._is_own", lambda error: True)
    assert outcome(failing(sg.LayoutError("No."))) == "no argument is named: No."
