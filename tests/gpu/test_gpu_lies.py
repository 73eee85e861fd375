"""On a GPU: arrays of CuPy that lie about their memory, told to a process of its own: a refusal, and no crash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from harness.gpu_at_hand import PRELUDE
from harness.lying_producers import COULD_BE_TRUE, REFUSED, dlpack_lies, interface_lies
from harness.profiles import examples
from hypothesis import HealthCheck, example, given, settings, strategies as st

import stridedgpu as sg
from stridedgpu.devices.cuda.status import cuda_status

STATUS = cuda_status()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(STATUS.device_count == 0, reason=str(STATUS.reason))]

CUDA = (2, 0)


class Listener:
    """A process that is told lies, until one ends it; the next is then told to another."""

    def __init__(self):
        self.process = self.started()

    def started(self):
        folders = (Path(sg.__file__).parents[1], Path(__file__).parents[1])
        return subprocess.Popen(
            [sys.executable, "-c", f"{PRELUDE}from harness.lying_producers import listen\nlisten()"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def answer(self, *lie):
        print(repr(lie), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        if not answer:
            self.close()
            self.process = self.started()
        return answer

    def close(self):
        self.process.communicate()


@pytest.fixture
def listener():
    made = Listener()
    yield made
    made.close()


told_to_a_listener = settings(
    max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


def test_the_truth_is_believed(listener):
    for protocol in ("DLPack", "CUDA Array Interface"):
        assert listener.answer(protocol, {}, CUDA) == COULD_BE_TRUE


@told_to_a_listener
@given(lies=dlpack_lies, device=st.just(CUDA) | st.tuples(st.integers(-1, 20), st.integers(-1, 3)))
@example(lies={"data": 0}, device=CUDA)
@example(lies={"byte_offset": 2**64 - 8}, device=CUDA)
@example(lies={}, device=(1, 0))
def test_a_capsule_of_cupy_is_refused_or_could_be_true(listener, lies, device):
    assert listener.answer("DLPack", lies, device) in (REFUSED, COULD_BE_TRUE)


@told_to_a_listener
@given(lies=interface_lies)
@example(lies={"data": (2**63, False)})
@example(lies={"data": (2**64, False)})
@example(lies={"data": (-1, False)})
def test_an_array_interface_of_cupy_is_refused_or_could_be_true(listener, lies):
    assert listener.answer("CUDA Array Interface", lies, CUDA) in (REFUSED, COULD_BE_TRUE)
