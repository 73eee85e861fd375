"""Patches by name: a view where there is one, a copy where there must be."""

import numpy as np

import stridedgpu as sg

frames = np.zeros((2, 28, 42, 3), np.uint8)
message = ""
opened = sg.view(frames, "n (h p) (w q) c -> n h w c p q", p=14, q=14)
patches = sg.rearrange(frames, "n (h p) (w q) c -> (n h w) (c p q)", p=14, q=14)
try:
    sg.view(frames, "n (h p) (w q) c -> (n h w) (c p q)", p=14, q=14)
except sg.LayoutError as error:
    message = str(error)
assert opened.sizes == (2, 2, 3, 3, 14, 14)
assert patches.sizes == (12, 588)
assert "rearrange" in message
