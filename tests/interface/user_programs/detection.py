"""Images for YOLO: letterboxed, BGR to RGB, float16; boxes mapped back to the images."""

import numpy as np

import stridedgpu as sg
from stridedgpu.typing import Interpolation

RULE: Interpolation = "opencv-linear"

frames = [np.zeros((108, 192, 3), np.uint8), np.zeros((100, 50, 3), np.uint8)]
batch = sg.letterbox(
    frames, (64, 64), dims="HWC", interpolation=RULE, channels=(2, 1, 0), dtype="float16", scale=1 / 255
)
places = sg.letterbox_placements([frame.shape[:2] for frame in frames], (64, 64))
top: int = int(places[0, 0])
assert batch.sizes == (2, 3, 64, 64)
assert top == 14
