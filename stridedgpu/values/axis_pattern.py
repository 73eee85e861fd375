"""`AxisPattern`: einops' patterns of axes ("n (h p) (w q) c -> n h w (p q c)") over layouts, as arithmetic.

The language is that of einops' `rearrange`: https://einops.rocks/api/rearrange/. A name is an axis, parentheses group
axes into one, `...` stands for all unnamed axes, `1` and `()` for an axis of size 1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from math import prod
from typing import Final

from .errors import LayoutError
from .layout import Layout
from .strides import integer

_PART: Final = re.compile(r"\.\.\.|[()]|[^\s().]+|\.")
_NAME: Final = re.compile(r"[A-Za-z](\w*[A-Za-z0-9])?", re.ASCII)

Group = tuple[str, ...]
"""The names of the axes that one axis of a side consists of, outermost first; empty for an axis of size 1."""


@dataclass(frozen=True, slots=True)
class AxisPattern:
    """A pattern for layouts of one rank: the groups of axes on the left of the arrow and on its right."""

    text: str
    source: tuple[Group, ...]
    target: tuple[Group, ...]

    @staticmethod
    @lru_cache(maxsize=1024)
    def of(text: str, rank: int) -> AxisPattern:
        """Read a pattern for layouts of `rank` axes. Raises `LayoutError` if the text is not a pattern.

        >>> AxisPattern.of("(h p) ... -> h (p ...)", 3).target
        (('h',), ('p', '...0', '...1'))
        """
        sides = text.split("->")
        if len(sides) != 2:
            raise LayoutError(f"pattern={text!r} must have two sides with one '->' between, such as 'h w c -> c h w'.")
        left, right = (_parts_of(side, text) for side in sides)
        if ("..." in left) is not ("..." in right):
            raise LayoutError(f"pattern={text!r} has '...' on one side only; all axes must be on both.")
        rest = max(0, rank - len(_groups(left, text)) + 1)
        source, target = (_groups(_spelt_out(parts, rest), text) for parts in (left, right))
        if len(source) != rank:
            raise LayoutError(f"pattern={text!r} has {len(source)} axes on the left, but there are {rank}.")
        if "..." in left and any(len(group) > 1 and "...0" in group for group in _groups(_spelt_out(left, 1), text)):
            raise LayoutError(f"pattern={text!r} has '...' inside parentheses on the left, where it could be any axes.")
        if odd := set(chain(*source)) ^ set(chain(*target)):
            raise LayoutError(f"pattern={text!r} has {', '.join(sorted(odd))} on one side only; all must be on both.")
        return AxisPattern(text, source, target)

    def opened(self, layout: Layout, sizes: Mapping[str, object]) -> tuple[Layout, tuple[int, ...]]:
        """The layout with one axis for each name, in the order of the right side, and the sizes of the result.

        `sizes` has those of named axes. The result is this layout reshaped to the returned sizes, if that needs no
        copy. Raises `LayoutError` if layout, pattern and sizes do not fit each other.

        >>> layout, sizes = AxisPattern.of("(h p) c -> h (p c)", 2).opened(Layout((6, 2)), {"p": 3})
        >>> layout.sizes, layout.strides, sizes
        ((2, 3, 2), (6, 2, 1), (2, 6))
        """
        known = self._sizes(layout, sizes)
        for axis in reversed(range(layout.ndim)):
            layout = layout.split_axis(axis, [known[name] for name in self.source[axis]])
        names = list(chain(*self.source))
        layout = layout.permuted([names.index(name) for name in chain(*self.target)])
        return layout, tuple(prod(known[name] for name in group) for group in self.target)

    def _sizes(self, layout: Layout, stated: Mapping[str, object]) -> dict[str, int]:
        """The size of every named axis: the stated ones, and at most one inferred size in each group."""
        sizes = {name: integer(name, size, least=1) for name, size in stated.items()}
        if unknown := set(sizes) - set(chain(*self.source)):
            raise LayoutError(f"{', '.join(sorted(unknown))} is given a size, but is not in pattern={self.text!r}.")
        for axis, (size, group) in enumerate(zip(layout.sizes, self.source, strict=True)):
            known = prod(sizes[name] for name in group if name in sizes)
            missing = [name for name in group if name not in sizes]
            if len(missing) > 1:
                raise LayoutError(
                    f"pattern={self.text!r} splits axis {axis} of size {size} into ({' '.join(group)}): give the sizes "
                    f"of all but one of {', '.join(missing)}."
                )
            if size % known if missing else size != known:
                raise LayoutError(
                    f"pattern={self.text!r}: axis {axis} has size {size}, which is not ({' '.join(group) or '1'}) with "
                    f"{', '.join(f'{name}={sizes[name]}' for name in group if name in sizes) or 'size 1'}."
                )
            sizes.update((name, size // known) for name in missing)
        return sizes


def _parts_of(side: str, text: str) -> list[str]:
    """The names, parentheses and dots of one side."""
    parts = _PART.findall(side)
    names = [part for part in parts if part not in ("(", ")", "...", "1")]
    if wrong := [name for name in names if not _NAME.fullmatch(name)]:
        raise LayoutError(
            f"pattern={text!r} has {wrong[0]!r}, which is no name of an axis; names are letters, digits, _."
        )
    if twice := [name for name, times in Counter(part for part in parts if part not in "()1").items() if times > 1]:
        raise LayoutError(f"pattern={text!r} has {twice[0]} twice on one side.")
    return parts


def _spelt_out(parts: list[str], rest: int) -> list[str]:
    """The parts, with `...` replaced by generated names."""
    names = [f"...{number}" for number in range(rest)]
    return list(chain.from_iterable(names if part == "..." else [part] for part in parts))


def _groups(parts: list[str], text: str) -> tuple[Group, ...]:
    """The axes of one side, each with the names that it consists of."""
    groups: list[list[str]] = []
    is_open = False
    for part in parts:
        if part in ("(", ")"):
            if is_open is (part == "("):
                raise LayoutError(f"pattern={text!r} has parentheses inside others or without their counterpart.")
            is_open = part == "("
            if is_open:
                groups.append([])
        elif not is_open:
            groups.append([] if part == "1" else [part])
        elif part != "1":
            groups[-1].append(part)
    if is_open:
        raise LayoutError(f"pattern={text!r} has parentheses inside others or without their counterpart.")
    return tuple(map(tuple, groups))
