"""Results as a picture: each workload's speed as a share of the library's own copy, peers beside it, and over sizes.

matplotlib (extra `plot`) draws it, and is imported only then.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, BinaryIO, Final

from stridedgpu.errors import StridedGpuError

from .records import DEVICE_COPY, OURS, OWN_COPY, Record, Results

__all__ = ["check_plotting", "draw_chart"]

_INK, _FAINT, _GRID, _PAPER = "#1b1f24", "#6b7280", "#e5e7eb", "#ffffff"
_COLOURS: Final = {
    # Okabe and Ito's, which people of every colour vision can tell apart.
    OURS: "#0072b2",
    "numpy": "#e69f00",
    "torch": "#d55e00",
    "torch.compile": "#a23b00",
    "cupy": "#009e73",
    "cv2": "#56b4e9",
    "nvmath": "#4d7c0f",
    "jax": "#cc79a7",
    DEVICE_COPY: "#9aa1ab",
}
_MARKERS: Final = {
    "numpy": "o",
    "torch": "s",
    "torch.compile": "P",
    "cupy": "^",
    "cv2": "D",
    "nvmath": "v",
    "jax": "h",
    DEVICE_COPY: "|",
}
_WIDEST: Final = 2.0
"""Shares beyond this are cut off at the edge, and written there."""


def check_plotting() -> None:
    """Raise `StridedGpuError` where nothing can be drawn."""
    if find_spec("matplotlib") is None:
        raise StridedGpuError('the chart needs matplotlib, which is not installed: pip install "stridedgpu[plot]".')


def draw_chart(results: Results, file: BinaryIO) -> None:
    """Write the chart as PNG. Raises `StridedGpuError` without matplotlib."""
    check_plotting()
    matplotlib: Any = import_module("matplotlib")
    matplotlib.use("agg")
    pyplot: Any = import_module("matplotlib.pyplot")
    style = {
        "font.family": "DejaVu Sans",
        "font.size": 9.5,
        "text.color": _INK,
        "axes.labelcolor": _FAINT,
        "axes.edgecolor": _GRID,
        "xtick.color": _FAINT,
        "ytick.color": _INK,
        "figure.facecolor": _PAPER,
        "axes.facecolor": _PAPER,
    }
    moved = [record for record in results.workloads if record.measures == "speed"]
    rows = max(1, -(-len(_curves(results)) // 3))
    bars, lines = 0.27 * len(moved) + 0.9, 2.5 * rows
    height = bars + lines + 1.9
    with pyplot.rc_context(style):
        figure = pyplot.figure(figsize=(11.5, height), dpi=150)
        made = results.provenance
        device = made["device"]
        figure.text(0.02, 1 - 0.30 / height, "Speed as a share of a copy", size=16, weight="bold", va="top")
        threads = f", {device['threads']} threads" if device["kind"] == "cpu" else f", driver {device['driver']}"
        version = f"stridedgpu {made['versions']['stridedgpu']}, commit {made['commit']}, {made['date']}"
        about = f"{device['name']}{threads}  ·  {version}"
        figure.text(0.02, 1 - 0.66 / height, about, color=_FAINT, va="top")
        top = 1 - 1.25 / height
        _workloads(figure.add_axes((0.165, top - bars / height, 0.815, bars / height)), moved)
        below = top - (bars + 0.75) / height
        _over_sizes(figure, _curves(results), below, height)
        figure.savefig(file, format="png", facecolor=_PAPER)
        pyplot.close(figure)


def _workloads(axes: Any, records: list[Record]) -> None:
    """A bar for the library, a mark for each peer, the best first to be read: one line a workload."""
    places = range(len(records))
    ours = [min(record.share(OWN_COPY), _WIDEST) for record in records]
    axes.barh(places, ours, height=0.62, color=_COLOURS[OURS], alpha=0.9, zorder=2, label="stridedgpu")
    axes.axvline(1, color=_INK, linewidth=0.9, zorder=3)
    names = list(dict.fromkeys(name for record in records for name in record.timings if name not in (OURS, OWN_COPY)))
    for name in sorted(names, key=list(_COLOURS).index):
        held = [
            (min(record.share(OWN_COPY, name), _WIDEST), place)
            for place, record in enumerate(records)
            if name in record.timings
        ]
        axes.scatter(
            *zip(*held, strict=True),
            s=95 if name == DEVICE_COPY else 30,
            marker=_MARKERS[name],
            color=_COLOURS[name],
            edgecolors=None if name == DEVICE_COPY else _PAPER,
            linewidths=1.6 if name == DEVICE_COPY else 0.7,
            zorder=4 if name == DEVICE_COPY else 5,
            label=name,
        )
    axes.set_yticks(places, [record.workload for record in records])
    axes.set_ylim(len(records) - 0.4, -0.6)
    axes.set_xlim(0, _WIDEST)
    axes.set_xticks(
        [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2],
        ["0", "25%", "50%", "75%", "own copy", "125%", "150%", "175%", "≥ 200%"],
    )
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.grid(axis="x", color=_GRID, linewidth=0.8, zorder=0)
    for side in axes.spines.values():
        side.set_visible(False)
    for place, record in enumerate(records):
        ratio = record.ratio
        text = f"{record.gigabytes_per_second():.1f} GB/s"
        inside = ours[place] > 0.17
        axes.text(
            0.008 if inside else ours[place] + 0.008,
            place,
            text,
            va="center",
            size=7.5,
            color=_PAPER if inside else _FAINT,
            zorder=6,
        )
        if ratio is not None and ratio < 1:
            axes.text(
                _WIDEST,
                place,
                f"{record.best_peer} is {1 / ratio:.1f}x as fast",
                va="center",
                ha="right",
                size=7.5,
                color="#b42318",
                zorder=6,
            )
    axes.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.03), ncols=9, frameon=False, handletextpad=0.3, columnspacing=1.3
    )


def _curves(results: Results) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in results.curves:
        found.setdefault(record.workload, []).append(record)
    return found


def _over_sizes(figure: Any, curves: dict[str, list[Record]], top: float, height: float) -> None:
    """GB/s over the bytes moved, a panel for each workload, peers faint."""
    width, gap = 0.262, 0.064
    for place, (name, measured) in enumerate(curves.items()):
        row, column = divmod(place, 3)
        tall = 1.75 / height
        axes = figure.add_axes((0.055 + column * (width + gap), top - tall - row * 2.5 / height, width, tall))
        records = sorted(measured, key=lambda record: record.bytes_moved)
        for peer in (DEVICE_COPY, *(key for key in _COLOURS if key not in (OURS, DEVICE_COPY)), OURS):
            held = [record for record in records if peer in record.timings]
            if not held:
                continue
            axes.plot(
                [record.bytes_moved for record in held],
                [record.gigabytes_per_second(peer) for record in held],
                color=_COLOURS[peer],
                linewidth=2.2 if peer == OURS else 1.2,
                linestyle=":" if peer == DEVICE_COPY else "-",
                marker=_MARKERS.get(peer, "o") if peer != DEVICE_COPY else None,
                markersize=4.2 if peer == OURS else 3,
                zorder=5 if peer == OURS else 3,
            )
        axes.set_title(f"{name}   GB/s", size=9.5, loc="left", color=_INK)
        axes.set_xscale("log", base=2)
        ticks = [size for size in (2**12, 2**16, 2**20, 2**24, 2**28, 2**32) if size <= 1.5 * records[-1].bytes_moved]
        axes.set_xticks(ticks, [_bytes(size) for size in ticks])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.grid(color=_GRID, linewidth=0.7, zorder=0)
        axes.tick_params(length=0, labelsize=8, labelcolor=_FAINT)
        for side in axes.spines.values():
            side.set_visible(False)


def _bytes(size: int) -> str:
    for unit, scale in (("GB", 2**30), ("MB", 2**20), ("KB", 2**10)):
        if size >= scale:
            return f"{size // scale} {unit}"
    return f"{size} B"
