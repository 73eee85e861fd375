"""`write_originals`: what an installed library itself makes of the entries of a set, for the readers to compare."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import numpy as np

LIBRARIES: Final[Mapping[str, Mapping[str, str]]] = {
    "NumPy": {},
    "Pillow": {"Image": "PIL.Image"},
    "OpenCV": {"cv2": "cv2"},
    "torch": {"torch": "torch"},
    "torchvision": {
        "torch": "torch",
        "Image": "PIL.Image",
        "v1": "torchvision.transforms.functional",
        "v2": "torchvision.transforms.v2.functional",
    },
    "transformers": {"transformers": "transformers"},
}
"""The modules that calls of a library have, by their names there."""


def write_originals(folder: Path, results: Path, library: str) -> list[str]:
    """Make the calls of a library for the entries of a set, write what it returns, and return the entries' names.

    Entries of other versions of Pillow than the installed one are left out.
    """
    from importlib import import_module

    names = {name: import_module(module) for name, module in LIBRARIES[library].items()}
    if library == "OpenCV":
        names["cv2"].ipp.setUseIPP(False)
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    results.mkdir(parents=True, exist_ok=True)
    made: dict[str, Any] = {}
    written = []
    for entry in index["entries"]:
        if entry["library"] != library or not all(_is_installed(*one) for one in entry["versions"].items()):
            continue
        call = json.dumps([entry["call"], entry["arguments"], entry["inputs"]])
        if call not in made:
            images = [np.load(folder / index["inputs"][one]["file"]) for one in entry["inputs"]]
            scope = {**names, "np": np, "images": images, "pixels": images[0], **entry["arguments"]}
            made = {call: eval(entry["call"], scope)}
        value = made[call]
        if entry["operation"] == "image_processor":
            key, *number = [part for part in entry["name"].split(".")[2:] if not part.startswith("pillow-")]
            value = value[key][int(number[0])] if number else value[key]
        values = np.ascontiguousarray(value)
        np.save(
            results / f"{entry['name']}.npy", values.ravel()[:: entry["whole"]["step"]] if "whole" in entry else values
        )
        written.append(entry["name"])
    return written


def _is_installed(library: str, versions: str) -> bool:
    """Whether the installed version of a library is one of these, such as ">=12.3,<13"."""
    installed = [int(part) for part in re.findall(r"\d+", metadata.version(library))]
    return all(
        (installed >= [int(part) for part in number.split(".")]) == (comparison == ">=")
        for comparison, number in re.findall(r"(>=|<)([\d.]+)", versions)
    )
