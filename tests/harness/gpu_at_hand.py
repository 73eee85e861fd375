"""The GPU that `gpu` tests run on: a real one, or the stand-in under CuPy, whose work is late whatever its size."""

from __future__ import annotations

import sys

_STAND_IN = "harness.cuda_standin.plugin"

IS_REAL = _STAND_IN not in sys.modules
"""Whether there is a device of hardware."""

BUSY_BYTES = 2**30 if IS_REAL else 2**12
"""Bytes of a tensor whose copies keep a device busy until a later call: the stand-in does no work before a wait."""

PRELUDE = "" if IS_REAL else f"from {_STAND_IN} import install\ninstall()\n"
"""What a child process runs first."""
