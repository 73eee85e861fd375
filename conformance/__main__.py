"""`python -m conformance SET`, from a checkout: write the conformance set, and compare it with the known hashes.

Bad arguments end in one line on stderr and exit code 2. Entries that are not what `hashes.txt` says end in exit code 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from conformance.originals import LIBRARIES, write_originals
from conformance.writing import HASHES, entries, hash_lines, hashes, known_hashes, write_set
from stridedgpu.commands.parser import CommandParser

_DIFFERENT: Final = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Write as the arguments say; returns the exit code."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if chosen.renew:
        HASHES.write_text(hash_lines(hashes()), encoding="utf-8")
    if chosen.set is None:
        if not chosen.renew:
            parser.error("SET is missing, the folder to write")
        return 0
    if chosen.by is not None:
        if chosen.results is None or not (chosen.set / "index.json").is_file():
            parser.error("--by needs a SET that has been written, and --results, the folder to write")
        try:
            written = write_originals(chosen.set, chosen.results, chosen.by)
        except ImportError as problem:
            parser.error(f"{chosen.by} cannot be called here: {problem}")
        print(f"{chosen.results}: {len(written)} results of {chosen.by}")
        return 0
    if chosen.set.exists() and (not chosen.set.is_dir() or any(chosen.set.iterdir())):
        parser.error(f"{str(chosen.set)!r} is there already; SET is a new folder, or an empty one")
    named = list(entries(chosen.only))
    if not named:
        parser.error(f"no entry is called {chosen.only!r}")
    found = write_set(chosen.set, named)
    size = sum(path.stat().st_size for path in chosen.set.rglob("*.*"))
    print(f"{chosen.set}: {len(found)} entries, {size / 1e6:.1f} MB")
    return _compared(found)


def _compared(found: Mapping[str, str]) -> int:
    """Whether the hashes are those that are written down, as an exit code."""
    known = known_hashes()
    different = [name for name, value in found.items() if known.get(name) != value]
    for name in different:
        words = "differs from" if name in known else "is not in"
        sys.stderr.write(f"conformance: {name} {words} {HASHES.name}\n")
    return _DIFFERENT if different else 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="conformance",
        description="Write the conformance set: inputs, expected outputs, an index, and two readers that check the "
        "outputs of an implementation.",
    )
    add = parser.add_argument
    add("set", metavar="SET", type=Path, nargs="?", help="the folder to write, which is new or empty")
    add("--only", metavar="PATTERN", default="*", help="these entries alone, such as 'resize.pillow-*'")
    add("--by", choices=LIBRARIES, help="write what this installed library makes of the entries of SET")
    add("--results", metavar="FOLDER", type=Path, help="where --by writes")
    add("--renew", action="store_true", help=f"write {HASHES.name} anew")
    return parser


if __name__ == "__main__":
    sys.exit(main())
