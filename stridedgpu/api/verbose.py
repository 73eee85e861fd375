"""`set_verbose`: one line on standard error for each launch."""

from __future__ import annotations

from stridedgpu.devices import verbose
from stridedgpu.values.errors import LayoutError

__all__ = ["set_verbose"]


def set_verbose(on: bool = True) -> None:
    """Switch on or off one line on standard error for each launch.

    `STRIDEDGPU_VERBOSE=1` in the environment switches it on from the start. A line has, separated by commas: the
    device, the operation, the kernel, the bytes of a load and of a store, the tile, each tensor's type, sizes and
    strides in elements, the bytes moved, and the microseconds of the call; on a GPU the kernel may still run then.
    Relayouts, gathers, scatters, crops and resizes print a line. Plans that were prepared before stay as they were. An
    upload prints the device, "upload", the way ("pinned_ring", "staged", "page_locked" or "pageable"), bytes and
    microseconds.

    Raises `LayoutError` for anything but a bool.

    >>> set_verbose(False)
    """
    if not isinstance(on, bool):
        raise LayoutError(f"on={on!r} is not a bool.")
    verbose.set_verbose(on)
