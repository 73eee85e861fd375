"""What the model predicts of the works of `kernels_alone.py`, written before a GPU measures them, and compared after.

`python -m benchmarks.on_a_gpu DIR --predict` writes them to DIR/predictions.json. The figures are those of
facts/kernels.json, which a guard compares with the kernels as they are (`kernel_facts.py`): neither a GPU nor a
compiler is needed. A prediction is the share of a copy's speed, since a copy on the same GPU is measured in the same
run; microseconds stand beside it, and are those of the named GPU alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.kernels_alone import ids

RECORDED = Path(__file__).parent / "facts" / "kernels.json"
WITHIN = 0.1
"""The part of a predicted share by which a measured one may differ and be called as predicted."""


def computed_by_gpu() -> dict[str, dict[str, Any]]:
    """What the model has computed, by GPU and work. An H100 has an H200's multiprocessors and slower memory."""
    recorded: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text(encoding="utf-8"))["computed"]
    return recorded


def predicted(gpu: str) -> dict[str, Any]:
    """The figures by the ids of `kernels_alone.py`, with the date; works that the model has not computed are absent."""
    computed = {name: launches[0] for name, launches in computed_by_gpu()[gpu].items() if len(launches) == 1}
    copied = computed["copy"]["at_most"]
    works = {
        name: {
            "of_copy": round(figures["at_most"] / copied, 3),
            "microseconds": figures["microseconds"],
            "limit": figures["limit"],
        }
        for name in ids()
        if "at_most" in (figures := computed.get(name, {}))
    }
    return {"date": datetime.now(UTC).isoformat(timespec="seconds"), "gpu": gpu, "works": works}


def compared(prediction: Mapping[str, Any], kernels: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By work: the predicted and the measured share of a copy, and the second divided by the first.

    `verdict` is "as predicted" where the interval of the measured share reaches the prediction within a tenth of it,
    else "faster" or "slower".
    """
    rows: dict[str, dict[str, Any]] = {}
    for name, work in prediction["works"].items():
        measured = kernels.get(name, {})
        if "of_copy" not in measured:
            continue
        share, (low, high) = work["of_copy"], measured["of_copy_interval"]
        slower, faster = high < share * (1 - WITHIN), low > share * (1 + WITHIN)
        rows[name] = {
            "predicted": share,
            "measured": measured["of_copy"],
            "interval": [low, high],
            "miss": measured["of_copy"] / share,
            "microseconds": [work["microseconds"], measured["microseconds"]],
            "limit": work["limit"],
            "verdict": "slower" if slower else "faster" if faster else "as predicted",
        }
    return rows


def table(prediction: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Prediction, measurement and miss as text."""
    lines = [
        f"Predicted for {prediction['gpu']} on {prediction['date']}:",
        "",
        "| work | predicted µs | measured µs | predicted share of a copy | measured | miss | limit | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        (before, after), (low, high) = row["microseconds"], row["interval"]
        lines.append(
            f"| {name} | {before:.1f} | {after:.1f} | {row['predicted']:.2f} | {row['measured']:.2f} "
            f"({low:.2f} to {high:.2f}) | {row['miss']:.2f} | {row['limit']} | {row['verdict']} |"
        )
    return "\n".join(lines)
