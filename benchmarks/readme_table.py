"""The tables of figures in benchmarks/README.md, made from benchmarks/results/*.json.

python benchmarks/readme_table.py             say whether they agree
python benchmarks/readme_table.py --write     write them
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from benchmarks.suite.records import Record, Results, read_results
from benchmarks.suite.table import COLUMNS as TABLE, headline, row_of, slower_rows, undecided_text

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
UNNAMED = TABLE.index("kernel family")
"""The column left out: recorded results name the GPU's family, whatever loops the CPU ran; `explain()` names those."""

COLUMNS = (*TABLE[:UNNAMED], *TABLE[UNNAMED + 1 :])


def named(record: Record) -> tuple[str, ...]:
    """A record's row without that column."""
    row = row_of(record)
    return (*row[:UNNAMED], *row[UNNAMED + 1 :])


def measured() -> dict[str, Results]:
    """The results of every device, by the name of their file."""
    return {path.stem: read_results(path) for path in sorted(RESULTS.glob("*.json"), key=lambda path: path.stem)}


def markdown(names: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table; the first column to the left, figures to the right."""
    lines = [names, ("---", *("---:" for _ in names[1:])), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def about(results: Results) -> str:
    """Device, versions, commit and date in a sentence."""
    device, versions = headline(results).split("\n")
    return f"On **{device}** ({versions}):\n"


def every_table() -> str:
    """All workloads on each device, and the chart."""
    parts = []
    for name, results in measured().items():
        parts += [about(results), markdown(COLUMNS, [named(record) for record in results.workloads])]
        if (RESULTS / f"{name}.png").is_file():
            label = f"Speed of each workload as a share of a copy, on {results.provenance['device']['name']}"
            parts.append(f"![{label}](results/{name}.png)\n")
    return "\n".join(parts)


def slower_table() -> str:
    """Where others are faster, worst first."""
    names = ("workload", "stridedgpu", "faster", "its time", "by")
    parts = []
    for results in measured().values():
        rows = slower_rows(results.workloads)
        parts.append(about(results))
        parts.append(f"A peer is faster in {len(rows)} of {len(results.workloads)} workloads.\n")
        parts.append(markdown(names, rows) if rows else "Nowhere.\n")
        parts += filter(None, [undecided_text(results.workloads)])
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
    """The page as it ought to be."""
    path = ROOT / "benchmarks" / "README.md"
    whole = with_table(path.read_text(encoding="utf-8"), "all figures", every_table())
    return {path: with_table(whole, "slower", slower_table())}


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
