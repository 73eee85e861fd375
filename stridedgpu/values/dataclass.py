"""`dataclass`: that of the standard library, where a frozen class with slots has its methods from their first calls on.

A process makes a hundred such classes before its first result, and calls few of their methods. The standard library
compiles six functions for each class, which take 0.4 ms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - for type checkers, which know this one
else:

    def dataclass(plain: type | None = None, /, **options: bool) -> Any:
        """As `dataclasses.dataclass`."""

        def made(plain: type) -> type:
            inherits = any(hasattr(base, "__dataclass_fields__") for base in plain.__bases__)
            if inherits or not (options.get("frozen") and options.get("slots")) or options.keys() - _KNOWN:
                return dataclasses.dataclass(**options)(plain)
            return _frozen(plain, eq=options.get("eq", True), represents=options.get("repr", True))

        return made if plain is None else made(plain)


_KNOWN: Final = {"frozen", "slots", "eq", "repr"}


def _frozen(plain: type, *, eq: bool, represents: bool) -> Any:
    """A frozen class with slots, whose other methods are stubs."""
    own = vars(plain)
    hashes = eq and ("__hash__" not in own or (own["__hash__"] is None and "__eq__" in own))
    wanted = {"__init__": True, "__repr__": represents, "__eq__": eq}
    methods = [name for name, is_wanted in wanted.items() if is_wanted and name not in own]
    if hashes:
        methods.append("__hash__")
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(plain)
    made.__dataclass_params__.frozen = True
    names = made.__slots__

    def refuse(self: Any, name: str, *value: object) -> None:
        if type(self) is made or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")
        (super(made, self).__setattr__ if value else super(made, self).__delattr__)(name, *value)

    made.__setattr__ = made.__delattr__ = refuse
    for name in methods:
        setattr(made, name, _stub(made, name))
    for name, function in (("__getstate__", _get_state), ("__setstate__", _set_state)):
        if name not in own:
            setattr(made, name, function)
    return made


def _stub(made: type, name: str) -> Callable[..., Any]:
    """A method that makes the real one, which takes its place."""

    def stub(self: Any, *arguments: object, **named: object) -> Any:
        method = _METHODS[name](made, dataclasses.fields(made))
        method.__qualname__ = f"{made.__qualname__}.{name}"
        setattr(made, name, method)
        return method(self, *arguments, **named)

    return stub


_Fields = tuple["dataclasses.Field[Any]", ...]


def _compiled(name: str, arguments: str, lines: list[str], known: dict[str, object]) -> Callable[..., Any]:
    """A function of these lines, with the names that it refers to."""
    body = "".join(f"\n    {line}" for line in lines)
    exec(f"def {name}({arguments}):{body}", known)  # noqa: S102 - as the standard library
    function: Callable[..., Any] = known[name]  # type: ignore[assignment]
    return function


def _init(made: Any, fields: _Fields) -> Callable[..., Any]:
    """Writes each field by its slot, which no `__setattr__` sees."""
    known: dict[str, object] = {"_missing": dataclasses.MISSING}
    positional, named, lines = ["self"], ["*"], []
    for field in fields:
        name, default, factory = field.name, field.default, field.default_factory
        makes, is_given = factory is not dataclasses.MISSING, default is not dataclasses.MISSING
        if not (field.init or makes or is_given):
            continue  # `__post_init__` writes it
        known |= {f"_set_{name}": getattr(made, name).__set__, f"_default_{name}": default, f"_make_{name}": factory}
        value = name if field.init else f"_default_{name}"
        if makes:
            value = f"_make_{name}()" + (f" if {name} is _missing else {name}" if field.init else "")
        if field.init:
            (named if field.kw_only else positional).append(name + f"=_default_{name}" * (makes or is_given))
        lines.append(f"_set_{name}(self, {value})")
    if hasattr(made, "__post_init__"):
        lines.append("self.__post_init__()")
    return _compiled("__init__", ", ".join(positional + named * (len(named) > 1)), lines or ["pass"], known)


def _values(of: str, fields: list[Any]) -> str:
    """A tuple of fields, in Python."""
    return f"({''.join(f'{of}.{field.name}, ' for field in fields)})"


def _equal(_: type, fields: _Fields) -> Callable[..., Any]:
    compared = [field for field in fields if field.compare]
    same = f"{_values('self', compared)} == {_values('other', compared)}"
    lines = [f"return {same} if other.__class__ is self.__class__ else NotImplemented"]
    return _compiled("__eq__", "self, other", lines, {})


def _hash(_: type, fields: _Fields) -> Callable[..., Any]:
    hashed = [field for field in fields if (field.compare if field.hash is None else field.hash)]
    return _compiled("__hash__", "self", [f"return hash({_values('self', hashed)})"], {})


def _represent(_: type, fields: _Fields) -> Callable[..., Any]:
    shown = [field.name for field in fields if field.repr]

    def represent(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    return represent


_METHODS: Final = {"__init__": _init, "__eq__": _equal, "__hash__": _hash, "__repr__": _represent}


def _get_state(self: Any) -> list[Any]:
    """The fields, for pickles: slots of a frozen instance cannot be assigned."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
