"""Bindings: buffer ranges for the tensors of one operator, checked against each other as DirectML does."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations

from .descriptor import BufferTensorDesc
from .errors import BindingError, LayoutError
from .strides import integer, listed

__all__ = ["Binding", "check_bindings"]


@dataclass(frozen=True, slots=True)
class Binding:
    """A tensor's range of a buffer: `DML_BUFFER_BINDING` with its descriptor.

    `buffer` is the resource, or any name of it: equal ones are one buffer. `offset` and `size_in_bytes` are in bytes.

    Raises what `BufferTensorDesc.check_binding` raises.

    >>> Binding(BufferTensorDesc("uint8", (1, 1, 4, 4)), "arena", 256, 16).stop
    272
    """

    desc: BufferTensorDesc
    buffer: Hashable
    offset: int
    size_in_bytes: int

    def __post_init__(self) -> None:
        """Check the range against the descriptor."""
        object.__setattr__(self, "offset", integer("offset", self.offset))
        object.__setattr__(self, "size_in_bytes", integer("size_in_bytes", self.size_in_bytes))
        if not isinstance(self.desc, BufferTensorDesc):
            raise LayoutError(f"desc={self.desc!r} is no BufferTensorDesc.")
        self.desc.check_binding(self.offset, self.size_in_bytes)

    @property
    def stop(self) -> int:
        """The first byte after the range."""
        return self.offset + self.size_in_bytes

    def meets(self, other: Binding) -> bool:
        """Whether any byte belongs to both ranges."""
        return self.buffer == other.buffer and self.offset < other.stop and other.offset < self.stop

    def is_identical(self, other: Binding) -> bool:
        """Whether both are one range of one buffer."""
        mine, others = (self.buffer, self.offset, self.stop), (other.buffer, other.offset, other.stop)
        return mine == others


def check_bindings(
    inputs: Sequence[Binding | None], outputs: Sequence[Binding | None], *, in_place: bool = False
) -> None:
    """Check the bindings of one dispatch against each other; None is an optional tensor that is not there.

    Inputs may share bytes with inputs. An output may share none with another output, and none with an input unless both
    are one range and the operator works in place, as `in_place` says. Each element of an output has a place of its own,
    and no output is `OWNED_BY_DML`.

    Raises `BindingError` for ranges that share bytes where they may not and for such outputs, `LayoutError` for what is
    no `Binding`.

    >>> pixels = BufferTensorDesc("float16", (1, 1, 2, 4))
    >>> first, second = Binding(pixels, "arena", 0, 16), Binding(pixels, "arena", 16, 16)
    >>> check_bindings([first], [second])
    >>> check_bindings([first], [first], in_place=True)

    Source: https://learn.microsoft.com/windows/ai/directml/dml-binding.
    """
    read, written = _named("inputs", inputs), _named("outputs", outputs)
    for name, output in written:
        _check_written(name, output.desc)
    for (name, first), (other, second) in combinations(written, 2):
        if first.meets(second):
            raise BindingError(
                f"{name} ({_range(first)}) and {other} ({_range(second)}) share bytes: outputs never may."
            )
    for name, output in written:
        for other, source in read:
            if not output.meets(source):
                continue
            if not in_place:
                raise BindingError(
                    f"{name} ({_range(output)}) shares bytes with {other} ({_range(source)}), and the operator does "
                    "not work in place; bind separate ranges."
                )
            if not output.is_identical(source):
                raise BindingError(
                    f"{name} ({_range(output)}) shares some bytes with {other} ({_range(source)}): in place, both are "
                    "one range."
                )


def _named(name: str, bindings: Sequence[Binding | None]) -> list[tuple[str, Binding]]:
    """The bindings that are there, each with its name in messages."""
    entries = listed(bindings)
    if entries is None:
        raise LayoutError(f"{name}={bindings!r} is not a sequence of bindings.")
    named = []
    for number, binding in enumerate(entries):
        if binding is None:
            continue
        if not isinstance(binding, Binding):
            raise LayoutError(f"{name}[{number}]={binding!r} is neither a Binding nor None.")
        named.append((f"{name}[{number}]", binding))
    return named


def _check_written(name: str, desc: BufferTensorDesc) -> None:
    """Raise `BindingError` for a descriptor that no output may have."""
    if desc.flags:
        raise BindingError(
            f"{name} has flags={desc.flags}, OWNED_BY_DML: DirectML owns inputs alone; describe an output with flags=0."
        )
    if desc.layout.has_overlap:
        raise BindingError(
            f"{name} has sizes {desc.sizes} and strides {desc.strides}, whose elements share places: an output's are "
            "apart; bind packed or padded strides."
        )


def _range(binding: Binding) -> str:
    return f"bytes {binding.offset} to {binding.stop} of {binding.buffer!r}"
