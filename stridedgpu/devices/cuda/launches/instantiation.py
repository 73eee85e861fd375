"""The name of a kernel's instantiation: its types, and every other compile-time constant by name.

A kernel has one policy, an aggregate of its own (`struct RowsPolicy` in `rows.cu`), as CUB's kernels have. The policy
is a template argument of class type, written as C++20 writes it:

    sg::copy_flat<sg::Conversion<…>, sg::uint32, sg::FlatPolicy{.load_bytes = 16, .store_bytes = 16, .steps = 4}>

The name alone says what is compiled: NVRTC takes it as a name expression, and g++ as the address of a function.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["instantiation"]


def instantiation(kernel: str, types: Sequence[str], policy: str, **constants: bool | int | str) -> str:
    """The C++ name of `kernel` in namespace `sg` with these types and this policy.

    `constants` are the members of the structure `policy`, all of them, in their order there: C++ refuses another order,
    and members left out would be 0. Text is a C++ constant, such as an enumerator.

    Example:
        >>> instantiation("check_indices", ("sg::int64", "sg::uint32"), "CheckPolicy", items=4, rank=1)
        'sg::check_indices<sg::int64, sg::uint32, sg::CheckPolicy{.items = 4, .rank = 1}>'
    """
    members = ", ".join(f".{name} = {_constant(value)}" for name, value in constants.items())
    return f"sg::{kernel}<{', '.join(types)}, sg::{policy}{{{members}}}>"


def _constant(value: bool | int | str) -> str:
    """A constant as C++ writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
