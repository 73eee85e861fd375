"""The sizes of image processors: drawn sizes by each rule, frozen, and beside transformers' own functions."""

from __future__ import annotations

import hashlib
from importlib import import_module

import numpy as np
import pytest
from harness.transformers_processors import transformers_library

from stridedgpu.adapters.image_processors import sizes

PINPOINTS = [(336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008)]


def broad(size):
    """A size whose longer side is at most four times the shorter one."""
    return tuple(max(side, -(-max(size) // 4)) for side in size)


def wide(size):
    """A square in place of a size with a side below 32 pixels."""
    return size if min(size) >= 32 else (max(size),) * 2


RULES = {
    "shortest_edge": (lambda size: sizes.shortest_edge(size, 224), "ee38de4d4a77"),
    "aspect_limited": (lambda size: sizes.aspect_limited(size, 800, 1333), "826dc9abda27"),
    "inside": (lambda size: sizes.inside(size, 300, 401), "ccc7c8a696df"),
    "longest_edge": (lambda size: sizes.longest_edge(size, 1024), "00255adfb2a9"),
    "longest_edge_floored": (lambda size: sizes.longest_edge_floored(size, 448), "4471b1a5ceb4"),
    "mod_limited": (lambda size: sizes.mod_limited(size, 800, 1333, 16), "7c97ce27b735"),
    "rounded_limited": (lambda size: sizes.rounded_limited(size, 384, 639, 32), "b9fe7b6b1e39"),
    "within": (lambda size: sizes.within(size, 378, 980), "a73e028600a3"),
    "constrained": (lambda size: sizes.constrained(size, (384, 390), 32, keeps_shape=True), "de3454b6f81d"),
    "pixels_limited": (lambda size: sizes.pixels_limited(size, 28, 56 * 56 * 9, 28 * 28 * 640), "045afba2310f"),
    "volume_limited": (lambda size: sizes.volume_limited(size, 28, 2, 2, 112 * 112 * 5, 28 * 28 * 900), "ddc2c086f77f"),
    "patches_limited": (lambda size: sizes.patches_limited(size, 16, 256), "8b5272da7089"),
    "tokens_limited": (lambda size: sizes.tokens_limited(size, (500, 640), (16, 14)), "1dc3e7778c67"),
    "longest_rounded": (lambda size: sizes.longest_rounded(size, 384, 100), "2e2d5dcce5ae"),
    "pooled": (lambda size: sizes.pooled(size, 48, 280), "1bc90e53f0a3"),
    "factors_limited": (lambda size: sizes.factors_limited(size, 32, 64 * 1024, 256 * 1024), "20c7ba0ba4d4"),
    "nearest_grid": (lambda size: sizes.nearest_grid(size, 256, 2, 10), "5d63a1957edf"),
    "slice_grid": (lambda size: sizes.slice_grid(size, 448, 9) or (0, 0), "a2e17950002c"),
    "near_a_square": (lambda size: sizes.near_a_square(size, 448, 56, grows=size[0] < 500), "0243d3b2e06c"),
    "at_least": (lambda size: sizes.at_least(size, 500), "588217bb1cd1"),
    "halved": (lambda size: sizes.halved(broad(size), 28, 300 * 300, 900 * 900), "b7dd743e98a8"),
    "tokens_near": (lambda size: sizes.tokens_near(size, 28, 400), "e9c1f00a285c"),
    "shrunk_to_patches": (lambda size: sizes.shrunk_to_patches(size, 14, 3000, 80), "094c7db8dcb4"),
    "budgeted": (lambda size: sizes.budgeted(size, 400_000, 900_000, 1100), "11923b967acc"),
    "tokens_between": (lambda size: sizes.tokens_between(size, 28, (2, 2, 2), 500, 900), "71fee377a248"),
    "fitted": (lambda size: sizes.fitted(size, (504, 700), grows=size[0] < 300), "a80944fbec95"),
    "best_resolution": (lambda size: sizes.best_resolution(size, PINPOINTS), "a3ecedb5277d"),
    "splittable": (lambda size: sizes.splittable(size, (672, 336)), "a4efc21f34bc"),
    "tile_grid": (lambda size: sizes.tile_grid(size, (150, 200), 2, 12), "4f456a903f4e"),
    "longest_even": (lambda size: sizes.longest_even(size, 1456), "6c95464d1142"),
    "longest_within": (lambda size: sizes.longest_within(size, 336, 980), "59225e1c52b6"),
    "whole_tiles": (lambda size: sizes.whole_tiles(size, 364), "c187196dad1e"),
    "fitting_grid": (lambda size: sizes.fitting_grid(size, sizes.grids_of(1, 12, 12), 150), "160a7ce10b7f"),
    "fitting_grid by rows": (
        lambda size: sizes.fitting_grid(size, [grid[::-1] for grid in sizes.grids_of(1, 7, 7)], 150),
        "07d7134f3d4b",
    ),
    "inside_canvas": (lambda size: sizes.inside_canvas(size, (300, 600), 150), "f99f04da4802"),
    "covering_grid": (lambda size: sizes.covering_grid(size, 150, 12), "7b65112ec201"),
    "roomy_grid": (lambda size: sizes.roomy_grid(size, 150, 36), "8e00099cc78f"),
    "sliding": (lambda size: sizes.sliding(wide(size), 728, 504, 1500), "f201773735b7"),
    "scan_crops": (lambda size: sizes.scan_crops(size, 100, 4, 1.2), "3ba18744de76"),
    "centred": (lambda size: [sizes.centred(size, (224, 300), rounds_up=up) for up in (False, True)], "a1860c00993f"),
}
"""Each rule with its numbers, and a digest of what it gives for `SIZES`."""

_DRAW = np.random.default_rng(31)
SIZES = [(int(height), int(width)) for height, width in _DRAW.integers(20, 2000, (400, 2))] + [
    (side, round(side * shape)) for side in (120, 333, 600) for shape in (1, 4 / 3, 16 / 9, 1 / 3, 5)
]


def digest(name: str) -> str:
    rule, _ = RULES[name]
    return hashlib.sha256(repr([rule(size) for size in SIZES]).encode()).hexdigest()[:12]


@pytest.mark.parametrize("name", RULES)
def test_sizes_are_what_they_were(name):
    assert digest(name) == RULES[name][1]


def of_transformers(name: str):
    """transformers' function of a rule with the same numbers."""
    transforms = import_module("transformers.image_transforms")
    utilities = import_module("transformers.image_utils")
    general = import_module("transformers.image_processing_utils")

    def image(size):
        return np.empty((3, *size), np.uint8)

    def tokens(size):
        return models("pixtral").get_resize_output_image_size(image(size), (500, 640), (16, 14))

    def grids_of_lfm2():
        return models("lfm2_vl").Lfm2VlImageProcessor()._target_ratios(2, 10)

    def models(model):
        return import_module(f"transformers.models.{model}.image_processing_{model}")

    def roomy_grid(size):
        processor = models("perception_lm").PerceptionLMImageProcessor(max_num_tiles=36)
        found = processor._fit_image_to_canvas(*size[::-1], 150)
        return (found or processor._find_closest_aspect_ratio(*size[::-1], 150))[::-1]

    def sliding(size):
        processor = models("step3p7").Step3p7ImageProcessor(max_image_size=1500)
        whole, cut, window, *_ = processor._plan_patches(*wide(size)[::-1], 728, 504)
        return whole[::-1], cut[::-1], window

    return {
        "longest_even": lambda size: models("idefics3").get_resize_output_image_size(image(size), 1456),
        "fitting_grid": lambda size: models("cohere2_vision").get_optimal_tiled_canvas(size, (150, 150), 1, 12)[::-1],
        "fitting_grid by rows": lambda size: [
            side // 150 for side in models("mllama").get_optimal_tiled_canvas(*size, 7, 150)
        ],
        "inside_canvas": lambda size: models("mllama").get_image_size_fit_to_canvas(*size, 300, 600, 150),
        "covering_grid": lambda size: models("ovis2").get_min_tile_covering_grid(size, 150, 12)[::-1],
        "roomy_grid": roomy_grid,
        "sliding": sliding,
        "aspect_limited": lambda size: transforms.get_size_with_aspect_ratio(size, 800, 1333),
        "shortest_edge": lambda size: transforms.get_resize_output_image_size(
            image(size), 224, default_to_square=False, input_data_format="channels_first"
        ),
        "inside": lambda size: utilities.get_image_size_for_max_height_width(size, 300, 401),
        "pixels_limited": lambda size: models("qwen2_vl").smart_resize(*size, 28, 56 * 56 * 9, 28 * 28 * 640),
        "volume_limited": lambda size: models("glm4v").smart_resize(2, *size, 2, 28, 112 * 112 * 5, 28 * 28 * 900),
        "halved": lambda size: models("glm_image").smart_resize(*broad(size), 28, 300 * 300, 900 * 900),
        "nearest_grid": lambda size: models("lfm2_vl").find_closest_aspect_ratio(
            size[1] / size[0], grids_of_lfm2(), size[1], size[0], 256
        )[::-1],
        "slice_grid": lambda size: (
            models("minicpmv4_6").MiniCPMV4_6ImageProcessor().get_sliced_grid(size, 9, 448) or (0, 0)
        ),
        "pooled": lambda size: models("gemma4").get_aspect_ratio_preserving_size(*size, 16, 280 * 9, 3),
        "tokens_near": lambda size: models("muse_glimmer").smart_resize(*size, 28, 400),
        "shrunk_to_patches": lambda size: models("kimi_k25").navit_resize(*size, 14, 2, 3000, 80)[0],
        "budgeted": lambda size: models("neomme").get_resize_output_size(
            *size, 1100, utilities.SizeDict(min_pixels=400_000, max_pixels=900_000)
        ),
        "tokens_between": lambda size: models("glm5_next").smart_resize(2, *size, 2, 28, 500, 900),
        "mod_limited": lambda size: models("yolos").get_size_with_aspect_ratio_yolos(size, 800, 1333),
        "rounded_limited": lambda size: models("bridgetower").get_resize_output_image_size(image(size), 384, 639),
        "patches_limited": lambda size: models("siglip2").get_image_size_for_max_num_patches(*size, 16, 256),
        "tokens_limited": tokens,
        "best_resolution": lambda size: general.select_best_resolution(size, PINPOINTS),
        "splittable": lambda size: general.get_patch_output_size(image(size), (672, 336), "channels_first"),
        "tile_grid": lambda size: models("got_ocr2").get_optimal_tiled_canvas(size, (150, 200), 2, 12)[::-1],
    }[name]


@pytest.mark.interop
@pytest.mark.parametrize(
    "name",
    [
        "shortest_edge",
        "aspect_limited",
        "inside",
        "mod_limited",
        "rounded_limited",
        "pixels_limited",
        "volume_limited",
        "patches_limited",
        "tokens_limited",
        "halved",
        "nearest_grid",
        "slice_grid",
        "pooled",
        "tokens_near",
        "shrunk_to_patches",
        "budgeted",
        "tokens_between",
        "best_resolution",
        "splittable",
        "tile_grid",
        "longest_even",
        "fitting_grid",
        "fitting_grid by rows",
        "inside_canvas",
        "covering_grid",
        "roomy_grid",
        "sliding",
    ],
)
def test_sizes_are_those_of_transformers(name):
    transformers_library()
    theirs, (ours, _) = of_transformers(name), RULES[name]
    assert [size for size in SIZES if tuple(theirs(size)) != ours(size)] == []
