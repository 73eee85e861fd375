"""Environment variables, which every call reads anew; and the policies of blocks, which are for their own calls."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from stridedgpu.devices.cpu import policy as cpu
from stridedgpu.devices.cuda import policy as cuda
from stridedgpu.devices.launch_cache import settings
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


def test_the_policies_of_blocks_are_for_the_calls_inside():
    """As of `preprocess --compare`, whose other threads make the next images meanwhile."""
    usual, before = (cpu.policy(), cuda.policy()), settings()
    other_cpu = usual[0]._replace(sharing=usual[0].sharing._replace(spins=77))
    other_cuda = replace(usual[1], rows=replace(usual[1].rows, most_chunks=2))
    with ThreadPoolExecutor(1) as pool, cpu.using(other_cpu), cuda.using(other_cuda):
        assert (cpu.policy(), cuda.policy()) == (other_cpu, other_cuda)
        assert settings() != before
        assert pool.submit(lambda: (cpu.policy(), cuda.policy())).result() == usual
        assert pool.submit(settings).result() == before
    assert (cpu.policy(), cuda.policy()) == usual
    assert settings() == before


def test_a_block_inside_another_keeps_what_it_does_not_choose():
    usual = cpu.policy()
    other_cpu = usual._replace(sharing=usual.sharing._replace(spins=77))
    other_cuda = replace(cuda.policy(), rows=replace(cuda.policy().rows, most_chunks=2))
    with cpu.using(other_cpu):
        with cuda.using(other_cuda), cpu.using(usual):
            assert (cpu.policy(), cuda.policy()) == (usual, other_cuda)
        assert cpu.policy() == other_cpu
