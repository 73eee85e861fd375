"""A stretch of the calls that `harness.random_calls` draws by number, on every execution of the CPU."""

from __future__ import annotations

import pytest
from harness.cpu_paths import cpu_paths
from harness.random_calls import drawn_call, main, run_block


@cpu_paths
def test_a_stretch_of_drawn_calls_has_numpys_bits_and_touches_nothing_else(path):
    assert [(number, wrong) for number, _, wrong in run_block(range(60), path) if wrong] == []


def test_a_call_is_the_same_whenever_it_is_drawn():
    for number in range(20):
        once, again = drawn_call(number), drawn_call(number)
        assert (once.name, once.sizes, once.dtype) == (again.name, again.sizes, again.dtype)
        assert once.expected.tobytes() == again.expected.tobytes()


def test_a_wrong_byte_ends_the_command_with_the_calls_number(monkeypatch, capsys):
    drawn = drawn_call(3)
    drawn.expected.reshape(-1).view("uint8")[0] ^= 1
    monkeypatch.setattr("harness.random_calls.drawn_call", lambda number: drawn)
    assert main(["--first", "3", "--calls", "1"]) == 1
    assert "call 3, " in capsys.readouterr().out


@pytest.mark.sweep
def test_a_hundred_thousand_drawn_calls(capsys):
    assert main(["--calls", "100000"]) == 0
    assert "every byte equal" in capsys.readouterr().out
