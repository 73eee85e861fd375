"""`write_set`: the folder of the conformance set; `hashes`: what its entries have to be.

A hash is SHA-256 of an array's values, in the order of its sizes, the lowest byte first: without a header. Those of
`hashes.txt` are of whole arrays; of a large one the folder has one value in some.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import numpy as np

import stridedgpu as sg

from .cases import Case, Entry, Values, cases
from .inputs import FORMULA

FORMAT: Final = 1
"""The version of the folder's files; that of the values is the release's, with the hash of all hashes."""

HERE: Final = Path(__file__).parent
HASHES: Final = HERE / "hashes.txt"

COMPARED: Final = {
    "Pillow": "13.0.0, 12.3.0, 12.2.0, 12.1.1 and 11.3.0",
    "OpenCV": "opencv-python-headless 5.0.0.93 after cv2.ipp.setUseIPP(False); by INTER_CUBIC its vectors differ in "
    "the last place, in a few integers and many floats",
    "torch": "2.13.0 on an x86-64 processor with AVX2 or AVX-512",
    "torchvision": "0.28.0",
    "transformers": "5.24.0",
    "NumPy": "2.4",
    "stridedgpu": "the rule is stated in the documentation of sg.Frame",
}
"""The versions of libraries whose own results were compared with the entries."""


def digest(values: Values) -> str:
    """The hash of an array's values."""
    return hashlib.sha256(values.astype(values.dtype.newbyteorder("<")).tobytes()).hexdigest()


def entries(pattern: str = "*") -> Iterator[tuple[Case, Entry]]:
    """The entries whose names fit a pattern, such as `resize.pillow-*`, with their cases."""
    for case in cases():
        if pattern == "*" or fnmatchcase(case.name, pattern) or pattern.startswith(f"{case.name}."):
            for entry in case.entries():
                if fnmatchcase(entry.name, pattern) or fnmatchcase(case.name, pattern):
                    yield case, entry


def hashes(pattern: str = "*") -> dict[str, str]:
    """The hash of each entry, by its name."""
    return {entry.name: digest(entry.values) for _, entry in entries(pattern)}


def known_hashes() -> dict[str, str]:
    """The hashes that are written down."""
    return dict(line.split() for line in HASHES.read_text(encoding="utf-8").splitlines())


def hash_lines(found: dict[str, str]) -> str:
    """A line for each entry: its name and its hash."""
    return "".join(f"{name} {value}\n" for name, value in found.items())


def write_set(folder: Path, chosen: Iterable[tuple[Case, Entry]]) -> dict[str, str]:
    """Write a set of these entries, and return their hashes; the folder must be empty or absent."""
    for name in ("inputs", "expected"):
        (folder / name).mkdir(parents=True)
    lines, inputs, found = [], {}, {}
    listed: list[dict[str, Any]] = []
    for case, entry in chosen:
        for one in case.inputs:
            if one.name not in inputs:
                array = one.array()
                np.save(folder / "inputs" / f"{one.name}.npy", array)
                stated = {"sizes": array.shape, "dtype": array.dtype.name, "formula": one.words}
                inputs[one.name] = {"file": f"inputs/{one.name}.npy", **stated, "sha256": digest(array)}
        values, file = entry.kept, f"expected/{entry.name}.npy"
        np.save(folder / file, values)
        found[entry.name] = digest(entry.values)
        whole = {"sizes": entry.values.shape, "step": entry.step, "sha256": found[entry.name]}
        listed.append(
            {
                "name": entry.name,
                "file": file,
                "sizes": values.shape,
                "dtype": values.dtype.name,
                "sha256": digest(values),
                **({"whole": whole} if entry.step > 1 else {}),
                "inputs": [one.name for one in case.inputs],
                "operation": case.operation,
                "arguments": case.arguments,
                "library": case.library,
                "versions": entry.versions,
                "call": case.call,
            }
        )
        sizes = "x".join(map(str, values.shape)) or "1"
        step = f" one value in {entry.step}" * (entry.step > 1)
        inputs_of = ",".join(one.name for one in case.inputs)
        lines.append(f"{entry.name} {values.dtype.str[1:]} {sizes} {inputs_of}{step}\n")
    index = {
        "format": FORMAT,
        "version": sg.__version__,
        "sha256": hashlib.sha256(hash_lines(found).encode()).hexdigest(),
        "libraries": COMPARED,
        "formula": FORMULA.splitlines(),
        "inputs": inputs,
        "entries": listed,
    }
    (folder / "index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    (folder / "index.txt").write_text("".join(lines), encoding="utf-8")
    for reader in ("check.c", "check.py"):
        shutil.copyfile(HERE / reader, folder / reader)
    return found
