"""Streams and events of the emulated device, with CuPy's names: work waits in them until somebody waits for it.

A real GPU works as early as it can, and a missing wait shows by chance. Here work is done as late as the order of
streams and events allows: a wait for a stream carries out its work, and of other streams only what that depends on.
Work that nobody ordered has not happened yet, and its results are bytes of poison.

The default stream is CUDA's legacy one: it and every stream made without `non_blocking=True` wait for each other
(https://docs.nvidia.com/cuda/cuda-runtime-api/stream-sync-behavior.html).
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Self

from stridedgpu.devices.interface import EMULATED
from stridedgpu.values.errors import DeviceError

LEGACY_STREAM: Final = 1
"""The default stream's handle in DLPack and the CUDA Array Interface, where 0 is ambiguous."""

_MOST_WAITING: Final = 256
"""Entries of one stream that wait at once: then the oldest is carried out, as a GPU's full queue blocks. Not measured:
it bounds the memory that waiting work keeps."""

_FIRST_HANDLE: Final = 0x1000
_lock: Final = threading.RLock()
_handles: Final = itertools.count(_FIRST_HANDLE, 0x10)
_threads: Final = threading.local()


class Event:
    """A point in a stream. The arguments of CuPy's events are taken and change nothing."""

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:  # noqa: ARG002
        self._stream: Stream | None = None
        self._place = 0

    def record(self, stream: object = None) -> None:
        """Mark the end of a stream's work so far; None is the current stream."""
        self._stream = stream_of(stream)
        self._place = self._stream.submitted

    def synchronize(self) -> None:
        """Wait until the work before the event is done, and raise its errors."""
        if self._stream is not None:
            self._stream.finish(self._place)

    @property
    def done(self) -> bool:
        """True if the work before the event has been carried out; asking does not carry it out."""
        return self._stream is None or self._stream.finished >= self._place


class Stream:
    """A queue of launches and copies. `null` is the default stream; `ptds` is CuPy's, and refused.

    `stream=` of every operation takes it. In a `with` block, or from `use` on, it is the current stream of its thread.

    >>> import stridedgpu as sg
    >>> with sg.emulated.Stream(non_blocking=True) as stream:
    ...     tensor = sg.zeros((2, 2), "uint8", device="cuda-emulated")
    >>> tensor.numpy().tolist()  # on the default stream, which waits for no other: too early
    [[253, 253], [253, 253]]
    >>> stream.synchronize()
    >>> tensor.numpy().tolist()
    [[0, 0], [0, 0]]
    """

    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False) -> None:
        if ptds:
            raise DeviceError(f"ptds=True: {EMULATED} has no default streams of single threads.")
        self.ptr = 0 if null else next(_handles)
        self.is_non_blocking = non_blocking and not null
        self.submitted = 0
        self.finished = 0
        self._work: deque[Callable[[], None]] = deque()
        self._before: list[Stream] = []
        if not null:
            _streams[self.ptr] = self

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.ptr

    def submit(self, work: Callable[[], None]) -> None:
        """Append work, which runs when somebody waits for it."""
        with _lock:
            for other in _ordered_before(self):
                self._append(partial(other.finish, other.submitted))
            self._append(work)
            _waiting.add(self)
            while len(self._work) > _MOST_WAITING:
                self.finish(self.finished + 1)

    def _append(self, work: Callable[[], None]) -> None:
        self._work.append(work)
        self.submitted += 1

    def finish(self, place: int) -> None:
        """Carry out the work up to a place; the error of the first that fails is raised."""
        with _lock:
            while self.finished < place:
                work = self._work.popleft()
                self.finished += 1
                if not self._work:
                    _waiting.discard(self)
                work()

    def synchronize(self) -> None:
        """Carry out all work of the stream and what it waits for, and raise its errors."""
        stream = stream_of(self)
        with _lock:
            for other in (*_ordered_before(stream), stream):
                other.finish(other.submitted)

    @property
    def done(self) -> bool:
        """True if no work is left; asking does not carry it out."""
        return stream_of(self).finished == stream_of(self).submitted

    def record(self, event: Event | None = None) -> Event:
        """Record an event, a new one unless one is given."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Make later work of this stream wait for an event; the host does not wait."""
        other = event._stream
        if other is not None and other is not self:
            stream_of(self).submit(partial(other.finish, event._place))

    def use(self) -> Self:
        """Make this the thread's current stream."""
        _threads.current = stream_of(self)
        return self

    def __enter__(self) -> Self:
        """Make this the thread's current stream for the length of a `with` block."""
        self._before.append(get_current_stream())
        return self.use()

    def __exit__(self, *failure: object) -> None:
        """Make the former stream current again; nothing is waited for."""
        _threads.current = self._before.pop()


_streams: Final[weakref.WeakValueDictionary[int, Stream]] = weakref.WeakValueDictionary()
"""The streams that programs made, by handle."""

_waiting: Final[set[Stream]] = set()
"""The streams with work to do: they live until it is done."""

_NULL: Final = Stream(null=True)


def _ordered_before(stream: Stream) -> list[Stream]:
    """The streams whose work so far comes before new work of this one: CUDA's rule of the legacy default stream."""
    if stream.is_non_blocking:
        return []
    if stream is _NULL:
        return [other for other in _waiting if other is not _NULL and not other.is_non_blocking]
    return [_NULL] if _NULL in _waiting else []


def get_current_stream() -> Stream:
    """The current stream of this thread."""
    current: Stream = getattr(_threads, "current", _NULL)
    return current


def stream_of(stream: object) -> Stream:
    """The stream of `stream=`: None for the current one, a stream, its integer handle, or anything that has one.

    Raises `DeviceError` for what is no stream of the emulated device.
    """
    if stream is None:
        return get_current_stream()
    if isinstance(stream, Stream):
        return stream if stream.ptr else _NULL
    handle = stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        _, handle = protocol() if callable(protocol) else protocol
    if isinstance(handle, int) and not isinstance(handle, bool):
        if handle in (0, LEGACY_STREAM):
            return _NULL
        with suppress(KeyError):
            return _streams[handle]
    raise DeviceError(
        f"stream={stream!r} is no stream of {EMULATED}; make one with sg.emulated.Stream(), or give its handle."
    )


def finish_everything() -> None:
    """Carry out the work of every stream."""
    with _lock:
        while _waiting:
            stream = next(iter(_waiting))
            stream.finish(stream.submitted)
