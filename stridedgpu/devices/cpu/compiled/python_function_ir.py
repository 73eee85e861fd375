"""Machine code as a builtin function of CPython, with the calling code of an extension module.

CPython calls a builtin function with an array of objects. The generated code converts them to 64-bit words, releases
the GIL, and calls the function at an address:

    self         a `bytes` object with the addresses of that function, of CPython's own functions, and of None
    arguments    integers, each converted by PyLong_AsVoidPtr
    GIL          PyEval_SaveThread, the call, PyEval_RestoreThread

All of these are in CPython's stable ABI. A call takes a fifth of the time of one through `ctypes`.
"""

from __future__ import annotations

from typing import Final

from .ir import Code, module_text

__all__ = ["ARITIES", "PYTHON_FUNCTIONS", "python_functions_text"]

ARITIES: Final = (5, 10)
"""The numbers of arguments: of a loop, and of a shared call."""

PYTHON_FUNCTIONS: Final = ("PyLong_AsVoidPtr", "PyEval_SaveThread", "PyEval_RestoreThread", "Py_IncRef")
"""The functions of CPython whose addresses follow the called function's in `self`; then comes None."""


def python_functions_text(offset: int) -> str:
    """The module with a function `kernel_N(self, arguments, count)` for each number N of arguments.

    `offset` is the number of bytes from a `bytes` object to its contents.
    """
    return module_text({f"kernel_{arity}": _builtin(arity, offset) for arity in ARITIES})


def _builtin(arity: int, offset: int) -> Code:
    """The builtin function of `arity` arguments."""
    code = Code("ptr self", "ptr arguments", "i64 count", returns="ptr")
    function, as_word, save, restore, increment, none = (
        code.load("ptr", code.at(code.argument("self"), offset + 8 * word), 1)
        for word in range(2 + len(PYTHON_FUNCTIONS))
    )
    given = [code.load("ptr", code.at(code.argument("arguments"), 8 * place), 8) for place in range(arity)]
    words = [code.call_for("ptr", as_word, argument) for argument in given]
    state = code.call_for("ptr", save)
    code.run(function, *words)
    code.run(restore, state)
    code.run(increment, none)
    code.give(none)
    return code
