"""Chance: random numbers that depend on a sample, a seed and an epoch alone, and the epoch that processes share.

A sample is identified by its key: an integer (an index), a string or bytes (a name), or, without one, a hash of some of
its pixels. The random words are a BLAKE2 hash of seed, epoch and key. They are the same in any process, batch and
order, on every machine and with every version of NumPy.

PyTorch's persistent workers have a copy of the step from before the first epoch, and a plain number in it would never
change. The epoch is therefore in memory that `multiprocessing` shares with forked and spawned processes. Any other
pickle has only the number. Equal steps then have equal pickles, by which Hugging Face datasets finds its cached
results; such a copy has its own counter, which begins at that number.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from stridedgpu.devices.operand import Operand
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.operations.options import DEFAULT_ALIGNMENT, allocate_operand
from stridedgpu.operations.relayout import assign_operand
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout
from stridedgpu.values.strides import integer

_WORD_BITS: Final = 64
_PERSON: Final = b"stridedgpu draw"

_SAMPLED_ROWS: Final = 32
"""The most rows, and the most columns, whose pixels are part of a key: 1,024 pixels.

Measured: 41 us for 500 x 375 pixels and 51 us for 3000 x 2000, by processor time of one thread of a virtual machine.
"""

_WORDS: Final = 5
_EPOCH, _PASSES, _STATED, _FIRST, _WARNED = range(_WORDS)
"""The words of the shared memory, each of 64 bits."""

_EPOCHS: Final = range(2**63)


class Chance(NamedTuple):
    """What a sample's random numbers depend on, and three random words of 64 bits, each for one decision.

    >>> Chance.of(1, 0, "cat.png") == Chance.of(1, 0, "cat.png"), Chance.of(2, 0, "cat.png").row == 0
    (True, False)
    >>> [Chance.of(1, epoch, "cat.png").origin((480, 640), (224, 224)) for epoch in range(2)]
    [(192, 377), (47, 77)]
    >>> all(0 <= number < 1 for number in Chance.of(1, 0, "cat.png").uniforms(4))
    True
    """

    seed: int
    epoch: int
    key: object
    row: int
    column: int
    mirrored: int

    @classmethod
    def of(cls, seed: int, epoch: int, key: object) -> Chance:
        """The chance of a sample by its key. Raises `LayoutError` for a key that is no integer, string or bytes."""
        from hashlib import blake2b  # which loads OpenSSL, for 3 ms

        digest = blake2b(_key_bytes(key), digest_size=24, key=_seed_bytes(seed, epoch), person=_PERSON).digest()
        row, column, mirrored = (int.from_bytes(digest[start : start + 8], "little") for start in (0, 8, 16))
        return cls(seed, epoch, key, row, column, mirrored)

    def origin(self, sizes: tuple[int, int], window: tuple[int, int]) -> tuple[int, int]:
        """The origin of a window in an image of `sizes`: row and column, in pixels, uniformly distributed.

        It is negative where the image is smaller, which the window then contains.
        """
        tall, wide = sizes[0] - window[0], sizes[1] - window[1]
        row, column = self.row * (abs(tall) + 1) >> _WORD_BITS, self.column * (abs(wide) + 1) >> _WORD_BITS
        return row if tall >= 0 else -row, column if wide >= 0 else -column

    def flips(self, probability: float) -> bool:
        """Whether to mirror: True with this probability."""
        return self.mirrored < int(probability * 2**_WORD_BITS)

    def uniforms(self, count: int, purpose: str = "area") -> Iterator[float]:
        """`count` uniform numbers in [0, 1), others for each purpose, independent of the three words."""
        from hashlib import blake2b

        sample, words = _key_bytes(self.key), _seed_bytes(self.seed, self.epoch)
        for number in range(count):
            digest = blake2b(sample, digest_size=8, key=words, person=f"{purpose} {number}".encode()).digest()
            # A float64 has 53 bits: the result is always below 1.
            yield (int.from_bytes(digest, "little") >> 11) / 2**53


def pixel_key(image: Operand, axes: str) -> bytes:
    """A key made of an image's sizes, type and at most 1,024 of its pixels, whatever its layout in memory.

    The pixels are those of every n-th row and m-th column, n being the height over 32 and m the width over 32, rounded
    up. `image` has the axes C, H and W; `axes` is the order that the key reads them in. Images that differ between
    these pixels alone have one key, and so the same crop and flip.
    """
    from hashlib import blake2b

    layout = image.layout
    steps = (slice(None), *(slice(None, None, max(1, -(-size // _SAMPLED_ROWS))) for size in layout.sizes[-2:]))
    sampled = image.with_layout(layout.sliced(steps[-layout.ndim :]))
    if sampled.buffer.device != "cpu":
        near = allocate_operand(Layout(sampled.layout.sizes), sampled.element, DEFAULT_ALIGNMENT, "cpu")
        assign_operand(sampled, near)
        sampled = near
    order = ["CHW".index(axis) for axis in axes]
    digest = blake2b(f"{layout.sizes} {image.element}".encode(), digest_size=16)
    digest.update(array_of_operand(sampled).transpose(order).tobytes())
    return digest.digest()


def _seed_bytes(seed: int, epoch: int) -> bytes:
    """Seed and epoch as the hash's key; epoch 0 has the seed alone."""
    return b"%d" % seed if not epoch else b"%d %d" % (seed, epoch)


def _key_bytes(key: object) -> bytes:
    """A key as bytes; each type of key has a prefix of its own."""
    plain: object = key.item() if hasattr(key, "item") and getattr(key, "ndim", 1) == 0 else key
    if isinstance(plain, int) and not isinstance(plain, bool):
        return b"i%d" % plain
    if isinstance(plain, str):
        return b"s" + plain.encode("utf-8", "surrogatepass")
    if isinstance(plain, bytes):
        return b"b" + plain
    raise LayoutError(f"key {key!r} is no integer, string or bytes; name a column that holds one for each sample.")


def checked_epoch(epoch: object) -> int:
    """`epoch` as an integer from 0. Raises `LayoutError` for anything else."""
    number = integer("epoch", epoch, least=0)
    if number not in _EPOCHS:
        raise LayoutError(f"epoch={number} must be below {_EPOCHS.stop}.")
    return number


class EpochCounter:
    """The epoch of a step and of its copies in processes that this one forks or spawns.

    Writes of a word are atomic, and only the process that begins an epoch writes the epoch.
    """

    def __init__(self, epoch: int = 0) -> None:
        from multiprocessing.sharedctypes import RawArray  # only steps with a seed need it

        self._words = RawArray("Q", _WORDS)
        self._words[_EPOCH] = epoch

    @property
    def pickled(self) -> EpochCounter | int:
        """The counter for a pickle: itself if a process is being spawned, else its epoch alone."""
        from multiprocessing.context import get_spawning_popen

        return self.epoch if get_spawning_popen() is None else self

    @property
    def epoch(self) -> int:
        """The current epoch."""
        number: int = self._words[_EPOCH]
        return number

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
