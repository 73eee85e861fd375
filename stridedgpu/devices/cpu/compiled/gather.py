"""Where `plan.py` looks for the kernels of gathers."""

from stridedgpu.devices.cpu.native.gather import gather_kernel

__all__ = ["gather_kernel"]
