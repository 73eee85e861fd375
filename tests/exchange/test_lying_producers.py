"""Producers that lie about their memory, drawn field by field, each in a process of its own: a refusal, and no crash.

What a lie names is not read: whether an address that could be true is memory cannot be known.
"""

from __future__ import annotations

import os
import traceback

import numpy as np
import pytest
from harness.dlpack_structures import managed
from harness.profiles import examples
from hypothesis import HealthCheck, given, settings, strategies as st

import stridedgpu as sg

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each lie is told in a forked process")

TORCH, JAX = (pytest.param(name, marks=[pytest.mark.interop, pytest.mark.slow]) for name in ("torch", "jax"))

EDGES = (0, 1, -1, 3, 2**31 - 1, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63))
WORDS = (0, 8, 2**63, 2**64 - 8, 2**64 - 1)


def in_a_process_of_its_own(work):
    """Do the work in a fork; what it raises, or what ends it, fails here."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - the child ends here
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the process ended with {os.waitstatus_to_exitcode(status)}"


def is_refused_or_could_be_true(producer):
    """Take the producer's memory and, at the end, let it go."""
    try:
        tensor = sg.asarray(producer, copy=False)
    except sg.StridedGpuError:
        return
    start, stop = tensor.buffer.address, tensor.buffer.address + tensor.buffer.nbytes
    # A failed assertion would print the tensor, whose memory need not be there.
    if not 0 <= start <= stop <= 2**64 or min(tensor.layout.sizes, default=0) < 0:
        raise ValueError(f"{tensor.layout} from {start:#x} to {stop:#x} cannot be true")


def some(**fields):
    """Each field with a lie, or without."""
    return st.fixed_dictionaries({}, optional=fields)


edges = st.lists(st.sampled_from(EDGES), min_size=2, max_size=2)
dlpack_lies = some(
    ndim=st.sampled_from((-(2**31), -1, 0, 1, 2, 65, 2**31 - 1)),
    shape=edges | st.none(),
    strides=edges | st.none(),
    data=st.sampled_from(WORDS),
    byte_offset=st.sampled_from(WORDS),
    device=st.lists(st.integers(-1, 20), min_size=2, max_size=2),
    code=st.integers(0, 20),
    bits=st.sampled_from((0, 1, 4, 7, 8, 32, 64, 255)),
    lanes=st.sampled_from((0, 1, 2, 65535)),
)


def array_of(library):
    values = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    if library == "numpy":
        return values
    if library == "torch":
        return pytest.importorskip("torch").from_numpy(values)
    return pytest.importorskip("jax.numpy", exc_type=ImportError).asarray(values)


class Liar:
    """An array whose capsules have other fields, and which may name another device."""

    def __init__(self, array, lies, device):
        self.array, self.lies, self.device = array, lies, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **request):
        capsule = self.array.__dlpack__(**{name: value for name, value in request.items() if name == "max_version"})
        tensor = managed(capsule).tensor
        for name, lie in self.lies.items():
            if isinstance(lie, list):
                for place, entry in enumerate(lie[: max(tensor.ndim, 0)] if tensor.ndim <= 2 else lie):
                    if getattr(tensor, name):
                        getattr(tensor, name)[place] = entry
            else:
                setattr(tensor, name, lie)
        return capsule


@pytest.mark.parametrize("library", ["numpy", TORCH, JAX])
@settings(max_examples=examples(50))
@given(lies=dlpack_lies, device=st.just((1, 0)) | st.tuples(st.integers(-1, 20), st.integers(-1, 3)))
def test_a_capsule_is_refused_or_could_be_true(library, lies, device):
    array = array_of(library)
    in_a_process_of_its_own(lambda: is_refused_or_could_be_true(Liar(array, lies, device)))


interface_lies = some(
    shape=st.lists(st.sampled_from(EDGES), max_size=3).map(tuple),
    strides=st.lists(st.sampled_from(EDGES), max_size=3).map(tuple),
    data=st.tuples(st.sampled_from((*WORDS, -1, 2**64)), st.booleans()),
    typestr=st.sampled_from(("<f4", ">f4", "<f8", "|b1", "|O8", "<V0", "nonsense", "")),
    version=st.integers(-1, 9),
)


@pytest.mark.parametrize("name", ["__array_interface__", "__cuda_array_interface__"])
@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lies=interface_lies)
def test_an_array_interface_is_refused_or_could_be_true(gpus, name, lies):
    values = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    told = {**values.__array_interface__, **lies}
    producer = type("Liar", (), {name: told, "values": values})()
    in_a_process_of_its_own(lambda: is_refused_or_could_be_true(producer))
