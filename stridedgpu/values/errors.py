"""The errors of the library: one base class, and under it one class for each kind of refusal."""

from __future__ import annotations


class StridedGpuError(Exception):
    """Base of every error that this library defines."""


class LayoutError(StridedGpuError, ValueError):
    """Sizes, strides or axes that break a rule, or a view that would need a copy."""


class BindingError(StridedGpuError, ValueError):
    """A buffer range that does not fit what a descriptor, tensor or plan was promised."""


class ElementTypeError(StridedGpuError, TypeError):
    """An element type that the library does not know, or a conversion that does not exist."""


class DeviceError(StridedGpuError, RuntimeError):
    """A device that is named and unavailable, or that failed."""
