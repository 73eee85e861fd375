"""DirectML's descriptor, its sizes and its structure."""

import ctypes

import stridedgpu as sg

sizes = (1, 3, 480, 640)
strides = sg.calculate_strides("NHWC", sizes)
nbytes: int = sg.calc_buffer_tensor_size(sg.DataType.UINT8, sizes, strides)
desc = sg.BufferTensorDesc("uint8", sizes, strides, guaranteed_base_offset_alignment=32)
desc.check_binding(offset=64, size_in_bytes=nbytes)
struct = desc.to_ctypes()
assert ctypes.sizeof(struct) == 48
assert desc.layout.is_packed
