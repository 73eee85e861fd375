"""`Conversion`: how element values change from one tensor to another, as a value.

The rules, the same to the bit on every device:

- Without a conversion, elements move as opaque bits.
- A cast alone is one direct conversion, rounded once, to nearest even. To an integer it rounds half to even
  (`rounding="truncate"`: toward zero) and saturates; NaN becomes 0. A NaN cast to another float keeps its sign and
  leading payload bits and is quiet, as in hardware.
- With scale, bias or matrix the arithmetic is in float32, or in float64 when either side is float64 or an integer of
  32 or 64 bits. `x * scale` is rounded, then `+ bias` is rounded; what is absent is not computed. A NaN that comes out
  of this arithmetic is the positive quiet NaN. Then the cast rules apply.
- With another arithmetic than "multiply" the steps are those of its row in `ARITHMETIC_RULES`, each rounded; `scale` is
  then a divisor.
- With a matrix, `x` is the sum of a pixel's channels times one row of the matrix: each product is rounded, and the
  products are added from the first channel to the last, each sum rounded. Zeros of the matrix are multiplied too.

NumPy, the native library and CUDA each implement the same primitives; NumPy takes their order from `casts`. A new type
or rounding adds one entry to each. A missing entry raises an error, or falls back to NumPy. Each also lists the `parts`
of a conversion that it computes (`_PARTS`), and `check_parts` refuses a part that is not listed:

    primitive                           NumPy               kernels/cpu          CUDA (kernels/include)
                                        `conversion.py`     `conversion.hpp`     `conversion.cuh`
    bits of a narrow type -> float32    `_DECODED`          `decoded_bfloat16`   `decode`
    float32 -> bits of a narrow type    `_ENCODED`          `encoded_bfloat16`   `encode`, which ends in `to_bfloat16`
                                                                                   and the like
    wide numbers -> float32 by          `_float32_to_round` `to_odd`             `round_to_odd`
      round-to-odd, so that a second
      rounding is the only one
    float -> whole number               `_ROUNDINGS`        `integer_of`         `Rounding`, `ToInteger`
    integer -> a narrower one, clamped  `_saturated_...`    `clamped`            `saturate`
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from math import isfinite
from operator import index
from typing import Final, Literal, NamedTuple, cast, get_args

from .arithmetic import (
    ARITHMETIC_RULES,
    Arithmetic,
    ArithmeticRule,
    Normalization,
    Operation,
    Steps,
    as_float32,
    checked_arithmetic,
    checked_normalize,
    named_figures,
    normalisation,
)
from .constants import Doubles, Matrix, MatrixRows, PerChannel, check_rows, doubles, floats, matrix_rows, one_double
from .dtypes import ELEMENT_TYPES, ElementType, element_type
from .errors import DeviceError, ElementTypeError, LayoutError

Rounding = Literal["nearest", "truncate"]

Cast = Literal["test", "decode", "encode", "clamp", "round", "float", "complex"]
"""A primitive of a cast: 1 unless an element is zero; the bits of a narrow float to float32; numbers to such bits; an
integer to another; a float to an integer; a number to a float; a number to a complex one."""

_ROUNDINGS: Final = get_args(Rounding)

_MULTIPLY: Final = "multiply"
_NEAREST: Final = "nearest"

_FIRST_STEPS: Final[dict[Operation, str]] = {
    "multiply": "* {}",
    "divide": "/ {}",
    "multiply in float64": "* {} in float64",
}
"""How a first step is described, with its unit."""

_UINT8: Final = ELEMENT_TYPES["uint8"]
_FLOAT32: Final = ELEMENT_TYPES["float32"]

_WITHOUT_ARITHMETIC: Final = frozenset({"channels", *(f"rounding={name!r}" for name in _ROUNDINGS)})
"""The parts of a conversion that casts and moves alone."""

_WIDE: Final = frozenset({"int32", "uint32", "int64", "uint64", "float64"})


@dataclass(frozen=True, slots=True, eq=False)
class Conversion:
    """From `source` to `target` elements, with optional scale, bias and channel order.

    `scale` and `bias` are None, one value, or one value for each **output** channel; `channels` is None or the
    source channel of each output channel. `matrix` is None or a row for each output channel, with a number for each
    source channel. With another `arithmetic` than "multiply" both `scale` and `bias` have values, and there is no
    matrix; `unit` is the number of its first step. `conversion` makes and checks these values.

    `parts` names what an implementation must know: the fields that have not their default, and a rounding by its name.
    """

    source: ElementType
    target: ElementType
    scale: tuple[float, ...] | None = None
    bias: tuple[float, ...] | None = None
    channels: tuple[int, ...] | None = None
    rounding: Rounding = "nearest"
    matrix: Matrix | None = None
    arithmetic: Arithmetic = _MULTIPLY
    unit: float | None = None
    parts: frozenset[str] = field(init=False, repr=False)
    _identity: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Compute once the parts, and the key that conversions are compared and hashed by: every field."""
        options = [(each.name, getattr(self, each.name), each.default) for each in fields(self) if each.init][2:]
        named = (
            f"rounding={value!r}" if name == "rounding" else name
            for name, value, default in options
            if value != default
        )
        object.__setattr__(self, "parts", frozenset(named))
        identity = (self.source.name, self.target.name, *(repr(value) for _, value, _ in options))
        object.__setattr__(self, "_identity", identity)

    @property
    def is_bitwise_copy(self) -> bool:
        """True if elements keep their bits: same type, no arithmetic. Channels may still be reordered."""
        return self.source == self.target and not self.has_arithmetic

    @property
    def has_arithmetic(self) -> bool:
        """Whether values change between the casts, as by a scale, a bias or a matrix."""
        return not self.parts <= _WITHOUT_ARITHMETIC

    @property
    def steps(self) -> Steps:
        """The arithmetic between the casts: operations with constants, each rounded; those that are None are left out.

        >>> conversion(ELEMENT_TYPES["uint8"], ELEMENT_TYPES["float32"], scale=0.5, bias=1.0).steps
        (('multiply', 'scale'), ('add', 'bias'))
        """
        return ARITHMETIC_RULES[self.arithmetic].steps

    @property
    def is_per_channel(self) -> bool:
        """Whether an element's value or place depends on its channel."""
        return (
            self.matrix is not None
            or self.channels is not None
            or any(values is not None and len(values) > 1 for values in (self.scale, self.bias))
        )

    @property
    def compute(self) -> ElementType:
        """The type that arithmetic is computed in: float32, or float64 when either side is wide."""
        wide = self.source.name in _WIDE or self.target.name in _WIDE
        return ELEMENT_TYPES["float64" if wide else "float32"]

    def check_parts(self, known: frozenset[str], module: str) -> None:
        """Raise `DeviceError` for a part that an implementation does not know; `module` is where it is added."""
        unknown = sorted(self.parts - known)
        if unknown:
            raise DeviceError(
                f"{', '.join(unknown)}: {module} does not compute it. Add its code there, and its name to _PARTS."
            )

    def output_channels(self, source_channels: int) -> int:
        """The channels of the result of a source with so many."""
        chosen = self.matrix or self.channels
        return source_channels if chosen is None else len(chosen)

    def __eq__(self, other: object) -> bool:
        """Whether the results are the same to the bit: a bias of -0.0 is not one of 0.0, and a NaN equals itself."""
        if self is other:
            return True
        return self._identity == other._identity if isinstance(other, Conversion) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity)

    def __str__(self) -> str:
        """In a few words: "uint8 -> float16, scale, bias, channels (2, 1, 0)"."""
        words = [f"{self.source}" if self.is_bitwise_copy else f"{self.source} -> {self.target}"]
        if self.arithmetic == _MULTIPLY:
            words += [name for name in ("scale", "bias") if getattr(self, name) is not None]
        else:
            first = [_FIRST_STEPS[operation].format(self.unit) for operation, name in self.steps if name == "unit"]
            words += [*first, "- mean", "/ std"]
        words += [f"channels {self.channels}"] if self.channels is not None else []
        words += [f"matrix {len(self.matrix)} x {len(self.matrix[0])}"] if self.matrix is not None else []
        return ", ".join(words)


class ConversionOptions(NamedTuple):
    """How every operation converts its elements, as checked keyword arguments: a hashable value without a source.

    `scale`, `bias`, `mean` and `std` are the bytes of doubles, and `matrix` is rows of them. `normalize` names a mean
    and a standard deviation. `maximum` is the value that becomes 1 in a `Preprocess`. None stands for a default.
    """

    dtype: str | ElementType | None = None
    scale: Doubles | None = None
    bias: Doubles | None = None
    mean: Doubles | None = None
    std: Doubles | None = None
    normalize: Normalization | None = None
    arithmetic: Arithmetic = _MULTIPLY
    channels: tuple[int, ...] | None = None
    matrix: MatrixRows | None = None
    rounding: Rounding = _NEAREST
    maximum: float | None = None

    @classmethod
    def of(cls, function: str, keywords: Mapping[str, object]) -> ConversionOptions:
        """The options that a function of this name was called with.

        Raises Python's `TypeError` for other keywords, and `LayoutError` or `ElementTypeError` for values that no
        conversion takes.
        """
        try:
            return conversion_options(**keywords)  # type: ignore[arg-type]
        except TypeError:
            refuse_unknown(function, keywords, cls._fields[:-1])
            raise

    @property
    def is_normalised(self) -> bool:
        """Whether there is a mean or a standard deviation."""
        return self.mean is not None or self.std is not None or self.normalize is not None

    def conversion(self, source: ElementType, source_channels: int | None, otherwise: ElementType) -> Conversion:
        """These options as a conversion from a source with this many channels (None: no channel axis).

        `otherwise` is the type for a `dtype` of None. Raises `ElementTypeError` for a conversion that does not exist
        (complex to real, float8 to anything) and `LayoutError` for values that do not fit the source or its channels.
        """
        return _conversion(self, source, source_channels, otherwise)


def conversion_options(
    dtype: object = None,
    scale: PerChannel | Doubles | None = None,
    bias: PerChannel | Doubles | None = None,
    mean: PerChannel | None = None,
    std: PerChannel | None = None,
    normalize: object = None,
    arithmetic: object = _MULTIPLY,
    channels: Sequence[int] | None = None,
    matrix: object = None,
    rounding: object = _NEAREST,
) -> ConversionOptions:
    """The options that these keyword arguments state. Raises what `ConversionOptions.of` raises."""
    named = None if normalize is None else checked_normalize(normalize)
    rule = None if arithmetic is _MULTIPLY else ARITHMETIC_RULES[checked_arithmetic(arithmetic)]
    rescales = rule is not None and rule.alone is not None and scale is not None and bias is None
    if mean is not None or std is not None:
        if (scale is not None or bias is not None) and not rescales:
            raise LayoutError("mean and std say the same as scale and bias in other units; give one pair of them.")
        if named is not None:
            raise _beside_named(named)
    elif named is not None:
        if (scale is not None or bias is not None) and not rescales:
            raise _beside_named(named)
    elif rule is not None and arithmetic != _MULTIPLY and not rescales:
        raise _nothing_to_normalise(rule, arithmetic)
    # A name or a float needs no check: each call of a function shows in small relayouts.
    checked: tuple[object, ...] = (
        dtype if dtype is None or type(dtype) is str else element_type(dtype),
        None if scale is None else Doubles(one_double(scale)) if type(scale) is float else doubles("scale", scale),
        None if bias is None else Doubles(one_double(bias)) if type(bias) is float else doubles("bias", bias),
        None if mean is None else doubles("mean", mean),
        None if std is None else doubles("std", std),
        named,
        _MULTIPLY if arithmetic is _MULTIPLY else checked_arithmetic(arithmetic),
        None if channels is None else channel_numbers(channels),
        None if matrix is None else matrix_rows(matrix),
        _NEAREST if rounding is _NEAREST else checked_rounding(rounding),
        None,
    )
    return _new(ConversionOptions, checked)


def refuse_unknown(function: str, keywords: Iterable[str], known: Container[str]) -> None:
    """Raise Python's `TypeError` for the first keyword that a function of this name does not take."""
    for name in keywords:
        if name not in known:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}") from None


_new: Final = tuple.__new__

AS_IT_IS: Final = ConversionOptions()
"""The options of most calls: elements keep their type and value, or are cast to the type of an `out`."""


def conversion(
    source: ElementType,
    target: ElementType,
    *,
    scale: PerChannel | Doubles | None = None,
    bias: PerChannel | Doubles | None = None,
    channels: Sequence[int] | None = None,
    source_channels: int | None = None,
    rounding: object = "nearest",
    matrix: MatrixRows | None = None,
) -> Conversion:
    """A checked `Conversion`; `source_channels` is the size of the source's channel axis, None without one.

    Raises `ElementTypeError` for a conversion that does not exist (complex to real, float8 to anything) and
    `LayoutError` for values that do not fit the channels.
    """
    plain = scale is None and bias is None and channels is None and matrix is None
    if plain and rounding is _NEAREST:
        return _conversion(AS_IT_IS, source, source_channels, target)
    stated = {"scale": scale, "bias": bias, "channels": channels, "matrix": matrix, "rounding": rounding}
    options = ConversionOptions.of("conversion", stated)
    return _conversion(options, source, source_channels, target)


@lru_cache(maxsize=1024)
def casts(
    source: ElementType, target: ElementType, *, decodes: bool, encodes: bool
) -> tuple[tuple[Cast, ElementType], ...]:
    """The primitives of one direct cast, each with the type that it gives. Only the last one rounds.

    `decodes` and `encodes`: the source and the target are narrow floats, which the caller has as their bits alone.

    >>> half, byte = ELEMENT_TYPES["bfloat16"], ELEMENT_TYPES["uint8"]
    >>> [(primitive, result.name) for primitive, result in casts(half, byte, decodes=True, encodes=False)]
    [('decode', 'float32'), ('round', 'uint8')]
    """
    if source == target:
        return ()
    if target.kind == "b":
        return (("test", target),)
    steps: list[tuple[Cast, ElementType]] = []
    if decodes or source.kind == "b":
        steps.append(("decode", _FLOAT32) if decodes else ("test", _UINT8))
        source = steps[0][1]
    number = target.component
    if source != number and source.kind != "c":
        to_integer: Cast = "clamp" if source.is_integer else "round"
        steps.append((to_integer if number.is_integer else "encode" if encodes else "float", number))
    if target.kind == "c":
        steps.append(("complex", target))
    return tuple(steps)


def checked_rounding(rounding: object) -> Rounding:
    """`rounding`, checked. Raises `LayoutError` for anything but the two roundings."""
    if not (isinstance(rounding, str) and rounding in _ROUNDINGS):
        raise LayoutError(f"rounding={rounding!r} is unknown; it is 'nearest' (half to even) or 'truncate' (toward 0).")
    return cast("Rounding", rounding)


@lru_cache(maxsize=4096)
def _conversion(
    options: ConversionOptions, source: ElementType, source_channels: int | None, otherwise: ElementType
) -> Conversion:
    """The conversion of a source by options; cached, since programs repeat a few."""
    dtype, scale, bias, mean, std, normalize, arithmetic, channels, matrix, rounding, maximum = options
    target = otherwise if dtype is None else element_type(dtype)
    if channels is not None:
        _check_channels(channels, source_channels)
    count = source_channels if channels is None else len(channels)
    if matrix is not None:
        check_rows(matrix, channels, source_channels)
        count = len(matrix)
    scales, biases = (None if values is None else floats("", values) for values in (scale, bias))
    unit: float | None = None
    if not options.is_normalised and arithmetic != _MULTIPLY:
        arithmetic = ARITHMETIC_RULES[arithmetic].alone or arithmetic
    if options.is_normalised or arithmetic != _MULTIPLY:
        figures = (mean, std) if normalize is None else named_figures(normalize, channels, source_channels)
        factor = None if scales is None else _rescale_factor(scales)
        scales, biases, unit = normalisation(source, figures[0], figures[1], arithmetic, maximum, factor)
    of_scale, of_bias = "scale has", "bias has"
    if arithmetic != _MULTIPLY:
        of_scale = of_bias = "mean and std have"
    elif scales is not None and biases is not None and len(scales) == len(biases):  # as those of mean and std are
        of_scale = of_bias = "scale and bias, or mean and std, have"
    scales, biases = _per_channel(of_scale, scales, count), _per_channel(of_bias, biases, count)
    rows = None if matrix is None else tuple(floats("matrix", row) for row in matrix)
    result = Conversion(source, target, scales, biases, channels, rounding, rows, arithmetic, unit)
    if not result.is_bitwise_copy:
        _check_types(result)
    if arithmetic != _MULTIPLY:
        _check_divided(result)
    return result


def _nothing_to_normalise(rule: ArithmeticRule, arithmetic: object) -> LayoutError:
    """What refuses an arithmetic without mean and standard deviation."""
    if rule.alone is not None:
        return LayoutError(
            f"arithmetic={arithmetic!r} is how mean, std and a rescale factor are computed: give mean=, std= or both, "
            "scale= for the factor, or all three."
        )
    return LayoutError(f"arithmetic={arithmetic!r} is how mean and std are computed: give mean=, std= or both.")


def _rescale_factor(scales: tuple[float, ...]) -> float:
    """The rescale factor of transformers. Raises `LayoutError` unless it is one number that has a reciprocal."""
    factor = scales[0]
    if len({*scales}) > 1 or factor == 0 or not isfinite(factor):
        raise LayoutError(
            f"scale={scales} is the rescale factor, before mean and std and the same for all channels: give one number "
            "other than 0."
        )
    return factor


def _beside_named(normalize: Normalization) -> LayoutError:
    """What refuses a named mean and standard deviation beside stated constants."""
    return LayoutError(f"normalize={normalize!r} names mean and std: leave mean, std, scale and bias out.")


def _check_channels(channels: tuple[int, ...], source_channels: int | None) -> None:
    """Raise `LayoutError` unless the source has these channels."""
    if source_channels is None:
        raise LayoutError(f"channels={channels!r} needs a channel axis; label the source's axes, such as dims='NHWC'.")
    for channel in channels:
        if not 0 <= channel < source_channels:
            raise LayoutError(
                f"channels={channels} asks for channel {channel}; the source has {source_channels}, counted from 0."
            )


def channel_numbers(channels: Sequence[int]) -> tuple[int, ...]:
    """`channels` as a tuple of at least one integer. Raises `LayoutError` for anything else."""
    try:
        order = tuple(index(channel) for channel in channels)
    except TypeError:
        order = None
    # A bool is an integer to Python, but names no channel.
    if order is None or any(isinstance(channel, bool) for channel in channels):
        raise LayoutError(f"channels={channels!r} must be a sequence of channel numbers, such as (2, 1, 0).") from None
    if not order:
        raise LayoutError("channels=() selects nothing; give at least one source channel.")
    return order


def _per_channel(of_which: str, numbers: tuple[float, ...] | None, count: int | None) -> tuple[float, ...] | None:
    """One value, or one for each output channel; equal values become one. `of_which` begins the message otherwise."""
    if numbers is None:
        return None
    if len(numbers) > 1 and len(numbers) != count:
        channels = "no labelled channel axis" if count is None else f"{count} output channels"
        raise LayoutError(f"{of_which} {len(numbers)} values for {channels}; give one value, or one a channel.")
    # repr tells -0.0 from 0.0 and makes equal NaNs equal.
    return numbers[:1] if len({repr(number) for number in numbers}) == 1 else numbers


def _check_divided(conversion: Conversion) -> None:
    """Raise `LayoutError` for a division by other than finite numbers, and for arithmetic of float32 in float64."""
    name, is_wide = conversion.arithmetic, conversion.compute.itemsize == 8
    if conversion.matrix is not None:
        raise LayoutError(f"arithmetic={name!r} is for an image's own channels; leave matrix= out, or relayout twice.")
    if is_wide and name != "divide":
        raise LayoutError(
            f"arithmetic={name!r} computes in float32, and {conversion.source} -> {conversion.target} in float64; take "
            "dtype='float32', and cast the result."
        )
    for divisor in conversion.scale or ():
        rounded = divisor if is_wide else as_float32(divisor)
        if rounded == 0 or not isfinite(rounded):
            raise LayoutError(
                f"std={divisor} is {rounded} in {conversion.compute}; arithmetic={name!r} needs one to divide by."
            )


def _check_types(conversion: Conversion) -> None:
    """Raise `ElementTypeError` for conversions that have no meaning."""
    source, target = conversion.source, conversion.target
    if "o" in (source.kind, target.kind):
        raise ElementTypeError(
            f"{source} -> {target}: float8 moves as bits only; see it as uint8 with reinterpret(dtype='uint8')."
        )
    if source.kind == "c" and target.kind != "c":
        raise ElementTypeError(
            f"{source} -> {target} would drop the imaginary part; "
            f"see the parts as {source.component} with reinterpret(dtype={source.component.name!r}) and pick one."
        )
    if conversion.has_arithmetic and "c" in (source.kind, target.kind):
        raise ElementTypeError(f"scale, bias and matrix are for real elements, not {source} -> {target}.")
