"""Tensors on the CPU in every layout that moves between devices differently."""

from __future__ import annotations

import numpy as np

import stridedgpu as sg


def frames(sizes=(2, 4, 6, 3), dtype=np.uint8):
    values = np.random.default_rng(3).integers(0, 255, sizes)
    return sg.asarray(values.astype(dtype), dims="NHWC")


def same_bits(first, second):
    return first.dtype == second.dtype and first.tobytes() == second.tobytes()


def padded(sizes, order, pitch, dtype="uint8"):
    tensor = sg.zeros(sizes, dtype, layout=order, row_pitch_bytes=pitch, device="cpu")
    tensor[...] = np.random.default_rng(5).integers(0, 100, sizes)
    return tensor


SOURCES = {
    "packed": frames,
    "permuted": lambda: frames().permute((2, 0, 3, 1)),
    "padded rows": lambda: padded((2, 3, 40, 50), "NHWC", 160),
    "short rows": lambda: padded((2, 3, 4, 5), "NCHW", 8),
    "every other": lambda: frames((2, 40, 60, 3))[:, :, ::2, 1::3],
    "flipped": lambda: frames()[:, ::-1, :, ::-1],
    "flipped and padded": lambda: padded((2, 3, 40, 50), "NCHW", 160)[:, :, ::-1],
    "broadcast": lambda: frames((1, 4, 6, 1)).broadcast_to((5, 3, 4, 6)),
    "windows": lambda: sg.asarray(np.arange(40, dtype=np.uint8)).as_strided((1, 3, 33, 5), (0, 1, 1, 1)),
    "scalar": lambda: sg.asarray(np.uint8(9)),
    "no elements": lambda: sg.empty((0, 3, 4, 5), "uint8", device="cpu"),
    "many planes": lambda: frames((70, 20, 80, 3))[:, 1:, 4:-4, 2:-2],
    "float": lambda: frames(dtype=np.float32),
}
