"""Machine code as builtin functions of CPython, with the calling code of an extension module.

CPython calls a builtin function with an array of objects. The generated code converts them to 64-bit words, releases
the GIL, and calls the function at an address:

    self         a `bytes` object with the addresses of that function, of CPython's own functions, and of None; then
                 a word for each parameter of the function, and one for each further argument
    arguments    integers, each converted by PyLong_AsVoidPtr, and added to a word
    GIL          PyEval_SaveThread, the call, PyEval_RestoreThread

All of these are in CPython's stable ABI. A call takes a fifth of the time of one through `ctypes`.
"""

from __future__ import annotations

from typing import Final

from .ir import Code, Value

__all__ = ["PYTHON_FUNCTIONS", "python_function_text"]

PYTHON_FUNCTIONS: Final = ("PyLong_AsVoidPtr", "PyEval_SaveThread", "PyEval_RestoreThread", "Py_IncRef")
"""The functions of CPython whose addresses follow the called function's in `self`; then comes None."""


def python_function_text(
    offset: int, passed: tuple[int | None, ...], stored: int | None = None, *, keeps_lock: bool = False
) -> str:
    """The module with the function `kernel(self, arguments, count)`.

    `offset` is the number of bytes from a `bytes` object to its contents. `passed` are the numbers of the arguments
    that are added to the words of the function's parameters; None adds nothing. The argument `stored` goes, with the
    word behind those, to the address that is the third parameter: it is the place of indices.
    """
    code = Code("ptr self", "ptr arguments", "i64 count", returns="ptr")

    def of_self(place: int, type_: str) -> Value:
        return (code.argument("self") + (offset + 8 * place)).load(type_)

    names = ("function", *PYTHON_FUNCTIONS, "none")
    known = {name: of_self(place, "ptr") for place, name in enumerate(names)}

    def word(place: int, argument: int | None) -> Value:
        constant = of_self(len(names) + place, "i64")
        if argument is None:
            return constant.pointer()
        number = (code.argument("arguments") + 8 * argument).load("ptr", 8)
        return known["PyLong_AsVoidPtr"](number, returns="ptr") + constant

    words = [word(place, argument) for place, argument in enumerate(passed)]
    if stored is not None:
        code.store(word(len(passed), stored), words[2], 8)
    state = None if keeps_lock else known["PyEval_SaveThread"](returns="ptr")
    known["function"](*words)
    if state is not None:
        known["PyEval_RestoreThread"](state)
    known["Py_IncRef"](known["none"])
    code.give(known["none"])
    return code.text("kernel")
