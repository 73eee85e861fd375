"""Saying what runs: `set_verbose`."""

from __future__ import annotations

from stridedgpu.devices import verbose
from stridedgpu.operations import crops, relayout, transfer
from stridedgpu.values.errors import LayoutError

__all__ = ["set_verbose"]


def set_verbose(on: bool = True) -> None:
    """Say on standard error what every launch ran, one line each, or no more.

    `STRIDEDGPU_VERBOSE=1` in the environment says so from the start. A line has, with commas between: the device, the
    operation, the kernel, the bytes of a load and of a store, the tile, each tensor's type, sizes and strides in
    elements, the bytes moved, and the microseconds that the call took; on a GPU the kernel may still run then.
    Relayouts, gathers, scatters and crops are told. Plans that were made ready before keep as silent as they were.

    Raises `LayoutError` for anything but a bool.

    >>> set_verbose(False)
    """
    if not isinstance(on, bool):
        raise LayoutError(f"on={on!r} is not a bool.")
    verbose.set_verbose(on)
    # Launches that are kept were handed out before.
    transfer.launch_for.cache_clear()
    relayout._result.cache_clear()
    relayout._launch_into.cache_clear()
    crops._launch.cache_clear()
