"""How many examples the generated tests draw: few and the same in every run by default, many new ones on request.

pytest -m hypothesis --hypothesis-profile=thorough

The profile `judging` is for tests that only have to fail, as mutants are judged: the same examples in every run, and
none made smaller.
"""

from __future__ import annotations

from hypothesis import Phase, settings

__all__ = ["examples", "register"]

_WHOLE = 100
"""What `max_examples` of a profile is measured by: Hypothesis's own default."""


def register() -> None:
    """Make the profiles known and load the quick one; the option `--hypothesis-profile` comes later and wins."""
    # A shared machine may stop for longer than any deadline; what a call may take is measured by benchmarks.
    settings.register_profile("quick", deadline=None, max_examples=_WHOLE // 10, derandomize=True, database=None)
    settings.register_profile("thorough", deadline=None, max_examples=_WHOLE)
    settings.register_profile(
        "judging",
        deadline=None,
        max_examples=_WHOLE // 2,
        derandomize=True,
        database=None,
        phases=(Phase.explicit, Phase.generate),
    )
    settings.load_profile("quick")


def examples(count: int) -> int:
    """What of `count` examples the profile in force draws: all of them when thorough."""
    return max(1, count * settings().max_examples // _WHOLE)
