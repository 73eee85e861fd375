"""Machine code that the package brings: which entry a kernel has, and what a damaged file does. No GPU, no compiler."""

from __future__ import annotations

import random
import zipfile

import pytest
from harness.emulator import machine_code

from stridedgpu.devices.cuda import cubins
from stridedgpu.devices.cuda.cubins import Cubin, entry_name, stored_cubin
from stridedgpu.devices.cuda.gpu import KNOWN_GPUS

SOURCE, NAME = "template <int n> __global__ void empty() {}", "empty<1>"
STORED = {
    architecture: Cubin(f"_Z5empty{architecture}", random.Random(architecture).randbytes(200))
    for architecture in (80, 90)
}


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file with the kernel for two architectures, in the place of the package's."""
    path = tmp_path / "cubins.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for architecture, cubin in STORED.items():
            archive.writestr(entry_name(SOURCE, NAME, architecture), cubin.packed())
    monkeypatch.setattr(cubins, "_archive", lambda: path)
    return path


@pytest.mark.parametrize(
    "capability,architecture",
    [
        (75, None),
        (80, 80),
        (86, 80),
        (87, None),
        (89, 80),
        (90, 90),
        (100, None),
        (103, None),
        (110, None),
        (120, None),
    ],
)
def test_a_gpu_has_the_code_of_its_major_version(file, capability, architecture):
    assert stored_cubin(SOURCE, NAME, capability) == STORED.get(architecture)


def test_every_known_gpu_but_the_oldest_and_tegras_has_an_architecture():
    capabilities = [capability for each in cubins.RUNS_ON.values() for capability in each]
    assert {gpu.compute_capability for gpu in KNOWN_GPUS.values()} - {*capabilities} == {75, 87}
    assert len(capabilities) == len({*capabilities})


def test_another_source_name_or_option_is_another_kernel(file, monkeypatch):
    assert stored_cubin(SOURCE + " ", NAME, 90) is None
    assert stored_cubin(SOURCE, "empty<2>", 90) is None
    assert stored_cubin(SOURCE + NAME[0], NAME[1:], 90) is None
    for options in ("OPTIONS", "CUPYS_OPTIONS"):
        with monkeypatch.context() as patch:
            patch.setattr(cubins, options, ("-std=c++17",))
            assert stored_cubin(SOURCE, NAME, 90) is None
    assert stored_cubin(SOURCE, NAME, 90) == STORED[90]


def test_the_options_are_those_that_machine_code_is_inspected_with():
    assert (*cubins.OPTIONS, *cubins.CUPYS_OPTIONS) == machine_code.OPTIONS


def test_without_a_file_there_is_no_code(file):
    file.unlink()
    assert stored_cubin(SOURCE, NAME, 90) is None
    file.mkdir()
    assert stored_cubin(SOURCE, NAME, 90) is None


def test_a_file_that_is_cut_anywhere_has_no_code(file):
    whole = file.read_bytes()
    for length in range(0, len(whole), 7):
        file.write_bytes(whole[:length])
        assert stored_cubin(SOURCE, NAME, 90) is None, length


def test_a_file_with_another_byte_anywhere_has_the_code_or_none(file):
    whole = file.read_bytes()
    found = 0
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        cubin = stored_cubin(SOURCE, NAME, 90)
        assert cubin in (None, STORED[90]), place
        found += cubin is not None
    assert 0 < found < len(whole) - 200, "bytes of the other entry do not matter, and no byte of this one may differ"


def test_a_file_that_names_another_method_of_compression_has_no_code(file):
    entry = entry_name(SOURCE, NAME, 90)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(entry, b"\0\0\5\0" + bytes([255]) * 200)  # properties that LZMA does not have
    parts, name = bytearray(file.read_bytes()), entry.encode()
    parts[parts.index(name) - 22] = parts[parts.rindex(name) - 36] = zipfile.ZIP_LZMA
    file.write_bytes(parts)
    assert stored_cubin(SOURCE, NAME, 90) is None


def test_a_file_that_is_replaced_is_read_anew(file):
    assert stored_cubin(SOURCE, NAME, 90) is not None
    file.write_bytes(b"")
    assert stored_cubin(SOURCE, NAME, 90) is None
