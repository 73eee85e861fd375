"""The tables in benchmarks/README.md are those of the results."""

from __future__ import annotations

import json

import pytest
from readme_table import RESULTS, measured, pages

from benchmarks.suite.workloads import CURVES, WORKLOADS

FILES = sorted(RESULTS.glob("*.json"))


def test_the_pages_show_the_results():
    for page, text in pages().items():
        assert page.read_text(encoding="utf-8") == text, f"{page.name}: python benchmarks/readme_table.py --write"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_results_have_every_workload_and_say_where_from(path):
    results = measured()[path.stem]
    assert {record.workload for record in results.workloads} == {workload.name for workload in WORKLOADS}
    assert {record.workload for record in results.curves} == set(CURVES)
    made = results.provenance
    assert made["device"]["name"]
    assert made["commit"]
    assert made["date"]
    assert made["versions"]["numpy"]
    assert path.with_suffix(".png").is_file()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_results_name_no_folder(path):
    def texts(value):
        if isinstance(value, dict):
            for key, entry in value.items():
                yield key
                yield from texts(entry)
        elif isinstance(value, list):
            for entry in value:
                yield from texts(entry)
        elif isinstance(value, str):
            yield value

    assert not [
        text for text in texts(json.loads(path.read_text(encoding="utf-8"))) if text.startswith("/") or "/home" in text
    ]


def test_there_are_results():
    assert FILES
