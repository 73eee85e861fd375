"""The tests that every kernel that moves tiles has to pass; a family's own file says with which relayouts.

class TestTranspose(TiledTests):
    source = "transpose.cu"
    family = Family.TRANSPOSE
    ...
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from stridedgpu.devices.cuda.relayout.choice import Family
from stridedgpu.devices.cuda.sources import joined_source

from . import machine_code
from .cases import drawn
from .chosen import few
from .marks import DEFAULT_ARCHITECTURE, emulated, inspected
from .planned import Case, check_cases
from .runner import EmulationError
from .tiled_cases import check_machine_code, relayouts

Cases = Callable[[], list[Case]]


@dataclasses.dataclass(frozen=True)
class Fault:
    """One line of a kernel changed for the worse."""

    right: str
    wrong: str

    def joined_source(self, *names: str) -> str:
        """The text for the compiler, with the fault in it."""
        text = joined_source(*names)
        assert text.count(self.right) == 1, f"{self.right!r} is there {text.count(self.right)} times"
        return text.replace(self.right, self.wrong)

    def check_is_caught(self, cases: Sequence[Case]) -> None:
        """Run relayouts on the broken kernel: bytes must be wrong, or the run stops."""
        texts = {one.launch.sources: self.joined_source(*one.launch.sources) for one in cases}
        with pytest.raises((AssertionError, EmulationError), match=r"(?s)\A(?!g\+\+ refused)"):
            check_cases(cases, source_of=lambda *names: texts[names])


class TiledTests:
    """Tests of one kernel, from real plans.

    Of the cases of each of the `tables`, at least the share `at_home` is carried out by the kernel itself, others by
    the neighbours that their plans name; of `random_layouts` layouts drawn, those of the family are run.
    """

    source: ClassVar[str]
    family: ClassVar[Family]
    tables: ClassVar[Mapping[str, Cases]]
    at_home: ClassVar[float]
    random_layouts: ClassVar[int]
    faults: ClassVar[Mapping[str, Fault]]

    def broken_cases(self) -> list[Case]:
        """Relayouts that show every one of the faults."""
        raise NotImplementedError

    def compiled_cases(self) -> list[Case]:
        """Relayouts of everyday types and sizes, all carried out by the kernel."""
        raise NotImplementedError

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """A test for each table and fault."""
        values: dict[str, Any] = {
            "table": self.tables,
            "fault": self.faults,
        }
        for name in values.keys() & set(metafunc.fixturenames):
            metafunc.parametrize(name, list(values[name]))

    @emulated
    def test_every_byte_of_a_few_kernels_is_right(self) -> None:
        cases = [one for table in self.tables.values() for one in table()]
        check_cases(few(one for one in cases if one.launch.sources == (self.source,)))

    @emulated
    @pytest.mark.slow
    def test_every_byte_is_right(self, table: str) -> None:
        cases = self.tables[table]()
        sources = Counter(one.launch.sources for one in cases)
        assert sources[self.source,] >= self.at_home * len(cases), sources
        check_cases(cases)

    @emulated
    @pytest.mark.slow
    @pytest.mark.parametrize("number", [2, pytest.param(3, marks=pytest.mark.sweep)])
    def test_layouts_at_random(self, number: int) -> None:
        check_cases(drawn(relayouts(), {self.family}, self.random_layouts, number))

    @emulated
    @pytest.mark.faults
    def test_a_broken_kernel_is_caught(self, fault: str) -> None:
        self.faults[fault].check_is_caught(self.broken_cases())

    @inspected
    @pytest.mark.slow
    @pytest.mark.parametrize("architecture", machine_code.ARCHITECTURES)
    def test_machine_code_has_the_widths_of_the_plan_and_no_spills(self, architecture: str) -> None:
        cases = self.compiled_cases()
        assert {one.launch.sources for one in cases} == {(self.source,)}
        # The architecture that plans are made for where there is no GPU has all of them, others a part.
        check_machine_code(cases if architecture == DEFAULT_ARCHITECTURE else [*cases[::4], cases[-1]], architecture)
