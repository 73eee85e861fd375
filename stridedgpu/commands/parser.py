"""The parser of a command: errors in one line that name the nearest option, and a short help beside the whole one."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, Final, NoReturn

from .console import one_line

REFUSED: Final = 2
"""The exit code of arguments or input that a command does not take."""

_LIKELY: Final = 0.6
"""The least similarity, as difflib counts it, of an option that may have been meant."""

_NUMBER: Final = re.compile(r"-\.?\d")


class CommandParser(argparse.ArgumentParser):
    """A parser of arguments that reports an error in one line, without the usage that argparse prints first.

    `short` has the options that --help describes, and `examples` command lines under them; --help-all then has all.
    """

    def __init__(self, *, short: Sequence[str] = (), examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self._short, self._examples = short, examples
        self._given: Sequence[str] = ()
        if short:
            self.add_argument("--help-all", action=_HelpAll, nargs=0, help="show all options and exit")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The arguments as a namespace; what is not known is an error here, where the nearest option is known."""
        self._given = list(sys.argv[1:] if args is None else args)
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Print `message` on stderr and exit with code 2; an option that does not exist explains any other error."""
        unknown = next(self._unknown_options(), None)
        if unknown is not None:
            message = f"there is no option {unknown}; {self._nearest(unknown)}"
        elif message.endswith(": expected one argument"):
            message += "; a value that begins with a minus is given as --name=-1"
        self.exit(REFUSED, f"{self.prog}: {one_line(message)}\n")

    def format_help(self) -> str:
        """The options that most people need, or all of a command that has few."""
        if not self._short:
            return self.format_full_help()
        names = {*self._short, "--help", "--help-all"}
        chosen = [one for one in self._actions if not one.option_strings or names.intersection(one.option_strings)]
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, chosen, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        formatter.start_section("options")
        formatter.add_arguments(chosen)
        formatter.end_section()
        return "\n  ".join((f"{formatter.format_help()}\nexamples:", *self._examples)) + "\n"

    def format_full_help(self) -> str:
        """Every option."""
        return super().format_help()

    def _unknown_options(self) -> Iterator[str]:
        """The given options that this parser does not have; those of a command are its own parser's."""
        given = takewhile(lambda word: word != "--", self._given)
        if self._subparsers is not None:
            given = takewhile(lambda word: word.startswith("-"), given)
        for word in given:
            name = word.partition("=")[0]
            is_option = len(name) > 1 and name.startswith("-") and " " not in name and not _NUMBER.match(name)
            if is_option and name not in self._option_string_actions:
                yield name

    def _nearest(self, unknown: str) -> str:
        from difflib import get_close_matches

        names = [name.removeprefix("--") for name in self._option_string_actions if name.startswith("--")]
        meant = unknown.strip("-").replace("_", "-").lower()
        near = [name for name in names if name.startswith(meant)] or get_close_matches(meant, names, 1, _LIKELY)
        every = "--help-all" if self._short else "--help"
        return f"the nearest is --{near[0]}" if near else f"{every} lists the options"


class _HelpAll(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        assert isinstance(parser, CommandParser)
        sys.stdout.write(parser.format_full_help())
        parser.exit()
