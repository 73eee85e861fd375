"""stridedgpu: describe, view, relayout and gather tensors in strided memory, on the CPU and on NVIDIA GPUs."""

from __future__ import annotations

from . import typing
from .api.creation import asarray, empty, from_dlpack, from_pointer, full, zeros
from .api.functions import (
    gather,
    gather_crops,
    gather_elements,
    gather_nd,
    plan_gather,
    plan_gather_crops,
    plan_gather_elements,
    plan_gather_nd,
    plan_relayout,
    plan_scatter_elements,
    plan_scatter_nd,
    relayout,
    scatter_elements,
    scatter_nd,
    synchronize,
)
from .api.tensor import StridedTensor
from .api.warmup import warmup
from .devices.cpu.thread_count import get_num_threads, set_num_threads
from .devices.selection import devices
from .operations.crop_plans import PlannedCrops
from .operations.gather_plans import PlannedGather, PlannedScatter
from .operations.relayout_plan import RelayoutPlan
from .preprocess.prefetch import prefetch
from .preprocess.step import Preprocess
from .values.descriptor import BufferTensorDesc
from .values.dtypes import DataType
from .values.errors import BindingError, DeviceError, ElementTypeError, LayoutError, StridedGpuError
from .values.layout import Layout
from .values.strides import calc_buffer_tensor_size, calculate_strides, packed_strides

__all__ = [
    "BindingError",
    "BufferTensorDesc",
    "DataType",
    "DeviceError",
    "ElementTypeError",
    "Layout",
    "LayoutError",
    "PlannedCrops",
    "PlannedGather",
    "PlannedScatter",
    "Preprocess",
    "RelayoutPlan",
    "StridedGpuError",
    "StridedTensor",
    "__version__",
    "asarray",
    "calc_buffer_tensor_size",
    "calculate_strides",
    "devices",
    "empty",
    "from_dlpack",
    "from_pointer",
    "full",
    "gather",
    "gather_crops",
    "gather_elements",
    "gather_nd",
    "get_num_threads",
    "packed_strides",
    "plan_gather",
    "plan_gather_crops",
    "plan_gather_elements",
    "plan_gather_nd",
    "plan_relayout",
    "plan_scatter_elements",
    "plan_scatter_nd",
    "prefetch",
    "relayout",
    "scatter_elements",
    "scatter_nd",
    "set_num_threads",
    "synchronize",
    "typing",
    "warmup",
    "zeros",
]

__version__ = "0.1.0"
