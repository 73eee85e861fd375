"""The one cache of launches: by device, problem, and the settings of the process that a launch depends on.

An operation that is called with small tensors remembers its launches by its own arguments, with `cached_launches`.
They are bounded by their bytes, as all that is made for a size is: `values.bounded_cache`.
Verbose lines, the number of threads and temporary policies are part of the key. A call after `set_verbose` or
`set_num_threads` has a launch of its own, and nothing is cleared.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, cast

from stridedgpu.values.bounded_cache import BoundedCache

from .cpu.thread_count import SHARED
from .interface import (
    DirectCheck,
    DirectLaunch,
    GatherLaunch,
    IndexCheck,
    IndexedLaunch,
    Launch,
    MoveLaunch,
    RelayoutLaunch,
)
from .settings import POLICIES, SETTINGS

if TYPE_CHECKING:
    from stridedgpu.problems.device_plan import Problem
    from stridedgpu.problems.index_rule import IndexRule

    from .interface import Device
    from .operand import Operand

_P = ParamSpec("_P")
_R = TypeVar("_R")

_forgetting: Final[list[Callable[[], None]]] = []
"""What empties each cache of launches."""


class CachedLaunches:
    """The base of devices: the launch of each problem, planned and prepared once."""

    def launch_for(self: Device, problem: Problem | IndexRule) -> Any:
        """The launch of a problem under the current settings; `interface` has its arguments."""
        return _launch(self, problem, SETTINGS.verbose, SHARED.several, POLICIES.get())


def settings() -> tuple[Hashable, ...]:
    """The settings that launches depend on."""
    return SETTINGS.verbose, SHARED.several, POLICIES.get()


def forget_launches() -> None:
    """Prepare every launch anew: for tests that replace what prepares them."""
    for forget in _forgetting:
        forget()


def cached_launches(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Cache what has launches, by arguments that include the device and the settings."""
    cache = BoundedCache(function)
    _forgetting.append(cache.forget)
    return cast("Callable[_P, _R]", cache.call)


@cached_launches
def _launch(device: Device, problem: Problem | IndexRule, *_settings: Hashable) -> Launch:
    """Plan and prepare a problem, on operands where the device's launch takes addresses."""
    count = getattr(problem, "operand_count", 0)
    if count == 1:
        return _check(device, cast("IndexRule", problem))
    launch = device.prepare(device.plan(cast("Problem", problem)))
    if count == 3:
        return _gather(cast("GatherLaunch", launch))
    return _move(cast("RelayoutLaunch", launch)) if count == 2 else launch


def _move(launch: RelayoutLaunch) -> MoveLaunch:
    """A relayout's launch on operands, from their addresses once they are all that it needs."""
    direct: DirectLaunch | None = None

    def move(source: Operand, target: Operand, stream: object) -> DirectLaunch | None:
        nonlocal direct
        if direct is not None and stream is None:
            direct(source.reach[0], target.reach[0])
        else:
            direct = launch(source.buffer, source.start_bytes, target.buffer, target.start_bytes, stream)
        return direct

    return move


def _gather(launch: GatherLaunch) -> IndexedLaunch:
    """The same of a gather or a scatter."""
    direct: DirectLaunch | None = None

    def move(dense: Operand, indexed: Operand, indices: Operand, stream: object) -> DirectLaunch | None:
        nonlocal direct
        if direct is not None and stream is None:
            direct(dense.reach[0], indexed.reach[0], indices.reach[0])
        else:
            direct = launch(
                dense.buffer,
                dense.start_bytes,
                indexed.buffer,
                indexed.start_bytes,
                indices.buffer,
                indices.start_bytes,
                stream,
            )
        return direct

    return move


def _check(device: Device, rule: IndexRule) -> IndexCheck:
    """The check of indices by a rule, on an operand."""
    direct: DirectCheck | None = None

    def check(indices: Operand, stream: object) -> DirectCheck | None:
        nonlocal direct
        if direct is not None and stream is None:
            direct(indices.reach[0])
        else:
            direct = device.check_indices(rule, (indices.buffer, indices.start_bytes), stream)
        return direct

    return check
