"""Environment variables that every call reads anew: what they say follows every way to change them."""

from __future__ import annotations

import os

import pytest

from stridedgpu.devices.settings import variable

NAME = "STRIDEDGPU_OF_A_TEST"


@pytest.mark.parametrize(
    "value", ["cpu", "", os.fsdecode("größer".encode()), None], ids=["word", "empty", "umlaut", "none"]
)
def test_a_variable_is_what_it_is_now(monkeypatch, value):
    read = variable(NAME)
    assert read() is None
    if value is not None:
        monkeypatch.setenv(NAME, value)
    assert read() == os.environ.get(NAME) == value
    monkeypatch.delenv(NAME, raising=False)
    assert read() is None


def test_a_mapping_in_the_place_of_the_environment_is_read(monkeypatch):
    read = variable(NAME)
    monkeypatch.setattr(os, "environ", {NAME: "cuda"})
    assert read() == "cuda"
