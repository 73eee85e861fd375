"""A stretch of the calls that `harness.random_calls` draws by number, on every execution of the CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
from harness.cpu_paths import cpu_paths
from harness.drawn_calls import CALLS_OF_A_KIND, CALLS_OF_A_PLACEMENT, CALLS_OF_A_SHAPE, Side, drawn_call
from harness.random_calls import BLOCK, main, run_block

STRETCH = [
    kind * CALLS_OF_A_KIND + shape * CALLS_OF_A_SHAPE + call
    for kind in range(28)
    for shape in (0, 1)
    for call in (0, 1)
]
"""Two calls of each of two shapes of some kinds: the second call has the placement and the plan of the first."""


@cpu_paths
def test_a_stretch_of_drawn_calls_has_numpys_bits_and_touches_nothing_else(path):
    calls = [(number, drawn_call(number)) for number in STRETCH]
    assert [(number, wrong) for number, _, wrong in run_block(calls, path) if wrong] == []


def test_a_call_is_the_same_whenever_it_is_drawn():
    numbers = STRETCH[:20]
    made = [drawn_call(number) for number in numbers]
    for number, once in zip(reversed(numbers), reversed(made), strict=True):
        again = drawn_call(number)
        assert (once.name, once.out.layout, once.out.dtype) == (again.name, again.out.layout, again.out.dtype)
        assert once.wanted.tobytes() == again.wanted.tobytes()


def test_calls_of_a_shape_have_its_layouts_and_bytes_of_their_own():
    first, second, other = (drawn_call(number) for number in (0, CALLS_OF_A_PLACEMENT, CALLS_OF_A_SHAPE))
    assert (first.name, first.out.layout) == (second.name, second.out.layout)
    assert first.wanted.tobytes() != second.wanted.tobytes()
    assert (first.name, first.out.dtype) == (other.name, other.out.dtype)
    assert first.out.layout != other.out.layout


def test_calls_of_a_placement_lie_at_like_addresses():
    first, second, others = drawn_call(0), drawn_call(1), [drawn_call(n * CALLS_OF_A_PLACEMENT) for n in (1, 2, 3)]

    def place(call):
        sides = [each for each in (*call.sources, call.out) if isinstance(each, Side)]
        return call.allocates, [(side.start_bytes, side.nbytes) for side in sides]

    assert place(first) == place(second)
    assert any(place(other) != place(first) for other in others)


def test_a_wrong_byte_ends_the_command_with_the_calls_number(monkeypatch, capsys):
    drawn = replace(drawn_call(3), allocates=False)
    drawn.wanted[0] ^= 1
    monkeypatch.setattr("harness.random_calls.drawn_call", lambda number: drawn)
    assert main(["--first", "3", "--calls", "1"]) == 1
    assert "call 3 of the block range(3, 4), " in capsys.readouterr().out


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(8))
def test_a_million_drawn_calls(part, capsys):
    calls = 62 * BLOCK
    assert main(["--first", str(part * calls), "--calls", str(calls)]) == 0
    assert f"{calls} drawn calls: every byte equal" in capsys.readouterr().out
