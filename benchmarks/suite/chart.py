"""Results as a picture: each workload's speed as a share of the library's own copy, peers beside it, and over sizes.

matplotlib (extra `plot`) draws it, and is imported only then.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, BinaryIO, Final

from stridedgpu.values.errors import StridedGpuError

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
_WARNING: Final = "#b42318"
_PANEL: Final = 2.45
"""Inches from one row of panels to the next."""

_SHARES: Final = {
    0: "0",
    0.25: "25%",
    0.5: "50%",
    0.75: "75%",
    1: "own copy",
    1.25: "125%",
    1.5: "150%",
    1.75: "175%",
    2: "200%",
}
_WIDEST: Final = 2.0
"""Shares beyond this stand at the edge."""


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
    curves = _curves(results)
    bars, rows = 0.27 * len(moved) + 0.5, -(-(len(curves) + 1) // 3) if curves else 0
    height = 2.0 + bars + (0.6 + _PANEL * rows if rows else 0)
    with pyplot.rc_context(style):
        figure = pyplot.figure(figsize=(11.5, height), dpi=120)
        _heading(figure, results, height)
        top = 1 - 1.8 / height
        axes = figure.add_axes((0.235, top - bars / height, 0.625, bars / height))
        _workloads(axes, moved)
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-0.385, 1.0 + 0.3 / bars),
            ncols=9,
            frameon=False,
            handletextpad=0.4,
            columnspacing=1.6,
        )
        _over_sizes(figure, curves, top - (bars + 0.75) / height, height)
        figure.savefig(file, format="png", facecolor=_PAPER)
        pyplot.close(figure)


def _heading(figure: Any, results: Results, height: float) -> None:
    """What is drawn, and where it was measured."""
    made = results.provenance
    device = made["device"]
    threads = f", {device['threads']} threads" if device["kind"] == "cpu" else f", driver {device['driver']}"
    version = f"stridedgpu {made['versions']['stridedgpu']}, commit {made['commit'] or 'unknown'}, {made['date']}"
    figure.text(0.02, 1 - 0.28 / height, "As fast as a copy?", size=17, weight="bold", va="top")
    about = "Speed as a share of the library's own copy of as many bytes, in the same run. Further right is faster."
    figure.text(0.02, 1 - 0.66 / height, about, va="top", size=10.5)
    figure.text(0.02, 1 - 0.92 / height, f"{device['name']}{threads}  ·  {version}", color=_FAINT, va="top")


def _workloads(axes: Any, records: list[Record]) -> None:
    """A line for each workload: a bar for the library, a mark for each of the others."""
    places = range(len(records))
    ours = [min(record.share(OWN_COPY), _WIDEST) for record in records]
    axes.barh(places, ours, height=0.62, color=_COLOURS[OURS], zorder=2, label="stridedgpu")
    axes.axvline(1, color=_INK, linewidth=0.9, zorder=3)
    for name in _COLOURS:
        held = [
            (min(record.share(OWN_COPY, name), _WIDEST), place)
            for place, record in enumerate(records)
            if name in record.timings and name != OURS
        ]
        if held:
            machine = name == DEVICE_COPY
            axes.scatter(
                *zip(*held, strict=True),
                s=95 if machine else 32,
                marker=_MARKERS[name],
                color=_COLOURS[name],
                edgecolors=None if machine else _PAPER,
                linewidths=1.6 if machine else 0.7,
                zorder=4 if machine else 5,
                clip_on=False,
                label=name,
            )
    axes.set_yticks(places, [record.workload for record in records])
    axes.tick_params(axis="y", pad=62)
    axes.set_ylim(len(records) - 0.4, -0.6)
    axes.set_xlim(0, _WIDEST)
    axes.set_xticks(*zip(*_SHARES.items(), strict=True))
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.grid(axis="x", color=_GRID, linewidth=0.8, zorder=0)
    _without_frame(axes)
    for place, record in enumerate(records):
        speed = f"{record.gigabytes_per_second():.1f} GB/s"
        axes.text(-0.02, place, speed, va="center", ha="right", size=8, color=_FAINT)
        if record.ratio and record.verdict == "slower":
            faster = f"{record.best_peer} {1 / record.ratio:.3g}x as fast"
            axes.text(_WIDEST + 0.04, place, faster, va="center", size=8, color=_WARNING)


def _without_frame(axes: Any) -> None:
    for side in axes.spines.values():
        side.set_visible(False)


def _curves(results: Results) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in results.curves:
        found.setdefault(record.workload, []).append(record)
    return found


def _over_sizes(figure: Any, curves: dict[str, list[Record]], top: float, height: float) -> None:
    """GB/s over the bytes moved: first what the panels show, then one for each workload."""
    if not curves:
        return
    figure.text(0.055, top - 0.1 / height, "Over sizes", size=13, weight="bold", va="top")
    about = (
        "GB/s, read and written, over the bytes\nthat one call moves, on a scale of powers\nof two. "
        "Dotted: the machine's own copy.\nSmall calls show what a call costs, large\nones what the memory can do."
    )
    figure.text(0.055, top - 0.42 / height, about, size=9, color=_FAINT, va="top", linespacing=1.5)
    for place, (name, measured) in enumerate(curves.items(), start=1):
        row, column = divmod(place, 3)
        box = (0.055 + column * 0.326, top - (1.75 + row * _PANEL) / height, 0.262, 1.75 / height)
        _panel(figure.add_axes(box), name, sorted(measured, key=lambda record: record.bytes_moved))


def _panel(axes: Any, name: str, records: list[Record]) -> None:
    """One workload's curves, ours in front."""
    for who in (DEVICE_COPY, *(key for key in _COLOURS if key not in (OURS, DEVICE_COPY)), OURS):
        held = [record for record in records if who in record.timings]
        axes.plot(
            [record.bytes_moved for record in held],
            [record.gigabytes_per_second(who) for record in held],
            color=_COLOURS[who],
            linewidth=2.4 if who == OURS else 1.2,
            linestyle=":" if who == DEVICE_COPY else "-",
            marker=None if who == DEVICE_COPY else _MARKERS.get(who, "o"),
            markersize=4.5 if who == OURS else 3,
            zorder=5 if who == OURS else 3,
        )
    axes.set_title(name, size=10, loc="left", color=_INK)
    axes.set_xscale("log", base=2)
    ticks = [size for size in (2**12, 2**16, 2**20, 2**24, 2**28, 2**32) if size <= 1.5 * records[-1].bytes_moved]
    axes.set_xticks(ticks, [_bytes(size) for size in ticks])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.grid(color=_GRID, linewidth=0.7, zorder=0)
    axes.tick_params(length=0, labelsize=8.5, labelcolor=_FAINT)
    _without_frame(axes)


def _bytes(size: int) -> str:
    for unit, scale in (("GB", 2**30), ("MB", 2**20), ("KB", 2**10)):
        if size >= scale:
            return f"{size // scale} {unit}"
    return f"{size} B"
