"""Which frames of a video are taken: the rules of transformers' video processors, with `do_sample_frames`.

A rule takes the processor's `own` options, those of a call, the number of a video's frames, and its frames a second.
Source: transformers, models/qwen2_vl and qwen3_vl, video_processing_*.py (`sample_frames`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor
from typing import Any, Final, TypeAlias

import numpy as np

from stridedgpu.values.errors import LayoutError

from .sizes import is_count, is_finite

Values = Mapping[str, Any]
Sampling: TypeAlias = Callable[[Values, Values, int, float | None], list[int]]

MOST_FRAMES: Final = 1 << 32
"""More frames than a video has, or a second."""

_EXACT_STEPS: Final = 1 << 23
"""Frames times frames taken: below, a place rounded to float32 never reaches the next whole number."""


def sampled_frames(rule: Sampling, own: Values, values: Values, lengths: Sequence[int]) -> list[list[int]]:
    """The numbers of the frames that are taken of each video, of which `lengths` frames came.

    Raises `LayoutError` for options and `video_metadata` that do not say which, and for frames that did not come.
    """
    given, wanted, fps = (values[name] for name in ("video_metadata", "num_frames", "fps"))
    if wanted is not None and fps is not None:
        raise LayoutError(f"num_frames={wanted} and fps={fps} both say how many frames are taken; one of them is None.")
    if given is None:
        given = [{"total_num_frames": length} for length in lengths]
    elif not isinstance(given, (list, tuple)):
        given = [given]
    elif given and isinstance(given[0], (list, tuple)):
        given = [one for many in given for one in many]
    if len(given) != len(lengths):
        raise LayoutError(f"video_metadata has {len(given)} entries for {len(lengths)} videos; give one for each.")
    sampled = []
    for number, (length, metadata) in enumerate(zip(lengths, given, strict=True)):
        known: Values = metadata if isinstance(metadata, Mapping) else {}
        whole, rate = known.get("total_num_frames", 0), known.get("fps")
        is_whole = is_count(whole) and whole < MOST_FRAMES
        if not is_whole or not (rate is None or (is_finite(rate) and 1 / MOST_FRAMES < float(rate) < MOST_FRAMES)):
            raise LayoutError(
                f"video_metadata[{number}]={metadata!r} must have total_num_frames, a whole number from 1 on, and fps, "
                f"frames a second, or None; both are below {MOST_FRAMES}."
            )
        if isinstance(rate, np.float16):  # quotients would become infinite
            rate = float(rate)
        numbers = rule(own, values, int(whole), rate)
        if max(numbers) >= length:
            raise LayoutError(
                f"do_sample_frames=True takes frame {max(numbers)} of videos[{number}], which has {length} frames."
            )
        sampled.append(numbers)
    return sampled


def evenly(own: Values, values: Values, whole: int, rate: float | None) -> list[int]:
    """Qwen3-VL: frames at even steps from the first to the last, by `num_frames` or `fps`."""
    wanted, fps = values["num_frames"], values["fps"]
    least, most = own["min_frames"], own["max_frames"]  # those of the processor, whatever a call says
    fps = own["fps"] if fps is None else fps
    if wanted is None and fps is not None:
        wanted = min(max(int(whole / (24 if rate is None else rate) * fps), least), most, whole)
    elif wanted is None:
        wanted = min(max(whole, least), most)
    numbers: list[int] = np.linspace(0, whole - 1, wanted).round().astype(int).tolist()
    return numbers


def in_whole_stacks(own: Values, values: Values, whole: int, rate: float | None) -> list[int]:
    """Qwen2-VL: frames of whole stacks, at even steps rounded down, by `num_frames` or `fps`."""
    wanted, fps, times, least, most = (
        own[name] if values[name] is None else values[name]
        for name in ("num_frames", "fps", "temporal_patch_size", "min_frames", "max_frames")
    )
    if wanted is not None:
        count = round(wanted / times) * times
    elif fps is None or rate is None:
        raise LayoutError(
            f"do_sample_frames=True with fps={fps} and frames a second of {rate} in video_metadata does not say how "
            "many frames are taken: give both, or num_frames."
        )
    else:
        most = min(most, whole) // times * times
        count = floor(min(max(whole / rate * fps, least), most, whole) / times) * times
    if not 1 <= count <= whole:
        raise LayoutError(f"do_sample_frames=True takes {count} frames of a video of {whole}: state other num_frames.")
    if whole * count >= _EXACT_STEPS:
        raise LayoutError(
            f"do_sample_frames=True takes {count} frames of a video of {whole}, whose places transformers rounds to "
            "float32 as the processor at hand does: give the frames that are sampled, and do_sample_frames=False."
        )
    # torch's `arange` has one place more where its length is rounded up.
    return [place * whole // count for place in range(ceil(whole / (whole / count)))]
