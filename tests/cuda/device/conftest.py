"""What the tests over the stand-in share."""

from __future__ import annotations

from harness.fake_frames import converting
from harness.fake_gathers import device
from harness.fake_pixels import mixing
from harness.fake_resizes import resizing

__all__ = ["converting", "device", "mixing", "resizing"]
