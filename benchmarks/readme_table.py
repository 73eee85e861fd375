"""The tables of figures in README.md and benchmarks/README.md, made from benchmarks/results/*.json.

python benchmarks/readme_table.py             say whether they agree
python benchmarks/readme_table.py --write     write them
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from benchmarks.suite.records import Record, Results, read_results
from benchmarks.suite.table import COLUMNS as TABLE, headline, row_of, slower_rows

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
CHOSEN = (
    "train",
    "video",
    "features-to-NCHW",
    "features-to-NHWC",
    "volume-to-NCDHW",
    "transpose-1B",
    "transpose-4B",
    "pad-to-8",
    "embed-512B-int64",
    "crops",
    "tiny-plan",
)
"""The workloads that README.md shows; all are in benchmarks/README.md."""

UNNAMED = TABLE.index("kernel family")
"""The column left out: recorded results name the GPU's family, whatever loops the CPU ran; `explain()` names those."""

COLUMNS = (*TABLE[:UNNAMED], *TABLE[UNNAMED + 1 :])


def named(record: Record) -> tuple[str, ...]:
    """A record's row without that column."""
    row = row_of(record)
    return (*row[:UNNAMED], *row[UNNAMED + 1 :])


def measured() -> dict[str, Results]:
    """The results of every device, by the name of their file."""
    return {path.stem: read_results(path) for path in sorted(RESULTS.glob("*.json"))}


def markdown(names: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table; the first column to the left, figures to the right."""
    lines = [names, ("---", *("---:" for _ in names[1:])), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def about(results: Results) -> str:
    """Device, versions, commit and date in a sentence."""
    device, versions = headline(results).split("\n")
    return f"On **{device}** ({versions}):\n"


def rows_of(records: tuple[Record, ...], chosen: tuple[str, ...] | None) -> list[tuple[str, ...]]:
    return [named(record) for record in records if chosen is None or record.workload in chosen]


def readme_table() -> str:
    """For README.md: the chosen workloads on each device, its name beside them, and the chart."""
    parts = []
    for name, results in measured().items():
        where = "[which, and by how much](benchmarks/README.md#where-others-are-faster)"
        slower = f"{len(slower_rows(results.workloads))} of all {len(results.workloads)} workloads"
        parts += [
            about(results),
            markdown(COLUMNS, rows_of(results.workloads, CHOSEN)),
            f"A peer is faster in {slower}: {where}.\n",
        ]
        if (RESULTS / f"{name}.png").is_file():
            label = f"Speed of each workload as a share of a copy, on {results.provenance['device']['name']}"
            parts.append(f"![{label}](benchmarks/results/{name}.png)\n")
    return "\n".join(parts)


def every_table() -> str:
    """For benchmarks/README.md: all workloads on each device."""
    return "\n".join(
        f"{about(results)}\n{markdown(COLUMNS, rows_of(results.workloads, None))}" for results in measured().values()
    )


def slower_table() -> str:
    """For benchmarks/README.md: where others are faster, worst first."""
    names = ("workload", "stridedgpu", "faster", "its time", "by")
    parts = []
    for results in measured().values():
        rows = slower_rows(results.workloads)
        parts.append(about(results))
        parts.append(markdown(names, rows) if rows else "Nowhere.\n")
    return "\n".join(parts)


def with_table(text: str, name: str, table: str) -> str:
    """The page with a table in the place of the one between its marks."""
    begin, end = f"<!-- {name}: written by benchmarks/readme_table.py -->\n", f"<!-- end of {name} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    made, count = pattern.subn(lambda _: f"{begin}\n{table}\n{end}", text)
    if count != 1:
        raise SystemExit(f"{count} places are marked for {name!r}; one is expected")
    return made


def pages() -> dict[Path, str]:
    """Each page as it ought to be."""
    front, back = ROOT / "README.md", ROOT / "benchmarks" / "README.md"
    whole = with_table(back.read_text(encoding="utf-8"), "all figures", every_table())
    return {
        front: with_table(front.read_text(encoding="utf-8"), "figures", readme_table()),
        back: with_table(whole, "slower", slower_table()),
    }


def main(arguments: list[str]) -> int:
    stale = [page for page, text in pages().items() if page.read_text(encoding="utf-8") != text]
    if arguments == ["--write"]:
        for page, text in pages().items():
            page.write_text(text, encoding="utf-8")
        return 0
    for page in stale:
        print(f"{page.name} does not show benchmarks/results; python benchmarks/readme_table.py --write")
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
