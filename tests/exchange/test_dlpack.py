"""DLPack capsules: what is read from one, what is refused, whose stream waits, and types that NumPy has no code for."""

from __future__ import annotations

import gc
import importlib
import sys
import warnings
import weakref

import ml_dtypes
import numpy as np
import pytest
from harness.dlpack_structures import managed
from harness.strategies import layouts_of, tensor_sizes
from hypothesis import given, strategies as st

import stridedgpu as sg
from stridedgpu.exchange import dlpack
from stridedgpu.values.dtypes import ELEMENT_TYPES

BITS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


class Exporter:
    """An object with DLPack and nothing else; `change` is done to each `DLTensor` before it goes out."""

    def __init__(self, array, change=None, *, device=(1, 0), versioned=True):
        self.array, self.change, self.device, self.versioned = array, change, device, versioned
        self.asked = []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **request):
        if not self.versioned and "max_version" in request:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        self.asked.append(request)
        capsule = self.array.__dlpack__(**{name: request[name] for name in request if name != "stream"})
        tensor = managed(capsule).tensor
        tensor.device[:] = self.device
        if self.change:
            self.change(tensor)
        return capsule


@given(tensor_sizes(0, 6, least=0), st.data(), st.sampled_from(sorted(ELEMENT_TYPES)))
def test_every_layout_and_type_comes_back_as_it_went(sizes, data, dtype):
    layout = data.draw(layouts_of(sizes))
    held = sg.empty((layout.first_offset + layout.span + 5,), dtype, device="cpu")
    tensor = held.as_strided(sizes, layout.strides, layout.offset)
    if any(size > 1 and stride < 0 for size, stride in zip(sizes, layout.strides, strict=True)):
        with pytest.raises(BufferError, match="backwards"):
            sg.from_dlpack(Exporter(tensor))
        return
    again = sg.from_dlpack(Exporter(tensor))
    assert (again.sizes, again.element, again.buffer.readonly) == (sizes, tensor.element, layout.is_broadcast)
    stepped = [n for n, size in enumerate(sizes) if size > 1 and 0 not in sizes]
    assert [again.strides[n] for n in stepped] == [tensor.strides[n] for n in stepped]
    assert again.operand.address == tensor.operand.address or 0 in sizes


@pytest.mark.parametrize("stride", [2**61, -(2**62)])
def test_the_stride_of_a_single_element_may_be_more_than_64_bits_of_bytes(stride):
    def change(tensor):
        tensor.strides[1] = stride

    array = np.arange(3.0).reshape(3, 1)
    tensor = sg.asarray(Exporter(array, change))
    assert tensor.strides == (1, stride)
    assert np.array_equal(tensor.numpy(), array)
    indices = sg.asarray(Exporter(np.array([[2], [0]]), change))
    assert sg.gather_elements(tensor, indices).numpy().tolist() == [[2], [0]]


def test_without_a_version_memory_is_read_only_since_it_cannot_be_said():
    array = np.arange(6.0)
    exporter = Exporter(array, versioned=False)
    assert sg.asarray(exporter).buffer.readonly
    assert exporter.asked == [{}]
    assert not sg.asarray(Exporter(array)).buffer.readonly
    array.flags.writeable = False
    assert sg.asarray(Exporter(array)).buffer.readonly


def test_strides_may_be_left_out_and_a_byte_offset_counts():
    def packed_from_the_second_row(tensor):
        tensor.strides = type(tensor.strides)()
        tensor.byte_offset = 8
        tensor.shape[0] = 2

    array = np.arange(6, dtype=np.int32).reshape(3, 2)
    tensor = sg.asarray(Exporter(array, packed_from_the_second_row))
    assert tensor.numpy().tolist() == [[2, 3], [4, 5]]
    assert tensor.operand.address == array.ctypes.data + 8


def of_type(code, bits, lanes=1):
    def change(tensor):
        tensor.code, tensor.bits, tensor.lanes = code, bits, lanes

    return change


class Taken:
    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_):
        capsule = np.arange(3).__dlpack__()
        np.from_dlpack(
            type("Once", (), {"__dlpack__": lambda _, **__: capsule, "__dlpack_device__": lambda _: (1, 0)})()
        )
        return capsule


def of_version_2():
    class Newer(Exporter):
        def __dlpack__(self, **_):
            capsule = self.array.__dlpack__(max_version=(1, 0))
            managed(capsule).version[0] = 2
            return capsule

    return Newer(np.arange(3))


def lying(**fields):
    """A producer whose `DLTensor` has these fields."""

    def change(tensor):
        for name, value in fields.items():
            if isinstance(value, dict):
                for n, entry in value.items():
                    getattr(tensor, name)[n] = entry
            else:
                setattr(tensor, name, value)

    return lambda: Exporter(np.arange(6.0).reshape(2, 3), change)


def answering(device=(1, 0), capsule=None):
    """A producer whose two methods return these."""
    methods = {"__dlpack_device__": lambda _: device, "__dlpack__": lambda _, **__: capsule}
    return type("Producer", (), methods)


LIES = {
    "2^31 axes": (lying(ndim=2**31 - 1), sg.LayoutError, "2147483647 axes"),
    "65 axes": (lying(ndim=65), sg.LayoutError, "65 axes; 0 to 64"),
    "-1 axes": (lying(ndim=-1), sg.LayoutError, "-1 axes"),
    "no shape": (lying(shape=None), sg.LayoutError, "its DLTensor is null"),
    "a negative size": (lying(shape={0: -2}), sg.LayoutError, r"sizes \(-2, 3\); no size is negative"),
    "null": (lying(data=None), sg.BindingError, "48 bytes at address 0"),
    "an offset out of the address space": (lying(byte_offset=2**64 - 16), sg.BindingError, "leave the address space"),
    "the least stride": (lying(strides={0: -(2**63)}), sg.BindingError, "leave the address space"),
    "a wild stride": (lying(strides={0: 2**62 - 6}), sg.BindingError, "leave the address space"),
    "another device than it says": (lying(device={0: 2}), sg.DeviceError, r"device \(2, 0\).*says \(1, 0\)"),
    "no device": (answering(device=None), sg.LayoutError, "returned None"),
    "three numbers for a device": (answering(device=(1, 0, 0)), sg.LayoutError, r"it is \(device type, number\)"),
    "a device in words": (answering(device=("cpu", 0)), sg.LayoutError, "returned"),
    "no capsule": (answering(capsule="memory"), sg.LayoutError, "no DLPack capsule"),
}


@pytest.mark.parametrize("make, error, fragment", LIES.values(), ids=LIES)
def test_what_a_producer_cannot_mean_is_refused(make, error, fragment):
    with pytest.raises(error, match=fragment):
        sg.asarray(make())


def test_a_producer_that_says_is_cpu_exports_memory_of_the_cpu():
    class OnCpu(Exporter):
        is_cpu = True

    with pytest.raises(sg.DeviceError, match=r"device \(2, 0\), and is_cpu says the CPU"):
        sg.asarray(OnCpu(np.arange(3), device=(2, 0)))
    assert sg.asarray(OnCpu(np.arange(3))).numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize("versioned", [True, False])
def test_a_capsule_is_taken_once_and_given_back_when_the_last_view_goes(versioned):
    array = np.full(1 << 16, 7.0)
    capsule = array.__dlpack__(**({"max_version": (1, 0)} if versioned else {}))
    producer = answering(capsule=capsule)()
    gone = weakref.ref(base := array.view())
    del base
    assert gone() is None
    tensor = sg.from_dlpack(producer)
    with pytest.raises((BufferError, ValueError)):
        np.from_dlpack(producer)
    with pytest.raises(sg.LayoutError, match="can still be taken"):
        sg.from_dlpack(producer)
    view = tensor[100:200]
    before = sys.getrefcount(array)
    del producer, capsule, tensor
    gc.collect()
    assert sys.getrefcount(array) == before
    assert view.numpy().tolist() == [7.0] * 100
    del view
    gc.collect()
    assert sys.getrefcount(array) == before - 1


REFUSALS = {
    "4 bits": (lambda: Exporter(np.zeros(3, np.uint8), of_type(1, 4)), sg.StridedGpuError, "share its bytes as uint8"),
    "vectors": (lambda: Exporter(np.zeros(3, np.float32), of_type(2, 32, 4)), sg.StridedGpuError, "4 lanes"),
    "an unknown code": (
        lambda: Exporter(np.zeros(3, np.uint8), of_type(14, 8)),
        sg.StridedGpuError,
        "type code 14 of 8 bits and 1 lanes, which no",
    ),
    "another device": (lambda: Exporter(np.zeros(3), device=(8, 0)), sg.DeviceError, "DLPack's type 8"),
    "a capsule taken before": (Taken, sg.LayoutError, "can still be taken"),
    "a later protocol": (of_version_2, sg.LayoutError, r"versions 1\.x"),
}


@pytest.mark.parametrize("make, error, fragment", REFUSALS.values(), ids=REFUSALS)
def test_refusals(make, error, fragment):
    with pytest.raises(error, match=fragment):
        sg.asarray(make())


@pytest.mark.interop
@pytest.mark.filterwarnings("ignore")
def test_jax_has_no_capsule_of_4_bits_and_the_refusal_says_what_to_do():
    jnp = pytest.importorskip("jax.numpy", exc_type=ImportError)
    with pytest.raises(sg.StridedGpuError, match="int4, elements of less than a byte: share its bytes as uint8"):
        sg.asarray(jnp.ones(4, "int4"))


def test_what_a_producer_refuses_is_passed_on():
    class Refuses(Exporter):
        def __dlpack__(self, **_):
            raise BufferError("use detach()")

    with pytest.raises(BufferError, match=r"use detach\(\)"):
        sg.asarray(Refuses(np.zeros(3)))


def test_pinned_memory_is_the_processors():
    assert sg.asarray(Exporter(np.arange(3), device=(3, 0))).device == "cpu"


# On a CUDA device: the stand-in's memory is this process's, and so are the capsules'


@pytest.mark.parametrize("kind", [2, 13], ids=["device", "managed"])
@pytest.mark.parametrize("versioned", [True, False], ids=["versioned", "old"])
def test_a_producer_on_a_device_is_asked_to_make_the_current_stream_wait(gpus, kind, versioned):
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)[:, :2]
    exporter = Exporter(array, device=(kind, 1), versioned=versioned)
    tensor = sg.asarray(exporter)
    with importlib.import_module("cupy").cuda.Device(1), gpus.Stream() as stream:
        sg.asarray(exporter)
    assert [request["stream"] for request in exporter.asked] == [1, stream.ptr], "0 is no stream in DLPack"
    assert (tensor.device, tensor.sizes, tensor.strides) == ("cuda:1", (2, 2, 4), (12, 4, 1))
    assert tensor.operand.address == array.ctypes.data
    assert tensor.buffer.readonly != versioned
    assert gpus.named("deviceSynchronize") == gpus.named("streamSynchronize") == []


def test_dlpack_comes_before_the_array_interface_which_may_name_no_stream(gpus):
    class Both(Exporter):
        @property
        def __cuda_array_interface__(self):
            raise KeyError("float8_e5m2")  # as PyTorch's has it

    exporter = Both(np.arange(4, dtype=np.uint8), of_type(12, 8), device=(2, 0))
    assert sg.asarray(exporter).element.name == "float8_e5m2"


@pytest.mark.parametrize("readonly", [False, True])
def test_an_old_producer_on_a_device_says_by_the_array_interface_whether_it_may_be_written(gpus, readonly):
    class Old(Exporter):
        __cuda_array_interface__ = {"data": (0, readonly)}  # noqa: RUF012 - a stand-in

    tensor = sg.asarray(Old(np.arange(4, dtype=np.uint8), device=(2, 0), versioned=False))
    assert tensor.buffer.readonly == readonly


def test_without_a_device_the_reason_is_given():
    with pytest.raises(sg.DeviceError, match="cuda:0"):
        sg.asarray(Exporter(np.arange(3), device=(2, 0)))


# Types that NumPy and CuPy have no code for


@pytest.mark.parametrize("dtype", BITS)
def test_their_bits_go_out_under_their_own_code(dtype):
    tensor = sg.empty((2, 3), dtype, row_pitch_bytes=16, device="cpu")
    for request in ({}, {"max_version": (1, 1)}, {"copy": True}):
        capsule = tensor.__dlpack__(**request)
        contents = managed(capsule).tensor  # as long as there is a capsule
        assert (contents.code, contents.bits) == (dlpack._OWN_CODES[dtype], 8 * tensor.itemsize)
    with pytest.raises((BufferError, RuntimeError), match="Unsupported dtype"):  # the first from NumPy 2.5 on
        np.from_dlpack(tensor)
    assert np.from_dlpack(tensor.reinterpret(BITS[dtype])).ctypes.data == tensor.operand.address


@pytest.mark.parametrize("dtype", BITS)
def test_on_a_device_too(gpus, dtype):
    tensor = sg.zeros((2, 3), dtype, device="cuda:1")
    capsule = tensor.__dlpack__(stream=5, max_version=(1, 0))
    contents = managed(capsule).tensor
    [(_, array, _, device)] = gpus.named("dlpack")
    assert (array.dtype, array.memory.ptr, device) == (np.dtype(BITS[dtype]), tensor.buffer.address, 1)
    assert (contents.code, tuple(contents.device)) == (dlpack._OWN_CODES[dtype], (2, 1))


@pytest.mark.interop
@pytest.mark.parametrize("dtype", BITS)
def test_torch_and_jax_share_them_both_ways(dtype):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jnp = pytest.importorskip("jax.numpy", exc_type=ImportError)
    tensor = sg.empty((2, 3, 8), dtype, row_pitch_bytes=64, alignment=64, device="cpu")
    bits = tensor.reinterpret("uint8")
    bits[...] = np.arange(bits.layout.element_count, dtype=np.uint8).reshape(bits.sizes)
    there = torch.from_dlpack(tensor)
    assert (there.dtype, there.stride()) == (getattr(torch, dtype), tensor.strides)
    assert there.data_ptr() == tensor.operand.address == sg.asarray(there).operand.address
    assert there.view(torch.uint8).numpy().tobytes() == tensor.numpy().tobytes()
    packed = tensor.copy()
    array = jnp.from_dlpack(packed)
    assert array.dtype == getattr(ml_dtypes, dtype)
    assert array.unsafe_buffer_pointer() == packed.operand.address == sg.asarray(array).operand.address
    assert np.asarray(array).tobytes() == tensor.numpy().tobytes()


# Lifetimes


def test_a_capsule_that_is_never_taken_holds_the_memory_and_lets_it_go():
    class Owner(np.ndarray):
        pass

    owner = np.arange(6.0).view(Owner)
    alive = weakref.ref(owner)
    view = sg.asarray(Exporter(owner))[1:3]
    del owner
    gc.collect()
    assert alive() is not None
    assert view.numpy().tolist() == [1.0, 2.0]
    del view
    gc.collect()
    assert alive() is None


def test_a_negated_view_of_pytorch_is_refused_since_dlpack_drops_the_sign():
    torch = pytest.importorskip("torch")
    conjugate = torch.tensor([1 + 2j]).conj()
    assert conjugate.imag.is_neg()
    with pytest.raises(sg.LayoutError, match=r"call resolve_neg\(\)"):
        sg.asarray(conjugate.imag)
    assert sg.asarray(conjugate.imag.resolve_neg()).tolist() == [-2.0]


class NoCapsule:
    """An array whose elements DLPack cannot hold: pyarrow's bits, and its numbers beside nulls."""

    def __init__(self, array, refusal):
        self.array, self.refusal = array, refusal

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **request):
        raise self.refusal

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("the bits are unpacked")
        return np.array(self.array, dtype)


@pytest.mark.parametrize("refusal", [TypeError("bits"), BufferError("nulls")], ids=["TypeError", "BufferError"])
def test_what_refuses_dlpack_is_taken_as_numpy_takes_it(refusal):
    theirs = NoCapsule([True, False], refusal)
    assert sg.asarray(theirs).tolist() == [True, False]
    assert sg.asarray([theirs, theirs]).tolist() == [[True, False], [True, False]]
    assert sg.relayout(theirs, dtype="float32").tolist() == [1.0, 0.0]
    with pytest.raises(sg.LayoutError, match="copy=False, but NoCapsule has no memory that a tensor could share"):
        sg.asarray(theirs, copy=False)
    with pytest.raises(sg.LayoutError, match="out is a NoCapsule"):
        sg.relayout([True, False], out=theirs)


def test_an_object_that_refuses_both_is_refused_in_its_own_words():
    class NoArray(NoCapsule):
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("call detach() first")

    with pytest.raises(BufferError, match="requires grad"):
        sg.asarray(NoArray([1.0], BufferError("requires grad")))
    with pytest.raises(sg.ElementTypeError, match="object"):
        sg.asarray(NoCapsule(["text", None], TypeError("text")))


@pytest.mark.interop
@pytest.mark.filterwarnings("ignore:Exporting an unversioned DLPack capsule:DeprecationWarning")
def test_arrays_of_pyarrow_are_taken_as_numpy_takes_them():
    pyarrow = pytest.importorskip("pyarrow")
    assert sg.asarray(pyarrow.array([True, False])).tolist() == [True, False]
    assert sg.asarray(pyarrow.array([], pyarrow.bool_())).sizes == (0,)
    numbers = pyarrow.array([1, 2])
    assert sg.asarray(numbers, copy=False).operand.address == numbers.buffers()[1].address
    with_null = pyarrow.array([1, None, 3])
    assert np.array_equal(sg.asarray(with_null).numpy(), np.asarray(with_null), equal_nan=True)
    with pytest.raises(sg.ElementTypeError, match="'object'"):
        sg.asarray(pyarrow.array(["a"]))
