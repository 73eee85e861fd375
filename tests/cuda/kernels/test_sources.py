"""The joined text of the CUDA sources."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from stridedgpu.devices.cuda import sources as kernel_sources
from stridedgpu.devices.cuda.sources import joined_source, source_names
from stridedgpu.values.errors import DeviceError

BREAKING = [
    path.stem for path in sorted(Path(__file__).parent.glob("test_*.py")) if "\nFAULTS = {" in path.read_text("utf-8")
]


def test_every_source_joins_without_includes():
    for name in source_names():
        assert "#include" not in joined_source(name)
        assert "#pragma once" not in joined_source(name)


def test_a_header_included_twice_is_there_once():
    text = joined_source("conversion.cuh", "vectors.cuh", "primitives.cuh")
    for name in ("conversion.cuh", "vectors.cuh", "primitives.cuh", "element_types.cuh"):
        assert text.count(f'#line 1 "{name}"') == 1


def test_a_header_comes_before_what_includes_it():
    text = joined_source("conversion.cuh")
    assert text.index("alignas(sizeof(T) * N) Vector") < text.index("struct Conversion")


def test_lines_keep_their_numbers():
    """A line of the joined text is the line that the last #line directive says it is."""
    name, number, checked = "", 0, 0
    for line in joined_source("conversion.cuh").splitlines():
        directive = re.match(r'#line (\d+) "(.*)"', line)
        if directive:
            number, name = int(directive[1]), directive[2]
            continue
        written = kernel_sources._sources()[name].read_text(encoding="utf-8").splitlines()[number - 1]
        assert line in (written, "")
        number += 1
        checked += 1
    assert checked > 100


def test_an_unknown_source_is_an_error_that_lists_what_there_is():
    with pytest.raises(DeviceError, match=r"'transpose\.cuh' is not among .*conversion\.cuh"):
        joined_source("transpose.cuh")


def test_missing_sources_are_an_error_that_says_where_they_were_looked_for(monkeypatch, tmp_path):
    monkeypatch.setattr(kernel_sources.importlib.resources, "files", lambda _: tmp_path / "stridedgpu")
    with pytest.raises(DeviceError, match=r"not installed; looked in .*stridedgpu/kernels and .*kernels"):
        source_names()


def test_no_line_of_a_source_is_longer_than_120_columns():
    for name in source_names():
        text = kernel_sources._sources()[name].read_text(encoding="utf-8")
        assert max(map(len, text.splitlines())) <= 120, name


@pytest.mark.parametrize("module", BREAKING)
def test_what_faults_replace_is_in_a_source(module):
    """The step `faults` runs seldom, and has no fault to make where a kernel has other words."""
    texts = [kernel_sources._sources()[name].read_text(encoding="utf-8") for name in source_names()]
    for name, fault in importlib.import_module(module).FAULTS.items():
        first = fault[0] if isinstance(fault, tuple) else fault
        right = getattr(first, "right", first)
        assert any(right in text for text in texts), name
