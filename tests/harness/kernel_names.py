"""A kernel's name in parts, such as `sg::copy_flat<sg::Conversion<…>, sg::uint32, sg::FlatPolicy{…}>`."""

from __future__ import annotations

import re

__all__ = ["conversion_of", "kernel_of", "policy_name_of", "policy_of", "types_of"]

_NAME = re.compile(r"sg::(\w+)<(.*), sg::(\w+)\{(.*)\}>")


def kernel_of(name: str) -> str:
    """The kernel alone: "copy_flat"."""
    return _parts(name)[0]


def types_of(name: str) -> list[str]:
    """The template arguments that are types; a conversion with all its arguments is one of them."""
    return re.findall(r"sg::Conversion<[^>]*>|[\w:]+", _parts(name)[1])


def conversion_of(name: str) -> list[str]:
    """The arguments of the conversion, which is the first of the types."""
    return types_of(name)[0].removeprefix("sg::Conversion<").removesuffix(">").split(", ")


def policy_name_of(name: str) -> str:
    """The structure of the policy: "FlatPolicy"."""
    return _parts(name)[2]


def policy_of(name: str) -> dict[str, str]:
    """The members of the policy, each as C++ text, in their order."""
    return dict(re.findall(r"\.(\w+) = ([^,]+)", _parts(name)[3]))


def _parts(name: str) -> tuple[str, ...]:
    matched = _NAME.fullmatch(name)
    assert matched is not None, name
    return matched.groups()
