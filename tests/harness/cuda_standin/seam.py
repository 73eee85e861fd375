"""The seam: CuPy's C functions replaced, by the names and signatures that its own binaries look them up with.

Each capsule's name is its function's signature. From it a C function is written that calls a Python function, so that
nothing here is typed by hand from CuPy's sources. CuPy refuses a wrong signature when it is imported.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from types import ModuleType
from typing import Any

from harness.emulator.cache import cache_directory

CUPY = "14.2.0"
"""The only wheel whose seam is known."""

_SIGNATURE = re.compile(r"(?P<result>.+?) ?\((?P<arguments>.*)\)")
_LEFT_ALONE = ("get_build_version", "_getCUDAMajorVersion")
"""Functions that ask no driver."""

_NUMBERS = {"int": "i", "unsigned int": "I", "size_t": "n", "intptr_t": "n", "uintmax_t": "K", "CUdevice": "i"}
"""The argument types that can be handed on, with `Py_BuildValue`'s codes."""

_SHORT_CALLS = (
    *("getDevice", "setDevice", "streamIsCapturing", "streamSynchronize", "streamWaitEvent", "launchKernel"),
    *("memcpyAsync", "memcpy2DAsync", "memsetAsync", "eventRecord", "eventQuery", "eventSynchronize", "graphLaunch"),
)
"""The calls of a prepared operation, which `at_once` makes return at once, so that the host's own time remains."""

_HEAD = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

typedef int CUdevice;

int standin_at_once = 0;

static PyObject* success(PyObject* const* given, Py_ssize_t count) {
    for (Py_ssize_t k = 0; k < count; ++k) (void)PyLong_AsUnsignedLongLongMask(given[k]);
    if (PyErr_Occurred()) return NULL;
    return PyLong_FromLong(0);
}

static PyObject* call(PyObject* function, PyObject* arguments) {
    PyObject* result = arguments ? PyObject_CallObject(function, arguments) : NULL;
    Py_XDECREF(arguments);
    return result;
}
static long long number(PyObject* result, long long failure) {
    if (!result) return failure;
    const long long value = PyLong_AsLongLong(result);
    Py_DECREF(result);
    return value;
}
static double real(PyObject* result) {
    if (!result) return -1;
    const double value = PyFloat_AsDouble(result);
    Py_DECREF(result);
    return value;
}
"""

_BUILTIN = """
static PyObject* called_%(name)s(PyObject* self, PyObject* const* given, Py_ssize_t count) {
    return standin_at_once ? success(given, count) : PyObject_Vectorcall(python_%(name)s, given, count, NULL);
}
static PyMethodDef method_%(name)s = {"%(name)s", (PyCFunction)(void*)called_%(name)s, METH_FASTCALL, NULL};
PyObject* builtin_%(name)s(void) { return PyCFunction_New(&method_%(name)s, NULL); }
"""
"""A function for Python that costs what CuPy's own does before it calls CUDA: its arguments become numbers."""

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, (ctypes.py_object,)


def replace(module: ModuleType, functions: dict[str, Callable[..., Any]]) -> None:
    """Let these functions stand in for a CuPy module's own, for C and for Python; all others refuse to be called."""
    capsules: dict[str, Any] = module.__pyx_capi__
    signatures = {name: _name_of(capsule).decode() for name, capsule in capsules.items()}
    written = {name: _function(name, said) for name, said in signatures.items() if name not in _LEFT_ALONE}
    texts = {name: text for name, text in written.items() if text is not None}
    builtins = [name for name in _SHORT_CALLS if name in texts and name in functions]
    library = _built("\n".join([_HEAD, *texts.values(), *(_BUILTIN % {"name": name} for name in builtins)]))
    _SWITCHES.append(ctypes.c_int.in_dll(library, "standin_at_once"))
    for name in texts:
        function = functions.get(name) or _missing(f"{module.__name__}.{name}")
        _KEPT.append(signature := signatures[name].encode())
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))  # for good: CuPy calls it until the process ends
        ctypes.py_object.in_dll(library, f"python_{name}").value = function
        address = ctypes.cast(getattr(library, f"standin_{name}"), ctypes.c_void_p).value
        capsules[name] = _new_capsule(address, signature, None)
    for name in {*texts, *functions}:
        if hasattr(module, name):
            setattr(module, name, functions.get(name) or _missing(f"{module.__name__}.{name}"))
    for name in builtins:
        made = getattr(library, f"builtin_{name}")
        made.restype = ctypes.py_object
        setattr(module, name, made())


@contextmanager
def at_once() -> Iterator[None]:
    """The time in which CUDA's short calls do nothing and return at once: what is left is the host's own time."""
    for switch in _SWITCHES:
        switch.value = 1
    try:
        yield
    finally:
        for switch in _SWITCHES:
            switch.value = 0


_SWITCHES: list[Any] = []

_KEPT: list[bytes] = []
"""The names of capsules, to which only these refer."""


def _function(name: str, signature: str) -> str | None:
    """The C function of that signature; None where a type cannot be handed on, or what is exported is a variable."""
    found = _SIGNATURE.fullmatch(signature)
    if found is None:
        return None
    types = [part.strip() for part in found["arguments"].split(",")]
    names, codes, given = [], "", []
    for position, kind in enumerate(types):
        if kind in ("void", "int __pyx_skip_dispatch") or kind.endswith("*__pyx_optional_args"):
            names.append("void" if kind == "void" else f"{kind.removesuffix('__pyx_skip_dispatch')} unused{position}")
            continue
        if kind not in _NUMBERS and kind != "PyObject *":
            return None
        names.append(f"{kind} a{position}")
        codes += "O" if kind == "PyObject *" else _NUMBERS[kind]
        given.append(f"a{position}")
    names = [re.sub(r"struct (\w+) \*__pyx_optional_args unused", r"void* unused", one) for one in names]
    result = found["result"]
    called = f'call(python_{name}, Py_BuildValue("({codes})"{"".join(f", {one}" for one in given)}))'
    if result.endswith("*"):
        result, body = "PyObject*", f"return {called};"
    elif result == "float":
        body = f"return (float)real({called});"
    elif result in _NUMBERS:
        body = f"return ({result})number({called}, {0 if result in ('intptr_t', 'uintmax_t') else -1});"
    else:
        return None
    if name in _SHORT_CALLS:
        body = f"if (standin_at_once) return {'PyLong_FromLong(0)' if result == 'PyObject*' else 0}; {body}"
    return f"PyObject* python_{name};\n{result} standin_{name}({', '.join(names)}) {{ {body} }}"


def _missing(name: str) -> Callable[..., Any]:
    def refuse(*_: object) -> None:
        raise NotImplementedError(f"the stand-in for CUDA has no {name}")

    return refuse


def _built(text: str) -> ctypes.PyDLL:
    """The C functions, compiled once."""
    path = cache_directory() / f"seam-{sha256((text + sysconfig.get_python_version()).encode()).hexdigest()[:32]}.so"
    if not path.exists():
        source = path.with_suffix(".c")
        source.write_text(text, encoding="utf-8")
        include = sysconfig.get_path("include")
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", f"-I{include}", source, "-o", f"{path}.part"], check=True)
        path.with_name(f"{path.name}.part").replace(path)
    return ctypes.PyDLL(str(path))
