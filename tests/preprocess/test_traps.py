"""What looked like success and was not, with the test that fails without the remedy.

| trap | it was |
|---|---|
| epochs | a loader made once repeated its crops in every epoch |
| workers | a new epoch did not reach persistent workers |
| flip | `flip=True` with a seed mirrored all images, `--flip` one in two |
| keys | chance without a key hashed all pixels |
| indices | a data set's indices, the cheapest keys, did not reach the step |
| modes | grey, RGBA, palette, CMYK and 16-bit images raised or were dropped |
| orientation | images turned by EXIF stayed on their side |
| grey files | `sg.load` of a step that makes grey refused every file |
| 16 bits | Pillow cuts samples of 16 bits off at 255 |
| cores | each worker of a loader took all cores |
| transport | a float32 batch was copied to reach PyTorch's shared memory |
| annotations | masks, boxes and points stayed where they were when images moved |
| boxes | a resize of a new geometry wrote its machine code's text again, 7 ms an image |
| order of nothing | `relayout(hwc, layout="CHW")` did nothing |
| unnamed pixels | crops and resizes took the rows of (H, W, C) for channels |
| planes as pixels | a step took the rows of (C, H, W) for channels |
| named axes | a step read a tensor labelled NCHW as NHWC |
| contradictions | `dims=` beside other names of xarray's axes |
| pitches | a pitch in bytes was counted in elements of 1 byte |
| two meanings | `dtype="u8"` is 8 bytes to NumPy and 8 bits to others |
| masks of arrays | a masked array lost its mask |
| byte order | an `out=` of swapped bytes was copied, and the copy written |
| other samples | the state of a loader with more samples skipped all of these |
| mixed shards | shards of another decoder or declaration were joined |
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

TRAPS = {
    "epochs": ("preprocess/test_epochs.py", "test_the_same_samples_twice_without_an_epoch_are_said_once"),
    "workers": ("preprocess/test_torch_loader.py", "test_epochs_reach_workers_that_are_there_already"),
    "flip": ("preprocess/test_epochs.py", "test_true_with_a_seed_mirrors_one_in_two"),
    "keys": ("preprocess/test_epochs.py", "test_a_key_reads_a_bounded_part_of_the_image"),
    "indices": ("preprocess/test_one_declaration.py", "test_the_data_loader"),
    "modes": ("preprocess/test_modes.py", "test_eight_bits_become_what_pillow_makes_of_them"),
    "orientation": ("preprocess/test_modes.py", "test_the_camera_s_orientation_is_applied"),
    "grey files": ("preprocess/test_loader.py", "test_files_become_grey_where_the_step_does"),
    "16 bits": ("preprocess/test_modes.py", "test_sixteen_bits_keep_their_depth"),
    "cores": ("preprocess/test_torch_loader.py", "test_a_worker_has_one_thread"),
    "transport": ("preprocess/test_torch_loader.py", "test_a_worker_writes_into_shared_memory"),
    "annotations": ("preprocess/test_annotations.py", "test_points_are_where_the_pixels_went"),
    "boxes": ("cpu/test_native_resize.py", "test_boxes_of_any_geometry_have_loops_from_the_first_on"),
    "order of nothing": ("operations/test_relayout.py", "test_an_order_beside_an_array_without_names_is_refused"),
    "unnamed pixels": ("operations/test_labelled_axes.py", "test_pixels_for_crops_that_nothing_names_are_refused"),
    "planes as pixels": ("preprocess/test_step.py", "test_planes_that_are_given_as_pixels_are_refused"),
    "named axes": ("preprocess/test_step.py", "test_a_tensor_that_names_its_axes_is_taken_at_its_word"),
    "contradictions": ("api/test_creation.py", "test_dims_that_contradict_the_names_of_the_axes_are_refused"),
    "pitches": ("values/test_layout.py", "test_refusals"),
    "two meanings": ("values/test_dtypes.py", "test_codes_of_two_meanings_are_refused_with_both"),
    "masks of arrays": ("api/test_creation.py", "test_a_masked_array_is_refused_where_it_hides_elements"),
    "byte order": ("api/test_out.py", "test_what_cannot_be_written_is_refused_in_a_sentence"),
    "other samples": ("preprocess/test_loader.py", "test_a_state_of_more_samples_is_refused"),
    "mixed shards": ("commands/test_folder_job.py", "test_another_decoder_is_refused_and_another_stridedgpu_is_not"),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_every_trap_has_its_test(trap):
    file, name = TRAPS[trap]
    names = {
        node.name
        for node in ast.parse((TESTS / file).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    assert name in names
    assert f"| {trap} |" in str(__doc__)
