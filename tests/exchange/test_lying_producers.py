"""Producers that lie about their memory, drawn field by field, each in a process of its own: a refusal, and no crash.

What a lie names is not read: whether an address that could be true is memory cannot be known. CuPy's lies are in
`tests/gpu`.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from harness.lying_producers import (
    Liar,
    array_interface,
    buffer_lies,
    dlpack_lies,
    in_a_process_of_its_own,
    interface_lies,
    lying_buffer,
    what_becomes_of,
)
from harness.profiles import examples
from hypothesis import HealthCheck, given, settings, strategies as st

import stridedgpu as sg

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each lie is told in a forked process")

TORCH, JAX = (pytest.param(name, marks=[pytest.mark.interop, pytest.mark.slow]) for name in ("torch", "jax"))


def matrix():
    return np.arange(6.0, dtype=np.float32).reshape(2, 3)


def array_of(library):
    if library == "numpy":
        return matrix()
    if library == "torch":
        return pytest.importorskip("torch").from_numpy(matrix())
    return pytest.importorskip("jax.numpy", exc_type=ImportError).asarray(matrix())


@pytest.mark.parametrize("library", ["numpy", TORCH, JAX])
@settings(max_examples=examples(50))
@given(lies=dlpack_lies, device=st.just((1, 0)) | st.tuples(st.integers(-1, 20), st.integers(-1, 3)))
def test_a_capsule_is_refused_or_could_be_true(library, lies, device):
    array = array_of(library)
    in_a_process_of_its_own(lambda: what_becomes_of(Liar(array, lies, device), copy=False))


@pytest.mark.parametrize("name", ["__array_interface__", "__cuda_array_interface__"])
@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lies=interface_lies)
def test_an_array_interface_is_refused_or_could_be_true(gpus, name, lies):
    values = matrix()
    producer = array_interface(name, {**values.__array_interface__, **lies}, values)
    in_a_process_of_its_own(lambda: what_becomes_of(producer, copy=False))


@settings(max_examples=examples(50))
@given(lies=buffer_lies)
def test_a_buffer_is_refused_or_could_be_true(lies):
    values = matrix()

    def told():
        what_becomes_of(lying_buffer(values, lies), copy=False)
        what_becomes_of(lying_buffer(values, lies), sg.frombuffer, sizes=(2, 3), dtype="float32")

    in_a_process_of_its_own(told)
