"""Work on threads whose results come in order, with a bounded number of them in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from stridedgpu.devices.cpu.thread_count import limit_this_thread

__all__ = ["in_order"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int, ahead: int
) -> Generator[tuple[Item, Result]]:
    """Each item with `work` of it, in the order of the items, worked on by so many threads.

    At most `ahead` items are begun and not yet handed out. Items are taken from their iterable on the caller's thread.
    Each of the threads runs its calls of this library alone: together they occupy the cores. What `work` raises is
    raised in its item's place. Closing the iterator waits for the items that a thread is working on, and for no others.

    >>> [result for _, result in in_order(lambda number: number * number, range(5), threads=2, ahead=3)]
    [0, 1, 4, 9, 16]
    """
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    remaining = iter(items)
    pool = ThreadPoolExecutor(threads, "stridedgpu load", limit_this_thread, (1,))
    try:
        for item in remaining:
            waiting.append((item, pool.submit(work, item)))
            if len(waiting) >= ahead:
                begun, future = waiting.popleft()
                yield begun, future.result()
        while waiting:
            begun, future = waiting.popleft()
            yield begun, future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
