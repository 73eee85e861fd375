"""Streams and events of `device="cuda-emulated"`, by CuPy's names, for tests of programs without a GPU.

    cuda = sg.emulated if os.environ.get("CI") else cupy.cuda
    with cuda.Stream(non_blocking=True) as stream:
        batch = sg.relayout(frames, layout="NCHW", dtype="float16")
    stream.synchronize()

`docs/emulated.md` says what the device catches, and how it differs from a GPU.
"""

from stridedgpu.devices.emulated.streams import Event, Stream, get_current_stream

__all__ = ["Event", "Stream", "get_current_stream"]
