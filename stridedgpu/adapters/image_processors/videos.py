"""The videos of a call: frames that are read one after another, of lists, arrays, or a decoder's loop.

- A call has one video or a list of videos; lists of lists of videos are taken apart.
- A video is a list of frames, an array (T, H, W, C) or (T, C, H, W), an object that gives frames by number, or an
  iterator of them. A frame alone is a video of one.
- An array's channels are its first axis if that has 1 or 3 elements, else its last. `input_data_format` says so.

A frame is read when its turn comes, and let go before the next ones are: of a decoder's loop no more than a few are in
memory. The first one says the size of all.

Source: transformers, video_utils.py (`make_batched_videos`, `make_batched_metadata`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeAlias

from stridedgpu.devices.frame_operand import FrameOperand
from stridedgpu.devices.operand import Operand
from stridedgpu.operations.frames import rgb_image
from stridedgpu.operations.images import CropSources, FrameSources
from stridedgpu.operations.video_frames import frame_operand, is_frame
from stridedgpu.preprocess.images import is_encoded, is_pillow_image
from stridedgpu.values.errors import ElementTypeError, LayoutError, StridedGpuError

from .inputs import rank_of
from .sampling import Recorded
from .sizes import Size

_DEEPEST: Final = 4
"""Lists in lists: those of a batch, of its videos, and of their frames."""

FrameRead: TypeAlias = Operand | FrameOperand
"""An image with axes C, H, W, or a frame of luma and chroma, of which no RGB image is made."""

Reader: TypeAlias = Callable[[str, Any], FrameRead]
"""What makes an operand of a frame, which messages call by a name."""


def listed_videos(videos: Any, depth: int = 0) -> list[Any]:
    """The videos of a call, each a sequence or an iterator of frames. Raises `LayoutError` for what is none."""
    rank = rank_of(videos)
    if rank == 5:
        return [videos[number] for number in range(len(videos))]
    if rank == 4 or isinstance(videos, Iterator):
        return [videos]
    if _is_frame(videos):
        return [[videos]]
    if not isinstance(videos, (list, tuple)):
        if _gives_frames(videos):
            return [videos]
        raise LayoutError(
            f"videos has a {type(videos).__name__}; a video is a list or an iterator of frames, or an array "
            "(T, H, W, C) or (T, C, H, W): decode a file first."
        )
    frames = [_is_frame(one) for one in videos]
    if all(frames) and frames:
        return [videos]
    if any(frames) or depth == _DEEPEST:
        kinds = "frames beside other things" if any(frames) else f"lists more than {_DEEPEST} deep"
        raise LayoutError(f"videos has {kinds}; it is one video, a list of frames, or a list of videos.")
    return [video for one in videos for video in _listed(one, depth)]


def _listed(video: Any, depth: int) -> list[Any]:
    """A list's entry: an empty list is a video without frames, which its number in messages names later."""
    return [video] if isinstance(video, (list, tuple)) and not video else listed_videos(video, depth + 1)


def _is_frame(thing: object) -> bool:
    return rank_of(thing) in (2, 3) or is_pillow_image(thing) or is_encoded(thing) or is_frame(thing)


def _gives_frames(thing: object) -> bool:
    """Whether it gives frames by their number, as a decoder of TorchCodec does."""
    return (
        not isinstance(thing, (str, dict, set, range))
        and rank_of(thing) is None
        and hasattr(thing, "__getitem__")
        and hasattr(thing, "__len__")
    )


def frame_reader(read_image: Callable[[str, Any], Operand]) -> Reader:
    """A reader that leaves frames of luma and chroma as they are, and gives everything else to `read_image`."""

    def read(name: str, frame: Any) -> FrameRead:
        if not is_frame(frame):
            return read_image(name, frame)
        operand = frame_operand(frame)
        if operand.colours is not None:
            return read_image(name, frame)
        if operand.element.name != "uint8":
            raise ElementTypeError(
                f"{name} is a frame of {operand.samples.name}; the bits of video processors are those of bytes: "
                "convert it to 8 bits, as with frame.reformat(format='yuv420p')."
            )
        return operand

    return read


@dataclass(slots=True, eq=False)
class Clip:
    """A video of `length` frames like the `first`, of which those are `taken` whose numbers are stated, in this order.

    `frames` are a sequence, or an iterator, which is read once and gives the first frame, too. `drawn` takes the number
    of a frame and the frame, and gives it with what is drawn into it.
    """

    name: str
    frames: Any
    read: Reader
    length: int
    first: FrameRead
    taken: Sequence[int] = ()
    drawn: Callable[[int, FrameRead], FrameRead] = lambda _number, frame: frame

    @classmethod
    def of(cls, name: str, frames: Any, read: Reader, length: int | None) -> Clip:
        """A video whose first frame is read; `length` is that of an iterator, if it is known.

        Raises `LayoutError` for a video without frames, and for an iterator of an unknown length.
        """
        if not isinstance(frames, Iterator):
            length = len(frames)
        elif length is None:
            raise LayoutError(
                f"{name} is an iterator, of unknown length: give video_metadata={{'total_num_frames': ...}}, or "
                "list(frames)."
            )
        else:
            seen = list(islice(frames, 1))
            length = length if seen else 0
            frames = _Rest(seen, frames)
        if not length:
            raise LayoutError(f"{name} has no frames.")
        first = _read(read, f"{name}[0]", frames[0])
        return cls(name, frames, read, length, first, range(length))

    @property
    def size(self) -> Size:
        """Height and width of the frames."""
        _, height, width = self.first.layout.sizes
        return height, width

    @property
    def channels(self) -> int:
        """The channels of the frames."""
        return self.first.layout.sizes[0]

    @property
    def device(self) -> str:
        """Where the first frame is."""
        return self.first.device if isinstance(self.first, FrameOperand) else self.first.buffer.device

    def metadata(self, entry: Any, known: Recorded, *, is_sampled: bool) -> dict[str, Any]:
        """What is known of the video, by the names of transformers' `VideoMetadata`, with the frames that are taken."""
        stated = entry if isinstance(entry, Mapping) else {"height": self.size[0], "width": self.size[1]}
        named = {name: stated.get(name) for name in ("total_num_frames", "fps", "width", "height", "duration")}
        named |= {"total_num_frames": known.whole, "fps": known.rate, "duration": known.duration}
        indices = stated.get("frames_indices") if entry is not None and not is_sampled else list(self.taken)
        return {**named, "video_backend": stated.get("video_backend"), "frames_indices": indices}

    def parts(self, count: int, multiple: int = 1) -> Iterator[CropSources]:
        """The frames that are taken, `count` at a time; the last one is repeated up to a `multiple`."""
        numbers = [*self.taken, *[self.taken[-1]] * (-len(self.taken) % multiple)]
        known: dict[int, FrameRead] = {0: self.first}
        for start in range(0, len(numbers), count):
            wanted = numbers[start : start + count]
            known = {number: known[number] if number in known else self._frame(number) for number in wanted}
            yield _sources(self.name, [self.drawn(number, known[number]) for number in wanted])

    def _frame(self, number: int) -> FrameRead:
        name = f"{self.name}[{number}]"
        try:
            found = self.frames[number]
        except IndexError:
            raise LayoutError(f"{self.name} has no frame {number}, though {self.length} frames were stated.") from None
        frame = _read(self.read, name, found)
        if frame.layout.sizes[1:] != self.first.layout.sizes[1:]:
            both = sorted({self.size, (frame.layout.sizes[1], frame.layout.sizes[2])})
            raise LayoutError(f"{self.name} has frames of the sizes {both}; a video has frames of one size.")
        return frame


class _Rest:
    """The frames of an iterator by number, where numbers only rise; the last one is kept."""

    def __init__(self, seen: list[Any], rest: Iterator[Any]) -> None:
        self._last, self._number, self._rest = seen, 0, rest

    def __getitem__(self, number: int) -> Any:
        """The frame of a number that is at least the last one's. Raises `IndexError` where the iterator has ended."""
        if number > self._number:
            self._last = []
            self._last = list(islice(self._rest, number - self._number - 1, number - self._number))
            self._number = number
        return self._last[0]


def _read(read: Reader, name: str, frame: Any) -> FrameRead:
    """The operand of a frame. A refusal names the frame; an error of the frame's own library gets a note."""
    try:
        return read(name, frame)
    except StridedGpuError as refusal:
        if name in str(refusal):
            raise
        raise type(refusal)(f"{name}: {refusal}") from refusal
    except Exception as error:
        error.add_note(f"This was raised while {name} was read.")
        raise


def _sources(name: str, frames: Sequence[FrameRead]) -> CropSources:
    """Frames as the sources of one launch: as they are where all are luma and chroma, else RGB images."""
    planar = [frame for frame in frames if isinstance(frame, FrameOperand)]
    if len(planar) == len(frames):
        return FrameSources.of_frames(planar)
    images = [rgb_image(frame) if isinstance(frame, FrameOperand) else frame for frame in frames]
    sources = CropSources.of_images(images, name)
    sources.check(images[0].layout.sizes[0], images[0].element, images[0].buffer.device)
    return sources
