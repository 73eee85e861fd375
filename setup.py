"""The CPU's native library, the description on a package index, and an sdist that is the same bytes each time.

The library is `kernels/cpu`, compiled once a level of instructions by the clang of PyPI's `ziglang`, which is required
for the build alone; CXX names another clang, and CXXFLAGS adds flags. It needs no header of Python's and no C++
library. A library in this folder that is made of the same sources by the same compiler is taken as it is: environments
of one checkout share it. Where the build fails, the package is installed without the library, and works by NumPy.

The description is README.md without what an index cannot follow. An index resolves no relative links and shows no
pictures of a repository. There is no public address to write in front of them: links become their words, and a picture
goes with its caption. All else is declared in pyproject.toml.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent
KERNELS = ROOT / "kernels" / "cpu"

ZIGLANG = "ziglang==0.17.1"
"""A wheel of clang for Linux, macOS and Windows, on x86-64 and ARM."""

LEVELS = {
    "x86_64": {"v3": ("x86_64_v3", ""), "v4": ("x86_64_v4", "avx512vbmi avx512vbmi2 avx512vnni")},
    "aarch64": {"neon": ("generic", "")},
}
"""The levels of instructions for which all loops are compiled: a processor and more instruction sets. The planner's
side is `NATIVE_LEVELS` in stridedgpu/devices/cpu/target.py."""

FLAGS = (
    "-std=c++20 -O3 -g0 -ffp-contract=off -fno-exceptions -fno-rtti -fno-sanitize=all -fPIC -fvisibility=hidden "
    "-Wall -Wextra -Werror"
)


class Platform(NamedTuple):
    """What a wheel is for: an architecture, the compiler's name of the target, and the wheel's tag.

    The library imports nothing, on Linux not even a C library: one file serves glibc and musl.
    """

    machine: str
    target: str
    tag: str


PLATFORMS = {
    "linux-x86_64": Platform("x86_64", "x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64.musllinux_1_2_x86_64"),
    "linux-aarch64": Platform("aarch64", "aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64.musllinux_1_2_aarch64"),
    "darwin-x86_64": Platform("x86_64", "x86_64-macos.11.0", "macosx_11_0_x86_64"),
    "darwin-aarch64": Platform("aarch64", "aarch64-macos.11.0", "macosx_11_0_arm64"),
    "win32-x86_64": Platform("x86_64", "x86_64-windows-gnu", "win_amd64"),
}
"""The platforms with a library. STRIDEDGPU_PLATFORM names another than this one: all are built on any."""


def this_platform() -> Platform | None:
    """The platform to build for; None where the package has no library.

    Ends with a sentence where STRIDEDGPU_PLATFORM names none.
    """
    named = os.environ.get("STRIDEDGPU_PLATFORM", "")
    if named and named not in PLATFORMS:
        raise SystemExit(f"STRIDEDGPU_PLATFORM={named!r} is no platform; it is {', '.join(PLATFORMS)}.")
    machine = platform.machine().lower()
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    return PLATFORMS.get(named or f"{sys.platform}-{machine}")


def library_of(chosen: Platform) -> str:
    """The path of the library in the package."""
    return f"stridedgpu/devices/cpu/native/kernels-{chosen.machine}.bin"


def compiler(chosen: Platform) -> list[str]:
    """The command of the compiler: CXX, or the clang of `ziglang`."""
    if named := os.environ.get("CXX", ""):
        return shlex.split(named)
    return [sys.executable, "-m", "ziglang", "c++", "-target", chosen.target]


def flags() -> list[str]:
    """The flags of every compilation, and CXXFLAGS behind them."""
    return [*FLAGS.split(), *shlex.split(os.environ.get("CXXFLAGS", ""))]


def processor_flags(command: list[str], cpu: str, more: str) -> list[str]:
    """What selects a processor: Zig has names and an option of its own."""
    if any("zig" in Path(word).name for word in command):
        return ["-mcpu=" + "+".join([cpu, *more.split()])]
    if cpu == "generic":
        return []
    return ["-march=" + cpu.replace("_", "-"), "-mprefer-vector-width=512", *(f"-m{name}" for name in more.split())]


def compiler_identity(chosen: Platform) -> list[str]:
    """The compiler and its flags, wherever it is installed."""
    return [os.environ.get("CXX") or ZIGLANG, *compiler(chosen)[1:], *flags()]


def identity(chosen: Platform) -> str:
    """What the library depends on: its sources, the flags, and the compiler."""
    words = [*compiler_identity(chosen), repr(LEVELS[chosen.machine])]
    sources = (path.read_bytes() for path in sorted(KERNELS.iterdir()))
    return hashlib.sha256(b"\0".join([*(word.encode() for word in words), *sources])).hexdigest()


def is_up_to_date(chosen: Platform) -> bool:
    """Whether the library in this folder is made of these sources."""
    path = ROOT / library_of(chosen)
    return path.exists() and identity(chosen).encode() in path.read_bytes()


def text_of(source: Path) -> bytes:
    """A source with all that it includes of this project."""
    text = source.read_bytes()
    included = re.findall(rb'^#include "(.*)"', text, re.MULTILINE)
    return b"".join([text, *(text_of(source.parent / name.decode()) for name in included)])


def build_library(chosen: Platform, target: Path) -> None:
    """Compile each unit for each level, as far as it is not compiled yet, and link all.

    Raises `CalledProcessError` or `OSError`.
    """
    folder = ROOT / "build" / "kernels"
    folder.mkdir(parents=True, exist_ok=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    command, names = compiler(chosen), []
    # Zig keeps what it has compiled: not in the user's home, which may be read-only, and not beyond this build.
    kept = tempfile.TemporaryDirectory(dir=folder)
    caches = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), kept.name)

    def run(*job: object) -> None:
        subprocess.run([str(word) for word in job], check=True, env={**os.environ, **caches})

    def compiled(source: Path, *more: str) -> Path:
        words = "\0".join([*compiler_identity(chosen), *more]).encode()

        def made() -> Path:
            return folder / f"{source.stem}-{hashlib.sha256(words + text_of(source)).hexdigest()[:16]}.o"

        while not (name := made()).exists():
            part = name.with_suffix(f".{os.getpid()}")  # another build may run
            run(*command, *flags(), *more, "-c", source, "-o", part)
            if made() == name:  # else a source has changed meanwhile
                part.replace(name)
        return name

    with kept, ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = []
        for level, processor in LEVELS[chosen.machine].items():
            of_level = [*processor_flags(command, *processor), f"-DLEVEL={level}"]
            for source in sorted(KERNELS.glob("*.cpp")):
                if source.name != "library.cpp":
                    objects.append(pool.submit(compiled, source, *of_level))
                    names.append(f"X({source.stem}_{level})")
        macros = [f"-DUNITS(X)={' '.join(names)}", f'-DBUILD="{identity(chosen)}"']
        objects.append(pool.submit(compiled, KERNELS / "library.cpp", *macros))
        # It needs no library, but on Windows the C library's entry and stack probes.
        alone = [] if "windows" in chosen.target else ["-nostdlib"]
        run(*command, "-shared", "-s", *alone, *(each.result() for each in objects), "-o", target)


def description(readme: str) -> str:
    """The text of a README without pictures of the repository and links into it."""
    shown = re.sub(r"^!\[[^\]]*\]\((?!\w+:)[^)]*\)\n\n(\*[^*]+\*\n\n)?", "", readme, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]+)\]\((?!\w+:)[^)]*\)", r"\1", shown)


def write_archive(path: Path, folder: Path, seconds: int) -> None:
    """Write a folder as a .tar.gz file in which everything is of one time, of no user, and in the order of names.

    Source of the variable SOURCE_DATE_EPOCH, whose `seconds` these are:
    https://reproducible-builds.org/specs/source-date-epoch/.
    """

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = seconds, 0, 0, "", ""
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=seconds) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        archive.add(folder, folder.name, filter=plain)


if __name__ == "__main__":
    from setuptools import Extension, setup
    from setuptools.command.bdist_wheel import bdist_wheel
    from setuptools.command.build_ext import build_ext
    from setuptools.command.sdist import sdist

    CHOSEN = this_platform()

    class BuildLibrary(build_ext):
        """Setuptools' command, which builds the library in place of an extension of Python's."""

        def get_ext_filename(self, fullname: str) -> str:
            """The file of the one extension, which is no module."""
            folder = fullname.rpartition(".")[0].replace(".", os.sep)
            return str(Path(folder, Path(library_of(CHOSEN)).name)) if CHOSEN else fullname

        def build_extension(self, ext: Extension) -> None:
            """Build the library, or take the one that there is."""
            target = Path(self.get_ext_fullpath(ext.name))
            if CHOSEN is None:
                self.warn(f"no native library for {sys.platform} on {platform.machine()}: the package works by NumPy")
                return
            try:
                if not is_up_to_date(CHOSEN):
                    build_library(CHOSEN, target)
                else:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(ROOT / library_of(CHOSEN), target)
            except (OSError, subprocess.CalledProcessError) as error:
                self.warn(f"the native library was not built: the package works by NumPy, far slower. {error}")

        def get_outputs(self) -> list[str]:
            """What has been built: nothing where the build failed."""
            return [path for path in super().get_outputs() if Path(path).exists()]

    class Wheel(bdist_wheel):
        """Setuptools' command: one wheel a platform for every Python, which the library does not depend on."""

        def get_tag(self) -> tuple[str, str, str]:
            """Any Python, no ABI of Python's, the platform."""
            return "py3", "none", CHOSEN.tag if CHOSEN else super().get_tag()[2]

    class Sdist(sdist):
        """Setuptools' command, whose archive depends on the files and on SOURCE_DATE_EPOCH alone, where it is set."""

        def make_archive(self, base_name: str, format: str, *rest: Any, **named: Any) -> str:  # noqa: A002
            """The path of the archive; the arguments are those of setuptools, which names the folder `base_dir`."""
            seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
            if format != "gztar" or not seconds:
                path: str = super().make_archive(base_name, format, *rest, **named)
                return path
            Path(base_name).parent.mkdir(parents=True, exist_ok=True)
            write_archive(Path(f"{base_name}.tar.gz"), Path(named["base_dir"]), int(seconds))
            return f"{base_name}.tar.gz"

    has_compiler = bool(os.environ.get("CXX")) or CHOSEN is None or is_up_to_date(CHOSEN)
    setup(
        long_description=description((ROOT / "README.md").read_text(encoding="utf-8")),
        long_description_content_type="text/markdown",
        ext_modules=[Extension("stridedgpu.devices.cpu.native.kernels", [], optional=True)],
        # What a front end installs for the build alone, and only where there is something to compile.
        setup_requires=[] if has_compiler else [ZIGLANG],
        cmdclass={"build_ext": BuildLibrary, "bdist_wheel": Wheel, "sdist": Sdist},
    )
