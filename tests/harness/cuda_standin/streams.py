"""Streams that are late: work waits in its stream until somebody waits for it, or for work that comes after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

Task = Callable[[], None]

LEGACY = 0


@dataclass(eq=False)
class Work:
    """One piece of work of a stream, and work of other streams that comes before it."""

    stream: Stream
    task: Task
    after: tuple[Work, ...] = ()
    is_done: bool = False
    is_captured: bool = False
    """Part of a graph, and never done itself; `is_done`, so that nothing waits for it."""


@dataclass(eq=False)
class Stream:
    """Work in order. A stream that is not `apart` waits for the legacy default stream, which waits for it."""

    device: int
    is_apart: bool = False
    queue: deque[Work] = field(default_factory=deque)
    last: Work | None = None
    captured: list[Task] | None = None
    capture: tuple[int, int] = (0, 0)
    """The thread that captures, and the mode in which it does."""
    is_invalid: bool = False
    """Whether a call has spoiled the capture."""

    def add(self, task: Task, after: tuple[Work, ...] = ()) -> Work:
        """Give the stream work to do, behind all that it has; while it captures, the work becomes part of a graph."""
        work = Work(self, task, tuple(one for one in after if not one.is_done))
        if self.captured is not None:
            self.captured.append(task)
            work.is_done = work.is_captured = True
            return work
        self.queue.append(work)
        self.last = work
        return work

    def finish(self) -> None:
        """Do all that the stream has been given."""
        if self.last is not None:
            finish(self.last)


def finish(work: Work) -> None:
    """Do this work, and before it what its stream and those that it waits for have to do first."""
    queue = work.stream.queue
    while not work.is_done:
        first = queue[0]
        for other in first.after:
            finish(other)
        if first.is_done:  # one of the others came back to it
            continue
        queue.popleft()
        first.task()
        first.is_done = True


@dataclass(eq=False)
class Event:
    """The place in a stream where it was recorded last."""

    recorded: Work | None = None
    was_asked: bool = False
