"""Machine code as builtin functions of CPython, with the calling code of an extension module.

CPython calls a builtin function with an array of objects. The generated code converts them to 64-bit words, releases
the GIL, and calls the function at an address:

    self         a `bytes` object with the addresses of that function, of CPython's own functions, and of None
    arguments    integers, each converted by PyLong_AsVoidPtr
    GIL          PyEval_SaveThread, the call, PyEval_RestoreThread

All of these are in CPython's stable ABI. A call takes a fifth of the time of one through `ctypes`.

The functions of moves know the arguments that are the same in every call of a plan: `self` goes on with the parameters'
address, the number of items, and what is added to the addresses of a source, a target and, for gathers, indices, with
which they are called. Where indices lie is the first parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .ir import Code, Value, constant

__all__ = ["PYTHON_FUNCTIONS", "moving_function_text", "python_function_text"]

PYTHON_FUNCTIONS: Final = ("PyLong_AsVoidPtr", "PyEval_SaveThread", "PyEval_RestoreThread", "Py_IncRef")
"""The functions of CPython whose addresses follow the called function's in `self`; then comes None."""


class _Builtin:
    """A builtin function under construction: what `self` says, and the arguments as words."""

    def __init__(self, offset: int) -> None:
        self.code = Code("ptr self", "ptr arguments", "i64 count", returns="ptr")
        self._offset = offset
        names = ("function", *PYTHON_FUNCTIONS, "none")
        self._known = {name: self.of_self(place, "ptr") for place, name in enumerate(names)}

    def of_self(self, place: int, type_: str) -> Value:
        """A word of `self`."""
        return self.code.load(type_, self.code.at(self.code.argument("self"), self._offset + 8 * place), 1)

    def word(self, place: int, type_: str) -> Value:
        """An argument as a word."""
        given = self.code.load("ptr", self.code.at(self.code.argument("arguments"), 8 * place), 8)
        return self.code.call_for(type_, self._known["PyLong_AsVoidPtr"], given)

    def finish(self, words: Sequence[Value], *, keeps_lock: bool = False) -> Code:
        """Call the function, and return None."""
        code, known = self.code, self._known
        state = None if keeps_lock else code.call_for("ptr", known["PyEval_SaveThread"])
        code.run(known["function"], *words)
        if state is not None:
            code.run(known["PyEval_RestoreThread"], state)
        code.run(known["Py_IncRef"], known["none"])
        code.give(known["none"])
        return code


def python_function_text(offset: int, arity: int) -> str:
    """The module with the function `kernel(self, arguments, count)` of `arity` words.

    `offset` is the number of bytes from a `bytes` object to its contents.
    """
    made = _Builtin(offset)
    return made.finish([made.word(place, "ptr") for place in range(arity)]).text("kernel")


def moving_function_text(offset: int, sides: int, *, keeps_lock: bool, target_first: bool) -> str:
    """The same for moves, of an address for each side: the source's first, or the target's."""
    made = _Builtin(offset)
    code, first = made.code, 2 + len(PYTHON_FUNCTIONS)
    parameters, items = made.of_self(first, "ptr"), made.of_self(first + 1, "i64")
    one, other, *indices = (
        code.at(made.word(side, "ptr"), made.of_self(first + 2 + side, "i64")) for side in range(sides)
    )
    source, target = (other, one) if target_first else (one, other)
    for place in indices:
        code.store(place, parameters, 8)
    return made.finish([source, target, parameters, constant(0), items], keeps_lock=keeps_lock).text("kernel")
