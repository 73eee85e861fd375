"""Dataclasses whose methods are made when they are first called do what those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, field
from typing import Any, ClassVar

import pytest

from stridedgpu.values.dataclass import dataclass


class Doubles:
    """What both classes have besides fields."""

    __slots__ = ()
    kind: ClassVar[str] = "none"

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.size * 2)


@dataclass(frozen=True, slots=True)
class Lazy(Doubles):
    """Fields of every kind."""

    size: int
    names: tuple[str, ...] = ()
    parts: list[int] = field(default_factory=list, compare=False)
    total: int = field(init=False, repr=False)
    word: str = field(init=False, default="word")
    _: KW_ONLY
    unit: float = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Usual(Doubles):
    """Fields of every kind."""

    size: int
    names: tuple[str, ...] = ()
    parts: list[int] = field(default_factory=list, compare=False)
    total: int = field(init=False, repr=False)
    word: str = field(init=False, default="word")
    _: KW_ONLY
    unit: float = 1.0


def outcome(call: Any) -> str:
    """The result of a call or its error, in words without the class's name."""
    try:
        result = call()
    except (TypeError, AttributeError) as error:
        result = f"{type(error).__name__}: {error}"
    return str(result).replace("Lazy", "").replace("Usual", "")


CALLS = {
    "repr": lambda made: repr(made(3, ("a",), unit=2.0)),
    "parts": lambda made: (made(1).parts, made(1, (), [2]).parts, made(1).parts is made(1).parts),
    "total": lambda made: (made(3).total, made(3).word),
    "equal": lambda made: (made(1) == made(1, (), [2]), made(1) == made(2), made(1) == 1, made(1) != made(1)),
    "hash": lambda made: (hash(made(1)) == hash(made(1, (), [2])), hash(made(1)) == hash(made(2)), hash(made(5))),
    "replaced": lambda made: dataclasses.replace(made(1), size=7),
    "as a dictionary": lambda made: dataclasses.asdict(made(1, ("b",))),
    "fields": lambda made: [one.name for one in dataclasses.fields(made)],
    "pickled": lambda made: pickle.loads(pickle.dumps(made(4, ("c",), [1]))),
    "copied": lambda made: (copy.copy(made(4)), copy.deepcopy(made(4, (), [1]))),
    "assigned": lambda made: setattr(made(1), "size", 2),
    "deleted": lambda made: made(1).__delattr__("size"),
    "no size": lambda made: made(),
    "too many": lambda made: made(1, (), [], 4),
    "unknown": lambda made: made(1, other=2),
    "matched": lambda made: made.__match_args__,
    "frozen": lambda made: (made.__dataclass_params__.frozen, made.__slots__),
    "signature": lambda made: (made(1), [(one.name, one.kind) for one in inspect.signature(made).parameters.values()]),
    "words": lambda made: made.__doc__,
}


@pytest.mark.parametrize("name", CALLS)
def test_each_class_does_the_same(name):
    assert outcome(lambda: CALLS[name](Lazy)) == outcome(lambda: CALLS[name](Usual))


def test_methods_are_made_at_their_first_calls():
    @dataclass(frozen=True, slots=True)
    class Fresh:
        size: int

    first = vars(Fresh)["__init__"]
    one = Fresh(1)
    assert vars(Fresh)["__init__"] is not first
    first(one, 2)
    assert one.size == 2, "a thread that has begun with the stub"
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(lambda _: hash(one) == hash(Fresh(2)) and one == Fresh(2), range(20)))


def test_methods_of_the_class_stay():
    @dataclass(frozen=True, slots=True)
    class Own:
        size: int

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

    assert (hash(Own(1)), repr(Own(1)), Own(1) == Own(1)) == (7, "own", True)


def test_a_class_without_equality_compares_and_hashes_by_identity():
    @dataclass(frozen=True, slots=True, eq=False)
    class Apart:
        size: int

    one = Apart(1)
    assert one != Apart(1)
    assert len({one, Apart(1), one}) == 2


def test_other_classes_are_those_of_the_standard_library():
    @dataclass
    class Open:
        size: int

    made = Open(1)
    made.size = 2
    assert made == Open(2)


def test_classes_are_derived_of_such_a_class():
    @dataclass(frozen=True, slots=True)
    class Base:
        size: int

    @dataclass(frozen=True)
    class Derived(Base):
        more: int = 0

    class Further(Base):
        pass

    assert Derived(1, more=2) == Derived(1, more=2) != Derived(1)
    further = Further(1)
    further.other = 3
    assert (further.size, further.other) == (1, 3)
    for refused in (further, Base(1)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            refused.size = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        Base(1).other = 2
