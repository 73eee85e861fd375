"""Which frames of a video are taken: the rules of transformers' video processors, with `do_sample_frames`.

A rule takes the processor's `own` options, those of a call, and what is known of the video. Where a rule assumes a rate
or a duration, it sets them.

Source: transformers 5.24, video_utils.py and models/*/video_processing_*.py (`sample_frames`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any, Final, TypeAlias

import numpy as np

from stridedgpu.values.errors import LayoutError

from .sizes import is_count, is_finite

Values = Mapping[str, Any]

MOST_FRAMES: Final = 1 << 24
"""More frames than a video has, or a second; and more seconds."""

_MOST_TAKEN: Final = 1 << 20
"""More frames than a call takes."""

_EXACT_STEPS: Final = 1 << 23
"""Frames times frames taken: below, a place rounded to float32 never reaches the next whole number."""


@dataclass(slots=True)
class Recorded:
    """What is known of a video: the number of its frames, frames a second, and its length in seconds."""

    whole: int
    rate: float | None = None
    duration: float | None = None


Sampling: TypeAlias = Callable[[Values, Values, Recorded], list[int]]


def descriptions(given: Any, videos: int) -> list[Any]:
    """`video_metadata` as a list with an entry for each of some videos; entries are None without.

    Raises `LayoutError` for another number of entries.
    """
    if given is None:
        return [None] * videos
    if not isinstance(given, (list, tuple)):
        given = [given]
    elif given and isinstance(given[0], (list, tuple)):
        given = [one for many in given for one in many]
    if len(given) != videos:
        raise LayoutError(f"video_metadata has {len(given)} entries for {videos} videos; give one for each.")
    return list(given)


def recorded(number: int, described: Any) -> Recorded:
    """What an entry of `video_metadata` says. Raises `LayoutError` for one without whole numbers and finite ones."""
    known: Values = described if isinstance(described, Mapping) else {}
    whole, rate, duration = known.get("total_num_frames", 0), known.get("fps"), known.get("duration")
    is_rate = rate is None or (is_finite(rate) and 1 / MOST_FRAMES < float(rate) < MOST_FRAMES)
    is_duration = duration is None or (is_finite(duration) and 0 <= float(duration) < MOST_FRAMES)
    if not (is_count(whole) and whole < MOST_FRAMES and is_rate and is_duration):
        raise LayoutError(
            f"video_metadata[{number}]={described!r} must have total_num_frames, a whole number from 1 on, and fps, "
            f"frames a second, and duration, seconds, or None; all are below {MOST_FRAMES}."
        )
    # Quotients of NumPy's narrow floats would become infinite.
    rate, duration = (float(one) if isinstance(one, np.floating) else one for one in (rate, duration))
    return Recorded(int(whole), rate, duration)


def sampled_frames(rule: Sampling, own: Values, values: Values, video: Recorded, number: int, length: int) -> list[int]:
    """The numbers of the frames that are taken of `videos[number]`, of which `length` frames come.

    Raises `LayoutError` for options and metadata that do not say which, and for frames that do not come.
    """
    numbers = rule(own, values, video)
    if max(numbers) >= length:
        raise LayoutError(
            f"do_sample_frames=True takes frame {max(numbers)} of videos[{number}], which has {length} frames."
        )
    return numbers


# ---- what rules share


def _check_exclusive(values: Values) -> None:
    wanted, fps = values["num_frames"], values["fps"]
    if wanted is not None and fps is not None:
        raise LayoutError(f"num_frames={wanted} and fps={fps} both say how many frames are taken; one of them is None.")


def _stated(own: Values, values: Values, *names: str) -> list[Any]:
    """Options of a call; those that are None are the processor's own."""
    return [own[name] if values[name] is None else values[name] for name in names]


def _rate_of(video: Recorded) -> float:
    if video.rate is None:
        raise LayoutError(
            "do_sample_frames=True goes by frames a second, which video_metadata does not have: give "
            "{'total_num_frames': ..., 'fps': ...} for each video."
        )
    return video.rate


def _check_count(taken: float, video: Recorded) -> int:
    """A number of frames. Raises `LayoutError` for none, and for more than a video has."""
    if not 1 <= taken <= min(video.whole, _MOST_TAKEN):
        raise LayoutError(
            f"do_sample_frames=True takes {taken} frames of a video of {video.whole}: state other num_frames."
        )
    return int(taken)


def _linear(first: int, last: int, taken: int) -> list[int]:
    """Numbers at even steps, rounded down, as NumPy rounds them."""
    if taken > _MOST_TAKEN:
        raise LayoutError(f"do_sample_frames=True takes {taken} frames; {_MOST_TAKEN} are the most.")
    numbers: list[int] = np.linspace(first, last, taken, dtype=int).tolist()
    return numbers


def _floors(start: Fraction, video: Recorded, taken: float) -> list[int]:
    """The places of torch's `arange(start, whole, whole / taken)`, rounded down.

    torch rounds a place to float32, otherwise by the width of its vectors. Raises `LayoutError` where a place is so
    near below a whole number that it would become one.
    """
    whole, numbers = video.whole, []
    for number in range(ceil((whole - float(start)) / (whole / taken))):
        place = start + number * whole / Fraction(taken)
        numbers.append(floor(place))
        if (numbers[-1] + 1 - place) * _EXACT_STEPS <= whole:
            raise _rounded_places(taken, whole)
    return numbers


def _rounded_places(taken: float, whole: int) -> LayoutError:
    """What is wrong with places that are so near a whole number that their rounding decides."""
    return LayoutError(
        f"do_sample_frames=True takes {taken} frames of a video of {whole}, whose places transformers rounds to "
        "float32 as the processor at hand does: give the frames that are sampled, and do_sample_frames=False."
    )


def _distinct_and_even(numbers: Sequence[int]) -> list[int]:
    """Each number once, and the last one twice where their number would be odd."""
    distinct = list(dict.fromkeys(numbers))
    return distinct + distinct[-1:] * (len(distinct) % 2)


# ---- rules of several classes


def uniformly(own: Values, values: Values, video: Recorded) -> list[int]:
    """The library's general rule: even steps, rounded down, by `num_frames` or `fps`; else every frame."""
    _check_exclusive(values)
    wanted, fps = _stated(own, values, "num_frames", "fps")
    if wanted is None and fps is not None:
        wanted = max(1, int(video.whole / _rate_of(video) * fps))
    taken = _check_count(video.whole if wanted is None else wanted, video)
    return [number * video.whole // taken for number in range(taken)]


def evenly(own: Values, values: Values, video: Recorded) -> list[int]:
    """Qwen3-VL: frames at even steps from the first to the last, by `num_frames` or `fps`."""
    _check_exclusive(values)
    wanted = values["num_frames"]
    least, most = own["min_frames"], own["max_frames"]  # those of the processor, whatever a call says
    (fps,) = _stated(own, values, "fps")
    if wanted is None and fps is not None:
        video.rate = 24 if video.rate is None else video.rate
        wanted = min(max(int(video.whole / video.rate * fps), least), most, video.whole)
    elif wanted is None:
        wanted = min(max(video.whole, least), most)
    numbers: list[int] = np.linspace(0, video.whole - 1, wanted).round().astype(int).tolist()
    return numbers


def in_whole_stacks(own: Values, values: Values, video: Recorded) -> list[int]:
    """Qwen2-VL: frames of whole stacks, at even steps rounded down, by `num_frames` or `fps`."""
    _check_exclusive(values)
    wanted, fps, times, least, most = _stated(
        own, values, "num_frames", "fps", "temporal_patch_size", "min_frames", "max_frames"
    )
    whole, rate = video.whole, video.rate
    if wanted is not None:
        taken = round(wanted / times) * times
    elif fps is None or rate is None:
        raise LayoutError(
            f"do_sample_frames=True with fps={fps} and frames a second of {rate} in video_metadata does not say how "
            "many frames are taken: give both, or num_frames."
        )
    else:
        most = min(most, whole) // times * times
        taken = floor(min(max(whole / rate * fps, least), most, whole) / times) * times
    # torch's `arange` has one place more where its length is rounded up.
    return _floors(Fraction(0), video, _check_count(taken, video))


# ---- rules of one class


def by_fractions(own: Values, values: Values, video: Recorded) -> list[int]:
    """ERNIE 4.5 VL: even steps, rounded down, by `num_frames`, `fps` or every frame, between two numbers of frames."""
    _check_exclusive(values)
    wanted, least, most = _stated(own, values, "num_frames", "min_frames", "max_frames")
    if wanted is None:
        fps = values["fps"]
        wanted = video.whole if fps is None else video.whole / _rate_of(video) * fps
        wanted = min(max(wanted, least), most, video.whole)
    elif not least <= wanted <= most:
        raise LayoutError(f"num_frames={wanted} must be from min_frames={least} to max_frames={most}.")
    _check_count(wanted, video)
    return _floors(Fraction(0), video, wanted)


def from_the_middle(own: Values, values: Values, video: Recorded) -> list[int]:
    """InternVL: even steps, by `num_frames` or `fps`, from `initial_shift` on: a place, or True for half a step."""
    wanted, shift = _stated(own, values, "num_frames", "initial_shift")
    fps = values["fps"]
    if wanted is None and fps is not None:
        wanted = int(video.whole / _rate_of(video) * fps)
    if wanted is None:
        raise LayoutError("do_sample_frames=True needs num_frames or fps, which say how many frames are taken.")
    taken = _check_count(wanted, video)
    if shift is True:
        return _floors(Fraction(video.whole, 2 * taken), video, taken)
    start = Fraction(shift) if shift is False or is_finite(shift) else Fraction(-1)
    if not 0 <= start < video.whole:
        raise LayoutError(f"initial_shift={shift!r} must be a place in the video, from 0 to below {video.whole}.")
    return _floors(start, video, taken)


def by_seconds(own: Values, values: Values, video: Recorded) -> list[int]:
    """GLM-4V: `fps` frames a second of up to `max_duration` seconds; of longer videos as many, at even steps."""
    rate, last, most = _rate_of(video), video.whole - 1, own["max_duration"]
    (fps,) = _stated(own, values, "fps")
    duration = video.duration or round(last / rate) + 1
    if duration <= most:
        taken = max(floor(duration * fps), 1)
        if taken > _MOST_TAKEN:
            raise LayoutError(f"do_sample_frames=True takes {taken} frames; {_MOST_TAKEN} are the most.")
        numbers = [min(last, ceil(number * rate / fps)) for number in range(taken)]
    elif int(most * fps) >= video.whole:
        numbers = list(range(video.whole))
    else:
        seconds = np.linspace(0, duration, int(most * fps), endpoint=True).tolist()
        numbers = [min(last, ceil(second * rate)) for second in seconds]
    return _distinct_and_even(numbers)


def by_duration(own: Values, _values: Values, video: Recorded) -> list[int]:
    """GLM-4.6V: 3 stacks a second of short videos, 1 of longer ones, 0.5 from 300 seconds on; 640 frames at most."""
    duration = video.duration or round((video.whole - 1) / _rate_of(video)) + 1
    counted = min(duration, 2400)
    times = own["temporal_patch_size"]
    fps = 3 if counted <= 30 else 1 if counted <= 300 else 0.5
    return _by_clock(video, min(int(counted * fps * times), 640), 1 / (times * fps), int(duration))


def by_clock(own: Values, values: Values, video: Recorded) -> list[int]:
    """GLM-5: the first frame at or behind each beat of `fps`; `max_frames` at most."""
    duration = video.duration or round((video.whole - 1) / _rate_of(video)) + 1
    (fps,) = _stated(own, values, "fps")
    most = own["max_duration"]
    taken = int((duration if most <= 0 else min(duration, most)) * fps)
    return _by_clock(video, min(taken, own["max_frames"]), 1 / fps, int(duration))


def by_clock_to_the_end(own: Values, values: Values, video: Recorded) -> list[int]:
    """GLM-GA: as GLM-5, but to the last beat inside of the video, and short videos with repeated frames."""
    duration = video.duration or round((video.whole - 1) / _rate_of(video)) + 1
    (fps,) = _stated(own, values, "fps")
    taken = min(int(duration * fps), own["max_frames"])
    if video.whole < taken:
        return _distinct_and_even([floor(number * video.whole / taken) for number in range(taken)])
    return _by_clock(video, taken, 1 / fps, duration - 1 / fps)


def _by_clock(video: Recorded, taken: int, beat: float, end: float) -> list[int]:
    """The first frame at or behind each beat before `end` seconds; even steps where these are not `taken` frames."""
    numbers: list[int] = []
    if video.whole >= taken:
        between, now = 1 / _rate_of(video), 0.0
        for number in range(video.whole):
            if number * between >= now:
                now += beat
                numbers.append(number)
                if now >= end:
                    break
    last = video.whole - 1
    if len(numbers) < taken:
        bounds = (numbers[0], numbers[-1]) if numbers else (0, last)
        numbers = _linear(*bounds, taken)
    elif len(numbers) > taken:
        numbers = _linear(0, last, taken)
    if not numbers:
        raise LayoutError(f"do_sample_frames=True takes no frame of a video of {video.whole}: state another fps.")
    return _distinct_and_even(numbers)


def inside_of_the_ends(own: Values, values: Values, video: Recorded) -> list[int]:
    """SmolVLM: even steps by `fps`, `num_frames` at most, without the first and last second of a long video."""
    rate, duration = _rate_of(video), video.duration
    most, fps = _stated(own, values, "num_frames", "fps")
    if most is None or fps is None or duration is None:
        raise LayoutError(
            f"do_sample_frames=True needs num_frames={most}, fps={fps}, and duration={duration} of video_metadata."
        )
    taken = max(1, min(round(fps * duration), most))
    first, last = 0, video.whole - 1
    if duration - 2 > most * fps:
        first, last = int(rate), min(int(video.whole - rate), last)
        if first >= last:
            first, last = 0, video.whole - 1
    return list(dict.fromkeys(_linear(first, last, taken)))


def ends_included(own: Values, values: Values, video: Recorded) -> list[int]:
    """PE Video: `num_frames` from the first to the last; without, the general rule."""
    taken = values["num_frames"]
    if not taken:
        return uniformly(own, values, video)
    if taken == 1:
        raise LayoutError("num_frames=1 is no number of frames from the first to the last: take 2 or more.")
    return [int(number * (video.whole - 1) / (taken - 1)) for number in range(taken)]


def within_budget(_own: Values, values: Values, video: Recorded) -> list[int]:
    """EmbeddingGemma 2: `fps` frames a second, or all; of more than `max_frames` by `overflow_strategy`."""
    fps, most, strategy = values["fps"], values["max_frames"], values["overflow_strategy"]
    if values["num_frames"] is not None:
        raise LayoutError(f"num_frames={values['num_frames']}: fps and max_frames say how many frames are taken.")
    if fps is None or video.rate is None or video.duration is None:
        numbers = list(range(video.whole))
    else:
        step, taken = video.rate / fps, max(1, int(video.duration * fps))
        if taken > _MOST_TAKEN:
            raise LayoutError(f"do_sample_frames=True takes {taken} frames; {_MOST_TAKEN} are the most.")
        numbers = [min(video.whole - 1, int(number * step)) for number in range(taken)]
    if strategy is None or (most is not None and len(numbers) <= most):
        return numbers
    if most is None or strategy not in ("truncate", "uniform"):
        raise LayoutError(
            f"overflow_strategy={strategy!r} with max_frames={most}: it is 'truncate' or 'uniform', and needs both."
        )
    return (
        numbers[:most] if strategy == "truncate" else [numbers[place] for place in _linear(0, len(numbers) - 1, most)]
    )


def by_single_steps(own: Values, values: Values, video: Recorded) -> list[int]:
    """Muse Glimmer: whole stacks of frames by `fps`, `num_frames` at most, at even steps of torch's float32."""
    times = values["temporal_patch_size"]
    fps, most = _stated(own, values, "fps", "num_frames")
    video.rate = 24 if video.rate is None else video.rate
    if fps is None or most is None:
        raise LayoutError(f"do_sample_frames=True needs fps={fps} and num_frames={most}.")
    taken = min(int(video.whole * fps / video.rate), most, video.whole)
    taken = _check_count(min(max(times, taken // times * times), video.whole), video)
    # torch's `linspace` counts from both ends; whether a product and its sum are rounded once is the processor's.
    last, places = np.float32(video.whole - 1), np.arange(taken)
    step, behind = last / np.float32(max(1, taken - 1)), taken - 1 - places
    is_first = places < taken // 2 if taken > 1 else places == 0
    twice = np.where(is_first, step * places.astype(np.float32), last - step * behind.astype(np.float32))
    once = np.where(is_first, float(step) * places, float(last) - float(step) * behind).astype(np.float32)
    numbers: list[int] = once.astype(np.int64).tolist()
    if numbers != twice.astype(np.int64).tolist():
        raise _rounded_places(taken, video.whole)
    return numbers


def by_tenths(own: Values, values: Values, video: Recorded) -> list[int]:
    """MiniCPM-V 4.6: a frame a second; of videos of more than `max_num_frames` seconds as many, at even steps."""
    if video.duration is None:
        raise LayoutError("do_sample_frames=True needs duration and fps in video_metadata.")
    rate, last = _rate_of(video), video.whole - 1
    most, stacked = _stated(own, values, "max_num_frames", "stack_frames")
    if stacked > 1:
        raise LayoutError(f"stack_frames={stacked} is not reproduced: stack_frames=1 is.")
    if video.duration <= most:
        return [int(second * rate) for second in range(ceil(video.duration))]
    tenths = int(video.duration / 0.1)
    places = _linear(0, tenths - 1, most) if tenths > most else range(tenths)
    return [min(int(round(place * 0.1, 1) * rate), last) for place in places]
