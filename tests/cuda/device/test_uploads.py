"""How an upload is cut: every byte once, in groups that fit a page-locked piece; and the order of the ring's pieces."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from harness.profiles import examples
from hypothesis import given, settings, strategies as st

from stridedgpu.problems.pitched_copy import Runs

MOST = 1024


@pytest.fixture(scope="module")
def modules():
    """The ring and the uploads, imported over the stand-in."""
    from harness.fake_gpus import two_gpus

    with pytest.MonkeyPatch.context() as monkeypatch, two_gpus(monkeypatch) as fake:
        runtime = "stridedgpu.devices.cuda.runtime"
        yield importlib.import_module(f"{runtime}.transfer"), fake


@st.composite
def drawn_runs(draw):
    """Runs that do not touch each other, on either side."""
    width, height = draw(st.integers(1, 3000)), draw(st.integers(1, 12))
    pitches = [width + draw(st.integers(0, 90)) for _ in range(2)]
    outer, ends = [], [pitch * height for pitch in pitches]
    for _ in range(draw(st.integers(0, 2))):
        size = draw(st.integers(1, 4))
        steps = [end + draw(st.integers(0, 50)) for end in ends]
        outer.insert(0, (size, *steps))
        ends = [step * size for step in steps]
    return Runs(width, height, *pitches, tuple(outer)), ends


@settings(max_examples=examples(40))
@given(drawn_runs())
def test_every_byte_is_sent_once_and_a_group_fits_its_piece(modules, drawn):
    transfer, _ = modules
    runs, (read_end, written_end) = drawn
    source = np.random.default_rng(0).integers(1, 255, read_end, np.uint8)
    expected, target = np.zeros(written_end, np.uint8), np.zeros(written_end, np.uint8)
    for read, written in runs.places:
        for row in range(runs.height):
            first, there = read + row * runs.source_pitch, written + row * runs.target_pitch
            expected[there : there + runs.width] = source[first : first + runs.width]
    sent = 0
    for group in transfer._groups(runs, MOST):
        assert sum(transfer._stepped(one.width * one.height) for one in group) <= MOST
        for one in group:
            for row in range(one.height):
                first, there = one.read + row * one.source_pitch, one.written + row * one.target_pitch
                target[there : there + one.width] = source[first : first + one.width]
                sent += one.width
    assert sent == runs.width * runs.height * runs.copies
    assert (target == expected).all()


def test_pieces_are_taken_in_the_order_in_which_they_were_sent(modules, monkeypatch):
    transfer, fake = modules
    queued = set()
    monkeypatch.setattr(transfer.cupy.cuda.runtime, "eventQuery", lambda event: 600 if event in queued else 0)
    ring = transfer.PinnedRing(3, 64)

    def sent(nbytes):
        piece = ring.take(nbytes)
        piece.sent(0)
        queued.add(piece.event)
        ring.give(piece)
        return piece

    pieces = [sent(64) for _ in range(3)]
    assert len(set(map(id, pieces))) == 3, "each has a copy that is queued"
    fake.calls.clear()
    assert sent(10) is pieces[0]
    assert fake.named("eventSynchronize") == [("eventSynchronize", pieces[0].event)]
    larger = sent(65)
    assert larger is not pieces[1]
    assert larger.nbytes == 128
    queued.clear()
    fake.calls.clear()
    assert [sent(64) for _ in range(3)] == [pieces[2], pieces[0], larger]
    assert fake.named("alloc_pinned_memory") == []
