"""The kernels that the default run compiles: a few instantiations of each source, with all of their cases.

    check_cases(few([*sizes(), *conversions()]))

An instantiation takes the compiler a third of a second, a case takes the emulator a hundredth. CI has them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol, TypeVar

from stridedgpu.devices.cuda.gpu import KernelLaunch

__all__ = ["few"]


class Launched(Protocol):
    """A case of any operation."""

    @property
    def launch(self) -> KernelLaunch:
        """The launch that the planner asks for."""


Case = TypeVar("Case", bound=Launched)


def few(cases: Iterable[Case], kernels: int = 5) -> list[Case]:
    """The cases of at most so many instantiations of each source: of those that have most template arguments.

    The greedy choice: each is the one with the most arguments, by place and value, that none before it has.
    """
    sources: dict[tuple[str, ...], dict[str, list[Case]]] = {}
    for one in cases:
        sources.setdefault(one.launch.sources, {}).setdefault(one.launch.name, []).append(one)
    found = []
    for by_name in sources.values():
        left = {name: _arguments(name) for name in by_name}
        while left and kernels > len(by_name) - len(left):
            name = max(left, key=lambda one: len(left[one]))
            seen = left.pop(name)
            left = {other: arguments - seen for other, arguments in left.items()}
            found += by_name[name]
    return found


def _arguments(name: str) -> set[tuple[int, str]]:
    """The template arguments in the name of a kernel, each with its place."""
    return set(enumerate(re.split(r"[<>,\s]+", name)))
