"""A decoder's pitched surface, over its own memory."""

import ctypes
import mmap

import stridedgpu as sg


class Surface:
    """What a decoder hands out: an address, and rows that are `pitch` bytes apart."""

    pitch = 2048

    def __init__(self) -> None:
        self.memory = (ctypes.c_uint8 * (self.pitch * 4))()
        self.ptr = ctypes.addressof(self.memory)


surface = Surface()
frame = sg.from_pointer(surface.ptr, (3, 4, 640), "uint8", layout="HWC", row_pitch_bytes=surface.pitch, owner=surface)
mapped = sg.frombuffer(mmap.mmap(-1, 8192), (4, 640, 3), "uint8", dims="HWC", row_pitch_bytes=2048)
planes: sg.StridedTensor = frame.relayout(layout="CHW", dtype="float32", scale=1 / 255)
assert planes.strides == (2560, 640, 1)
assert mapped.sizes == frame.sizes
