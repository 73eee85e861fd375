"""A file of labels: on each line the name of an image and its label, between them a tab, a comma or blanks.

A name is that of the image in the folder. Labels are integers from 0; where one is a word, all are, and their numbers
are the places of the words in order. A first line that names no image is a heading.

>>> Labels.of_lines("labels.csv", ["file,animal", "b/2.png,dog", '"a, 1.png",cat']).numbers
{'b/2.png': 1, 'a, 1.png': 0}
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path, PurePath
from typing import Final, Self

from stridedgpu.preprocess.files import SUFFIXES, FileError, opened_file

_SUFFIXES: Final = {*SUFFIXES, ".npy"}
"""What the names of images end in."""

_DIGITS: Final = 18
"""The most digits of a label that is a number: shards hold labels as integers of 64 bits."""

_SHOWN_LETTERS: Final = 200


@dataclass(frozen=True)
class Labels:
    """The number of each image by its name, and the words that the numbers stand for, if there are any."""

    file: str
    numbers: dict[str, int]
    classes: list[str]

    @classmethod
    def read(cls, path: Path) -> Self:
        """The labels in a file. Raises `FileError` where a line is not an image with a label, and `OSError`."""
        with opened_file(path, "labels") as file, TextIOWrapper(file, "utf-8-sig", "surrogateescape") as lines:
            try:
                return cls.of_lines(str(path), lines)
            except csv.Error as problem:
                raise FileError(f"{str(path)!r} is not a file of labels: {problem}.") from None

    @classmethod
    def of_lines(cls, file: str, lines: Iterable[str]) -> Self:
        """The labels on these lines of a file."""
        words: dict[str, str] = {}
        for number, (name, *fields) in _entries(lines):
            if number == 1 and PurePath(name).suffix.lower() not in _SUFFIXES:
                continue
            if len(fields) != 1 or not name or not fields[0]:
                shown = str([name, *fields])[:_SHOWN_LETTERS]
                raise FileError(f"line {number} of {file!r} has {shown}, which is not an image's name and one label.")
            if words.setdefault(name, fields[0]) != fields[0]:
                raise FileError(f"line {number} of {file!r} gives {name!r} a second label, {fields[0]!r}.")
        if all(word.isascii() and word.isdigit() and len(word) <= _DIGITS for word in words.values()):
            return cls(file, {name: int(word) for name, word in words.items()}, [])
        classes = sorted(set(words.values()))
        places = {word: place for place, word in enumerate(classes)}
        return cls(file, {name: places[word] for name, word in words.items()}, classes)

    def of(self, name: str) -> int:
        """The label of an image. Raises `FileError` if it has none."""
        if name not in self.numbers:
            other = next(iter(self.numbers), None)
            names = f"as it has for {other!r}" if other else "which has none"
            raise FileError(f"there is no label for {name!r} in {self.file!r}, {names}.")
        return self.numbers[name]


def _entries(lines: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """The fields of each line that is not empty, and its number. The first line says what is between them."""
    between = ""
    for number, line in enumerate(lines, 1):
        text = line.strip("\r\n")
        if not text.strip():
            continue
        between = between or next((mark for mark in "\t," if mark in text), " ")
        fields = text.rsplit(None, 1) if between == " " else next(csv.reader([text], delimiter=between))
        yield number, [one.strip() for one in fields]
