"""Element types: DirectML's numbers, and every way of naming a type."""

from __future__ import annotations

import numpy as np
import pytest

from stridedgpu.values.dtypes import ELEMENT_TYPES, DataType, ElementType, element_type
from stridedgpu.values.errors import BindingError, DeviceError, ElementTypeError, LayoutError, StridedGpuError

# DML_TENSOR_DATA_TYPE in DirectML.h: (value, bits, bytes)
DIRECTML = {
    "UNKNOWN": (0, 0, None),
    "FLOAT32": (1, 32, 4),
    "FLOAT16": (2, 16, 2),
    "UINT32": (3, 32, 4),
    "UINT16": (4, 16, 2),
    "UINT8": (5, 8, 1),
    "INT32": (6, 32, 4),
    "INT16": (7, 16, 2),
    "INT8": (8, 8, 1),
    "FLOAT64": (9, 64, 8),
    "UINT64": (10, 64, 8),
    "INT64": (11, 64, 8),
    "UINT4": (12, 4, None),
    "INT4": (13, 4, None),
}
NUMPY_NAMES = [name for name in ELEMENT_TYPES if not name.startswith(("bfloat", "float8"))]
ML_DTYPES_NAMES = [name for name in ELEMENT_TYPES if name not in NUMPY_NAMES]


def test_data_types_are_directmls():
    assert {member.name: (member.value, member.bits, member.itemsize) for member in DataType} == DIRECTML


@pytest.mark.parametrize("name", [name for name, (_, _, itemsize) in DIRECTML.items() if itemsize])
def test_every_name_of_a_data_type(name):
    expected = DataType[name]
    dtype = np.dtype(name.lower())
    for given in (expected, name, name.lower(), dtype, dtype.type, ELEMENT_TYPES[name.lower()]):
        assert DataType.of(given) is expected
    assert dtype.itemsize == expected.itemsize
    assert element_type(expected) is ELEMENT_TYPES[name.lower()]
    assert ELEMENT_TYPES[name.lower()].data_type is expected


@pytest.mark.parametrize("name", ["uint4", "UINT4", "int4", "INT4"])
def test_four_bit_types_have_names_and_no_tensor(name):
    assert DataType.of(name).bits == 4
    with pytest.raises(ElementTypeError, match=r"cannot hold elements of type 'u?int4'"):
        element_type(DataType.of(name))


@pytest.mark.parametrize("name", NUMPY_NAMES)
def test_element_types_are_numpys(name):
    dtype, element = np.dtype(name), ELEMENT_TYPES[name]
    for given in (name, name.upper(), dtype, dtype.type, element):
        assert element_type(given) is element
    assert (element.name, element.kind, element.itemsize) == (dtype.name, dtype.kind, dtype.itemsize)
    assert str(element) == name
    assert element.is_integer == np.issubdtype(dtype, np.integer)
    part = np.zeros(1, dtype).real.dtype.name
    assert element.component is ELEMENT_TYPES[part]


@pytest.mark.parametrize("name", ML_DTYPES_NAMES)
def test_element_types_are_those_of_ml_dtypes(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(getattr(ml_dtypes, name))
    element = ELEMENT_TYPES[name]
    for given in (name, dtype, dtype.type):
        assert element_type(given) is element
    assert element.itemsize == dtype.itemsize
    assert element.data_type is DataType.UNKNOWN
    assert not element.is_integer


@pytest.mark.parametrize(
    "given, name",
    [(bool, "bool"), (int, "int64"), (float, "float64"), (complex, "complex128"), (np.bool_, "bool"), ("int", "int64")],
    ids=str,
)
def test_python_types_are_taken_as_numpy_takes_them(given, name):
    assert element_type(given) is ELEMENT_TYPES[name]
    assert np.dtype(given) == np.dtype(name)


@pytest.mark.parametrize("name", sorted(set(ELEMENT_TYPES) - {"bfloat16", "float8_e4m3fn", "float8_e5m2"}))
def test_numpys_codes(name):
    dtype = np.dtype(name)
    code = dtype.str[1:]
    native = dtype.str  # "<f4" or "|u1", with the machine's order before it
    assert element_type(native) is element_type(dtype) is ELEMENT_TYPES[name]
    if code not in ("u8", "i8"):
        assert element_type(code) is ELEMENT_TYPES[name]


def test_types_that_directml_lacks_are_unknown_to_it():
    assert ELEMENT_TYPES["complex64"].data_type is DataType.UNKNOWN
    assert ELEMENT_TYPES["bool"].data_type is DataType.UNKNOWN


SWAPPED = np.dtype("float32").newbyteorder()
REFUSALS = {
    "DirectML has no bool": (lambda: DataType.of("bool"), "DirectML has no element type 'bool'; its types are float32"),
    "DirectML has no complex": (lambda: DataType.of(np.complex64), "no element type 'complex64'"),
    "byte-swapped for DirectML": (lambda: DataType.of(SWAPPED), r"dtype dtype\('>f4'\) is byte-swapped"),
    "byte-swapped": (lambda: element_type(SWAPPED), r"byte-swapped.*Convert first, with array.astype\('float32'\)"),
    "unknown": (lambda: element_type(DataType.UNKNOWN), "cannot hold elements of type 'unknown'"),
    "a code of the other byte order": (lambda: element_type(SWAPPED.str), "cannot hold elements of type '.f4'"),
    "a name that is no type": (lambda: element_type("float33"), "'float33'; it holds bool, uint8"),
    "text": (lambda: element_type(np.dtype("S3")), "'bytes24'"),
    "objects": (lambda: element_type(object), "'object'"),
    "structures": (lambda: element_type(np.dtype([("r", "u1"), ("g", "u1")])), "'void16'"),
    "dates": (lambda: element_type(np.dtype("datetime64[s]")), r"'datetime64\[s\]'"),
}


@pytest.mark.parametrize("call, message", REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals(call, message):
    with pytest.raises(ElementTypeError, match=message) as caught:
        call()
    assert caught.type is ElementTypeError


@pytest.mark.parametrize(
    "error, base",
    [(LayoutError, ValueError), (BindingError, ValueError), (ElementTypeError, TypeError), (DeviceError, RuntimeError)],
    ids=lambda kind: kind.__name__,
)
def test_errors_are_the_librarys_and_pythons(error, base):
    assert issubclass(error, StridedGpuError)
    assert issubclass(error, base)


@pytest.mark.parametrize("number", [1, 1.0, True], ids=repr)
def test_a_number_is_no_type_even_after_the_data_type_that_equals_it(number):
    assert number == DataType.FLOAT32
    assert element_type(DataType.FLOAT32) is ELEMENT_TYPES["float32"]
    with pytest.raises(ElementTypeError, match=f"dtype={number!r} is not an element type"):
        element_type(number)


def test_element_types_are_values():
    assert ElementType("uint8", "u", 1) == ELEMENT_TYPES["uint8"]
    assert len(set(ELEMENT_TYPES.values())) == len(ELEMENT_TYPES)


@pytest.mark.parametrize("code,meanings", [("u8", "'uint64'.*'uint8'"), ("i8", "'int64'.*'int8'")])
def test_codes_of_two_meanings_are_refused_with_both(code, meanings):
    with pytest.raises(ElementTypeError, match=f"dtype='{code}' has two meanings: {meanings}"):
        element_type(code)
    assert element_type(np.dtype(code)) is element_type(f"<{code}") is element_type(np.dtype(code).name)


@pytest.mark.parametrize(
    "name,meant", [("half", "float16"), ("fp16", "float16"), ("bf16", "bfloat16"), ("fp32", "float32")]
)
def test_names_of_the_field_are_taken(name, meant):
    assert element_type(name) is ELEMENT_TYPES[meant]
