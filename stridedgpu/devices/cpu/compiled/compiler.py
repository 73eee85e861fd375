from stridedgpu.values.errors import DeviceError


class LoopError(DeviceError):
    """No loop."""
