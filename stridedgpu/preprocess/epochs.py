"""The epoch of a step, in memory that the processes of one machine share.

PyTorch's persistent workers have a copy of the step from before the first epoch, and a plain number in it would never
change. The epoch is therefore in shared memory: a forked worker inherits the mapping, and a spawned one attaches by the
path in its pickle. Any other pickle has only the number. Equal steps then have equal pickles, by which Hugging Face
datasets finds its cached results; such a copy has its own counter, which begins at that number.
"""

from __future__ import annotations

import mmap
import os
import secrets
import sys
import warnings
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from stridedgpu.values.errors import LayoutError
from stridedgpu.values.strides import integer

__all__ = ["EpochCounter", "Handle", "checked_epoch"]

_TOKEN, _EPOCH, _PASSES, _STATED, _FIRST, _WARNED = range(6)
"""The words of the shared memory, each of 64 bits."""

_WORDS: Final = 6
_WORD_BYTES: Final = 8
_EPOCHS: Final = range(2**63)


class Handle(NamedTuple):
    """A pickled counter: the path of its memory if shared, the token that identifies it, and its epoch at that time."""

    path: str | None
    token: int
    epoch: int


def checked_epoch(epoch: object) -> int:
    """`epoch` as an integer from 0. Raises `LayoutError` for anything else."""
    number = integer("epoch", epoch, least=0)
    if number not in _EPOCHS:
        raise LayoutError(f"epoch={number} must be below {_EPOCHS.stop}.")
    return number


class EpochCounter:
    """The epoch of a step and of its copies in other processes; `Handle` attaches to an existing one.

    Writes of a word are atomic, and only the process that begins an epoch writes the epoch.
    """

    def __init__(self, handle: Handle | None = None) -> None:
        self._path: str | None = None
        memory = None if handle is None else _attached(handle)
        if memory is None:
            memory = self._created()
            words = memoryview(memory).cast("Q")
            words[_TOKEN] = secrets.randbits(63)
            words[_EPOCH] = 0 if handle is None else handle.epoch
        else:
            self._path = None if handle is None else handle.path
            words = memoryview(memory).cast("Q")
        self._words = words

    def _created(self) -> mmap.mmap:
        """New memory; where the system has no anonymous files, only forked processes share it."""
        if not hasattr(os, "memfd_create"):
            return mmap.mmap(-1, _WORDS * _WORD_BYTES)
        file = os.memfd_create("stridedgpu epoch")
        os.ftruncate(file, _WORDS * _WORD_BYTES)
        # The descriptor stays open for as long as the counter: other processes attach through it.
        weakref.finalize(self, os.close, file)
        self._path = f"/proc/{os.getpid()}/fd/{file}"
        return mmap.mmap(file, _WORDS * _WORD_BYTES)

    @property
    def handle(self) -> Handle:
        """The counter as a value that a process of this machine attaches to."""
        return Handle(self._path, self._words[_TOKEN], self.epoch)

    @property
    def pickled(self) -> Handle:
        """The counter for a pickle: its memory if a process is being spawned, else only its epoch."""
        context = sys.modules.get("multiprocessing.context")
        is_spawning = context is not None and context.get_spawning_popen() is not None
        return self.handle if is_spawning else Handle(None, 0, self.epoch)

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self._words[_EPOCH]

    def set(self, epoch: int) -> None:
        """Set the epoch, in every process that shares the counter."""
        words = self._words
        words[_EPOCH], words[_PASSES], words[_FIRST] = epoch, 0, 0
        words[_STATED] = True

    def begin(self) -> int:
        """The epoch of a new pass over the samples: the one set last, then one more for each pass."""
        passes = self._words[_PASSES]
        self.set(self.epoch + (passes > 0))
        self._words[_PASSES] = passes + 1
        return self.epoch

    def watch(self, drawn: Sequence[int]) -> None:
        """Warn once if a sample is drawn again and no epoch was ever set.

        `drawn` has a word of each sample of one call, which depends on seed, epoch and key. The first word of the first
        call is kept, and compared with those of later calls.
        """
        words = self._words
        if words[_STATED] or words[_WARNED] or not drawn:
            return
        if not words[_FIRST]:
            words[_FIRST] = drawn[0]
        elif words[_FIRST] in drawn:
            words[_WARNED] = True
            warnings.warn(
                f"A sample is drawn a second time in epoch {self.epoch}, so that every epoch has the same crops and "
                "flips: call step.set_epoch(n) before each, or loop over step.advancing(loader). step.set_epoch(0) "
                "says that the repetition is meant.",
                stacklevel=2,
            )


def _attached(handle: Handle) -> mmap.mmap | None:
    """The memory of a handle, or None if it is not on this machine or is gone."""
    if handle.path is None:
        return None
    with suppress(OSError, ValueError):
        file = os.open(handle.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            memory = mmap.mmap(file, _WORDS * _WORD_BYTES)
        finally:
            os.close(file)
        if memoryview(memory).cast("Q")[_TOKEN] == handle.token:
            return memory
    return None
