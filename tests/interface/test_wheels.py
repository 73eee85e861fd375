"""A wheel for each platform, all built on this one: what is in it, and that it is the same bytes each time.

What ran is said in docs/promises.md: a wheel that is well formed has not run yet.
"""

from __future__ import annotations

import importlib
import os
import runpy
import shutil
import struct
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("linux-x86_64", "linux-aarch64", "darwin-x86_64", "darwin-aarch64", "win32-x86_64")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(not (ROOT / "setup.py").is_file(), reason="the tests lie outside a checkout"),
    pytest.mark.skipif(find_spec("ziglang") is None, reason="`ziglang` compiles for every platform"),
]


def kind_of(content):
    """The format and the architecture of a shared library."""
    if content[:4] == b"\x7fELF":
        return "ELF", {62: "x86_64", 183: "aarch64"}[struct.unpack_from("<H", content, 18)[0]]
    if content[:2] == b"MZ":
        (header,) = struct.unpack_from("<I", content, 0x3C)
        return "PE", {0x8664: "x86_64"}[struct.unpack_from("<H", content, header + 4)[0]]
    assert content[:4] == b"\xcf\xfa\xed\xfe"
    return "Mach-O", {0x01000007: "x86_64", 0x0100000C: "aarch64"}[struct.unpack_from("<I", content, 4)[0]]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The sources in a folder of their own, in which nothing has been built."""
    folder = tmp_path_factory.mktemp("source")
    ignored = shutil.ignore_patterns("__pycache__", "kernels-*.bin")
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "stridedgpu", "kernels"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy2(ROOT / name, folder / name)
    return folder


def wheel_of(source, name, target, out):
    """The wheel for a platform, compiled anew."""
    for built in ("build", "stridedgpu.egg-info"):
        shutil.rmtree(source / built, ignore_errors=True)
    zig = Path(importlib.import_module("ziglang").__file__).with_name("zig")
    chosen = {"CXX": f"{zig} c++ -target {target}", "STRIDEDGPU_PLATFORM": name}
    environment = {**os.environ, **chosen, "SOURCE_DATE_EPOCH": "1700000000"}
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*command, str(out), str(source)], check=True, env=environment, timeout=600)
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.mark.parametrize("name", NAMES)
def test_a_wheel_has_the_library_of_its_platform_and_is_the_same_each_time(source, tmp_path, name):
    chosen = runpy.run_path(str(ROOT / "setup.py"))["PLATFORMS"][name]
    wheel = wheel_of(source, name, chosen.target, tmp_path / "one")
    assert wheel.name.endswith(f"-py3-none-{chosen.tag}.whl")
    assert wheel.stat().st_size < 4 << 20
    with zipfile.ZipFile(wheel) as archive:
        (library,) = [each for each in archive.namelist() if each.endswith(".bin")]
        content = archive.read(library)
    assert library == f"stridedgpu/devices/cpu/native/kernels-{chosen.machine}.bin"
    system = {"linux": "ELF", "darwin": "Mach-O", "win32": "PE"}[name.partition("-")[0]]
    assert kind_of(content) == (system, chosen.machine)
    assert len(content) < 6 << 20
    if name == f"{sys.platform}-{chosen.machine}":
        assert wheel_of(source, name, chosen.target, tmp_path / "other").read_bytes() == wheel.read_bytes()


def test_every_platform_is_built(source):
    assert {*runpy.run_path(str(ROOT / "setup.py"))["PLATFORMS"]} == {*NAMES}
