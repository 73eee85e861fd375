"""A kernel's C++ name, its template arguments, and its parameter block.

A kernel has one policy, an aggregate of its own (`struct RowsPolicy` in `rows.cu`), as CUB's kernels have. The policy
is a template argument of class type, written as C++20 writes it:

    sg::copy_flat<sg::Conversion<…>, sg::uint32, sg::FlatPolicy{.load_bytes = 16, .store_bytes = 16, .steps = 4}>

The name alone says what is compiled: NVRTC takes it as a name expression, and g++ as the address of a function.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from stridedgpu.values.constants import Matrix
from stridedgpu.values.conversion import Conversion
from stridedgpu.values.dtypes import ElementType

from .gpu import THREADS, KernelLaunch, grid_of


def instantiation(kernel: str, types: Sequence[str], policy: str, **constants: bool | int | str) -> str:
    """The C++ name of `kernel` in namespace `sg` with these types and this policy.

    `constants` are the members of the structure `policy`, all of them, in their order there: C++ refuses another order,
    and members left out would be 0. Text is a C++ constant, such as an enumerator.

    Example:
        >>> instantiation("check_indices", ("sg::int64", "sg::uint32"), "CheckPolicy", items=4, rank=1)
        'sg::check_indices<sg::int64, sg::uint32, sg::CheckPolicy{.items = 4, .rank = 1}>'
    """
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in constants.items()}
    members = ", ".join(f".{name} = {text}" for name, text in texts.items())
    return f"sg::{kernel}<{', '.join(types)}, sg::{policy}{{{members}}}>"


_FEW_CHANNELS: Final = 16
"""The most channels with constants in the parameter block: `most_few_channels` in channel_constants.cuh."""

_LARGEST_FLOAT32: Final = (2 - 2**-23) * 2.0**127

_WORDS: Final = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "word128"}


class ParameterBlock:
    """The bytes of a kernel's only parameter, a C structure: members are appended at their alignment.

    The first 16 bytes are the addresses of source and target, left 0. Indices have `index_bits`, unless `bits` says
    otherwise. A method that chooses between C++ types returns the template argument of its choice.
    """

    def __init__(self, index_bits: int) -> None:
        self._bits = index_bits
        self._bytes = bytearray(16)
        self.tables: list[tuple[int, bytes]] = []

    @property
    def parameters(self) -> bytes:
        """The structure, padded as in C to a multiple of the 8 bytes of an address."""
        return bytes(self._bytes) + bytes(-len(self._bytes) % 8)

    def launch(
        self,
        source: str,
        name: str,
        blocks: int,
        threads: int = THREADS,
        *,
        shared_bytes: int = 0,
        tile: tuple[int, ...] = (),
    ) -> KernelLaunch:
        """The launch of the kernel `name` of `source` with these parameters."""
        block = (threads, 1, 1)
        tables = tuple(self.tables)
        return KernelLaunch((source,), name, grid_of(blocks), block, shared_bytes, self.parameters, tables, tile)

    def add(self, data: bytes, alignment: int) -> None:
        """Append a member at the next multiple of `alignment` bytes."""
        self._bytes += bytes(-len(self._bytes) % alignment) + data

    def add_indices(self, *values: int, bits: int = 0) -> None:
        """Append unsigned indices, or signed offsets in two's complement."""
        if values:
            bits = bits or self._bits
            words = [value % 2**bits for value in values]
            self.add(struct.pack(f"<{len(words)}{'I' if bits == 32 else 'Q'}", *words), bits // 8)

    def add_divisors(self, *divisors: int, bits: int = 0) -> None:
        """Append an `sg::Divisor` each: the divisor, and for 32-bit indices a multiplier and a shift.

        Exact for dividends and divisors below 2^31 (Granlund and Montgomery, "Division by invariant integers using
        multiplication", 1994).
        """
        words: list[int] = []
        for divisor in divisors:
            words.append(divisor)
            if (bits or self._bits) == 32:
                shift = (divisor - 1).bit_length()
                words += (2**32 * (2**shift - divisor) // divisor + 1, shift)
        self.add_indices(*words, bits=bits)

    def add_int32(self, *values: int) -> None:
        """Append C ints."""
        self.add_indices(*values, bits=32)

    def add_axes(self, sizes: Sequence[int], *strides: Sequence[int]) -> int:
        """Append an `sg::Axes`, outermost first: divisors, then the strides of each side; returns its rank.

        Outer axes of size 1 fill it up to a rank that kernels are instantiated for.
        """
        rank = rank_of(len(sizes))
        added = rank - len(sizes)
        self.add_divisors(*(1,) * added, *sizes)
        for side in strides:
            self.add_indices(*(0,) * added, *side)
        return rank

    def add_table(self, data: bytes) -> None:
        """Append the address of a table in device memory, aligned for any vector."""
        self.add(bytes(8), 8)
        self.tables.append((len(self._bytes) - 8, data))

    def add_numbers(self, numbers: Iterable[float], compute: ElementType) -> None:
        """Append an array of the type of arithmetic."""
        code = "d" if compute.itemsize == 8 else "f"
        self.add(b"".join(_packed_float(number, code) for number in numbers), compute.itemsize)

    def add_affines(self, conversion: Conversion, compute: ElementType | None = None) -> str:
        """An `sg::ChannelAffines` of `compute` (None: the conversion's type); the argument is its `sg::Channels`."""
        # In C++, opaque words of 4 and 8 bytes are unsigned integers, whose compute type is float64.
        opaque = conversion.is_bitwise_copy and compute is None
        number = compute or conversion.compute
        wide = conversion.source.itemsize in (4, 8) if opaque else number.itemsize == 8
        code = "d" if wide else "f"
        columns = (conversion.scale or (0.0,), conversion.bias or (0.0,))
        count = max(map(len, columns))
        scales, biases = (column * (count // len(column)) for column in columns)
        entries = [_packed_float(value, code) for pair in zip(scales, biases, strict=True) for value in pair]
        return self._add_per_channel(entries, 2, struct.calcsize(code))

    def add_order(self, conversion: Conversion, source_stride: int, *, bits: int = 0) -> str:
        """An `sg::ChannelOrder` along a channel axis with this source stride; the argument is its `sg::Channels`."""
        bits = bits or self._bits
        if conversion.channels is None:
            self.add_indices(source_stride, bits=bits)
            return "sg::Channels::alike"
        offsets = [channel * source_stride % 2**bits for channel in conversion.channels]
        if len(offsets) == 1:
            offsets *= 2  # of channels that are alike there is a stride, and no place where the first one is
        return self._add_per_channel([offset.to_bytes(bits // 8, "little") for offset in offsets], 1, bits // 8)

    def _add_per_channel(self, entries: list[bytes], per_channel: int, alignment: int) -> str:
        """Append per-channel constants: one value, up to 16 in place, or the address of a longer table."""
        count = len(entries) // per_channel
        data = b"".join(entries)
        if count > _FEW_CHANNELS:
            self.add_table(data)
            return "sg::Channels::many"
        whole = len(data) if count == 1 else len(data) // count * _FEW_CHANNELS
        self.add(data + bytes(whole - len(data)), alignment)
        return "sg::Channels::alike" if count == 1 else "sg::Channels::few"


def rank_of(axes: int) -> int:
    """The rank of the kernel that walks `axes` axes.

    Powers of two keep instantiations few, and an axis of size 1 costs little. Every walked axis has at least two
    elements, so no tensor in memory has more than the 64 of `sg::Axes`.

    >>> [rank_of(axes) for axes in (0, 1, 3, 9)]
    [1, 1, 4, 16]
    """
    return 1 << max(axes - 1, 0).bit_length()


def conversion_argument(conversion: Conversion) -> str:
    """The `sg::Conversion` of a plan; elements of a bitwise copy are words of their size.

    Roundings with the same result share one instantiation.
    """
    if conversion.is_bitwise_copy:
        word = word_argument(conversion.source)
        return f"sg::Conversion<{word}, {word}>"
    return number_argument(conversion)


def number_argument(conversion: Conversion, *, source_is_finite: bool = False) -> str:
    """The `sg::Conversion` of numbers, which are no words even where their bits are only copied.

    `source_is_finite` says that floats of the source are neither NaN nor infinite. Raises `DeviceError` for a
    conversion with a part that kernels do not compute.
    """
    conversion.check_parts(_PARTS, "devices/cuda/parameters.py")
    source, target = conversion.source, conversion.target
    flags = ", ".join(str(value is not None).lower() for value in (conversion.scale, conversion.bias))
    rounds = target.is_integer and (conversion.has_arithmetic or source.kind == "f")
    rounding = conversion.rounding if rounds else "nearest"
    nans = ", sg::Nan::ignore" if target.kind == "f" and _never_nan(conversion, source_is_finite) else ""
    steps = ""
    if conversion.arithmetic != "multiply":
        steps = f", sg::Arithmetic::{conversion.arithmetic.replace('-', '_')}"
        if conversion.unit is not None:
            steps += f", {int.from_bytes(struct.pack('>d', conversion.unit), 'big'):#x}ull"
    elif _is_fused(conversion):
        steps = _FUSED
    nans = nans or ", sg::Nan::keep" if steps else nans
    return f"sg::Conversion<{_element(source)}, {_element(target)}, {flags}, sg::Rounding::{rounding}{nans}{steps}>"


_PARTS: Final = frozenset({"scale", "bias", "channels", "matrix", "arithmetic", "unit", "rounding='truncate'"})
"""The parts of a conversion that kernels compute: template arguments, affines, orders of channels, and matrices."""

_FUSED: Final = ", sg::Arithmetic::fused"
"""The arithmetic of products that `multiplied` of small_elements.cuh computes."""


def product_argument(source: ElementType, compute: ElementType, matrix: Matrix) -> str:
    """The `sg::Conversion` that multiplies an element by a number of a matrix whose rows are then summed.

    A sum is not NaN because a product has another NaN's bits, and only a row without a positive number has sums of
    negative zeros alone; so zeros need their sign nowhere else.
    """
    numbers = [_rounded(number, compute) for row in matrix for number in row]
    has_positive = all(any(math.copysign(1, number) > 0 for number in row) for row in matrix)
    fused = _FUSED if has_positive and _is_multiplied(source, compute, numbers) else ""
    types = f"{_element(source)}, {_element(compute)}, true, false"
    return f"sg::Conversion<{types}, sg::Rounding::nearest, sg::Nan::ignore{fused}>"


def matrix_encoding(conversion: Conversion) -> Conversion:
    """From the sums of a matrix to elements of the target."""
    return replace(conversion, source=conversion.compute, channels=None, matrix=None)


def sums_are_finite(source: ElementType, compute: ElementType, matrix: Matrix) -> bool:
    """Whether every sum of unsigned integers times a row of a matrix is finite, and so is no NaN."""
    most = 2.0 ** (8 * source.itemsize)
    largest = _LARGEST_FLOAT32 if compute.itemsize == 4 else sys.float_info.max
    return all(sum(abs(_rounded(number, compute)) for number in row) <= largest / 2 / most for row in matrix)


def index_argument(index_bits: int) -> str:
    """The unsigned type of indices and offsets."""
    return f"sg::uint{index_bits}"


def places_argument(places: Iterable[int]) -> str:
    """Small numbers, one for each channel, as hexadecimal digits, the first channel's last."""
    return f"{sum(place << 4 * channel for channel, place in enumerate(places)):#x}"


def word_argument(element: ElementType) -> str:
    """The word type of a bitwise copy of an element."""
    return f"sg::{_WORDS[element.itemsize]}"


def _element(element: ElementType) -> str:
    return "sg::boolean" if element.kind == "b" else f"sg::{element.name}"


def _never_nan(conversion: Conversion, source_is_finite: bool) -> bool:
    """Whether no NaN results: finite constants, and integers, or finite floats, as a source."""
    constants = (*(conversion.scale or ()), *(conversion.bias or ()))
    finite = all(math.isfinite(_rounded(value, conversion.compute)) for value in constants)
    return finite and (source_is_finite or (conversion.has_arithmetic and conversion.source.kind != "f"))


def _is_fused(conversion: Conversion) -> bool:
    """Whether `multiplied` of small_elements.cuh, which is (2^23 + n) s - 2^23 s rounded once, has the bits of n s.

    2^23 s has to be finite. Where n s is zero, its sign has to be positive, or a bias has to hide it.
    """
    if conversion.scale is None:
        return False
    scales = [_rounded(scale, conversion.compute) for scale in conversion.scale]
    biases = [_rounded(bias, conversion.compute) for bias in conversion.bias or ()]
    is_hidden = bool(biases) and not any(bias == 0 and math.copysign(1, bias) < 0 for bias in biases)
    is_positive = all(math.copysign(1, scale) > 0 for scale in scales)
    return _is_multiplied(conversion.source, conversion.compute, scales) and (is_hidden or is_positive)


def _is_multiplied(source: ElementType, compute: ElementType, factors: Sequence[float]) -> bool:
    """Whether `multiplied` takes these elements and factors, zeros' signs aside."""
    is_small = source.name in ("uint8", "uint16") and compute.itemsize == 4
    return is_small and all(abs(factor) <= _LARGEST_FLOAT32 / 2**23 for factor in factors)


def _rounded(value: float, compute: ElementType) -> float:
    """A constant as the kernel has it."""
    code = "d" if compute.itemsize == 8 else "f"
    rounded: float = struct.unpack(f"<{code}", _packed_float(value, code))[0]
    return rounded


def _packed_float(value: float, code: str) -> bytes:
    """Pack a float32 or float64, rounded to nearest; overflow to float32 is infinity, as in hardware."""
    try:
        return struct.pack(f"<{code}", value)
    except OverflowError:
        return struct.pack(f"<{code}", math.copysign(math.inf, value))
