"""`prefetch`: batches produced ahead in a thread, and copied to a GPU on a stream of their own meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from queue import SimpleQueue
from typing import Any, Literal, TypeVar, overload

import numpy as np

from stridedgpu.api.creation import asarray
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.array_interface import exchange_of
from stridedgpu.devices.selection import chosen_device, device_named
from stridedgpu.typing import DeviceLike
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.strides import integer

T = TypeVar("T")


@overload
def prefetch(batches: Iterable[T], *, device: Literal["cpu"] | None = None, depth: int = 2) -> Iterator[T]: ...


@overload
def prefetch(batches: Iterable[object], *, device: DeviceLike, depth: int = 2) -> Iterator[Any]: ...


def prefetch(batches: Iterable[object], *, device: DeviceLike | None = None, depth: int = 2) -> Iterator[Any]:
    """The batches of an iterable, up to `depth` of them produced ahead in a thread.

    On the CPU (`device=None` or "cpu") batches are passed on unchanged. With a CUDA device the arrays and tensors in
    them, alone or in dicts, lists and tuples, become tensors on that device. The thread has a stream of its own, for
    uploads and for relayouts that the iterable itself does there. The caller's current stream waits for each batch
    before the caller receives it. The memory of a batch is reused once the work that the caller had started before
    asking for the next batch is done. If you keep a batch longer, wait for its work before releasing it.

    An error of the iterable is raised here, in its place. Closing the iterator, or leaving it to be collected, ends the
    thread after the current batch, and closes the iterable. Nothing starts before the first `next`.

    Raises `LayoutError` for a depth below 1 or batches that are not iterable, `DeviceError` for an unavailable device.

    >>> from stridedgpu.preprocess import Preprocess
    >>> step = Preprocess(layout="NHWC", dtype="uint8")
    >>> loaded = (np.full((1, 2, 2, 3), number, np.uint8) for number in range(3))
    >>> [int(batch.max()) for batch in prefetch(map(step, loaded))]
    [0, 1, 2]
    """
    depth = integer("depth", depth, least=1)
    iterable: object = batches
    if not isinstance(iterable, Iterable) or getattr(iterable, "ndim", None) == 0:
        raise LayoutError(f"batches is of type {type(batches).__name__}, which cannot be iterated over.")
    where = "cpu" if device is None else device_named(chosen_device(device)).name
    return _received(batches, None if where == "cpu" else _Lane(where), depth)


class _Lane:
    """Passes batches to a device on the producer's stream; each side's stream waits for the other's events.

    A batch's memory belongs to the producer's stream, and would be allocated again there once it is released. So the
    lane keeps the batch until the producer's stream has been told to wait for the work that the consumer started.
    """

    def __init__(self, device: str) -> None:
        streams = exchange_of(device)
        self._device = device
        self.own_stream = partial(streams.own_stream, device)
        self._event = partial(streams.event_of_current_stream, device)
        self._wait = partial(streams.wait_for_event, device)
        self._used: SimpleQueue[tuple[Any, Any]] = SimpleQueue()

    def sent(self, batch: object) -> tuple[Any, list[StridedTensor], Any]:
        """Called by the producer: the batch on the device, its tensors, and the event of their upload."""
        while not self._used.empty():
            _, event = self._used.get()
            self._wait(event)
        tensors: list[StridedTensor] = []
        uploaded = self._uploaded(batch, tensors)
        return uploaded, tensors, self._event()

    def received(self, event: object) -> None:
        """Called by the consumer before it receives a batch."""
        self._wait(event)

    def done(self, tensors: list[StridedTensor]) -> None:
        """Called by the consumer when it asks for the next batch."""
        self._used.put((tensors, self._event()))

    def _uploaded(self, part: object, tensors: list[StridedTensor]) -> object:
        """A batch, or a part of one, on the device; objects that are not arrays stay as they are."""
        if isinstance(part, Mapping):
            return {name: self._uploaded(value, tensors) for name, value in part.items()}
        if isinstance(part, (list, tuple)):
            return type(part)(self._uploaded(value, tensors) for value in part)
        is_text = isinstance(part, np.ndarray) and part.dtype.kind not in "biufc"
        if is_text or not hasattr(part, "__dlpack__"):
            return part
        tensor = asarray(part).to_device(self._device)
        tensors.append(tensor)
        return tensor


_BATCH, _ERROR, _END = range(3)
"""What the producer sends: a batch, the error that the iterable or an upload raised, or the end."""


def _received(batches: Iterable[object], lane: _Lane | None, depth: int) -> Iterator[object]:
    """The consumer's side."""
    ready: SimpleQueue[tuple[int, Any]] = SimpleQueue()
    room, left = threading.Semaphore(depth), threading.Event()
    arguments = (batches, lane, ready, room, left)
    thread = threading.Thread(target=_produce, args=arguments, name="stridedgpu prefetch", daemon=True)
    thread.start()
    try:
        while (parcel := ready.get())[0] != _END:
            kind, sent = parcel
            if kind == _ERROR:
                raise sent
            room.release()
            if lane is None:
                yield sent
                continue
            batch, tensors, event = sent
            lane.received(event)
            yield batch
            lane.done(tensors)
    finally:
        left.set()
        room.release()
        thread.join()


def _produce(
    batches: Iterable[object],
    lane: _Lane | None,
    ready: SimpleQueue[tuple[int, Any]],
    room: threading.Semaphore,
    left: threading.Event,
) -> None:
    """The producer's side: fill every free place with a batch, until the batches end or the consumer has left."""
    try:
        with nullcontext() if lane is None else lane.own_stream():
            source = iter(batches)
            try:
                while room.acquire() and not left.is_set():
                    try:
                        batch = next(source)
                    except StopIteration:
                        break
                    ready.put((_BATCH, batch if lane is None else lane.sent(batch)))
                    del batch
            finally:
                close = getattr(source, "close", None)
                if close is not None:
                    close()
    except BaseException as error:  # noqa: BLE001 - the consumer raises every error
        ready.put((_ERROR, error))
    else:
        ready.put((_END, None))
