"""Videos: windows of their frames, and patches of stacks of frames.

A result is allocated first, and frames go into it a few at a time: resized bytes of more frames are never in memory.

Source: transformers, models/*/video_processing_*.py (`_preprocess`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stridedgpu.adapters.image_processors.normalising import figures_of
from stridedgpu.adapters.image_processors.videos import Clip
from stridedgpu.adapters.image_processors.windows import (
    grid_places,
    new_size,
    placed,
    size_named,
    slice_grid,
    slice_size,
)
from stridedgpu.api.relayout import relayout
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.exchange.exports import array_of_operand
from stridedgpu.operations.images import CropSources
from stridedgpu.preprocess.geometry import Placement
from stridedgpu.values.errors import LayoutError
from stridedgpu.values.layout import Layout

from .job import Filled, Job, Listed, Moved, OfTensors, Results, Stated
from .patches import grid_of, positions_of, soft_tokens, whole_patches, write_merged, write_patches
from .slices import write_side_by_side

_AT_ONCE: Final = 4
"""Frames that are read and resized by one call."""

Videos = list[StridedTensor] | StridedTensor


def _placement(job: Job, clip: Clip) -> Placement:
    """Where each frame of a video goes."""
    kind, size = job.declared.kind, clip.size
    values = {**job.values, "frames": len(clip.taken)}
    if not values["do_resize"]:
        return placed(size, size, job.window, job.backend)
    resized = new_size(kind.resizes, values, size, is_cut=job.window is not None)
    place = placed(size, resized, job.window, job.backend)
    return place if kind.canvas is None else kind.canvas(values, place)


def windowed(job: Job, clips: Sequence[Clip]) -> Results:
    """A window of each frame; videos of one length and size are one batch."""
    return {job.declared.kind.key: _listed(_windows(job, clips))}


def padded(job: Job, clips: Sequence[Clip]) -> Results:
    """PE Video: shorter videos are filled up with frames of zeros where tensors are asked for, with masks."""
    lengths = [len(clip.taken) for clip in clips]
    videos = _windows(job, clips)
    if isinstance(videos, StridedTensor):
        return {job.declared.kind.key: Listed(videos)}
    if len(set(lengths)) == 1:
        return {job.declared.kind.key: Filled(videos)}
    masks = np.arange(max(lengths)) < np.array(lengths)[:, None]
    return {job.declared.kind.key: Filled(videos), "padding_mask_videos": OfTensors(masks)}


def squares(job: Job, clips: Sequence[Clip]) -> Results:
    """SmolVLM: frames as bytes at their size, and then as squares; with `do_pad` zeros up to the longest, and masks."""
    values, renderer = job.values, job.renderer
    wanted = size_named("max_image_size", values["max_image_size"])
    if not values["do_resize"] or set(wanted) != {"longest_edge"}:
        raise LayoutError(
            f"do_resize={values['do_resize']} with max_image_size={values['max_image_size']!r} is not reproduced: "
            "frames become squares, whose side is longest_edge."
        )
    side = wanted["longest_edge"]
    lengths, square = [len(clip.taken) for clip in clips], (side, side)
    longest = max(lengths)
    extents = [longest if values["do_pad"] else length for length in lengths]
    shapes = [(extent, clip.channels, *square) for extent, clip in zip(extents, clips, strict=True)]
    videos: Videos = [renderer.allocated(shape) for shape in shapes]
    if len(set(shapes)) == 1:
        videos = renderer.allocated((len(clips), *shapes[0]))
    for row, (clip, length) in enumerate(zip(clips, lengths, strict=True)):
        place, video, start = _placement(job, clip), videos[row], 0
        again = placed(place.size, square, None, job.backend)
        for frames in clip.parts(_AT_ONCE):
            count = len(frames.layouts)
            first = renderer.plain.batch(frames, [place] * count, place.size).operand
            renderer.write(CropSources.of_batch(first), [again] * count, video[start : start + count].operand)
            start += count
        if length < longest and values["do_pad"]:
            video[length:][...] = 0
    found: Results = {job.declared.kind.key: _listed(videos)}
    if values["do_pad"]:
        found["pixel_attention_mask"] = Moved(np.ones((len(clips), longest, *square), np.int64), is_listed=True)
    return found


def tubelets(job: Job, clips: Sequence[Clip]) -> Results:
    """Nemotron Omni: stacks of frames that are resized as floats, whose channels lie one behind the other.

    A frame is divided by 255 where it is resized, and normalised in a second pass over a few frames.
    """
    values, channels = job.values, clips[0].channels
    mean, std = figures_of(values["norm_mean"]), figures_of(values["norm_std"])
    if any(not isinstance(figures, tuple) or len(figures) != channels for figures in (mean, std)):
        raise LayoutError(
            f"norm_mean={values['norm_mean']!r} and norm_std={values['norm_std']!r} must have a number for each of "
            f"{channels} channels."
        )
    how = replace(job.renderer.how, factor=1.0, mean=0.0, std=255.0)
    renderer, times = replace(job.renderer, how=how), values["temporal_patch_size"]
    places = [_placement(job, clip) for clip in clips]
    lengths = [len(clip.taken) for clip in clips]
    kinds = sorted({(-(-length // times), *place.size) for length, place in zip(lengths, places, strict=True)})
    if len(kinds) > 1:
        raise LayoutError(f"The videos have stacks of frames, heights and widths of {kinds}: give them one by one.")
    ((stacks, height, width),) = kinds
    whole = renderer.allocated((len(clips), stacks * times, channels, height, width))
    for clip, place, video in zip(clips, places, whole, strict=True):
        start = 0
        for frames in clip.parts(_AT_ONCE, times):
            count = len(frames.layouts)
            quotients = renderer.batch(frames, [place] * count, place.size)
            part = video[start : start + count]
            relayout(quotients, out=part, scale=1.0, mean=mean, std=std, arithmetic="transformers")
            start += count
    sizes = (len(clips), stacks, times * channels, height, width)
    return {job.declared.kind.key: whole.as_strided(sizes, Layout(sizes).strides), "num_frames": lengths}


def with_sizes(job: Job, clips: Sequence[Clip]) -> Results:
    """SAM 2: the sizes of frames, before and behind the resize, beside the pixels."""
    resized = [_placement(job, clip).size for clip in clips]
    return {"original_sizes": [clip.size for clip in clips], "reshaped_input_sizes": resized, **windowed(job, clips)}


def _windows(job: Job, clips: Sequence[Clip]) -> Videos:
    """Axes T, C, H, W of each video; B in front of them where all are alike."""
    renderer, places = job.renderer, [_placement(job, clip) for clip in clips]
    shapes = [(len(clip.taken), clip.channels, *place.size) for clip, place in zip(clips, places, strict=True)]
    if len(set(shapes)) == 1:
        whole = renderer.allocated((len(clips), *shapes[0]))
        videos = [whole[row] for row in range(len(clips))]
    else:
        whole = None
        videos = [renderer.allocated(shape) for shape in shapes]
    for clip, place, video in zip(clips, places, videos, strict=True):
        start = 0
        for frames in clip.parts(_AT_ONCE):
            count = len(frames.layouts)
            renderer.write(frames, [place] * count, video[start : start + count].operand)
            start += count
    return videos if whole is None else whole


def _listed(videos: Videos) -> Listed | list[StridedTensor]:
    return Listed(videos) if isinstance(videos, StridedTensor) else videos


def clips(job: Job, clips: Sequence[Clip]) -> Results:
    """Qwen2-VL's videos: their patches in one array. The last frame of a video is repeated to a whole stack."""
    patches, grids = _patches(job, clips)
    return {job.declared.kind.key: patches, "video_grid_thw": np.array(grids, np.int64)}


def paired(job: Job, clips: Sequence[Clip]) -> Results:
    """ERNIE 4.5 VL: the patches of frames, of which there is an even number: the last one is repeated."""
    even = [replace(clip, taken=[*clip.taken, *[clip.taken[-1]] * (len(clip.taken) % 2)]) for clip in clips]
    patches, grids = _patches(job, even)
    return {job.declared.kind.key: patches, "video_grid_thw": np.array(grids, np.int64)}


def chunked(job: Job, clips: Sequence[Clip]) -> Results:
    """Kimi K2.5: the same, with a grid for each chunk of `temporal_patch_size` frames, and how many there are."""
    return _divided(job, clips, job.values["temporal_patch_size"])


def segmented(job: Job, clips: Sequence[Clip]) -> Results:
    """MiniMax M3 VL: the same, with a grid for each segment of `vision_segment_max_frames` stacks, and their number."""
    return _divided(job, clips, job.values["vision_segment_max_frames"])


def _divided(job: Job, clips: Sequence[Clip], most: int | None) -> Results:
    patches, grids = _patches(job, clips)
    parts = [
        [(min(most or stacks, stacks - first), down, across) for first in range(0, stacks, most or stacks)]
        for stacks, down, across in grids
    ]
    return {
        job.declared.kind.key: patches,
        "video_grid_thw": np.array([part for video in parts for part in video], np.int64),
        "num_chunks_per_video": [len(video) for video in parts],
    }


def compressed(job: Job, clips: Sequence[Clip]) -> Results:
    """VideoLLaMA 3: the same, with the `merge_size` of each video, and which merged patches are kept."""
    patches, grids = _patches(job, clips)
    merge = job.values["merge_size"]
    kept, first = [], 0
    for stacks, down, across in grids:
        count = down * across
        tokens = count // merge**2
        masks = np.ones((stacks, tokens), np.bool_)
        if job.values["use_token_compression"]:
            before = patches[first : first + count]
            for stack in range(1, stacks):
                now = patches[first + stack * count : first + (stack + 1) * count]
                masks[stack] = _changed(before, now, tokens)
                before = now
        kept.append(masks.reshape(-1))
        first += stacks * count
    return {
        job.declared.kind.key: patches,
        "video_grid_thw": np.array(grids, np.int64),
        "video_merge_sizes": np.full(len(grids), merge, np.int64),
        "video_compression_mask": np.concatenate(kept),
    }


_CHANGE: Final = 0.1
"""Of a merged patch's values, in the mean, in units of bytes: more than that is kept."""


def _changed(before: StridedTensor, now: StridedTensor, tokens: int) -> NDArray[np.bool_]:
    """Which merged patches of a frame differ from the frame before; the first one is kept where none does.

    Raises `LayoutError` where a mean is so near the limit that torch's sum, whose order is the processor's, decides.
    """
    first, second = (array_of_operand(one.to_device("cpu").operand).reshape(tokens, -1) for one in (before, now))
    differences = np.abs((second - first).astype(np.float32)).mean(1, dtype=np.float64) * 255
    if np.any(np.abs(differences - _CHANGE) < 1e-6):
        raise LayoutError(
            f"A patch changes by {_CHANGE} in the mean, the limit of use_token_compression=True, and torch rounds this "
            "mean as the processor at hand does: use_token_compression=False keeps all patches."
        )
    mask: NDArray[np.bool_] = differences > _CHANGE
    if not mask.any():
        mask[0] = True
    return mask


def positioned(job: Job, clips: Sequence[Clip]) -> Results:
    """Gemma 4: the patches of each frame, filled up, with the column and the row of each: -1 where there is none."""
    most, patches_of = soft_tokens(job)
    most *= patches_of
    renderer, channels = job.renderer, clips[0].channels
    places = [_placement(job, clip) for clip in clips]
    shapes = [whole_patches(job, place.size, most) for place in places]
    lengths = [len(clip.taken) for clip in clips]
    rows = renderer.rows((sum(lengths), most, *job.patching.sizes(channels)), channels)
    written = 0
    for clip, place, shape in zip(clips, places, shapes, strict=True):
        for frames in clip.parts(_AT_ONCE):
            count = len(frames.layouts)
            frames.check(channels, frames.element, frames.device, "videos[0][0]")
            pixels = renderer.plain.batch(frames, [place] * count, place.size).operand
            for number in range(count):
                image = pixels.with_layout(pixels.layout.sliced(number))
                write_merged(job, image, shape, rows, (written + number) * most)
            written += count
    patches, first = renderer.finished(rows, channels), 0
    for length, (down, across) in zip(lengths, shapes, strict=True):
        if down * across < most:
            patches[first : first + length, down * across :][...] = 0
        first += length
    frames_of = [shape for shape, length in zip(shapes, lengths, strict=True) for _ in range(length)]
    return {
        job.declared.kind.key: patches,
        "video_position_ids": Moved(positions_of(frames_of, most)),
        "num_frames_per_video": lengths,
        "num_soft_tokens_per_video": [down * across // patches_of for down, across in shapes],
    }


def sliced(job: Job, clips: Sequence[Clip]) -> Results:
    """MiniCPM-V 4.6 and MiniCPM-OCR: the patches of each frame, and behind them those of its slices, along one axis."""
    values, renderer, channels = job.values, job.renderer, clips[0].channels
    if values["stack_frames"] > 1 or not values["do_resize"]:
        raise LayoutError(
            f"stack_frames={values['stack_frames']} with do_resize={values['do_resize']} is not reproduced for "
            f"{job.declared.name}: stack_frames=1 with do_resize=True is."
        )
    patch = values["patch_size"]
    grids, windows = [], []
    for clip in clips:
        grid = slice_grid(values, clip.size)
        slices = [] if grid is None else grid_places(clip.size, grid, slice_size(values, clip.size, grid))
        grids.append((0, 0) if grid is None else grid)
        windows.append([_placement(job, clip), *slices])
    shapes = [[(place.size[0] // patch, place.size[1] // patch) for place in places] for places in windows]
    of_frames = [sum(down * across for down, across in one) for one in shapes]
    lengths = [len(clip.taken) for clip in clips]
    total = sum(length * count for length, count in zip(lengths, of_frames, strict=True))
    wide, first = renderer.rows((1, channels, patch, total * patch), channels), 0
    for clip, places, kinds, count in zip(clips, windows, shapes, of_frames, strict=True):
        for frames in clip.parts(_AT_ONCE):
            frames.check(channels, frames.element, frames.device, "videos[0][0]")
            inside, number = first, len(frames.layouts)
            for place, shape in zip(places, kinds, strict=True):
                pixels = renderer.plain.batch(frames, [place] * number, place.size).operand
                for row in range(number):
                    image = pixels.with_layout(pixels.layout.sliced(row))
                    write_side_by_side(job, image, shape, wide, inside + row * count)
                inside += shape[0] * shape[1]
            first += number * count
    per_frame = [place for place, length in enumerate(lengths) for _ in range(length)]
    return {
        job.declared.kind.key: renderer.finished(wide, channels),
        "target_sizes_videos": np.array([shape for place in per_frame for shape in shapes[place]], np.int32),
        "grids_videos": np.array([grids[place] for place in per_frame], np.int32),
        "num_patches_per_frame": np.array([len(shapes[place]) for place in per_frame], np.int32),
        "num_frames_per_video": Stated(lengths),
    }


def _patches(job: Job, clips: Sequence[Clip]) -> tuple[StridedTensor, list[tuple[int, int, int]]]:
    """The patches of all videos, and how many stacks each has, and patches along the height and width of a stack."""
    renderer, times = job.renderer, job.patching.times
    places = [_placement(job, clip) for clip in clips]
    grids = [
        (-(-len(clip.taken) // times), *grid_of(job, place.size)) for clip, place in zip(clips, places, strict=True)
    ]
    channels = clips[0].channels
    rows = renderer.rows(
        (sum(stacks * down * across for stacks, down, across in grids), *job.patching.sizes(channels)), channels
    )
    written = 0
    for clip, place, (_, down, across) in zip(clips, places, grids, strict=True):
        for frames in clip.parts(times * max(1, _AT_ONCE // times), times):
            frames.check(channels, frames.element, frames.device, "videos[0][0]")
            count = len(frames.layouts)
            pixels = renderer.plain.batch(frames, [place] * count, place.size).operand
            for first in range(0, count, times):
                image = pixels.with_layout(pixels.layout.sliced(first))
                write_patches(job, image, (down, across), rows, written, pixels.layout.strides[0])
                written += down * across
    return renderer.finished(rows, channels), grids
