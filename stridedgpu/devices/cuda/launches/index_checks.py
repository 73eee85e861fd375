"""Launches that check indices before anything is written: all inside their axes, and no element named twice.

A kernel's parameters begin with two addresses: the lowest index and a report. The device fills in both at launch; here
they are 0.
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
"""The offset of the report's address in a check's parameters, after the address of the indices."""

REPORT: Final = struct.Struct("<10Q")
"""`sg::IndexReport`: words with a precedence and one byte each: 2 bytes of the rule, then 8 of the value. All zero
until the first wrong index."""

_RULE_BYTES: Final = 2

_NUMBER_BITS: Final = 40
"""Bits of a precedence for the number of an index in its launch; the higher bits count launches."""

RULES: Final = 1 << 8 * _RULE_BYTES
"""The number of rule numbers in a report; the launch count wraps at the same number."""

_MOST_COMPONENTS: Final = 64
"""The most components of a tuple in a check: `most_components` in check_indices.cu."""


@dataclass(frozen=True, slots=True)
class WrongIndex:
    """The first wrong index of a report: its row-major number, the number of its rule, and its value.

    `rule` and `value` are None if the report was read while a kernel was writing it, and only a part is consistent.
    """

    number: int
    rule: int | None
    value: int | None


def wrong_index(report: bytes, *, signed: bool = True) -> WrongIndex | None:
    """Decode a report; None if every index was right."""
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
    """The value at `LAUNCH_NUMBER_AT`: the launch count and the number of the rule."""
    return count % RULES << 8 * _RULE_BYTES | rule


def take_launch() -> KernelLaunch:
    """The launch that moves a report to another place and clears it, atomically word by word.

    Its parameters are two addresses: the report's, and that of the copy.
    """
    return KernelLaunch(("take_report.cu",), "sg::take_report", (1, 1, 1), (32, 1, 1), 0, bytes(16))


def check_launch(rule: IndexRule) -> KernelLaunch:
    """The launch that checks every index of `rule` and reports the first one out of range."""
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
    """The zeroed bytes that `distinct_launch` needs: a report, and one bit for each element that can be named."""
    return REPORT.size + -(-rule.name_count // 32) * 4


def distinct_launch(rule: IndexRule) -> KernelLaunch:
    """The launch that reports whether two indices of `rule` name one element; the bits follow the report."""
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
    """Parameters beginning with the indices' `sg::Axes`, with the `own` pitches as target strides; and its rank."""
    rank = rank_of(len(sizes))
    filling = rank - len(sizes)
    pitches = tuple(own) or (0,) * len(sizes)
    block = ParameterBlock()
    block.add_axes(
        axes_words((*(1,) * filling, *sizes), (*(0,) * filling, *strides), (*(0,) * filling, *pitches), bits), bits
    )
    return block, rank


def _per_component(values: Sequence[int]) -> bytes:
    """One 64-bit value for each component of a tuple. Raises `LayoutError` for too many."""
    if len(values) > _MOST_COMPONENTS:
        raise LayoutError(f"indices hold tuples of {len(values)}; a GPU takes up to {_MOST_COMPONENTS}.")
    return struct.pack(f"<{_MOST_COMPONENTS}Q", *values, *(0,) * (_MOST_COMPONENTS - len(values)))


def _types(rule: IndexRule, bits: int) -> tuple[str, str]:
    """The C++ types of the indices and of offsets."""
    return f"sg::{rule.index.element}", index_argument(bits)


def _launch(source: str, name: str, block: ParameterBlock, count: int, each: int) -> KernelLaunch:
    """One thread for `each` of `count` indices or tuples."""
    return KernelLaunch(
        sources=(source,),
        name=name,
        grid=grid_of(-(-count // (THREADS * each))),
        block=(THREADS, 1, 1),
        shared_bytes=0,
        parameters=block.parameters,
    )
