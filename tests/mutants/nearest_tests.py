"""The tests that judge a module: those of its own name in the tests' folder of its package, then those of its subject.

A row is of modules whose path below the package fits its pattern. What it names is read with `{module}` replaced, and
left out where there is no such file. All rows that fit count, in order, up to seven files: what kills most stands
first, and what follows costs most where a mutant survives.
"""

from __future__ import annotations

import pathlib
from fnmatch import fnmatch
from typing import Final

from .table import PROJECT

__all__ = ["ROWS", "nearest_tests"]

_FILES: Final = 7

_RESIZES: Final = ("cpu/test_native_resize.py", "cpu/test_resize_filters.py", "operations/test_resize.py")
_FRAMES: Final = ("cpu/test_frame_loops.py", "operations/test_frame_output.py", "api/test_frames.py")

ROWS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    # values, problems
    ("values/*", ("values/test_{module}.py",)),
    ("values/arithmetic.py", ("operations/test_arithmetic.py",)),
    ("values/arithmetic.py", ("api/test_conversion_options.py",)),
    ("values/conversion.py", ("operations/test_refusals.py", "operations/test_relayout.py")),
    ("values/conversion.py", ("operations/test_arithmetic.py",)),
    ("values/colour_matrix.py", ("api/test_frames.py",)),
    ("values/pixel_formats.py", ("api/test_frames.py", "operations/test_frame_output.py")),
    ("values/raw_formats.py", ("operations/test_raw.py",)),
    ("values/interpolation.py", ("operations/test_resize.py", "operations/test_new_interpolation.py")),
    ("values/constants.py", ("operations/test_refusals.py", "operations/test_channel_matrix.py")),
    ("values/axis_*.py", ("api/test_patterns.py", "api/test_tensor_views.py")),
    ("values/[bdilst]*.py", ("values/test_layout.py", "values/test_descriptor.py", "api/test_tensor_views.py")),
    ("values/*", ("operations/test_refusals.py", "api/test_creation.py")),
    ("problems/*", ("problems/test_{module}.py", "problems/test_plan.py")),
    ("problems/*gather*", ("operations/test_gather.py", "operations/test_scatter.py")),
    ("problems/index_rule.py", ("operations/test_gather.py", "operations/test_index_refusals.py")),
    ("problems/crop*", ("operations/test_crops.py", "operations/test_windows_of_batches.py")),
    ("problems/resize*", ("operations/test_resize.py", "operations/test_resize_plan.py")),
    ("problems/frame*", _FRAMES),
    ("problems/raw*", ("operations/test_raw.py",)),
    ("problems/channel_matrix*", ("operations/test_channel_matrix.py",)),
    ("problems/*", ("operations/test_relayout.py", "operations/test_relayout_plan.py")),
    # devices
    ("devices/cpu/*", ("cpu/test_{module}.py", "cpu/test_native_{module}.py")),
    ("devices/cpu/native/pool.py", ("cpu/test_worker_pool.py", "cpu/test_interrupts.py")),
    ("devices/cpu/native/packed.py", ("cpu/test_packed.py",)),
    ("devices/cpu/native/channel*.py", ("cpu/test_native_channels.py", "cpu/test_native_relayout.py")),
    ("devices/cpu/native/gather.py", ("cpu/test_native_gather.py", "cpu/test_index_check.py")),
    ("devices/cpu/native/blocks.py", ("cpu/test_native_relayout.py", "cpu/test_relayout_choices.py")),
    ("devices/cpu/native/networks.py", ("cpu/test_native_relayout.py", "cpu/test_relayout_choices.py")),
    ("devices/cpu/native/short_runs.py", ("cpu/test_native_relayout.py", "cpu/test_relayout_choices.py")),
    ("devices/cpu/native/transpose.py", ("cpu/test_native_relayout.py", "operations/test_relayout.py")),
    ("devices/cpu/native/resize*", _RESIZES),
    ("devices/cpu/native/matrix.py", ("operations/test_channel_matrix.py", "cpu/test_frame_loops.py")),
    ("devices/cpu/native/frames.py", ("cpu/test_frame_loops.py", "operations/test_frame_output.py")),
    ("devices/cpu/native/raw.py", ("operations/test_raw.py",)),
    ("devices/cpu/native/crops.py", ("operations/test_windows_of_batches.py", "operations/test_crops.py")),
    ("devices/cpu/native/*", ("cpu/test_native_library.py", "cpu/test_native_calls.py")),
    ("devices/cpu/target.py", ("cpu/test_target.py", "cpu/test_choices.py")),
    ("devices/cpu/*resize*", (*_RESIZES, "operations/test_channel_mixing.py", "operations/test_frames_resized.py")),
    ("devices/cpu/*frame*", _FRAMES),
    ("devices/cpu/plan.py", ("operations/test_plans_travel.py", "operations/test_raw.py", *_FRAMES[:1])),
    ("devices/cpu/*raw*", ("operations/test_raw.py",)),
    ("devices/verbose.py", ("operations/test_verbose.py",)),
    ("devices/cpu/*channel_matrix*", ("operations/test_channel_matrix.py",)),
    ("devices/cpu/*crop*", ("operations/test_crops.py", "operations/test_windows_of_batches.py")),
    ("devices/cpu/*gather*", ("cpu/test_native_gather.py", "operations/test_gather.py")),
    ("devices/cpu/*gather*", ("operations/test_scatter.py",)),
    ("devices/cpu/*index*", ("cpu/test_index_check.py", "operations/test_index_refusals.py")),
    ("devices/cpu/*", ("cpu/test_native_relayout.py", "operations/test_relayout.py", "cpu/test_policy.py")),
    (
        "devices/cuda/runtime/*",
        ("cuda/device/test_{module}.py", "cuda/device/test_launch.py", "cuda/device/test_device.py"),
    ),
    ("devices/cuda/runtime/transfer.py", ("cuda/device/test_uploads.py",)),
    ("devices/cuda/gather.py", ("problems/test_cuda_gather_plans.py",)),
    ("devices/cuda/resize.py", ("problems/test_cuda_resize_plans.py",)),
    ("devices/cuda/relayout/*pixels*", ("problems/test_pixel_groups.py",)),
    ("devices/cuda/relayout/packed_tile.py", ("problems/test_packed_tiles.py",)),
    ("devices/cuda/*", ("problems/test_cuda_plans.py", "problems/test_launches_stay.py", "problems/test_plan.py")),
    ("devices/cuda/relayout/*", ("problems/test_cuda_widths.py",)),
    ("devices/emulated/*", ("emulated/test_emulated_device.py",)),
    ("devices/row_buffer.py", ("preprocess/test_pillow_memory.py",)),
    ("devices/*.py", ("operations/test_devices.py", "operations/test_verbose.py", "exchange/test_dlpack.py")),
    ("emulated.py", ("emulated/test_emulated_device.py",)),
    # exchange, pictures
    ("exchange/*", ("exchange/test_{module}.py", "exchange/test_dlpack.py", "exchange/test_foreign_memory.py")),
    ("exchange/*", ("api/test_creation.py", "operations/test_labelled_axes.py")),
    ("iobinding.py", ("exchange/test_iobinding.py",)),
    ("picture.py", ("drawing/test_picture_text.py",)),
    ("drawing/svg.py", ("drawing/test_picture_frame.py",)),
    ("drawing/*", ("drawing/test_picture_text.py", "drawing/test_picture_svg.py", "commands/test_show.py")),
    # operations, and what they are called by
    ("operations/*", ("operations/test_{module}.py", "interface/test_error_texts.py")),
    ("api/warmup.py", ("cuda/device/test_device.py", "operations/test_warmup.py")),
    ("api/*", ("api/test_{module}.py", "operations/test_{module}.py")),
    ("api/*", ("interface/test_error_texts.py", "interface/test_signatures.py")),
    ("api/creation.py", ("api/test_from_pointer.py", "api/test_frombuffer.py", "operations/test_devices.py")),
    ("api/crops.py", ("operations/test_crops.py", "operations/test_resize.py")),
    ("*/*crop*", ("operations/test_crops.py", "operations/test_index_refusals.py", "operations/test_index_plans.py")),
    (
        "*/*gather*",
        ("operations/test_gather.py", "operations/test_index_refusals.py", "operations/test_index_plans.py"),
    ),
    ("operations/scatter.py", ("operations/test_index_refusals.py", "operations/test_index_plans.py")),
    ("operations/index*", ("operations/test_gather.py", "operations/test_index_refusals.py")),
    ("*/frame*", ("operations/test_frame_plans.py", "operations/test_frames_resized.py", *_FRAMES[1:])),
    ("operations/*resize*", ("operations/test_resize_plan.py", "cpu/test_memory_left.py")),
    ("operations/batches.py", ("operations/test_channel_mixing.py", "operations/test_channel_filler.py")),
    ("operations/images.py", ("operations/test_crops.py", "operations/test_frames_resized.py")),
    ("operations/plans.py", ("operations/test_plans_travel.py", "operations/test_index_plans.py")),
    ("operations/crops.py", ("operations/test_volume_crops.py",)),
    ("api/*resize*", ("operations/test_resize_plan.py", "operations/test_resize.py")),
    ("api/tensor.py", ("exchange/test_release.py", "drawing/test_picture_text.py")),
    ("api/tensor*", ("api/test_tensor_views.py", "api/test_tensor.py", "exchange/test_dlpack.py")),
    ("api/[agr]*.py", ("operations/test_relayout_plan.py", "operations/test_refusals.py")),
    ("api/*", ("api/test_out.py", "operations/test_nonsense.py")),
    (
        "operations/*",
        ("operations/test_refusals.py", "operations/test_relayout_plan.py", "operations/test_transfer.py"),
    ),
    # adapters
    (
        "adapters/image_processors/*",
        ("adapters/test_image_processor_arguments.py", "adapters/test_conformance.py"),
    ),
    ("adapters/image_processors/[sw]*.py", ("adapters/test_image_sizes.py",)),
    # steps and loaders
    ("preprocess/*", ("preprocess/test_{module}.py", "preprocess/test_outcomes.py")),
    ("preprocess/[dlps]*.py", ("interface/test_error_texts.py", "interface/test_signatures.py")),
    ("preprocess/decoding.py", ("commands/test_command_line.py",)),
    (
        "preprocess/worker.py",
        ("preprocess/test_step.py", "preprocess/test_annotations.py", "preprocess/test_frames_of_a_step.py"),
    ),
    ("preprocess/worker.py", ("cpu/test_memory_left.py",)),
    ("preprocess/declaration.py", ("preprocess/test_step.py", "preprocess/test_values_of_a_step.py")),
    ("preprocess/declaration.py", ("operations/test_channel_mixing.py", "preprocess/test_resized_step.py")),
    ("preprocess/files.py", ("preprocess/test_decoding.py", "preprocess/test_hostile_files.py")),
    ("preprocess/files.py", ("commands/test_folder_job.py",)),
    ("preprocess/annotations.py", ("preprocess/test_loader.py", "preprocess/test_torch_loader.py")),
    ("preprocess/images.py", ("preprocess/test_modes.py", "preprocess/test_decoding.py")),
    ("preprocess/images.py", ("preprocess/test_values_of_a_step.py", "preprocess/test_frames_of_a_step.py")),
    ("preprocess/pillow_memory.py", ("preprocess/test_pillow_memory.py", "preprocess/test_decoding.py")),
    ("preprocess/decoding.py", ("preprocess/test_hostile_files.py", "preprocess/test_pixel_memory.py")),
    (
        "preprocess/load*.py",
        ("preprocess/test_loader.py", "commands/test_folder_job.py", "preprocess/test_epochs.py"),
    ),
    ("preprocess/torch_loader.py", ("preprocess/test_torch_loader.py", "preprocess/test_epochs.py")),
    ("preprocess/windows.py", ("preprocess/test_values_of_a_step.py",)),
    ("preprocess/geometry.py", ("preprocess/test_resized_step.py", "preprocess/test_annotations.py")),
    ("preprocess/epochs.py", ("preprocess/test_torch_loader.py", "preprocess/test_step.py")),
    ("preprocess/samples.py", ("preprocess/test_loader.py", "preprocess/test_one_declaration.py")),
    ("preprocess/*", ("preprocess/test_step.py", "preprocess/test_step_out.py", "preprocess/test_resized_step.py")),
    ("preprocess/*", ("preprocess/test_frames_of_a_step.py", "preprocess/test_traps.py")),
    # other libraries
    ("adapters/torch.py", ("adapters/test_torch_operators.py",)),
    ("adapters/torchvision.py", ("adapters/test_torchvision.py",)),
    ("adapters/transformers.py", ("adapters/test_register.py",)),
    (
        "adapters/image_processors/*",
        (
            "adapters/test_conformance.py",
            "adapters/test_image_processor_arguments.py",
            "adapters/test_image_processors.py",
        ),
    ),
    # the command line
    ("commands/*", ("commands/test_{module}.py",)),
    ("commands/[bms]*.py", ("commands/test_skipped_images.py",)),
    ("commands/[bf]*.py", ("commands/test_contact_sheet.py",)),
    ("commands/folder_job.py", ("commands/test_labels.py", "commands/test_shard_formats.py")),
    ("commands/folder*.py", ("commands/test_folder_job.py", "preprocess/test_hostile_files.py")),
    ("commands/comparison.py", ("preprocess/test_one_declaration.py",)),
    ("commands/[ij]*.py", ("commands/test_command_line.py", "commands/test_folder_job.py")),
    ("commands/shard_formats.py", ("commands/test_shard_formats.py", "commands/test_folder_job.py")),
    ("commands/[deps]*.py", ("commands/test_show.py",)),
    ("commands/[!b]*.py", ("commands/test_command_line.py",)),
    ("commands/batch_job.py", ("commands/test_command_line.py",)),
    ("commands/preprocess_options.py", ("preprocess/test_one_declaration.py",)),
    ("__main__.py", ("commands/test_command_line.py", "commands/test_show.py")),
    ("__init__.py", ("interface/test_import.py", "operations/test_devices.py")),
    ("typing.py", ("interface/test_typing.py",)),
    ("*/__init__.py", ("interface/test_import.py",)),
)


def nearest_tests(file: str) -> tuple[str, ...]:
    """The test files that judge a module, by its path from the project's folder; the first that likely kills, first."""
    path = pathlib.PurePath(file).relative_to("stridedgpu")
    named = (
        f"tests/{test.format(module=path.stem)}"
        for pattern, tests in ROWS
        if fnmatch(str(path), pattern)
        for test in tests
    )
    return tuple(dict.fromkeys(test for test in named if (PROJECT / test).exists()))[:_FILES]
