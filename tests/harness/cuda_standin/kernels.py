"""Kernels: the instantiation that the library asks NVRTC for, compiled by g++ and run by the emulator's fibers."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from harness.emulator import runner
from harness.emulator.cache import cache_directory

_HERE = Path(runner.__file__).parent
_FLAGS = ("-std=c++20", "-O1", "-fPIC", "-fno-exceptions", "-fno-rtti", "-fno-strict-aliasing")
_FLAGS += ("-ffp-contract=off", "-w", f"-I{_HERE}")

_HOST = """
#include <cstddef>
extern "C" {
void __sanitizer_start_switch_fiber(void**, const void*, size_t) {}
void __sanitizer_finish_switch_fiber(void*, const void**, size_t*) {}
void __asan_poison_memory_region(const volatile void*, size_t) {}
void __asan_unpoison_memory_region(const volatile void*, size_t) {}
void* __asan_region_is_poisoned(void*, size_t) { return nullptr; }
}
"""

_ENTRY = """
#include "job_runner.h"
%s
template <typename... P, size_t... I>
static std::function<void()>* bound(void (*kernel)(P...), void** given, std::index_sequence<I...>) {
    std::tuple<P...> values{*static_cast<P*>(given[I])...};
    return new std::function<void()>([=] { kernel(std::get<I>(values)...); });
}
template <typename... P> static std::function<void()>* bound(void (*kernel)(P...), void** given) {
    return bound(kernel, given, std::index_sequence_for<P...>{});
}
extern "C" void* standin_bind(void** given) { return bound(&%s, given); }
extern "C" void standin_run(void* body, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                            unsigned shared) {
    cuda_host::launch(*static_cast<std::function<void()>*>(body), {gx, gy, gz}, {bx, by, bz}, shared,
                      cuda_host::Order::forward, 1);
}
extern "C" void standin_release(void* body) { delete static_cast<std::function<void()>*>(body); }
"""


class Launchable:
    """A kernel of a source, by its name expression; compiled when it is first launched."""

    def __init__(self, source: str, name: str) -> None:
        self._source, self.name = source, name

    @functools.cached_property
    def _library(self) -> ctypes.CDLL:
        library = ctypes.CDLL(str(_compiled(_ENTRY % (self._source, self.name), [str(_host())], header=_precompiled())))
        library.standin_bind.restype, library.standin_bind.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
        library.standin_run.argtypes = (ctypes.c_void_p, *[ctypes.c_uint] * 7)
        library.standin_release.argtypes = (ctypes.c_void_p,)
        return library

    def launch(self, extents: tuple[int, ...], shared_bytes: int, parameters: int) -> Callable[[], None]:
        """The launch, to be done later and as often as a graph wants; the parameters are copied now, as CUDA does."""
        return _Bound(self._library, self._library.standin_bind(parameters), (*extents, shared_bytes))


class _Bound:
    def __init__(self, library: ctypes.CDLL, body: int, numbers: tuple[int, ...]) -> None:
        self._library, self._body, self._numbers = library, body, numbers

    def __call__(self) -> None:
        self._library.standin_run(self._body, *self._numbers)

    def __del__(self) -> None:
        self._library.standin_release(self._body)


@functools.cache
def _host() -> Path:
    """What runs fibers, loaded once for all kernels."""
    sources = [(_HERE / name).read_text(encoding="utf-8") for name in ("cuda_host.cpp", "matrix_host.cpp")]
    path = _compiled("\n".join([*sources, _HOST]), [])
    ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    return path


@functools.cache
def _precompiled() -> Path:
    """A folder with the header that every kernel begins with, precompiled."""
    path = cache_directory() / f"standin-header-{_hash()}"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent) as directory:
            made = Path(directory, "header")
            made.mkdir()
            _run(["-x", "c++-header", str(_HERE / "job_runner.h"), "-o", str(made / "job_runner.h.gch")])
            with suppress(OSError):  # another process may have been faster
                made.rename(path)
    return path


def _compiled(text: str, libraries: list[str], *, header: Path | None = None) -> Path:
    """A shared library, compiled once."""
    path = cache_directory() / f"standin-{_hash(text, *libraries)}.so"
    if not path.exists():
        part = path.with_name(f"{path.name}.{os.getpid()}")
        found = [] if header is None else [f"-I{header}"]
        _run([*found, "-shared", "-x", "c++", "-", "-x", "none", *libraries, "-o", str(part)], text)
        part.replace(path)
    return path


def _run(arguments: list[str], text: str = "") -> None:
    """Run g++ with the flags that all units share, as a precompiled header demands."""
    command = ["g++", *_FLAGS, *arguments]
    ran = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"g++ refused a kernel:\n{ran.stderr[:4000]}")


def _hash(*texts: str) -> str:
    headers = (path.read_text(encoding="utf-8") for path in sorted(_HERE.glob("*.h")))
    return sha256("\0".join([*texts, *_FLAGS, *headers]).encode()).hexdigest()[:32]
