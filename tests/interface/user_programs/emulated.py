"""A program for a CUDA device with a stream of its own, tested where there is no GPU."""

import numpy as np
from numpy.typing import NDArray

import stridedgpu as sg

DEVICE: sg.typing.DeviceLike = "cuda-emulated"


def predict(frames: NDArray[np.uint8], device: sg.typing.DeviceLike, stream: sg.emulated.Stream) -> sg.StridedTensor:
    with stream:
        there = sg.asarray(frames, dims="NHWC", device=device)
        return sg.letterbox(there, 64, dtype="float16", scale=1 / 255, layout="NHWC")


stream = sg.emulated.Stream(non_blocking=True)
made = predict(np.zeros((2, 48, 64, 3), np.uint8), DEVICE, stream)
done: sg.emulated.Event = stream.record()
sg.emulated.get_current_stream().wait_event(done)
assert made.numpy().shape == (2, 3, 64, 64)
assert done.done
