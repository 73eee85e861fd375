"""Mutants of the package's Python, drawn by a seed from those that the operators of cosmic-ray make.

A line is drawn first, then one place in it, then one of the operators that change this place: a sum, which has eleven
replacements, is drawn as often as a condition, which has one. What changes no result is left out: annotations, which no
module evaluates; `slots=` and `strict=`; what only type checkers read, as `@overload` and blocks of `TYPE_CHECKING`;
and identity in place of equality or the other way round, which are the same for the integers, enumerations and None
that are compared here.
"""

from __future__ import annotations

import functools
import pathlib
import random
import re
import subprocess
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .nearest_tests import nearest_tests
from .table import PROJECT, Mutant

__all__ = ["all_lines", "draw_mutants", "places", "touched_lines"]

_PACKAGE: Final = "stridedgpu/"

_LEFT_OUT: Final = re.compile(r"_(Eq_Is|NotEq_IsNot|Is_Eq|IsNot_NotEq)$")

_OF_NO_RESULT: Final = ("slots", "strict")

_CHANGED_HUNK: Final = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class Place:
    """Some text of a source, by its lines from 1, and the operators that change it, each with its number for it."""

    file: str
    first_line: int
    last_line: int
    changes: tuple[tuple[str, int], ...]


def touched_lines(commit: str, project: pathlib.Path = PROJECT) -> dict[str, set[int]]:
    """The lines of the package's modules that differ from those of a commit, by file.

    Raises:
        ValueError: there is no such commit here.
    """
    asked = ["git", "diff", "--unified=0", "--no-color", "--no-ext-diff", commit, "--", f"{_PACKAGE}*.py"]
    ended = subprocess.run(asked, cwd=project, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise ValueError(f"--since {commit}: {ended.stderr.strip()}")
    touched: dict[str, set[int]] = defaultdict(set)
    file = ""
    for line in ended.stdout.splitlines():
        if line.startswith("+++ "):
            file = line.removeprefix("+++ b/")
        elif hunk := _CHANGED_HUNK.match(line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            touched[file].update(range(first, first + count))
    return {file: lines for file, lines in touched.items() if lines}


def draw_mutants(count: int, seed: str, lines: Mapping[str, Collection[int]]) -> list[Mutant]:
    """Up to `count` mutants of lines, by file; a line has one at most."""
    drawing = random.Random(seed)
    shuffled = [(file, line) for file in sorted(lines) for line in sorted(lines[file])]
    drawing.shuffle(shuffled)
    places_of = functools.cache(lambda file: places(file, (PROJECT / file).read_text(encoding="utf-8")))
    mutants: dict[str, Mutant] = {}
    for file, line in shuffled:
        here = [place for place in places_of(file) if place.first_line <= line <= place.last_line]
        if here and len(mutants) < count:
            mutant = _mutant(place := drawing.choice(here), *drawing.choice(place.changes))
            if mutant is not None:
                mutants[mutant.name] = mutant
    return [*mutants.values()]


def places(file: str, source: str) -> list[Place]:
    """The places of a source that an operator changes, in order."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    operators = [(name, get_operator(name)) for name in operator_names() if not _LEFT_OUT.search(name)]
    nodes = list(ast_nodes(get_ast(source)))
    changes: dict[Any, list[tuple[str, int]]] = defaultdict(list)
    for name, operator in operators:
        if operator.arguments():  # names of variables, which nobody gives
            continue
        found = ((node, place) for node in nodes for place in operator().mutation_positions(node))
        for number, (node, (start, end)) in enumerate(found):
            if not _changes_nothing(node):
                changes[start, end].append((name, number))
    return [Place(file, start[0], end[0], tuple(changes[start, end])) for start, end in sorted(changes)]


def _changes_nothing(node: Any) -> bool:
    """Whether a node lies in an annotation, of a variable, a parameter or a result, or in what no result depends on."""
    if _is_for_type_checkers(node):
        return True
    while (parent := node.parent) is not None:
        if node is _annotation(parent):
            return True
        if parent.type == "decorated" and "@overload" in parent.children[0].get_code(include_prefix=False).split():
            return True
        if _is_for_type_checkers(parent) and node is parent.children[3]:  # if, condition, colon, block
            return True
        if parent.type == "argument" and parent.children[0].get_code(include_prefix=False) in _OF_NO_RESULT:
            return True
        node = parent
    return False


def _is_for_type_checkers(node: Any) -> bool:
    return node.type == "if_stmt" and node.children[1].get_code(include_prefix=False) == "TYPE_CHECKING"


def _annotation(node: Any) -> Any:
    """The annotation that is a child of a node, if it has one."""
    match node.type:
        case "annassign":  # of a variable: colon, annotation, and perhaps a value
            return node.children[1]
        case "tfpdef":  # of a parameter: name, colon, annotation
            return node.children[2]
        case "funcdef":
            return node.annotation
    return None


def _mutant(place: Place, operator: str, number: int) -> Mutant | None:
    """One mutant, named by its line and what this was and becomes; None where that is no Python, as `^mapping`."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = (PROJECT / place.file).read_text(encoding="utf-8")
    changed = mutate_code(source, get_operator(operator)(), number)
    try:
        compile(changed, place.file, "exec", dont_inherit=True)
    except SyntaxError:
        return None
    lines, changed_lines = source.splitlines(), changed.splitlines()
    was = lines[place.first_line - 1].strip()
    becomes = changed_lines[place.first_line - 1].strip() if len(lines) == len(changed_lines) else "nothing"
    return Mutant(
        area=place.file.removeprefix(_PACKAGE).rpartition("/")[0] or "stridedgpu",
        name=f"{place.file}:{place.first_line}: {was} as {becomes}",
        file=place.file,
        old=source,
        new=changed,
        tests=nearest_tests(place.file),
    )


def all_lines(within: Collection[str], project: pathlib.Path = PROJECT) -> dict[str, range]:
    """The lines of the modules whose path begins as one of `within` says."""
    asked = ["git", "ls-files", "--", f"{_PACKAGE}*.py"]
    listed = subprocess.run(asked, cwd=project, capture_output=True, text=True, check=True).stdout.splitlines()
    chosen = [file for file in listed if file.startswith(tuple(within))]
    return {file: range(1, 1 + len((project / file).read_text(encoding="utf-8").splitlines())) for file in chosen}
