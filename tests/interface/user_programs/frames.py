"""A video decoder's NV12 surface to a network's input, and back."""

import numpy as np

import stridedgpu as sg
from stridedgpu.typing import VideoFrameLike

memory = np.full((6, 8), 128, np.uint8)
frame = sg.Frame.over("nv12", memory, (4, 8))
picture = sg.relayout(frame, dtype="float32", mean=0.5, std=[0.5, 0.5, 0.5])
written = sg.relayout(np.zeros((3, 4, 8), np.uint8), dims="CHW", out=frame)
names: tuple[str, ...] = tuple(str(plane.sizes) for plane in written.planes)
named = sg.Frame.of({"y": np.full((4, 8), 16, np.uint8), "uv": np.full((2, 8), 128, np.uint8)}, matrix="bt709")


def batch_of(decoded: list[VideoFrameLike]) -> sg.StridedTensor:
    """Frames of PyAV as a network's input."""
    return sg.letterbox(decoded, (640, 640), dtype="float16")


assert named.relayout().numpy().max() == 0
assert picture.sizes == (3, 4, 8)
assert len(names) == 2
