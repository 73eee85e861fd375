"""Launches that look at indices before anything is written: all within their axes, and no element named twice.

A kernel's parameters begin with two addresses: that of the lowest index, and that of a report. The device writes both;
here they are 0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stridedgpu.devices.cuda.planning.gpu import THREADS, KernelLaunch, axes_words, grid_of, rank_of
from stridedgpu.devices.cuda.planning.policy import policy
from stridedgpu.planning.device_plan import index_bits
from stridedgpu.planning.index_rule import IndexRule
from stridedgpu.values.errors import LayoutError

from .instantiation import instantiation
from .parameters import ParameterBlock, index_argument

__all__ = [
    "CHECK_REPORT_AT",
    "REPORT",
    "RULES",
    "WrongIndex",
    "check_launch",
    "distinct_launch",
    "distinct_report_bytes",
    "launch_number",
    "take_launch",
    "wrong_index",
]

CHECK_REPORT_AT: Final = 8
"""Where in a check's parameters, whose first address is that of the indices, the address of the report goes."""

REPORT: Final = struct.Struct("<10Q")
"""`sg::IndexReport`: words of a precedence and a byte each, of which the first 2 are the rule's and 8 the value's. All
zero before the first wrong index."""

_RULE_BYTES: Final = 2

_NUMBER_BITS: Final = 40
"""Bits of a precedence that number the indices of a launch; those above count launches."""

RULES: Final = 1 << 8 * _RULE_BYTES
"""Numbers that rules may have in a report; launches are counted up to the same before they begin anew."""

_MOST_COMPONENTS: Final = 64
"""Coordinates of a tuple that a check knows: `most_components` in check_indices.cu."""


@dataclass(frozen=True, slots=True)
class WrongIndex:
    """What a report says of the first wrong index: its number in row-major order, the number of its rule, its value.

    `rule` and `value` are None where a report was taken while a kernel wrote to it and has only a part of them.
    """

    number: int
    rule: int | None
    value: int | None


def wrong_index(report: bytes, *, signed: bool = True) -> WrongIndex | None:
    """The contents of a report; None when every index was right."""
    words = REPORT.unpack(report)
    first = max(word >> 8 for word in words)
    if not any(words):
        return None
    number = ~first & (1 << _NUMBER_BITS) - 1
    if any(word >> 8 != first for word in words):
        return WrongIndex(number, None, None)
    said = bytes(word & 0xFF for word in words)
    value = int.from_bytes(said[_RULE_BYTES:], "little", signed=signed)
    return WrongIndex(number, int.from_bytes(said[:_RULE_BYTES], "little"), value)


def launch_number(count: int, rule: int) -> int:
    """What a gather's parameters hold at `LAUNCH_NUMBER_AT`: which of the launches it is, and its rule's number."""
    return count % RULES << 8 * _RULE_BYTES | rule


def take_launch() -> KernelLaunch:
    """The launch that moves a report to another place and leaves it empty, in one step for each word.

    Its parameters are two addresses: the report's, and that of as many bytes that take what it says.
    """
    return KernelLaunch(("take_report.cu",), "sg::take_report", (1, 1, 1), (32, 1, 1), 0, bytes(16))


def check_launch(rule: IndexRule) -> KernelLaunch:
    """The launch that looks at every index of `rule` and fills a report with the first that is out of range."""
    layout = rule.index.layout
    bits = index_bits(max(layout.element_count, layout.span))
    block, rank = _walked(layout.sizes, layout.strides, (), bits)
    block.add_index(layout.offset, bits)
    block.add_index(layout.element_count, bits)
    block.add_int32(rank - 1 if rule.has_tuples else -1)
    block.add(_per_component([size for _, size in rule.axes]), 8)
    items = policy().gather.checked_indices
    name = instantiation("check_indices", _types(rule, bits), "CheckPolicy", items=items, rank=rank)
    return _launch("check_indices.cu", name, block, layout.element_count, items)


def distinct_report_bytes(rule: IndexRule) -> int:
    """The bytes that `distinct_launch` needs, all 0: a report, and a bit for each element that could be named."""
    return REPORT.size + -(-rule.name_count // 32) * 4


def distinct_launch(rule: IndexRule) -> KernelLaunch:
    """The launch that says in a report, with marks behind it, whether two indices of `rule` name one element."""
    layout = rule.index.layout
    tuples = layout.ndim - 1 if rule.has_tuples else layout.ndim
    sizes = layout.sizes[:tuples]
    count = layout.element_count // len(rule.axes) if rule.has_tuples else layout.element_count
    own, named = rule.name_pitches
    bits = index_bits(max(count, layout.span, rule.name_count))
    block, rank = _walked(sizes, layout.strides[:tuples], own, bits)
    for value in (layout.offset, count, layout.strides[-1] if rule.has_tuples else 0):
        block.add_index(value, bits)
    block.add_int32(len(rule.axes))
    block.add(_per_component([size for _, size in rule.axes]), 8)
    block.add(_per_component(named), 8)
    name = instantiation("check_distinct", _types(rule, bits), "DistinctPolicy", rank=rank)
    return _launch("check_distinct.cu", name, block, count, 1)


def _walked(sizes: Sequence[int], strides: Sequence[int], own: Sequence[int], bits: int) -> tuple[ParameterBlock, int]:
    """Parameters that begin with an `sg::Axes` over the indices, with their own pitches, and its rank."""
    rank = rank_of(len(sizes))
    filling = rank - len(sizes)
    pitches = tuple(own) or (0,) * len(sizes)
    block = ParameterBlock()
    block.add_axes(
        axes_words((*(1,) * filling, *sizes), (*(0,) * filling, *strides), (*(0,) * filling, *pitches), bits), bits
    )
    return block, rank


def _per_component(values: Sequence[int]) -> bytes:
    """One 64-bit value for each number of a tuple. Raises `LayoutError` for more than there is room for."""
    if len(values) > _MOST_COMPONENTS:
        raise LayoutError(f"indices hold tuples of {len(values)}; a GPU takes up to {_MOST_COMPONENTS}.")
    return struct.pack(f"<{_MOST_COMPONENTS}Q", *values, *(0,) * (_MOST_COMPONENTS - len(values)))


def _types(rule: IndexRule, bits: int) -> tuple[str, str]:
    """The C++ types of the indices and of offsets."""
    return f"sg::{rule.index.element}", index_argument(bits)


def _launch(source: str, name: str, block: ParameterBlock, count: int, each: int) -> KernelLaunch:
    """A thread for `each` of `count` indices, or tuples."""
    return KernelLaunch(
        sources=(source,),
        name=name,
        grid=grid_of(-(-count // (THREADS * each))),
        block=(THREADS, 1, 1),
        shared_bytes=0,
        parameters=block.parameters,
    )
