"""stridedgpu: describe, view, relayout and gather tensors in strided memory, on the CPU and on NVIDIA GPUs.

A public name is imported when it is first used (PEP 562), so that `import stridedgpu` costs next to nothing.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from . import emulated, iobinding, picture, typing
    from .adapters.image_processors.processor import ImageProcessor, VideoProcessor, image_processor, video_processor
    from .api.creation import asarray, empty, from_dlpack, from_pointer, frombuffer, full, zeros
    from .api.crops import gather_crops, plan_gather_crops
    from .api.frames import Frame, unpack_raw
    from .api.gather import (
        gather,
        gather_elements,
        gather_nd,
        plan_gather,
        plan_gather_elements,
        plan_gather_nd,
        plan_scatter_elements,
        plan_scatter_nd,
        scatter_elements,
        scatter_nd,
    )
    from .api.relayout import plan_relayout, rearrange, relayout, synchronize, view
    from .api.resize import letterbox, letterbox_placements, plan_letterbox, plan_resize, resize
    from .api.tensor import StridedTensor
    from .api.warmup import warmup
    from .devices.cpu.thread_count import get_num_threads, set_num_threads
    from .devices.selection import devices
    from .devices.verbose import set_verbose
    from .operations.crops import PlannedCrops, PlannedFrameCrops
    from .operations.frames import PlannedFrames
    from .operations.gather import PlannedGather
    from .operations.relayout import RelayoutPlan
    from .operations.resize import PlannedResize
    from .operations.scatter import PlannedScatter
    from .preprocess.loader import Loader, load
    from .preprocess.prefetch import prefetch
    from .preprocess.provenance import which
    from .preprocess.step import Preprocess
    from .values.descriptor import Binding, BufferTensorDesc, check_bindings
    from .values.dtypes import DataType
    from .values.errors import BindingError, DeviceError, ElementTypeError, LayoutError, StridedGpuError
    from .values.layout import Layout
    from .values.strides import calc_buffer_tensor_size, calculate_strides, packed_strides
else:
    # A package has the name of the function `devices`. Once it is imported, no other import binds the name to it.
    from . import devices

    del devices

__all__ = [
    "Binding",
    "BindingError",
    "BufferTensorDesc",
    "DataType",
    "DeviceError",
    "ElementTypeError",
    "Frame",
    "ImageProcessor",
    "Layout",
    "LayoutError",
    "Loader",
    "PlannedCrops",
    "PlannedFrameCrops",
    "PlannedFrames",
    "PlannedGather",
    "PlannedResize",
    "PlannedScatter",
    "Preprocess",
    "RelayoutPlan",
    "StridedGpuError",
    "StridedTensor",
    "VideoProcessor",
    "__version__",
    "asarray",
    "calc_buffer_tensor_size",
    "calculate_strides",
    "check_bindings",
    "devices",
    "empty",
    "emulated",
    "from_dlpack",
    "from_pointer",
    "frombuffer",
    "full",
    "gather",
    "gather_crops",
    "gather_elements",
    "gather_nd",
    "get_num_threads",
    "image_processor",
    "iobinding",
    "letterbox",
    "letterbox_placements",
    "load",
    "packed_strides",
    "picture",
    "plan_gather",
    "plan_gather_crops",
    "plan_gather_elements",
    "plan_gather_nd",
    "plan_letterbox",
    "plan_relayout",
    "plan_resize",
    "plan_scatter_elements",
    "plan_scatter_nd",
    "prefetch",
    "rearrange",
    "relayout",
    "resize",
    "scatter_elements",
    "scatter_nd",
    "set_num_threads",
    "set_verbose",
    "synchronize",
    "typing",
    "unpack_raw",
    "video_processor",
    "view",
    "warmup",
    "which",
    "zeros",
]

__version__ = "0.1.0"

_NAMES: Final = {
    "adapters.image_processors.processor": "ImageProcessor VideoProcessor image_processor video_processor",
    "api.creation": "asarray empty from_dlpack from_pointer frombuffer full zeros",
    "api.crops": "gather_crops plan_gather_crops",
    "api.frames": "Frame unpack_raw",
    "api.gather": "gather gather_elements gather_nd plan_gather plan_gather_elements plan_gather_nd"
    " plan_scatter_elements plan_scatter_nd scatter_elements scatter_nd",
    "api.relayout": "plan_relayout rearrange relayout synchronize view",
    "api.resize": "letterbox letterbox_placements plan_letterbox plan_resize resize",
    "api.tensor": "StridedTensor",
    "api.warmup": "warmup",
    "devices.cpu.thread_count": "get_num_threads set_num_threads",
    "devices.selection": "devices",
    "devices.verbose": "set_verbose",
    "emulated": "emulated",
    "iobinding": "iobinding",
    "operations.crops": "PlannedCrops PlannedFrameCrops",
    "operations.frames": "PlannedFrames",
    "operations.gather": "PlannedGather",
    "operations.relayout": "RelayoutPlan",
    "operations.resize": "PlannedResize",
    "operations.scatter": "PlannedScatter",
    "picture": "picture",
    "preprocess.loader": "Loader load",
    "preprocess.prefetch": "prefetch",
    "preprocess.provenance": "which",
    "preprocess.step": "Preprocess",
    "typing": "typing",
    "values.descriptor": "Binding BufferTensorDesc check_bindings",
    "values.dtypes": "DataType",
    "values.errors": "BindingError DeviceError ElementTypeError LayoutError StridedGpuError",
    "values.layout": "Layout",
    "values.strides": "calc_buffer_tensor_size calculate_strides packed_strides",
}
"""The modules, and the public names of each; a public module has its own name."""

_MODULES: Final = {name: module for module, names in _NAMES.items() for name in names.split()}
"""The module of each public name."""

_ELSEWHERE: Final = {
    **dict.fromkeys(("array", "tensor", "from_numpy", "as_tensor"), "asarray wraps what is array-like"),
    **dict.fromkeys(("stack", "concatenate", "cat"), "relayout(..., out=batch[i]) writes into a slot of empty(...)"),
    **dict.fromkeys(("transpose", "permute", "reshape"), "view(t, pattern) opens, orders and merges axes"),
    **dict.fromkeys(("reduce", "einsum"), "einops and NumPy compute on a tensor's .numpy()"),
    **dict.fromkeys(("normalize", "cast", "astype"), "relayout(..., dtype=, mean=, std=) converts as it moves"),
    **dict.fromkeys(("crop", "center_crop", "random_crop"), "t[..., a:b, c:d] is a view, and gather_crops a batch"),
    **dict.fromkeys(("imread", "open", "Dataset"), "load(paths, step) makes batches of files"),
    **dict.fromkeys(("Compose", "Resize", "Normalize"), "Preprocess(resize=, crop=, normalize=) is one declared step"),
    **dict.fromkeys(("to_torch", "to_numpy", "to_dlpack"), "torch.from_dlpack(t) and t.numpy() share the memory"),
    "ones": "full(sizes, 1, dtype) fills",
    "cuda": "device='cuda' is an argument, and devices() says what there is",
}
"""Names that users of other libraries type first, and what there is here."""

_importing: Final = RLock()
"""Held while a name is imported, and by a process while it forks: its child would wait for ever for the import of a
thread that it does not have."""


def _wait_for_imports() -> None:
    """Before a fork: wait until no other thread imports a module of the package, by a name or inside of a function."""
    _importing.acquire()
    # CPython has a lock for each module whose import has begun, before the module is found; others have its mark alone.
    begun, waited = getattr(importlib._bootstrap, "_module_locks", sys.modules), set[str]()
    while names := {name for name in tuple(begun) if name.startswith(f"{__name__}.")} - waited:
        waited |= names
        for name in names:
            module = sys.modules.get(name)
            if module is None or getattr(module.__spec__, "_initializing", False):
                import_module(name)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_imports, after_in_parent=_importing.release, after_in_child=_importing.release)

if not TYPE_CHECKING:  # a type checker that saw `__getattr__` would take every name for one that is there

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used; it is an ordinary attribute from then on."""
        if name not in _MODULES:
            advice = f"; {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{advice}")
        with _importing:
            module = import_module(f"{__name__}.{_MODULES[name]}")
        value = globals()[name] = module if _MODULES[name] == name else getattr(module, name)
        return value


def __dir__() -> list[str]:
    """The public names, imported or not."""
    return sorted(__all__)
