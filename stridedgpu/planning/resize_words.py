"""A resize in words, and the bytes that it moves: shared by the plans of every device."""

from __future__ import annotations

from .resize_problem import ResizeProblem

__all__ = ["bytes_moved", "problem_words"]


def bytes_moved(problem: ResizeProblem) -> tuple[int, int]:
    """The bytes that must be read and written, each once; without a window the bytes read are unknown."""
    made, layout = problem.conversion, problem.target.layout
    written = layout.element_count * made.target.itemsize
    if problem.window is None:
        return 0, written
    channels = problem.channels if made.channels is None else len(set(made.channels))
    pixels = problem.taps(problem.window).source_pixels
    return layout.sizes[0] * channels * pixels * made.source.itemsize, written


def problem_words(problem: ResizeProblem) -> list[str]:
    """The problem in lines: sizes, taps, passes, arithmetic, conversion and bytes."""
    count, channels, height, width = problem.target.layout.sizes
    rule, made = problem.rule, problem.conversion
    lines = [f"{count} pictures of {height} x {width} pixels, {channels} channels each: {rule.interpolation}"]
    read, written = bytes_moved(problem)
    if problem.window is None:
        lines.append("boxes and sizes of the sources come with every call")
    else:
        window = problem.window
        taps = problem.taps(window)
        top, left, bottom, right = window.box
        _, source_height, source_width = window.layout.sizes
        lines.append(
            f"from rows {top:g} to {bottom:g} and columns {left:g} to {right:g} of {source_height} x {source_width}"
        )
        passes = [
            f"{name}: no pass, pixels are copied" if axis.copies else f"{name}: up to {axis.most} taps a pixel"
            for name, axis in (("columns", taps.columns), ("rows", taps.rows))
        ]
        lines += [f"  {words}" for words in (passes if taps.columns_first else passes[::-1])]
        lines.append(f"{taps.arithmetic.spec.words}")
        lines.append(f"{taps.products * channels * count:,} products")
    if rule.premultiplies:
        lines.append("colours are multiplied by alpha before the first pass and divided by it behind the second")
    lines.append(f"{made}" + (": pixels keep their type" if made.moves_bits else ""))
    reads = f"reads {read:,} bytes, " if problem.window is not None else ""
    lines.append(f"{reads}writes {written:,} bytes")
    return lines
