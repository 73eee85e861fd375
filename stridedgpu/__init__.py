"""stridedgpu: describe, view, relayout and gather tensors in strided memory, on the CPU and on NVIDIA GPUs."""

from __future__ import annotations

from .desc import BufferTensorDesc
from .dtypes import DataType
from .errors import BindingError, DeviceError, ElementTypeError, LayoutError, StridedGpuError
from .layout import Layout
from .strides import calc_buffer_tensor_size, calculate_strides, packed_strides

__all__ = [
    "BindingError",
    "BufferTensorDesc",
    "DataType",
    "DeviceError",
    "ElementTypeError",
    "Layout",
    "LayoutError",
    "StridedGpuError",
    "__version__",
    "calc_buffer_tensor_size",
    "calculate_strides",
    "packed_strides",
]

__version__ = "0.1.0"
