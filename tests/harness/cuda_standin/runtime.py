"""What CUDA's runtime and driver do, as far as CuPy and this library call them: devices, memory, streams and graphs.

Every function has the name of CuPy's, and its arguments. Work that CUDA queues is queued; what CUDA does
at once (parameters and pageable sources are copied, `cudaFree` and downloads to pageable memory wait) is done at once.
"""

from __future__ import annotations

import ctypes
import inspect
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from .kernels import Launchable
from .memory import Arena
from .streams import LEGACY, Event, Stream, Task, Work, finish

MEMORY_BYTES = 64 << 30
PROPERTIES = {
    "name": b"NVIDIA H100 (stand-in)",
    "major": 9,
    "minor": 0,
    "multiProcessorCount": 132,
    "sharedMemPerBlockOptin": 232448,
    "totalGlobalMem": MEMORY_BYTES,
    "l2CacheSize": 1 << 16,
}
_ATTRIBUTES = {75: 9, 76: 0, 16: 132, 97: 232448, 10: 32, 1: 1024, 39: 2048, 115: 1}
"""By `cudaDeviceAttr`: compute capability, multiprocessors, shared memory, warp, threads, memory pools."""

_GLOBAL, _RELAXED = 0, 2
"""Modes of captures, and of threads."""

_PER_THREAD = 2
"""The handle of each thread's own default stream."""

_NO_DEVICE = -2
"""What CUDA 13 says of pageable memory: `cudaInvalidDeviceId`."""

_TO_DEVICE, _TO_HOST = 1, 2
_ERROR_INVALID_VALUE, _ERROR_MEMORY, _ERROR_NOT_READY, _ERROR_CAPTURE, _ERROR_CAPTURE_IMPLICIT = 1, 2, 600, 900, 906
_ERROR_CAPTURE_INVALIDATED, _ERROR_CAPTURE_ISOLATION = 901, 905


class StandIn:
    """CUDA with `devices` devices. `functions` has what replaces CuPy's, by name.

    A GPU does its work at some time between the call that queues it and the one that waits for it. Both extremes are
    here: work is late, or with `is_eager` done before the call returns.
    """

    def __init__(
        self,
        devices: int,
        error: Callable[[int], Exception],
        attributes: Callable[..., object],
        driver_error: Callable[[str], Exception],
        *,
        is_eager: bool = False,
    ) -> None:
        self._error, self._attributes, self._driver_error = error, attributes, driver_error
        self.is_eager = is_eager
        self._arenas = [Arena(MEMORY_BYTES) for _ in range(devices)]
        self._current = threading.local()
        self._lock = threading.RLock()
        self._numbers = itertools.count(0x1000)
        self._legacy = [Stream(number) for number in range(devices)]
        self._of_thread = threading.local()
        self._streams: dict[int, Stream] = {}
        self._events: dict[int, Event] = {}
        self._graphs: dict[int, list[Task]] = {}
        self._pinned: dict[int, Any] = {}
        self._modules: dict[int, list[tuple[str, str]]] = {}
        self._kernels: dict[int, Launchable] = {}
        self._function_attributes: dict[tuple[int, int], int] = {}
        self.images: dict[bytes, tuple[str, str]] = {}
        """Source and name of kernels whose machine code the package brings."""
        self.launches = 0
        self._launched: set[str] = set()

    def functions(self) -> dict[str, Callable[..., Any]]:
        """What replaces CuPy's functions: the methods that have no underscore in front, one at a time."""
        names = {name for name, kind in vars(type(self)).items() if inspect.isfunction(kind) and name[0] != "_"}
        return {name: self._locked(getattr(self, name)) for name in names - {"functions", "compiling"}}

    def _locked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            with self._lock:
                return function(*given)

        return call

    @contextmanager
    def compiling(self, source: str, name: str) -> Iterator[None]:
        """Take the modules that this thread loads for a kernel; other threads may compile others meanwhile."""
        self._of_thread.compiling = source, name
        try:
            yield
        finally:
            self._of_thread.compiling = None

    @property
    def kernels_run(self) -> int:
        """Instantiations that were launched."""
        return len(self._launched)

    # Devices

    def getDevice(self) -> int:
        return getattr(self._current, "number", 0)

    def setDevice(self, number: int) -> None:
        self._current.number = number

    def getDeviceCount(self) -> int:
        return len(self._arenas)

    def getDeviceProperties(self, number: int) -> dict[str, Any]:
        return dict(PROPERTIES)

    def deviceGetAttribute(self, attribute: int, number: int) -> int:
        return _ATTRIBUTES[attribute]

    def deviceSynchronize(self) -> None:
        self._refuse_while_capturing()
        for stream in self._streams_of(self.getDevice()):
            stream.finish()

    def profilerStart(self) -> None:
        pass

    def profilerStop(self) -> None:
        pass

    def deviceCanAccessPeer(self, one: int, other: int) -> int:
        return int(one != other)

    def _deviceEnsurePeerAccess(self, number: int) -> None:
        pass

    def deviceEnablePeerAccess(self, number: int) -> None:
        pass

    def deviceGetPCIBusId(self, number: int) -> str:
        return f"0000:{number:02x}:00.0"

    def driverGetVersion(self) -> int:
        return 13000

    def runtimeGetVersion(self) -> int:
        return 13000

    def ensure_context(self) -> None:
        pass

    def ctxGetCurrent(self) -> int:
        return 1

    def ctxGetDevice(self) -> int:
        return self.getDevice()

    def exchange_capture_mode(self, mode: Any) -> int:
        """`cuThreadExchangeStreamCaptureMode`, whose argument is a reference to an int."""
        number = ctypes.cast(mode, ctypes.POINTER(ctypes.c_int)).contents
        number.value, self._current.mode = getattr(self._current, "mode", _GLOBAL), number.value
        return 0

    def check_status(self, status: int) -> None:
        if status:
            raise self._error(status)

    # Memory

    def malloc(self, nbytes: int) -> int:
        self._refuse_unsafe()
        self._refuse_while_capturing()
        address = self._arenas[self.getDevice()].allocate(nbytes)
        if address is None:
            raise self._error(_ERROR_MEMORY)
        return address

    def mallocAsync(self, nbytes: int, stream: int) -> int:
        return self.malloc(nbytes)

    def free(self, address: int) -> None:
        if address:
            self._refuse_unsafe()
            number = self._device_of(address)
            assert number is not None, f"{address:#x} is no device memory"
            for stream in self._streams_of(number):
                stream.finish()
            self._arenas[number].free(address)

    def freeAsync(self, address: int, stream: int) -> None:
        number = self._device_of(address)
        assert number is not None
        self._queued(self._stream(stream), lambda: self._arenas[number].free(address))

    def memGetInfo(self) -> tuple[int, int]:
        arena = self._arenas[self.getDevice()]
        return arena.left, arena.total

    def hostAlloc(self, nbytes: int, flags: int) -> int:
        self._refuse_unsafe()
        memory = ctypes.create_string_buffer(nbytes + 4096)
        address = ctypes.addressof(memory)
        address += -address % 4096
        self._pinned[address] = (memory, nbytes)
        return address

    def freeHost(self, address: int) -> None:
        self._refuse_unsafe()
        for number in range(len(self._arenas)):
            for stream in self._streams_of(number):
                stream.finish()
        del self._pinned[address]

    def pointerGetAttributes(self, address: int) -> object:
        number = self._device_of(address)
        if number is None:
            is_pinned = self._is_pinned(address)
            return self._attributes(0 if is_pinned else _NO_DEVICE, 0, address, int(is_pinned))
        return self._attributes(number, address, 0, 2)

    def pointerGetMemoryType(self, address: int) -> int:
        return 2 if self._device_of(address) is not None else int(self._is_pinned(address))

    def memcpy(self, target: int, source: int, nbytes: int, kind: int) -> None:
        self._refuse_while_capturing()
        finish(self._legacy_stream().add(self._copy(target, source, nbytes), self._before_legacy()))

    def memcpyAsync(self, target: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        self.memcpy2DAsync(target, nbytes, source, nbytes, nbytes, 1, kind, stream)

    def memcpy2DAsync(
        self,
        target: int,
        target_pitch: int,
        source: int,
        source_pitch: int,
        width: int,
        height: int,
        kind: int,
        stream: int,
    ) -> None:
        if width > min(target_pitch, source_pitch):
            raise self._error(_ERROR_INVALID_VALUE)
        if kind == _TO_DEVICE and not self._is_pinned(source):
            staged = ctypes.create_string_buffer(width * height)
            for row in range(height):
                ctypes.memmove(ctypes.addressof(staged) + row * width, source + row * source_pitch, width)
            source, source_pitch = ctypes.addressof(staged), width
        else:
            staged = None

        def copy(_kept: object = staged) -> None:
            for row in range(height):
                ctypes.memmove(target + row * target_pitch, source + row * source_pitch, width)

        work = self._add(stream, copy)
        if kind == _TO_HOST and not self._is_pinned(target):
            finish(work)

    def memcpyPeerAsync(self, target: int, there: int, source: int, here: int, nbytes: int, stream: int) -> None:
        self._add(stream, self._copy(target, source, nbytes))

    def memset(self, target: int, value: int, nbytes: int) -> None:
        self.memsetAsync(target, value, nbytes, LEGACY)

    def memsetAsync(self, target: int, value: int, nbytes: int, stream: int) -> None:
        self._add(stream, lambda: ctypes.memset(target, value, nbytes) and None)

    # Streams and events

    def streamCreate(self) -> int:
        return self.streamCreateWithFlags(0)

    def streamCreateWithFlags(self, flags: int) -> int:
        handle = next(self._numbers)
        self._streams[handle] = Stream(self.getDevice(), is_apart=bool(flags & 1))
        return handle

    def streamCreateWithPriority(self, flags: int, priority: int) -> int:
        return self.streamCreateWithFlags(flags)

    def streamDestroy(self, handle: int) -> None:
        self._streams.pop(handle).finish()

    def streamGetFlags(self, handle: int) -> int:
        return int(self._stream(handle).is_apart)

    def streamGetPriority(self, handle: int) -> int:
        return 0

    def streamSynchronize(self, handle: int) -> None:
        stream = self._stream(handle)
        if stream.captured is not None:
            raise self._error(_ERROR_CAPTURE)
        if stream is self._legacy_stream():
            self._refuse_while_capturing()
            for work in self._before_legacy():
                finish(work)
        stream.finish()

    def streamQuery(self, handle: int) -> int:
        """As `eventQuery`."""
        stream = self._stream(handle)
        if not stream.queue:
            return 0
        stream.finish()
        return _ERROR_NOT_READY

    def streamWaitEvent(self, handle: int, event: int) -> None:
        """A wait across the border of a capture spoils it; of streams that join one there is nothing here."""
        recorded, stream = self._events[event].recorded, self._stream(handle)
        if recorded is None:
            return
        if recorded.is_captured != (stream.captured is not None):
            (recorded.stream if recorded.is_captured else stream).is_invalid = True
            raise self._error(_ERROR_CAPTURE_ISOLATION)
        if not recorded.is_done:
            self._add(handle, _nothing, (recorded,))

    def streamIsCapturing(self, handle: int) -> int:
        if handle in (LEGACY, 1):
            self._refuse_while_capturing(_ERROR_CAPTURE_IMPLICIT)
        return int(self._stream(handle).captured is not None)

    def streamBeginCapture(self, handle: int, mode: int = _RELAXED) -> None:
        """CuPy's own begin in relaxed mode: what its binaries call has no argument for another."""
        stream = self._stream(handle)
        stream.captured, stream.capture = [], (threading.get_ident(), mode)

    def streamEndCapture(self, handle: int) -> int:
        stream = self._stream(handle)
        assert stream.captured is not None
        graph = next(self._numbers)
        self._graphs[graph], stream.captured = stream.captured, None
        if stream.is_invalid:
            stream.is_invalid = False
            raise self._error(_ERROR_CAPTURE_INVALIDATED)
        return graph

    def graphInstantiate(self, graph: int) -> int:
        made = next(self._numbers)
        self._graphs[made] = list(self._graphs[graph])
        return made

    def graphLaunch(self, graph: int, stream: int) -> None:
        for task in self._graphs[graph]:
            self._add(stream, task, as_device=False)

    def graphUpload(self, graph: int, stream: int) -> None:
        pass

    def graphDestroy(self, graph: int) -> None:
        self._graphs.pop(graph, None)

    def graphExecDestroy(self, graph: int) -> None:
        self.graphDestroy(graph)

    def eventCreate(self) -> int:
        return self.eventCreateWithFlags(0)

    def eventCreateWithFlags(self, flags: int) -> int:
        handle = next(self._numbers)
        self._events[handle] = Event()
        return handle

    def eventDestroy(self, handle: int) -> None:
        self._events.pop(handle, None)

    def eventRecord(self, handle: int, stream: int) -> None:
        event = self._events[handle]
        event.recorded, event.was_asked = self._add(stream, _nothing), False

    def eventSynchronize(self, handle: int) -> None:
        recorded = self._events[handle].recorded
        if recorded is not None:
            finish(recorded)

    def eventQuery(self, handle: int) -> int:
        """The status, which CuPy returns and does not raise.

        It is "not ready" at the first query, so that nobody gets by without waiting, and success at the second.
        """
        self._refuse_unsafe()
        event = self._events[handle]
        if event.recorded is None or event.recorded.is_done:
            return 0
        if event.was_asked:
            finish(event.recorded)
            return 0
        event.was_asked = True
        return _ERROR_NOT_READY

    def eventElapsedTime(self, start: int, end: int) -> float:
        return 1.0

    # Modules and launches

    def moduleLoadData(self, image: bytes) -> int:
        if not image.startswith(b"\x7fELF"):
            raise self._driver_error("CUDA_ERROR_INVALID_IMAGE")
        handle = next(self._numbers)
        kernel = getattr(self._of_thread, "compiling", None) or self.images.get(image)
        self._modules[handle] = [kernel] if kernel else []
        return handle

    def moduleUnload(self, handle: int) -> None:
        self._modules.pop(handle, None)

    def moduleGetFunction(self, module: int, name: object) -> int:
        handle = next(self._numbers)
        for source, expression in self._modules[module]:
            self._kernels[handle] = Launchable(source, expression)
        return handle

    def funcGetAttribute(self, attribute: int, function: int) -> int:
        return self._function_attributes.get((function, attribute), 48 << 10)

    def funcSetAttribute(self, function: int, attribute: int, value: int) -> None:
        self._function_attributes[function, attribute] = value

    def launchKernel(self, function: int, *given: int) -> None:
        *extents, shared_bytes, stream, parameters, _ = given
        kernel = self._kernels.get(function)
        if kernel is None:
            raise NotImplementedError("the stand-in for CUDA runs this library's kernels, and none of CuPy's own")
        self.launches += 1
        self._launched.add(kernel.name)
        self._add(stream, kernel.launch(tuple(extents), shared_bytes, parameters))

    # What holds for all of them

    def _streams_of(self, number: int) -> list[Stream]:
        return [self._legacy[number], *(stream for stream in self._streams.values() if stream.device == number)]

    def _legacy_stream(self) -> Stream:
        return self._legacy[self.getDevice()]

    def _stream(self, handle: int) -> Stream:
        if handle in (LEGACY, 1):
            return self._legacy_stream()
        return self._stream_of_thread() if handle == _PER_THREAD else self._streams[handle]

    def _stream_of_thread(self) -> Stream:
        """The thread's own default stream of the current device, which the legacy one waits for."""
        name = f"on{self.getDevice()}"
        if not hasattr(self._of_thread, name):
            stream = Stream(self.getDevice())
            setattr(self._of_thread, name, stream)
            self._streams[-next(self._numbers)] = stream
        of_thread: Stream = getattr(self._of_thread, name)
        return of_thread

    def _before_legacy(self) -> tuple[Work, ...]:
        """The last work of every stream that the legacy default stream waits for."""
        streams = self._streams_of(self.getDevice())[1:]
        return tuple(stream.last for stream in streams if stream.last is not None and not stream.is_apart)

    def _add(self, handle: int, task: Task, after: tuple[Work, ...] = (), *, as_device: bool = True) -> Work:
        """Queue work in its stream, in the order that the legacy default stream keeps with others."""
        stream = self._stream(handle)
        legacy = self._legacy[stream.device]
        if stream is legacy:
            self._refuse_while_capturing(_ERROR_CAPTURE_IMPLICIT)
            after += self._before_legacy()
        elif not stream.is_apart and legacy.last is not None:
            after += (legacy.last,)
        return self._queued(stream, self._opened(task) if as_device else task, after)

    def _queued(self, stream: Stream, task: Task, after: tuple[Work, ...] = ()) -> Work:
        work = stream.add(task, after)
        if self.is_eager:
            finish(work)
        return work

    def _opened(self, task: Task) -> Task:
        """The task, for whose time alone device memory may be touched."""

        def run() -> None:
            with ExitStack() as stack:
                for arena in self._arenas:
                    stack.enter_context(arena.opened())
                task()

        return run

    def _copy(self, target: int, source: int, nbytes: int) -> Task:
        return self._opened(lambda: ctypes.memmove(target, source, nbytes) and None)

    def _device_of(self, address: int) -> int | None:
        return next((number for number, arena in enumerate(self._arenas) if address in arena), None)

    def _is_pinned(self, address: int) -> bool:
        return any(start <= address < start + nbytes for start, (_, nbytes) in self._pinned.items())

    def _refuse_unsafe(self) -> None:
        """CUDA refuses what may wait for the device, by the modes of this thread and of the captures that go on.

        A thread in relaxed mode is refused nothing. Others are by a capture of their own that is not relaxed, and in
        global mode by every thread's capture that is global.
        """
        own = getattr(self._current, "mode", _GLOBAL)
        for stream in self._streams.values():
            thread, mode = stream.capture
            is_own = thread == threading.get_ident() and mode != _RELAXED
            if stream.captured is not None and own != _RELAXED and (is_own or own == mode == _GLOBAL):
                raise self._error(_ERROR_CAPTURE)

    def _refuse_while_capturing(self, error: int = _ERROR_CAPTURE) -> None:
        """CUDA refuses what could not become part of a graph while a stream that the legacy one waits for captures."""
        for stream in self._streams_of(self.getDevice()):
            if stream.captured is not None and not stream.is_apart:
                raise self._error(error)


def _nothing() -> None:
    """The task of work that others only wait for."""
