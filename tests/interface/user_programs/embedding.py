"""Rows of an embedding by index, with a rule for indices out of range."""

import numpy as np

import stridedgpu as sg
from stridedgpu.typing import IndexMode


def rows(table: sg.StridedTensor, tokens: list[list[int]], mode: IndexMode = "raise") -> sg.StridedTensor:
    return sg.gather(table, tokens, mode=mode)


table = sg.zeros((100, 8), "float16", row_pitch_bytes=32, device="cpu")
found = np.empty((2, 2, 8), np.float16)
assert rows(table, [[1, 2], [3, 4]]).sizes == (2, 2, 8)
assert sg.gather(table, np.array([[1, 2], [3, 200]]), mode="clip", out=found).shape == found.shape
updated = sg.scatter_nd(table, [[5]], sg.full((1, 8), 1.5, "float16", device="cpu"))
assert updated[5, 0].item() == 1.5
