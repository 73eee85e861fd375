"""Manifests and records: JSON beside the pixels that says what they were made of, written whole or not at all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from stridedgpu.preprocess.decoding import Decoder
from stridedgpu.preprocess.files import opened_file, replacement
from stridedgpu.preprocess.step import Preprocess


def declaration(step: Preprocess[Any], decoder: Decoder) -> dict[str, Any]:
    """What the pixels depend on besides the images. The device is left out: it makes no difference to the bits."""
    return {
        "step": repr(replace(step, device="auto")),
        "size": step.window and list(step.window),
        "epoch": step.epoch,
        "resize": None if step.resize is None else list(step.resize),
        "interpolation": step.chosen_interpolation if step.resizes else None,
        "passes": step.chosen_passes if step.resizes else None,
        "keys": "names in the folder",  # what chance depends on, besides the seed
        "decoder": decoder.version,
    }


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a file under a name that a job has made up; a link of that name is replaced, and not followed."""
    with replacement(path, follow_link=False) as file:
        file.write(json.dumps(value, indent=1).encode())


def read_json(path: Path) -> dict[str, Any]:
    """What a file holds: JSON may give any type. Raises `ValueError` or `RecursionError` for a file of another kind."""
    with opened_file(path, "JSON") as file:
        value: dict[str, Any] = json.loads(file.read())
    return value
