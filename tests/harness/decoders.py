"""What decoders on a GPU give, as their Python modules export it: doubles over memory that CuPy allocates.

Each double fills its memory on a stream, as the decoder does, and says of it what the library says, mistakes included.

| class | of | source |
|---|---|---|
| `NvImage` | `Image` of nvImageCodec, releases of 2024 and 2025 | NVIDIA/nvImageCodec: image.cpp, dlpack_utils.cpp |
| `DecodedFrame`, `PlaneView` | `DecodedFrame`, `CAIMemoryView` of PyNvVideoCodec 2 | its source distribution |
| `Tensor` | a CUDA tensor of PyTorch, which TorchCodec decodes into | torch/_tensor.py, CUDACachingAllocator.cpp |
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import cupy
import numpy as np
from numpy.typing import NDArray

_CUDA = (2, 0)
"""DLPack's type and number of the first CUDA device."""

_PER_THREAD = 2
"""The handle of each thread's own default stream."""


class Surface:
    """Device memory that a stream fills: the contents are there when the stream has come so far."""

    def __init__(self, contents: NDArray[Any], stream: Any) -> None:
        self.stream, self.nbytes = stream, contents.nbytes
        self.address: int = cupy.cuda.runtime.mallocAsync(contents.nbytes, stream.ptr)
        self.event = cupy.cuda.Event(disable_timing=True)
        self.fill(contents)

    def fill(self, contents: NDArray[Any]) -> None:
        """Write other contents, in the order of the stream, as a decoder does that uses its surfaces again."""
        packed = np.ascontiguousarray(contents)  # pageable memory, which CUDA has copied on return
        runtime = cupy.cuda.runtime
        kind = runtime.memcpyHostToDevice
        runtime.memcpyAsync(self.address, packed.ctypes.data, self.nbytes, kind, self.stream.ptr)
        self.event.record(self.stream)

    def free(self) -> None:
        """Free the memory in the order of the stream, whoever may still read it."""
        cupy.cuda.runtime.freeAsync(self.address, self.stream.ptr)

    def capsule(self, sizes: Any, strides: Any, dtype: Any, start_bytes: int = 0) -> Any:
        """A capsule without a version, as older exporters have; strides are in elements."""
        itemsize = np.dtype(dtype).itemsize
        nbytes = self.nbytes + sum(sizes) * itemsize  # wrong strides reach beyond the memory
        memory = cupy.cuda.UnownedMemory(self.address, nbytes, self, 0)
        pointer = cupy.cuda.MemoryPointer(memory, start_bytes)
        steps = tuple(step * itemsize for step in strides)
        return cupy.ndarray(tuple(sizes), dtype, pointer, strides=steps).__dlpack__(stream=-1)


class NvImage:
    """An `Image` of nvImageCodec in device memory: interleaved (H, W, C), packed."""

    def __init__(self, pixels: NDArray[Any], stream: Any) -> None:
        self.shape, self._dtype = pixels.shape, pixels.dtype
        self._surface, self._is_taken = Surface(pixels, stream), False

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "strides": None,
            "typestr": "|u1" if self._dtype == np.uint8 else "<u2",
            "data": (self._surface.address, False),
            "version": 3,
            "stream": self._surface.stream.ptr or 1,
        }

    def __dlpack__(self, stream: int | None = None) -> Any:
        if self._is_taken:
            raise RuntimeError("Could not get DLTensor capsules. It can be consumed only once, so you might have…")
        self._is_taken = True
        if stream != -1:
            cupy.cuda.runtime.streamWaitEvent(stream or 0, self._surface.event.ptr)
        _, width, channels = self.shape
        return self._surface.capsule(self.shape, (width * channels, channels, 1), self._dtype)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA

    def __del__(self) -> None:
        """The memory is the image's, and not the capsule's."""
        self._surface.free()


class PlaneView:
    """A `CAIMemoryView` of PyNvVideoCodec: lists instead of tuples, and steps in elements whatever their size."""

    def __init__(self, address: int, shape: list[int], stride: list[int], typestr: str, stream: int) -> None:
        self.dataptr = self.data = address
        self.shape, self.stride, self.typestr, self.stream = shape, stride, typestr, stream

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "strides": self.stride,
            "typestr": self.typestr,
            # The library's own: neither of these is the decoder's stream, unless that is the default one.
            "stream": _PER_THREAD if self.stream else 0,
            "data": (self.data, False),
            "gpuIdx": 0,
        }


class DecodedFrame:
    """A `DecodedFrame` of PyNvVideoCodec, of NV12 or (with samples of 16 bits) P016, packed."""

    def __init__(self, luma: NDArray[Any], chroma: NDArray[Any], stream: Any) -> None:
        rows = np.concatenate([luma, chroma.reshape(len(chroma), -1)])
        self._surface, self._stream = Surface(rows, stream), stream
        self._typestr = "|u1" if rows.dtype == np.uint8 else "|u2"
        self.shape = list(rows.shape)
        # Of P016 the last step is the bytes of a sample.
        self.strides = [rows.shape[1], rows.dtype.itemsize]
        self.format = "NV12" if rows.dtype == np.uint8 else "P016"
        self._luma_nbytes = luma.nbytes

    def decode(self, luma: NDArray[Any], chroma: NDArray[Any]) -> None:
        """Write the next frame into the same memory."""
        self._surface.fill(np.concatenate([luma, chroma.reshape(len(chroma), -1)]))

    def cuda(self) -> list[PlaneView]:
        (rows, width), start = self.shape, self._surface.address
        height, of = rows * 2 // 3, (self._typestr, self._stream.ptr)
        return [
            PlaneView(start, [height, width, 1], [width, 1, 1], *of),
            PlaneView(start + self._luma_nbytes, [height // 2, width // 2, 2], [width, 2, 1], *of),
        ]

    def GetPtrToPlane(self, plane: int) -> int:
        return self.cuda()[plane].data

    def __dlpack__(self, stream: int | None = None) -> Any:
        if not stream:
            raise RuntimeError("Invalid value for stream parameter. Passed value of 0 which is not allowed")
        if stream not in (-1, self._stream.ptr):
            cupy.cuda.runtime.streamWaitEvent(stream, self._surface.event.ptr)
        return self._surface.capsule(self.shape, self.strides, np.dtype(self._typestr))

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA


class PitchedArray:
    """Memory of a decoder with rows at a pitch, or a view of it, that speaks one of the protocols."""

    def __init__(self, contents: NDArray[Any], stream: Any, protocol: str) -> None:
        self._contents, self._surface, self._protocol = contents, Surface(contents, stream), protocol
        self._describe(contents)

    @classmethod
    def of_view(cls, whole: PitchedArray, view: NDArray[Any]) -> PitchedArray:
        """What a NumPy view of the contents is on the device."""
        array = cls.__new__(cls)
        array._contents, array._surface, array._protocol = whole._contents, whole._surface, whole._protocol
        array._describe(view)
        return array

    def _describe(self, view: NDArray[Any]) -> None:
        self.shape, self._steps, self._dtype = view.shape, view.strides, view.dtype
        self._start = view.ctypes.data - self._contents.ctypes.data

    def __getattr__(self, name: str) -> Any:
        """The methods of the protocol alone, as `hasattr` sees them."""
        offered = {"interface": ("__cuda_array_interface__",), "capsule": ("__dlpack__", "__dlpack_device__")}
        if name not in offered[self._protocol]:
            raise AttributeError(name)
        return {"__dlpack__": self._capsule, "__dlpack_device__": lambda: _CUDA}.get(name) or self._interface()

    def _interface(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": self.shape,
            "strides": self._steps,
            "typestr": self._dtype.str,
            "data": (self._surface.address + self._start, True),
            "stream": self._surface.stream.ptr,
        }

    def _capsule(self, *, stream: int | None = None, **_: Any) -> Any:
        cupy.cuda.runtime.streamWaitEvent(stream, self._surface.event.ptr)
        strides = [step // self._dtype.itemsize for step in self._steps]
        return self._surface.capsule(self.shape, strides, self._dtype, self._start)


class Tensor:
    """A CUDA tensor of PyTorch on the stream that is current in it, for memory that its allocator has."""

    is_cpu, is_cuda = False, True

    def __init__(self, contents: NDArray[Any], strides: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        """The memory of `contents`, seen with these strides, in elements, and sizes."""
        self.shape, self._strides, self._dtype = sizes, strides, contents.dtype
        self._surface = Surface(contents, current_stream_of_torch())
        self.recorded: list[int] = []
        """The streams that `record_stream` was called with."""

    @classmethod
    def of_frames(cls, frames: NDArray[Any]) -> Tensor:
        """Frames (N, H, W, C) as TorchCodec gives them: sizes (N, C, H, W) over the same memory."""
        count, height, width, channels = frames.shape
        strides = (height * width * channels, 1, width * channels, channels)
        return cls(frames, strides, (count, channels, height, width))

    def is_neg(self) -> bool:
        return False

    def record_stream(self, stream: Any) -> None:
        """Keep the memory for the work that this stream has when the tensor is freed."""
        self.recorded.append(stream.cuda_stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA

    def __dlpack__(self, *, stream: Any = -1, **_: Any) -> Any:
        own = current_stream_of_torch()
        assert stream != 0, "PyTorch refuses the ambiguous 0"
        if stream not in (-1, None, own.ptr or 1):
            event = cupy.cuda.Event(disable_timing=True)
            event.record(own)
            cupy.cuda.runtime.streamWaitEvent(stream, event.ptr)
        return self._surface.capsule(self.shape, self._strides, self._dtype)

    def __del__(self) -> None:
        """The caching allocator: the memory is reused in the order of its stream and of those recorded."""
        own = self._surface.stream
        for stream in (0 if one == "default" else one for one in self.recorded):
            event = cupy.cuda.Event(disable_timing=True)
            cupy.cuda.runtime.eventRecord(event.ptr, stream)
            cupy.cuda.runtime.streamWaitEvent(own.ptr, event.ptr)
        self._surface.free()


Tensor.__module__ = "torch"


def current_stream_of_torch() -> Any:
    """The stream that is current in the double of PyTorch."""
    return sys.modules["torch"].cuda.current_stream(0).stream


@contextmanager
def torch_double(stream: Any) -> Iterator[ModuleType]:
    """PyTorch's module, as far as the library looks at it, with this CuPy stream current."""
    current = SimpleNamespace(cuda_stream=stream.ptr, stream=stream)
    module: Any = ModuleType("torch")
    module.Tensor = Tensor
    module.cuda = SimpleNamespace(
        is_initialized=lambda: True,
        current_stream=lambda _: current,
        default_stream=lambda _: SimpleNamespace(cuda_stream="default"),
        ExternalStream=lambda handle, device=None: SimpleNamespace(cuda_stream=handle, device=device),
    )
    before = sys.modules.get("torch")
    sys.modules["torch"] = module
    try:
        yield module
    finally:
        if before is None:
            del sys.modules["torch"]
        else:
            sys.modules["torch"] = before


def decoding_modules(
    frames: list[tuple[NDArray[Any], NDArray[Any]]], photos: list[NDArray[Any]], film: NDArray[Any]
) -> dict[str, ModuleType]:
    """The libraries, by the names that they are imported by: a film of `frames`, files of `photos`, a film of RGB.

    `frames` are pairs of luma and chroma, `photos` images (H, W, 3) and `film` frames (N, H, W, 3).
    """
    height, width = frames[0][0].shape

    class Demuxer:
        def __init__(self, filename: str) -> None:
            self.filename = filename

        def GetNvCodecId(self) -> int:
            return 4

        def Height(self) -> int:
            return height

        def Width(self) -> int:
            return width

        def __iter__(self) -> Iterator[int]:
            return iter(range(len(frames)))

    class Decoder:
        """One surface, which every frame is written into."""

        def __init__(self, *, gpuid: int, codec: int, cudastream: int, usedevicememory: bool) -> None:
            assert (gpuid, codec, usedevicememory) == (0, 4, True)
            self._stream = SimpleNamespace(ptr=cudastream)
            self._decoded: DecodedFrame | None = None

        def Decode(self, packet: int) -> list[DecodedFrame]:
            if self._decoded is None:
                self._decoded = DecodedFrame(*frames[packet], _stream_with_handle(self._stream.ptr))
            else:
                self._decoded.decode(*frames[packet])
            return [self._decoded]

    class ImageDecoder:
        def read(self, paths: list[str], *, cuda_stream: int) -> list[NvImage]:
            return [NvImage(photo, _stream_with_handle(cuda_stream)) for photo, _ in zip(photos, paths, strict=True)]

    class VideoDecoder:
        def __init__(self, source: str, *, device: str) -> None:
            assert (source, device) == ("clip.mp4", "cuda")

        def get_frames_in_range(self, start: int, stop: int) -> Any:
            return SimpleNamespace(data=Tensor.of_frames(film[start:stop]))

    modules: dict[str, Any] = {
        name: ModuleType(name)
        for name in ("PyNvVideoCodec", "nvidia", "nvidia.nvimgcodec", "torchcodec", "torchcodec.decoders")
    }
    modules["PyNvVideoCodec"].CreateDemuxer = Demuxer
    modules["PyNvVideoCodec"].CreateDecoder = Decoder
    modules["nvidia"].nvimgcodec = modules["nvidia.nvimgcodec"]
    modules["nvidia.nvimgcodec"].Decoder = ImageDecoder
    modules["torchcodec.decoders"].VideoDecoder = VideoDecoder
    return modules


def _stream_with_handle(handle: int) -> Any:
    """CuPy's stream object of a handle."""
    return cupy.cuda.Stream.from_external(SimpleNamespace(__cuda_stream__=lambda: (0, handle)))
