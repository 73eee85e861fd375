"""Says which entries of the conformance set an implementation fails: `python check.py SET RESULTS`, with NumPy alone.

RESULTS has a file for each entry that the implementation computes: NAME.npy, or NAME.bin with the values alone. They
are compared by their bits. The exit code is 0 if all of them are the expected ones, 1 if one is not or there is none, 2
if SET is no set. The lines are those of check.c, which does not compare the set with its hashes.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np


def values(path: Path, entry: dict[str, Any]) -> Any:
    """The values in a file: its last bytes, behind the header of .npy or alone. None for other lengths."""
    kind, content = np.dtype(entry["dtype"]), path.read_bytes()
    header = len(content) - kind.itemsize * int(np.prod(entry["sizes"]))
    is_npy = len(content) >= 10 and content.startswith(b"\x93NUMPY")
    if header != 0 and not (is_npy and header == content[8] + 256 * content[9] + (10 if content[6] == 1 else 12)):
        return None
    return np.frombuffer(content, kind, offset=header)


def main(folder: Path, results: Path) -> int:
    """Compare, and print what differs; returns the exit code."""
    counts = {"passed": 0, "failed": 0, "without a result": 0}
    for entry in json.loads((folder / "index.json").read_text(encoding="utf-8"))["entries"]:
        name, path = entry["name"], folder / entry["file"]
        wanted = values(path, entry) if path.is_file() else None
        if wanted is None or hashlib.sha256(wanted.tobytes()).hexdigest() != entry["sha256"]:
            print(f"check: {path} does not hold what the index says", file=sys.stderr)
            return 2
        files = [path for path in (results / f"{name}.npy", results / f"{name}.bin") if path.is_file()]
        found = values(files[0], entry) if files else None
        if not files:
            counts["without a result"] += 1
        elif found is None:
            sizes, kind = "x".join(map(str, entry["sizes"])) or "1", np.dtype(entry["dtype"]).str[1:]
            print(f"FAIL {name}: its file does not hold {sizes} values of {kind}")
            counts["failed"] += 1
        else:
            bits = f"u{wanted.itemsize}"
            places = np.flatnonzero(wanted.view(bits) != found.view(bits))
            if places.size:
                with np.errstate(invalid="ignore"):
                    apart = np.abs(wanted[places].astype(np.float64) - found[places].astype(np.float64))
                most = np.where(np.isnan(apart), np.inf, apart).max()
                print(f"FAIL {name}: {places.size} of {wanted.size} values differ, by at most {most:.9g}")
            counts["failed" if places.size else "passed"] += 1
    print(", ".join(f"{count} {words}" for words, count in counts.items()))
    return int(counts["failed"] > 0 or not counts["passed"])


if __name__ == "__main__":
    if len(sys.argv) != 3 or not (Path(sys.argv[1]) / "index.json").is_file():
        print("check: give the folder of the set, which has index.json, and that of results", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
