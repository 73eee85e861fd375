"""The public signatures: names, kinds and defaults of every argument, as `signatures.txt` lists them.

Callers give arguments by name and rely on defaults, so that each is as public as the function. Where a signature is
changed on purpose, `PYTHONPATH=tests python -m interface.test_signatures` writes the listing anew.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path

import stridedgpu as sg
from stridedgpu.operations.plans import Plan

LISTING = Path(__file__).with_name("signatures.txt")

CALLED = ("__call__", "__dlpack__", "__dlpack_device__", "__enter__", "__exit__")


def arguments(function: object) -> str:
    signature = inspect.signature(function)
    bare = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return str(inspect.Signature(bare))


def members(kind: type) -> Iterator[str]:
    """What a class has, inherited or not, with how each is had: called, read, or without an object.

    A plan is called; what else it has is told by its words, which other tests read.
    """
    for name in ["__call__"] if issubclass(kind, Plan) else sorted(dir(kind)):
        value = inspect.getattr_static(kind, name)
        owner = next((one for one in kind.__mro__ if name in vars(one)), type)  # of the metaclass
        if not owner.__module__.startswith("stridedgpu") or (name.startswith("_") and name not in CALLED):
            continue
        if inspect.isfunction(value):
            yield f"  {name}{arguments(value)}"
        elif isinstance(value, (classmethod, staticmethod)):
            yield f"  {type(value).__name__} {name}{arguments(value.__func__)}"
        elif inspect.isdatadescriptor(value):
            yield f"  {name}"


def listing() -> Iterator[str]:
    for name in sorted(sg.__all__):
        value = getattr(sg, name)
        if inspect.isclass(value):
            is_frozen = dataclasses.is_dataclass(value) and value.__dataclass_params__.frozen
            of_users = not name.startswith(("Planned", "Relayout", "Loader", "DataType")) and name[-5:] != "Error"
            yield f"class {name}{arguments(value) if of_users else ''}{', frozen' if is_frozen else ''}"
            yield from members(value)
        elif callable(value):
            yield f"{name}{arguments(value)}"


def test_public_signatures_are_those_of_the_listing():
    assert "\n".join(listing()) == LISTING.read_text(encoding="utf-8").rstrip("\n")


if __name__ == "__main__":
    LISTING.write_text("\n".join(listing()) + "\n", encoding="utf-8")
