"""A stand-in for CuPy on a machine without a GPU: its devices' memory is this process's, its kernels are the CPU's.

It has only what the library calls, with CuPy's names and argument orders, and keeps a list of the calls. A kernel
launch reads the packed parameters through the pointer array, as the driver does, and runs the plan behind the
function's handle with NumPy, so that a transfer's result can be compared bit for bit.

Real CuPy over `cuda_standin` shows order, lifetime and CuPy's own conduct, and is a step of CI. This stand-in is left
for two things. It fails on request: compilers, launches, allocators of bad alignment, devices of any kind and memory.
And the default suite, which has neither CuPy nor NVRTC, runs the modules that import CuPy by it: without it a change
there would be seen by one step of CI alone, and by no mutant, since mutants are judged without CuPy. Tests with the
fixture `gpus` run every statement of it but two refusals.
"""

from __future__ import annotations

import ctypes
import struct
import threading
import types

import numpy as np
from harness.dlpack_structures import managed

from stridedgpu.devices.buffer import Buffer
from stridedgpu.devices.cpu.numpy_loops.relayout import NumpyRelayout
from stridedgpu.devices.cuda.gpu import KernelLaunch

LEGACY_STREAM = 0

CUPYS_OWN_OPTIONS = {"-default-device", "--device-as-default-execution-space", "-ftz=true", "--ftz=true"}


class CUDARuntimeError(RuntimeError):
    pass


class CUDADriverError(RuntimeError):
    pass


class CompileException(Exception):  # noqa: N818 - CuPy's name
    pass


class OutOfMemoryError(MemoryError):
    pass


class Memory:
    """Device or pinned memory."""

    def __init__(self, nbytes, misalignment=0):
        self.held = np.full(nbytes + 4096, 0xA5, np.uint8)
        self.ptr = self.held.ctypes.data + -self.held.ctypes.data % 512 + misalignment


class FakeCuda:
    """The devices and what was asked of them."""

    def __init__(self, devices=2, name=b"NVIDIA H200", capability=(9, 0), total=1 << 30):
        self.devices = devices
        self.properties = {
            "name": name,
            "major": capability[0],
            "minor": capability[1],
            "multiProcessorCount": 132,
            "sharedMemPerBlockOptin": 227 * 1024,
            "totalGlobalMem": 141 * 10**9,
        }
        self.total = total
        self.calls = []
        self.launched = []
        self.compiled = []
        self.cubins = {}  # by kernel and compute capability: machine code that the wheel brings
        self.loaded = []
        self.shared_bytes = {}
        self.plans = {}
        self.functions = {}
        self.runs = {}  # by kernel: launches as `runs_as` has them
        self.capturing = set()
        self.stream_devices = {}
        self.event_devices = {}
        self.blocking = set()  # handles of streams that the default one waits for
        self.pointer_devices = {}
        self.misalignment = 0
        self.compile_error = None
        self.launch_error = None
        self.state = threading.local()
        self.next_stream = 100

    def cuda_launch(self, plan, gpu):
        """In the planner's place: a launch that names its plan."""
        assert gpu.name == self.properties["name"].decode()
        name = f"sg::kernel<{len(self.plans)}>"
        self.plans[name] = plan
        return KernelLaunch(("fake.cu",), name, (7, 6, 5), (128, 2, 1), 64 * 1024, bytes(24), ((16, b"table" * 4),))

    def runs_as(self, launch, run, first=16):
        """Let `run(block)` do a launch; its parameters are compared from byte `first` on, where no addresses are."""
        self.runs.setdefault(launch.name, {})[first, launch.parameters, tuple(at for at, _ in launch.tables)] = run

    def is_capturing(self, stream):
        if stream == LEGACY_STREAM and self.capturing & self.blocking:
            raise CUDARuntimeError("cudaErrorStreamCaptureImplicit")
        return stream in self.capturing

    def record_event(self, event, stream):
        self.check_device(stream, self.event_devices[event])
        self.record("eventRecord", event, stream)

    def check_device(self, stream, device):
        if self.stream_devices.get(stream, device) != device:
            raise CUDARuntimeError("cudaErrorInvalidResourceHandle")

    def record(self, name, *arguments):
        self.calls.append((name, *arguments))

    def named(self, name):
        return [call for call in self.calls if call[0] == name]

    # cupy.cuda.runtime and cupy.cuda.driver

    def get_device(self):
        return getattr(self.state, "device", 0)

    def set_device(self, number):
        self.state.device = number

    def memcpy(self, target, source, nbytes, kind, stream):
        self.record("memcpyAsync", nbytes, kind, stream, self.get_device())
        ctypes.memmove(target, source, nbytes)

    def memset(self, address, value, nbytes, stream):
        self.record("memsetAsync", address, nbytes, stream)
        ctypes.memset(address, value, nbytes)

    def memcpy_2d(self, target, target_pitch, source, source_pitch, width, height, kind, stream):
        assert width <= target_pitch
        assert width <= source_pitch
        self.record("memcpy2DAsync", target_pitch, source_pitch, width, height, kind, stream)
        for row in range(height):
            ctypes.memmove(target + row * target_pitch, source + row * source_pitch, width)

    def memcpy_peer(self, target, there, source, here, nbytes, stream):
        self.record("memcpyPeerAsync", there, here, nbytes, stream)
        ctypes.memmove(target, source, nbytes)

    def launch_kernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):
        assert extra == 0
        assert all(0 < size < 2**31 for size in (gx, gy, gz, bx, by, bz))
        self.check_device(stream, self.get_device())
        if self.launch_error:
            raise self.launch_error
        assert self.get_device() in self.state.contexts, "no context is bound to this thread"
        block = ctypes.c_void_p.from_address(parameters).value
        name, device = self.functions[function]
        assert device == self.get_device()
        for (first, expected, tables), run in self.runs.get(name, {}).items():
            packed = bytearray(ctypes.string_at(block, len(expected)))
            for start, stop in ((0, first), *((at, at + 8) for at in tables)):
                packed[start:stop] = expected[start:stop]
            if packed == expected:
                grid = gx, gy, gz
                self.launched.append({"name": name, "grid": grid, "stream": stream, "device": device})
                run(block)
                return
        source, target, table = struct.unpack("<QQQ", ctypes.string_at(block, 24))
        self.launched.append(
            {
                "name": name,
                "grid": (gx, gy, gz),
                "block": (bx, by, bz),
                "shared": shared,
                "stream": stream,
                "source": source,
                "target": target,
                "table": ctypes.string_at(table, 20),
                "device": device,
                "parameters": block,
            }
        )
        plan = self.plans.get(name)
        if plan is not None:
            reach = 1 << 40
            NumpyRelayout(plan.problem)(*(Buffer(address, reach, owner=None).bytes for address in (source, target)))

    def function(self, name):
        """A kernel on the current device, by its handle."""
        handle = 1000 + len(self.functions)
        self.functions[handle] = name, self.get_device()
        return types.SimpleNamespace(ptr=handle)

    def mem_get_info(self):
        self.state.contexts = getattr(self.state, "contexts", set()) | {self.get_device()}
        return self.total // 2, self.total

    # cupy.cuda

    def current_stream(self, device=-1):
        device = self.get_device() if device == -1 else device
        return getattr(self.state, "streams", {}).get(device) or self.Stream(handle=LEGACY_STREAM)

    def alloc(self, nbytes):
        if nbytes > self.total // 2:
            raise OutOfMemoryError(f"Out of memory allocating {nbytes} bytes")
        self.record("alloc", nbytes, self.get_device(), self.current_stream().ptr)
        return Memory(nbytes, self.misalignment)

    def alloc_pinned(self, nbytes):
        self.record("alloc_pinned_memory", nbytes)
        return Memory(nbytes)

    def modules(self):
        """The modules to put into `sys.modules`."""
        fake = self

        class Device:
            def __init__(self, number):
                self.number = number

            def __enter__(self):
                self.before = fake.get_device()
                fake.set_device(self.number)
                return self

            def __exit__(self, *_):
                fake.set_device(self.before)

        class Stream:
            def __init__(self, null=False, non_blocking=False, *, handle=None):
                fake.next_stream += 1
                self.ptr = fake.next_stream if handle is None else handle
                self.device_id = fake.get_device() if handle is None else -1
                if handle is None:
                    fake.stream_devices[self.ptr] = self.device_id
                    if not non_blocking:
                        fake.blocking.add(self.ptr)

            @classmethod
            def from_external(cls, obj):
                version, handle = obj.__cuda_stream__()
                if version != 0 or not isinstance(handle, int):
                    raise TypeError(f"__cuda_stream__() must return (0, int), got {version, handle}")
                return cls(handle=handle)

            def __cuda_stream__(self):
                return 0, self.ptr

            def __enter__(self):
                if self.device_id not in (-1, fake.get_device()):
                    raise RuntimeError(f"The device that the stream is created on ({self.device_id}) does not match")
                self.streams = dict(getattr(fake.state, "streams", {}))
                fake.state.streams = {**self.streams, fake.get_device(): self}
                return self

            def __exit__(self, *_):
                fake.state.streams = self.streams

        class Event:
            def __init__(self, disable_timing=False):
                assert disable_timing
                self.ptr = id(self)
                fake.event_devices[self.ptr] = fake.get_device()

        class RawKernel:
            def __init__(self, name):
                self.kernel = fake.function(name)
                fake.compiled.append((name, fake.get_device()))

        class RawModule:
            def __init__(self, *, code, options, name_expressions):
                assert code.startswith("joined ")
                assert type(options) is tuple
                assert not CUPYS_OWN_OPTIONS & {*options}, "NVRTC 12 refuses an option that is given twice"
                self.names = name_expressions

            def get_function(self, name):
                if fake.compile_error:
                    raise fake.compile_error
                assert name in self.names
                return RawKernel(name)

        class Module:
            def load(self, cubin):
                if cubin == b"refused":
                    raise CUDADriverError("CUDA_ERROR_UNSUPPORTED_PTX_VERSION")
                fake.loaded.append(cubin)

            def get_function(self, name):
                return fake.function(name)

        class UnownedMemory:
            def __init__(self, ptr, size, owner, device):
                self.ptr, self.size, self.owner, self.device = ptr, size, owner, device

        class MemoryPointer:
            def __init__(self, memory, offset):
                assert memory.ptr != 0 or offset == 0
                self.ptr, self.memory = memory.ptr + offset, memory

        class ndarray:  # noqa: N801 - CuPy's name
            def __init__(self, shape, dtype, memory, strides):
                self.shape, self.dtype, self.memory, self.strides = shape, dtype, memory, strides

            def __dlpack__(self, **request):
                fake.record("dlpack", self, request, fake.get_device())
                held = Buffer(self.memory.memory.ptr, self.memory.memory.size, owner=self.memory.memory.owner).bytes
                offset = self.memory.ptr - self.memory.memory.ptr
                array = np.ndarray(self.shape, self.dtype, held, offset, self.strides)
                capsule = array.__dlpack__(max_version=request["max_version"])
                contents = managed(capsule).tensor
                contents.device[:] = 2, fake.get_device()
                return capsule

        self.Device, self.Stream = Device, Stream
        runtime = types.ModuleType("cupy.cuda.runtime")
        vars(runtime).update(
            CUDARuntimeError=CUDARuntimeError,
            memcpyHostToDevice=1,
            memcpyDeviceToHost=2,
            streamCaptureModeRelaxed=2,
            getDeviceCount=lambda: self.devices,
            getDeviceProperties=lambda number: self.properties,
            getDevice=self.get_device,
            memGetInfo=self.mem_get_info,
            memcpyAsync=self.memcpy,
            memcpy2DAsync=self.memcpy_2d,
            memsetAsync=self.memset,
            memcpyPeerAsync=self.memcpy_peer,
            streamSynchronize=lambda stream: self.record("streamSynchronize", stream),
            deviceSynchronize=lambda: self.record("deviceSynchronize", self.get_device()),
            pointerGetAttributes=lambda address: types.SimpleNamespace(
                device=self.pointer_devices.get(address, 0), type=0
            ),
            streamIsCapturing=self.is_capturing,
            eventRecord=self.record_event,
            eventQuery=lambda event: self.record("eventQuery", event),
            eventSynchronize=lambda event: self.record("eventSynchronize", event),
            streamWaitEvent=lambda stream, event: self.record("streamWaitEvent", stream, event),
        )
        driver = types.ModuleType("cupy.cuda.driver")
        vars(driver).update(
            CUDADriverError=CUDADriverError,
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
            funcGetAttribute=lambda attribute, function: self.shared_bytes.get(function, 48 * 1024),
            funcSetAttribute=lambda function, attribute, value: self.shared_bytes.update({function: value}),
            launchKernel=self.launch_kernel,
        )
        cuda = types.ModuleType("cupy.cuda")
        vars(cuda).update(
            runtime=runtime,
            driver=driver,
            compiler=types.SimpleNamespace(CompileException=CompileException),
            function=types.SimpleNamespace(Module=Module),
            nvrtc=types.SimpleNamespace(getVersion=lambda: (13, 0)),
            Device=Device,
            Stream=Stream,
            Event=Event,
            alloc=self.alloc,
            alloc_pinned_memory=self.alloc_pinned,
            Memory=Memory,
            get_current_stream=self.current_stream,
            UnownedMemory=UnownedMemory,
            MemoryPointer=MemoryPointer,
        )
        cupy = types.ModuleType("cupy")
        vars(cupy).update(cuda=cuda, RawModule=RawModule, ndarray=ndarray)
        return {"cupy": cupy, "cupy.cuda": cuda}
