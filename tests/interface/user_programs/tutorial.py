"""Ten minutes: from a photograph to a network's input."""

import numpy as np

import stridedgpu as sg

photo = np.zeros((300, 400, 3), np.uint8)
mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
scale, bias = 1 / (255 * std), -mean / std

picture = sg.asarray(photo, dims="HWC", copy=False)
batch = sg.empty((2, 3, 224, 224), "float32", layout="NCHW", device="cpu")
sg.relayout(picture[:, :224, :224], scale=scale, bias=bias, out=batch[0])
sg.relayout(picture[:, :224, :224], mean=mean, std=std, out=batch[1])
array: np.ndarray[tuple[int, ...], np.dtype[np.generic]] = batch.numpy()
assert np.array_equal(array[0], array[1])
