"""Packed tiles as values: which loops lie in chunks and rows, what a tile cuts, and how far apart its parts begin."""

from __future__ import annotations

from dataclasses import replace

from harness.emulator.cases import case

from stridedgpu.devices.cuda.relayout.packed_tile import PackedTile, packed_tiles
from stridedgpu.values.layout import Layout


def first_tile(source: Layout, target: Layout, filler: int = 0) -> PackedTile:
    one = replace(case(source, target, axis=3), filler=filler)
    return next(packed_tiles(one.plan.problem))


TURNED = first_tile(Layout((2, 33, 15, 3), (1485, 3, 99, 1)), Layout((2, 33, 15, 3)))
"""Images whose rows and columns change places, whole."""


def test_a_run_ends_where_the_next_loop_would_leave_too_large_a_gap():
    assert (TURNED.extents, TURNED.partial) == ((2, 33, 15, 3), [])
    assert (TURNED.chunk, TURNED.row) == ((3, 1, 2), (3, 2, 1))
    assert (TURNED.chunk_length, TURNED.row_length) == (1485, 1485)


def test_zeros_behind_pixels_are_part_of_a_row():
    sizes = (2, 200, 190, 3)
    tile = first_tile(Layout(sizes, (114000, 3, 600, 1)), Layout(sizes, (152000, 760, 4, 1)), filler=1)
    assert (tile.extents, tile.chunk, tile.row) == ((1, 96, 64, 3), (3, 1), (3, 2))
    assert tile.row_length == 256


def test_a_loop_of_which_a_tile_has_two_of_more_is_cut():
    assert replace(TURNED, extents=(2, 2, 15, 3)).partial == [1]
    assert replace(TURNED, extents=(1, 33, 1, 3)).outer == [0, 2]


def test_tiles_of_the_source_start_where_a_cut_loop_of_its_chunks_goes_on():
    steps = list(replace(TURNED, extents=(2, 32, 15, 3)).source_steps())
    assert [(step.elements, step.text) for step in steps if step.text] == [(96, "tiles of the source start {} B apart")]
    rows = replace(TURNED, extents=(2, 33, 14, 3), chunk=(3, 1))
    assert not any(step.text for step in rows.source_steps()), "the cut loop enumerates chunks"
