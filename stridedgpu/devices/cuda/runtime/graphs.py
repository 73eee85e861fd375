"""A CUDA graph of kernels that read records, which are written anew between replays.

    captured    each kernel reads memory of the graph's own, with room for more records than it has
    rewritten   launches with other arguments are compared with the graph's, and their records are kept for the replay
    replayed    the records that differ are copied there in the order of the stream, and the graph is launched

No node of the graph copies the records: its source would be page-locked memory, which the host could write again only
after it has waited for the replay before. Launches that differ from the graph's in more than records, such as those of
a resize with another tile, run without it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import cupy
import numpy as np
from numpy.typing import NDArray

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.interface import Located
from stridedgpu.values.strides import round_up

from .kernels import PreparedKernel
from .streams import check_not_capturing, current_on, relaxed_capture, wait_for_stream
from .transfer import Records, device_number

_ROOM: Final = 2
"""How many times its records a kernel has memory for: other windows of a resize may have more taps."""

_ROOM_BYTES: Final = 4096
"""What that memory is a multiple of."""

_Launch = tuple[PreparedKernel, NDArray[np.uint8], Located]
"""A kernel, its records, and the target."""

_ADDRESSES: Final = 3
"""The words of a record that are addresses in its source."""


@dataclass(slots=True, eq=False)
class _Node:
    """A kernel of the graph, the memory that it reads, and the records that belong there."""

    kernel: PreparedKernel
    memory: Any
    contents: NDArray[np.uint8]
    step: int
    is_written: bool = False
    """Whether the copy of the records has been queued."""

    def takes(self, kernel: PreparedKernel, contents: NDArray[np.uint8]) -> bool:
        """Whether a launch differs in its records alone, and there is room for them."""
        is_same = kernel is self.kernel or kernel.launch == self.kernel.launch
        return is_same and contents.nbytes <= self.memory.size


class RecordedGraph:
    """The launches of a call on a device, replayed with the records of other calls that write the same target."""

    def __init__(self, device: str, records: Records, run: Callable[[], object]) -> None:
        """Capture what `run` launches; it has run on the current stream before, so that its kernels are compiled.

        Raises what `run` raises: `DeviceError` if it allocates or copies, which no graph includes.
        """
        self._name = device
        self._number = device_number(device)
        self._records = records
        self._nodes: list[_Node] = []
        self._apart: list[_Launch] = []
        """The launches of the last call, if they are not the graph's."""
        with current_on(self._number, None) as handle:
            self._last: tuple[Any, int] = cupy.cuda.get_current_stream(), handle
        with cupy.cuda.Device(self._number), cupy.cuda.Stream(non_blocking=True) as stream:
            stream.begin_capture()
            try:
                with records.recorded_by(self._captured):
                    run()
            except BaseException:
                with suppress(cupy.cuda.runtime.CUDARuntimeError):
                    stream.end_capture()
                raise
            self._graph: Any = stream.end_capture()

    @property
    def has_records(self) -> bool:
        """Whether a later call may have other arguments; without records, launches hold their addresses."""
        return bool(self._nodes)

    def _captured(
        self, kernel: PreparedKernel, contents: NDArray[np.uint8], step: int, target: Located, stream: object
    ) -> None:
        """Capture the kernel over memory of its own."""
        room = round_up(_ROOM * contents.nbytes, _ROOM_BYTES)
        with relaxed_capture():
            memory = cupy.cuda.Memory(room)
        kernel(Buffer(memory.ptr, room, owner=memory, device=self._name), 0, *target, stream)
        self._nodes.append(_Node(kernel, memory, contents.copy(), step))

    def rewrite(self, run: Callable[[], object]) -> None:
        """Keep what `run` launches for the next replay; nothing is launched. Raises what `run` raises."""
        found: list[_Launch] = []
        with self._records.recorded_by(
            lambda kernel, contents, _, target, __: found.append((kernel, contents, target))
        ):
            run()
        if len(found) != len(self._nodes) or not all(
            node.takes(kernel, contents) for node, (kernel, contents, _) in zip(self._nodes, found, strict=True)
        ):
            self._apart = found
            return
        self._apart = []
        for node, (_, contents, _) in zip(self._nodes, found, strict=True):
            if not np.array_equal(node.contents, contents):
                node.contents, node.is_written = contents.copy(), False

    def move(self, distances: NDArray[np.int64]) -> bool:
        """Have each sample read as many bytes behind where it did; False, and nothing changes, for several launches.

        The samples' images have the same layouts and alignments there.
        """
        if self._apart or len(self._nodes) != 1:
            return False
        (node,) = self._nodes
        if distances.any():
            node.contents, node.is_written = node.contents.copy(), False
            records = node.contents[: len(distances) * node.step].view(np.int64).reshape(len(distances), -1)
            records[:, :_ADDRESSES] += distances[:, None]
        return True

    def replay(self) -> None:
        """Launch the graph on the current stream, behind the replay before. Raises `DeviceError` under a capture."""
        with current_on(self._number, None) as handle:
            check_not_capturing(handle, "A replay with records")
            _, before = self._last
            if before != handle:
                wait_for_stream(self._number, handle, before)
                self._last = cupy.cuda.get_current_stream(), handle  # whose stream ends with the object
            for kernel, contents, target in self._apart:
                kernel(self._records.sent(contents, None), 0, *target, None)
            if self._apart:
                return
            for node in self._nodes:
                if not node.is_written:
                    self._records.write(node.memory.ptr, node.contents, handle)
                    node.is_written = True
            cupy.cuda.runtime.graphLaunch(self._graph.graphExec, handle)
