"""Steps of lanes along a run contiguous on both sides: elements of a step, steps in flight, and the ends of vectors.

The counterpart of `kernels/relayout/run_steps.cuh`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stridedgpu.devices.cuda.planning.gpu import GpuProperties
from stridedgpu.devices.cuda.planning.policy import policy
from stridedgpu.values.strides import round_up

__all__ = ["RunSteps"]


@dataclass(frozen=True, slots=True)
class RunSteps:
    """The vectors of one step: `load_length` and `store_length` are in elements, item sizes in bytes."""

    load_length: int
    store_length: int
    source_itemsize: int
    target_itemsize: int

    @property
    def length(self) -> int:
        """Elements of one lane and step: those of the longer vector."""
        return max(self.load_length, self.store_length)

    @property
    def wider_bytes(self) -> int:
        """Bytes of the wider access, load or store."""
        return max(self.load_length * self.source_itemsize, self.store_length * self.target_itemsize)

    def under_way(self, gpu: GpuProperties) -> int:
        """Steps of a thread in flight: enough bytes to hide latency, not too many registers."""
        wanted = max(policy().run_steps.least_bytes, 2 * gpu.bytes_in_flight // policy().run_steps.resident_threads)
        loads = self.length // self.load_length
        most = min(
            wanted // (self.length * self.source_itemsize),
            policy().run_steps.most_loads // loads,
            policy().run_steps.most_stored_bytes // (self.length * self.target_itemsize),
        )
        return 1 << max(most.bit_length() - 1, 0)

    def whole_counts(self, count: int, filled: int, *, may_read_on: bool, may_write_on: bool) -> tuple[int, int]:
        """The elements of a run that whole vectors may load, and those that whole vectors may store.

        The run has `count` elements; `filled` are written, the last ones as zeros. The results exceed these if the last
        vector may reach past the end. Elements from the second result to `filled` move one by one.
        """
        loaded = _whole(count, self.load_length, reach_past=may_read_on)
        if loaded < count:
            return loaded, _whole(loaded, self.store_length, reach_past=False)
        return loaded, _whole(filled, self.store_length, reach_past=may_write_on)

    def bytes_past_end(self, count: int, filled: int) -> tuple[int, int]:
        """The bytes from the last element to the end of a whole last vector, for loads and for stores of `filled`."""
        loaded = _whole(count, self.load_length, reach_past=True) - count
        stored = _whole(filled, self.store_length, reach_past=True) - count
        return loaded * self.source_itemsize, stored * self.target_itemsize


def _whole(count: int, length: int, *, reach_past: bool) -> int:
    """`count` rounded up to whole vectors if they may reach past the end, else down."""
    return round_up(count, length) if reach_past else count // length * length
