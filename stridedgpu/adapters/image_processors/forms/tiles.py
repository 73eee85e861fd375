"""Tiles, crops and splits: several windows of an image.

Where a class resizes what it has resized and cut before, the images between are bytes, as `Operand`s.

Source: transformers, models/*/image_processing_*.py (`_preprocess`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np

from stridedgpu.adapters.image_processors import sizes
from stridedgpu.adapters.image_processors.rendering import Renderer
from stridedgpu.adapters.image_processors.sizes import Grid, Size, is_count
from stridedgpu.adapters.image_processors.windows import (
    crop_places,
    grid_places,
    height_and_width,
    in_square,
    middle_place,
    other_size,
    size_named,
    square_side,
    whole_place,
)
from stridedgpu.api.tensor import StridedTensor
from stridedgpu.devices.operand import Operand
from stridedgpu.preprocess.geometry import Placement
from stridedgpu.values.errors import LayoutError

from .job import (
    Images,
    Job,
    Joined,
    Listed,
    Moved,
    Results,
    Stated,
    batched,
    flattened,
    in_groups,
    largest,
    listed,
    sizes_of,
)
from .squares import colour_of, in_squares

_ALL: Final = slice(None)

_MOST_TILES: Final = 1 << 12
"""Of an image: a declaration from elsewhere asks for no more work than that."""

Pair = tuple[Operand, Placement]
"""An image, and where it goes."""


def _size_of(image: Operand) -> Size:
    """The height and width of one image."""
    return sizes_of([image])[0]


def _rendered(job: Job, pairs: Sequence[Pair], extent: Size) -> StridedTensor:
    """One window of each image."""
    return job.renderer.batch([image for image, _ in pairs], [place for _, place in pairs], extent)


def _packed(job: Job, groups: Sequence[Sequence[Pair]], extent: Size, most: int) -> StridedTensor:
    """The windows of each group along an axis of `most`, with zeros where a group has fewer."""
    image, place = next(pair for group in groups for pair in group)
    # Places without an image have a window beside one, and become zeros.
    absent = image, place._replace(place=(extent[0], 0, *place.place[2:]), size=extent)
    batch = _rendered(job, [pair for group in groups for pair in [*group, *[absent] * (most - len(group))]], extent)
    packed = StridedTensor.over(batch.operand.with_layout(in_groups(batch.operand.layout, most)))
    for row, group in enumerate(groups):
        if len(group) < most:
            packed[row, len(group) :][...] = 0
    return packed


def _parts(batch: StridedTensor, counts: Sequence[int]) -> Listed | list[StridedTensor]:
    """A batch as a list of its parts, of so many images each."""
    if len(set(counts)) == 1:
        return Listed(StridedTensor.over(batch.operand.with_layout(in_groups(batch.operand.layout, counts[0]))))
    return [batch[first:end] for first, end in pairwise(accumulate(counts, initial=0))]


def _canvas(renderer: Renderer, image: Operand, place: Placement) -> Operand:
    """A window of an image as bytes; the image itself where the window is all of it, as it is."""
    if place.place == (0, 0, *place.source) and place.size == place.source:
        return image
    batch = renderer.plain.batch([image], [place], place.size).operand
    return batch.with_layout(batch.layout.sliced(0))


def _resized(job: Job, image: Operand, size: Size) -> Operand:
    """An image of bytes at another size."""
    return _canvas(job.renderer, image, whole_place(_size_of(image), size))


def _cut_up(image: Operand, tile: Size) -> list[Operand]:
    """An image tile by tile, row by row; those at its end may be smaller."""
    (height, width), (down, across) = _size_of(image), tile
    return [
        image.with_layout(image.layout.sliced((_ALL, slice(top, top + down), slice(left, left + across))))
        for top in range(0, height, down)
        for left in range(0, width, across)
    ]


def _in_a_resolution(job: Job, image: Operand, name: str, side: int) -> list[Operand]:
    """The tiles of an image as large as fits inside the resolution of the option `name` that fits it best."""
    size = _size_of(image)
    best = sizes.best_resolution(size, [(int(height), int(width)) for height, width in job.values[name]])
    if best[0] * best[1] > _MOST_TILES * side * side:
        raise LayoutError(f"{name} has {best}, more than {_MOST_TILES} tiles of {side} x {side} pixels.")
    return _cut_up(_canvas(job.renderer, image, middle_place(size, best)), (side, side))


def tiles(job: Job, images: Images) -> Results:
    """LLaVA-NeXT: each image as a whole, and the tiles of it inside the resolution that fits best.

    Both are bytes first, since they are resized and cut once more where `size` differs from a tile.
    """
    flat = flattened(images)
    return _of_tiles(job, _with_tiles(job, flat), sizes_of(flat))


def tiles_or_squares(job: Job, images: Images) -> Results:
    """LLaVA-OneVision: the same for a list of one image; those of a list of several become squares."""
    groups = [group for group in images if group]
    found: list[list[Operand]] = []
    for group in groups:
        if len(group) == 1:
            found += _with_tiles(job, group)
        else:
            found += [[square] for square in in_squares(job, group, colour_of(job.own, "image_mean"))]
    results = _of_tiles(job, found, sizes_of(flattened(groups)))
    return {**results, "batch_num_images": [len(group) for group in groups]}


def _with_tiles(job: Job, flat: Sequence[Operand]) -> list[list[Operand]]:
    """Each image as a whole, and its tiles behind it."""
    values, resizing = job.values, job.resizing
    wanted = size_named("size", values["size"], is_square=bool(values["default_to_square"]))
    if wanted.keys().isdisjoint(("height", "shortest_edge")):
        raise other_size(values, "height and width, or shortest_edge")
    whole = (wanted["height"], wanted["width"]) if "height" in wanted else (wanted["shortest_edge"],) * 2
    side = whole[0] if values["crop_size"] is None else height_and_width("crop_size", values["crop_size"])[0]
    wholes = resizing.renderer.plain.batch(flat, [whole_place(size, whole) for size in sizes_of(flat)], whole).operand
    return [
        [
            wholes.with_layout(wholes.layout.sliced(row)),
            *_in_a_resolution(resizing, image, "image_grid_pinpoints", side),
        ]
        for row, image in enumerate(flat)
    ]


def _of_tiles(job: Job, groups: Sequence[Sequence[Operand]], originals: Sequence[Size]) -> Results:
    """Each tile as an image of its own, those of an image in one array; with `do_pad` zeros to the most tiles."""
    pairs = [[(tile, job.placed(size)) for tile, size in zip(group, sizes_of(group), strict=True)] for group in groups]
    extents = {place.size for group in pairs for _, place in group}
    if len(extents) > 1:
        values = job.values
        raise LayoutError(
            f"size={values['size']!r} and crop_size={values['crop_size']!r} give tiles of several sizes, which are no "
            "array: do_center_crop=True makes them alike."
        )
    (extent,), counts = extents, [len(group) for group in pairs]
    if job.values["do_pad"]:
        return {"pixel_values": Listed(_packed(job, pairs, extent, max(counts))), "image_sizes": originals}
    batch = _rendered(job, [pair for group in pairs for pair in group], extent)
    return {"pixel_values": _parts(batch, counts), "image_sizes": originals}


def grid(job: Job, images: Images) -> Results:
    """InternVL and Cohere 2: with `crop_to_patches` each image's tiles, and the whole behind several of them."""
    cut = [[*tiles, whole] for tiles, whole, _ in _in_grids(job, images)]
    return {"pixel_values": _of_groups(job, images, cut), "num_patches": list(map(len, cut))}


def whole_and_grid(job: Job, images: Images) -> Results:
    """Ovis 2: the whole in front of several tiles, and the grids."""
    if job.values["crop_to_patches"] and job.window is not None:
        raise LayoutError("do_center_crop=True with crop_to_patches=True is not reproduced: leave one of them out.")
    cut = _in_grids(job, images)
    pixels = _of_groups(job, images, [[whole, *tiles] for tiles, whole, _ in cut])
    return {"pixel_values": pixels, "grids": [grid for _, _, grid in cut]}


def _in_grids(job: Job, images: Images) -> list[tuple[list[Placement], Placement, Grid]]:
    """The tiles of each image with `crop_to_patches`, none of a single one, with the whole, and its grid."""
    values, cut = job.values, []
    for size in sizes_of(flattened(images)):
        whole, grid = job.placed(size), (1, 1)
        if values["crop_to_patches"]:
            named = size_named("size", values["size"], is_square=bool(values["default_to_square"]))
            if set(named) != {"height", "width"} or not values["do_resize"]:
                raise LayoutError("crop_to_patches=True needs do_resize=True and a size of height and width.")
            grid = job.declared.kind.grids(values, size)
        cut.append((grid_places(size, grid, whole.size) if grid != (1, 1) else [], whole, grid))
    return cut


def _of_groups(job: Job, images: Images, places: Sequence[Sequence[Placement]]) -> Listed | list[StridedTensor]:
    """Several windows of each image."""
    rows = [image for image, group in zip(flattened(images), places, strict=True) for _ in group]
    return listed(batched(job, rows, [place for group in places for place in group]))


_SCAN: Final = (
    "pan_and_scan_min_crop_size",
    "pan_and_scan_max_num_crops",
    "pan_and_scan_min_ratio_to_activate",
)
"""What pan and scan goes by."""


def crops(job: Job, images: Images) -> Results:
    """Gemma 3: each image, with `do_pan_and_scan` the crops of long ones behind it, and how many these are."""
    values, flat = job.values, flattened(images)
    rows, places, counts = [], [], []
    for image, size in zip(flat, sizes_of(flat), strict=True):
        crops = []
        if values["do_pan_and_scan"]:
            if not values["do_resize"]:
                raise LayoutError("do_pan_and_scan=True without do_resize is not reproduced: resize, or leave it out.")
            for name in _SCAN:
                if values[name] is None:
                    raise LayoutError(f"do_pan_and_scan=True needs {name}.")
            crops = sizes.scan_crops(size, *(values[name] for name in _SCAN))
        places += [job.placed(size), *crop_places(size, crops, job.resized)]
        rows += [image] * (1 + len(crops))
        counts.append(len(crops))
    return {"pixel_values": listed(batched(job, rows, places)), "num_crops": counts}


def nested(job: Job, images: Images) -> Results:
    """Idefics2: lists of images, each split in four with `do_image_splitting`, filled up to the largest with masks."""
    if job.values["do_image_splitting"] and not job.values["do_resize"]:
        raise LayoutError("do_image_splitting=True without do_resize is not reproduced: resize, or leave it out.")
    groups: list[list[Pair]] = []
    for group in images:
        pairs: list[Pair] = []
        for image, size in zip(group, sizes_of(group), strict=True):
            quarters = _quarters(size) if job.values["do_image_splitting"] else []
            pairs += [(image, place) for place in [*crop_places(size, quarters, job.resized), job.placed(size)]]
        groups.append(pairs)
    return _in_lists(job, groups)


def _in_lists(job: Job, groups: Sequence[Sequence[Pair]]) -> Results:
    """Windows in lists; with `do_pad` filled up to the largest and to the longest list, with masks."""
    flat = [pair for group in groups for pair in group]
    if not job.values["do_pad"]:
        pixels = iter(batched(job, [image for image, _ in flat], [place for _, place in flat]))
        return {"pixel_values": [[next(pixels) for _ in group] for group in groups]}
    if job.renderer.how.target.name == "uint8":
        raise LayoutError("do_pad=True of bytes is not reproduced here: leave do_rescale or do_normalize on.")
    extent, most = largest([place.size for _, place in flat]), max(map(len, groups))
    absent = (0, 0)
    shown = [one for group in groups for one in [*(place.size for _, place in group), *[absent] * (most - len(group))]]
    masks = job.renderer.masks(shown, extent).reshape(len(groups), most, *extent)
    return {"pixel_values": _packed(job, groups, extent, most), "pixel_attention_mask": Moved(masks)}


def splits(job: Job, images: Images) -> Results:
    """Idefics3: lists of images, each as its tiles and as a whole, all of them squares of one size.

    An image is resized by `size`, then to whole tiles, which are cut, and that once more, as the whole.
    """
    values, job = job.values, job.resizing
    named = size_named("max_image_size", values["max_image_size"])
    if set(named) != {"longest_edge"}:
        raise LayoutError(f"max_image_size={values['max_image_size']!r} must have longest_edge, the side of a tile.")
    tile = (named["longest_edge"],) * 2
    groups: list[list[Pair]] = []
    rows: list[list[int]] = []
    columns: list[list[int]] = []
    for group in images:
        pairs, grids = [], []
        for image, size in zip(group, sizes_of(group), strict=True):
            whole, grid = _resized(job, image, job.resized(size)), (0, 0)
            if values["do_image_splitting"]:
                height, width = sizes.whole_tiles(job.resized(size), tile[0])
                whole, grid = _resized(job, whole, (height, width)), (height // tile[0], width // tile[0])
            pieces = _cut_up(whole, tile) if max(grid) > 1 else []
            pairs += [(piece, whole_place(tile, tile)) for piece in pieces]
            pairs.append((whole, whole_place(_size_of(whole), tile)))
            grids.append(grid if pieces else (0, 0))
        groups.append(pairs)
        rows.append([down for down, _ in grids])
        columns.append([across for _, across in grids])
    results = _in_lists(job, groups)
    if values["return_row_col_info"]:
        results |= {"rows": Stated(rows), "cols": Stated(columns)}
    return results


def mosaics(job: Job, images: Images) -> Results:
    """Mllama: lists of images, each at the top left of a grid of tiles, with the grids' numbers and masks of tiles."""
    values, tile = job.values, square_side(job.values)
    if not values["do_pad"] or not values["do_resize"]:
        raise LayoutError("do_pad=True and do_resize=True are the only ones of this processor: leave them on.")
    most, longest = values["max_image_tiles"], max(map(len, images))
    known = [(rows, columns) for rows in range(1, most + 1) for columns in range(1, most // rows + 1)]
    numbers = np.zeros((len(images), longest), np.int64)
    masks = np.zeros((len(images), longest, most), np.int64)
    masks[:, :, 0] = 1
    groups: list[list[Pair]] = []
    counts: list[list[int]] = [[] for _ in images]
    for row, group in enumerate(images):
        for place, (image, size) in enumerate(zip(group, sizes_of(group), strict=True)):
            grid = job.declared.kind.grids(values, size)
            canvas = grid[0] * tile, grid[1] * tile
            tiles = grid_places(size, grid, (tile, tile), sizes.inside_canvas(size, canvas, tile))
            groups.append([(image, placement) for placement in tiles])
            numbers[row, place] = known.index(grid) + 1
            masks[row, place, : len(tiles)] = 1
            counts[row].append(len(tiles))
        groups += [[]] * (longest - len(group))
    pixels = _packed(job, groups, (tile, tile), most).operand
    return {
        "pixel_values": StridedTensor.over(pixels.with_layout(in_groups(pixels.layout, longest))),
        "aspect_ratio_ids": Moved(numbers),
        "aspect_ratio_mask": Moved(masks),
        "num_tiles": Stated(counts),
    }


def canvases(job: Job, images: Images) -> Results:
    """Llama 4: each image at the top left of a grid of tiles, and the whole behind several, with the grids."""
    values, side, flat = job.values, square_side(job.values), flattened(images)
    if not values["do_resize"]:
        raise LayoutError("do_resize=False is not taken by this processor: leave it on.")
    groups: list[list[Pair]] = []
    grids: list[Grid] = []
    for image, size in zip(flat, sizes_of(flat), strict=True):
        grid = job.declared.kind.grids(values, size)
        canvas = grid[0] * side, grid[1] * side
        shown = sizes.inside_floats(size, canvas, None if values["resize_to_max_canvas"] else side)
        places = [*grid_places(size, grid, (side, side), shown), *[whole_place(size, (side, side))] * (grid != (1, 1))]
        groups.append([(image, place) for place in places])
        grids.append(grid)
    batch = _rendered(job, [pair for group in groups for pair in group], (side, side))
    return {
        "pixel_values": Joined(batch, list(map(len, groups))),
        "aspect_ratios": Moved(np.array(grids, np.int64), is_listed=True),
    }


def pages(job: Job, images: Images) -> Results:
    """Granite Docling: lists of pages, each as its tiles, and the whole behind several, with masks and the grids."""
    grids = [[job.declared.kind.grids(job.values, size) for size in sizes_of(group)] for group in images]
    tile = height_and_width("size", job.values["size"])
    groups: list[list[Pair]] = []
    for group, cut in zip(images, grids, strict=True):
        pairs: list[Pair] = []
        for image, size, grid in zip(group, sizes_of(group), cut, strict=True):
            places = [*grid_places(size, grid, tile), *[whole_place(size, tile)] * (grid != (1, 1))]
            pairs += [(image, place) for place in places]
        groups.append(pairs)
    counts = np.array(list(map(len, groups)))
    results = {
        "pixel_values": _packed(job.resizing, groups, tile, int(counts.max())),
        "pixel_attention_mask": Moved(np.arange(counts.max()) < counts[:, None]),
    }
    if job.values["fine_route"]:
        results["tile_fine_mask"] = Moved(np.ones(len(groups), bool))
    axes = {"rows": 0, "cols": 1}
    return results | {key: Stated([[grid[axis] for grid in cut] for cut in grids]) for key, axis in axes.items()}


def corners(job: Job, images: Images) -> Results:
    """Aria: each image, or with `split_image` its tiles, at the top left of a square, with masks."""
    values, side = job.values, job.values["max_image_size"]
    if side not in _ARIAS or values["min_image_size"] > side:
        raise LayoutError(f"max_image_size={side} must be 490 or 980, and min_image_size at most that.")
    cut = [
        _in_a_resolution(job, image, "split_resolutions", side) if values["split_image"] else [image]
        for image in flattened(images)
    ]
    pieces = [piece for group in cut for piece in group]
    resized = [sizes.longest_within(size, values["min_image_size"], side) for size in sizes_of(pieces)]
    pairs = [
        (piece, whole_place(size, shown)._replace(size=(side, side)))
        for piece, size, shown in zip(pieces, sizes_of(pieces), resized, strict=True)
    ]
    masks = job.renderer.masks(resized, (side, side)).astype(bool)
    return {
        "pixel_values": _rendered(job, pairs, (side, side)),
        "pixel_mask": Moved(masks),
        "num_crops": max(map(len, cut)),
    }


_ARIAS: Final = (490, 980)


def thumbs(job: Job, images: Images) -> Results:
    """PerceptionLM: each image as a whole, and the tiles that it fills behind it."""
    values, flat = job.values, flattened(images)
    tile = (values["tile_size"],) * 2
    groups: list[list[Pair]] = []
    for image, size in zip(flat, sizes_of(flat), strict=True):
        places = [whole_place(size, tile if values["do_resize"] else size)]
        if values["do_resize"] and values["vision_input_type"] == "thumb+tile":
            is_cut = values["max_num_tiles"] > 1
            grid = job.declared.kind.grids({**job.own, "tile_size": tile[0]}, size) if is_cut else (1, 1)
            places += grid_places(size, grid, tile)
        groups.append([(image, place) for place in places])
    pairs = [pair for group in groups for pair in group]
    if values["do_resize"]:
        return {"pixel_values": _parts(_rendered(job, pairs, tile), list(map(len, groups)))}
    return {"pixel_values": [_rendered(job, [pair], pair[1].size) for pair in pairs]}


def views(job: Job, images: Images) -> Results:
    """DeepSeek-OCR 2: each image in the middle of a square, and the tiles of large ones."""
    whole, tile = height_and_width("size", job.values["size"])[0], job.values["tile_size"]
    side = whole if job.values["crop_to_patches"] else tile
    locals_, counts, _ = _local_views(job, images)
    pixels = _global_views(job, images, side)
    return {"pixel_values": Listed(pixels), "num_local_patches": counts, **locals_}


def views_and_grids(job: Job, images: Images) -> Results:
    """Unlimited OCR: the same, with the grids; where nothing is cut, a small square is filled."""
    values = job.values
    side = max(height_and_width("size", values["size"]))
    fills = not values["crop_to_patches"] and side <= values["maximum_pad_value"]
    locals_, counts, grids = _local_views(job, images)
    pixels = _global_views(job, images, side, fills=fills)
    shown = {"num_local_patches": Stated(counts), "patches_grid": Stated(grids)}
    return {"pixel_values": Listed(pixels), **locals_, **shown}


def _global_views(job: Job, images: Images, side: int, *, fills: bool = False) -> StridedTensor:
    """Each image in the middle of a square of the background's colour, or filling it."""
    flat = flattened(images)
    places = []
    for size in sizes_of(flat):
        scale = side / max(size)
        resized = (side, side) if fills else (round(size[0] * scale), round(size[1] * scale))
        places.append(in_square(whole_place(size, resized)))
    values = job.own if job.backend == "torchvision" else job.values
    renderer = replace(job.renderer, colour=_levels(values["background_color"], flat[0].layout.sizes[0]))
    return renderer.batch(flat, places, (side, side))


def _levels(colour: Any, channels: int) -> tuple[int, ...]:
    """A colour of one level for each channel; one number is that of the first channel."""
    levels = (colour, *(0,) * (channels - 1)) if is_count(colour, 0) else colour
    is_listed = isinstance(levels, (list, tuple)) and len(levels) == channels
    if not is_listed or not all(is_count(level, 0) and level <= _WHITE for level in levels):
        raise LayoutError(f"background_color={colour!r} must have a level from 0 to {_WHITE} for each channel.")
    return tuple(map(int, levels))


_WHITE: Final = 255


def _local_views(job: Job, images: Images) -> tuple[Results, list[int], list[tuple[int, int]]]:
    """The tiles of images that are larger than one, by their key, how many of each image, and columns and rows."""
    tile, flat = job.values["tile_size"], flattened(images)
    pairs: list[Pair] = []
    counts, grids = [], []
    for image, size in zip(flat, sizes_of(flat), strict=True):
        is_cut = job.values["crop_to_patches"] and max(size) > tile
        grid = job.declared.kind.grids(job.values, size) if is_cut else (1, 1)
        places = grid_places(size, grid, (tile, tile)) if is_cut else []
        pairs += [(image, place) for place in places]
        counts.append(len(places))
        grids.append(grid[::-1])
    return {"pixel_values_local": Listed(_rendered(job, pairs, (tile, tile)))} if pairs else {}, counts, grids


def slides(job: Job, images: Images) -> Results:
    """Step 3.7: each image as a whole, and the windows of long and of large ones, with masks of the ends of rows."""
    whole, side = height_and_width("size", job.values["size"])[0], job.values["patch_size"]
    wholes: list[Pair] = []
    pairs: list[Pair] = []
    counts: list[int] = []
    ends: list[list[bool]] = []
    for image in (_squared_if_narrow(job, image) for image in flattened(images)):
        size = _size_of(image)
        shown, cut, window = sizes.sliding(size, whole, side, job.own["max_image_size"])
        view = _resized(job, image, shown)
        wholes.append((view, whole_place(shown, (whole, whole))))
        pieces = _cut_up(_resized(job, image, cut), (window, window)) if window else []
        pairs += [(piece, whole_place(_size_of(piece), (side, side))) for piece in pieces]
        counts.append(len(pieces))
        rows, columns = (max(1, pixels // window) if window else 0 for pixels in cut)
        ends.append([column == columns - 1 and row < rows - 1 for row in range(rows) for column in range(columns)])
    results: Results = {"pixel_values": _rendered(job, wholes, (whole, whole)), "num_local_patches": counts}
    if pairs:
        results["pixel_values_local"] = _rendered(job, pairs, (side, side))
        results["patch_newline_masks"] = Stated([row + [False] * (max(counts) - len(row)) for row in ends])
    return results


def _squared_if_narrow(job: Job, image: Operand) -> Operand:
    """An image of less than 32 pixels that is longer than four times that, at the top left of a square."""
    size = _size_of(image)
    if min(size) >= _NARROW or max(size) / min(size) <= _LONG:
        return image
    return _canvas(job.renderer, image, whole_place(size, size)._replace(size=(max(size),) * 2))


_NARROW: Final = 32
_LONG: Final = 4


def _quarters(size: Size) -> list[tuple[int, int, int, int]]:
    """The four quarters of an image: top, left, height and width."""
    (height, width), (down, across) = size, (size[0] // 2, size[1] // 2)
    if not down or not across:
        raise LayoutError(f"do_image_splitting=True cuts an image in four, and one has {height} x {width} pixels.")
    return [
        (0, 0, down, across),
        (0, across, down, width - across),
        (down, 0, height - down, across),
        (down, across, height - down, width - across),
    ]
