"""The conformance set: its values are those of the libraries that it names, and both readers find what is wrong."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest
from harness.cpu_paths import picking_by
from harness.native_loops import needs_library
from harness.torchvision_transforms import torchvision_transforms
from harness.transformers_processors import original

from conformance.__main__ import main
from conformance.cases import MOST_BYTES as MOST_KEPT, Entry, cases
from conformance.check import main as checked_by_python
from conformance.inputs import FORMULA, Input
from conformance.originals import write_originals
from conformance.writing import HERE, entries as every_entry, hashes, known_hashes, write_set
from stridedgpu.__main__ import main as command
from stridedgpu.values.interpolation import INTERPOLATIONS

ROOT = HERE.parent
KNOWN = known_hashes()
GROUPS = list(dict.fromkeys(".".join(name.split(".")[:2]) for name in KNOWN))
MOST_BYTES = 20_000_000

compiler = shutil.which("cc")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of the set."""
    folder = tmp_path_factory.mktemp("set")
    write_set(folder, every_entry())
    return folder


@pytest.fixture(scope="module")
def entries(whole):
    """The entries of the index by their names."""
    return {entry["name"]: entry for entry in json.loads((whole / "index.json").read_text())["entries"]}


def compiled(source, program):
    """A program of C99, without a warning."""
    if compiler is None:
        pytest.skip("a C compiler makes the reader, and there is none")
    strict = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1")
    subprocess.run([compiler, *strict, "-o", program, source, "-lm"], check=True, timeout=120)
    return program


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """The C reader."""
    return compiled(HERE / "check.c", tmp_path_factory.mktemp("reader") / "check")


@pytest.fixture
def checked(whole, reader, capsys):
    """A function: the lines about the results in a folder, on which both readers agree, and their exit code."""

    def lines_of(results):
        capsys.readouterr()
        code = checked_by_python(whole, results)
        said = capsys.readouterr().out
        done = subprocess.run([reader, whole, results], capture_output=True, text=True, timeout=120, check=False)
        assert (done.stdout, done.returncode) == (said, code)
        return said.splitlines(), code

    return lines_of


# ---- the values


@pytest.mark.parametrize("group", GROUPS)
def test_values_are_what_they_were(group, entries):
    names = [name for name in KNOWN if name.startswith(f"{group}.") or name == group]
    found = {name: entries[name].get("whole", entries[name])["sha256"] for name in names}
    assert found == {name: KNOWN[name] for name in names}


def test_hashes_are_of_every_entry(entries):
    assert list(entries) == list(KNOWN)


def test_numpy_alone_has_the_same_values():
    with picking_by("NumPy"):
        assert hashes() == KNOWN


@needs_library
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the level is one of x86-64")
def test_another_level_writes_the_same_files(whole, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "STRIDEDGPU_CPU": "x86-64-v3"}
    subprocess.run(
        [sys.executable, "-m", "conformance", tmp_path / "set"], env=environment, cwd=tmp_path, check=True, timeout=300
    )
    files = [path.relative_to(whole) for path in sorted(whole.rglob("*.*"))]
    assert [path.relative_to(tmp_path / "set") for path in sorted((tmp_path / "set").rglob("*.*"))] == files
    assert [path for path in files if (whole / path).read_bytes() != (tmp_path / "set" / path).read_bytes()] == []


def test_the_set_is_small(whole):
    assert sum(path.stat().st_size for path in whole.rglob("*.*")) < MOST_BYTES


@pytest.mark.parametrize("sizes", [(3, 64, 96), (5, 3, 448, 448), (1120, 1176), (210, 330)], ids=str)
def test_what_is_kept_of_a_large_result_is_of_every_row_and_column(sizes):
    entry = Entry("large", np.zeros(sizes, np.float32))
    assert entry.step > 1
    assert entry.kept.nbytes <= MOST_KEPT
    places = np.unravel_index(np.arange(0, entry.values.size, entry.step), sizes)
    assert [len(set(axis.tolist())) for axis in places] == list(sizes)


def test_large_results_say_what_is_kept(entries, whole):
    large = [entry for entry in entries.values() if "whole" in entry]
    lines = dict(line.split(" ", 1) for line in (whole / "index.txt").read_text().splitlines())
    assert list(lines) == list(entries)
    assert large
    for name, entry in entries.items():
        step = entry["whole"]["step"] if entry in large else 1
        assert lines[name].endswith(f" one value in {step}") == (step > 1)
        assert KNOWN[name] == (entry["whole"] if step > 1 else entry)["sha256"]


def test_the_set_tells_rules_apart():
    same = [
        (one, other)
        for one, other in itertools.combinations(INTERPOLATIONS, 2)
        if all(
            KNOWN[name] == KNOWN.get(name.replace(f".{one}.", f".{other}."), KNOWN[name])
            for name in KNOWN
            if name.startswith(f"resize.{one}.")
        )
    ]
    assert same == []


@pytest.mark.interop
@pytest.mark.parametrize("library", ["NumPy", "Pillow", "OpenCV", "torch", "torchvision", "transformers"])
def test_libraries_give_their_entries(library, whole, checked, tmp_path):
    if library == "OpenCV":
        pytest.importorskip("cv2")
    elif library == "torch":
        pytest.importorskip("torch")
    elif library == "torchvision":
        torchvision_transforms()
    elif library == "transformers":
        original("ViTImageProcessor", "torchvision")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        written = write_originals(whole, tmp_path, library)
    lines, _ = checked(tmp_path)
    # OpenCV's vectors round the cubic in another order.
    failed = [line for line in lines[:-1] if not line.startswith("FAIL resize.opencv-cubic.")]
    assert failed == []
    assert len(written) >= 3
    assert f" {len(KNOWN) - len(written)} without a result" in lines[-1]


@pytest.mark.parametrize("rule", INTERPOLATIONS)
def test_which_names_the_entries_of_a_rule(rule, entries, whole, capsys):
    entry = entries[f"resize.{rule}.uint8.shrunk"]
    command(["which", str(whole / f"inputs/{entry['inputs'][0]}.npy"), str(whole / entry["file"])])
    words, _, named = capsys.readouterr().out.splitlines()[-1].partition(": ")
    assert words == "in the conformance set"
    assert any(fnmatchcase(entry["name"], pattern) for pattern in named.split(", "))


# ---- the page and its formula


def test_the_formula_in_c_has_the_inputs(tmp_path):
    loops = (
        "#include <stdint.h>\n#include <stdio.h>\n" + FORMULA + "int main(void) { for (uint32_t y = 0; y < 35; y++) "
        "for (uint32_t x = 0; x < 50; x++) for (uint32_t c = 0; c < 4; c++) "
        'printf("%u\\n", (unsigned)sample(3, y, x, c)); }\n'
    )
    (tmp_path / "formula.c").write_text(loops)
    program = compiled(tmp_path / "formula.c", tmp_path / "formula")
    done = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60)
    wanted = Input((35, 50, 4), "uint16", seed=3).array().ravel()
    assert wanted.tolist() == [int(line) for line in done.stdout.split()]


def test_the_page_says_what_its_commands_do(tmp_path):
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    assert FORMULA in page
    if compiler is None:
        pytest.skip("a C compiler makes the page's programs, and there is none")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (port,) = (text for language, text in blocks if language == "c")
    (tmp_path / "port.c").write_text(port)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    commands = [
        line for language, text in blocks if language == "sh" or text.startswith("cc ") for line in text.splitlines()
    ]
    for line in commands:
        program, *rest = shlex.split(line)
        if program == "pip":
            continue
        done = subprocess.run(
            [{"python": sys.executable}.get(program, program), *rest],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        if program == "./check":
            failed = [text.splitlines()[0] for language, text in blocks if language == "text" and "FAIL" in text]
            assert done.stdout.splitlines()[:-1] == failed
            assert done.stdout.splitlines()[-1].startswith("1 passed, 1 failed, ")
        assert done.returncode == (1 if program == "./check" else 0), done.stderr


def test_headers_are_as_long_as_the_page_says(whole):
    for path in whole.rglob("*.npy"):
        array = np.load(path)
        assert path.stat().st_size == 128 + array.nbytes, path
        assert path.read_bytes()[128:] == array.tobytes()


def test_inputs_have_every_byte_in_every_channel():
    pixels = Input((61, 83, 3)).array()
    assert [len(np.unique(pixels[..., channel])) for channel in range(3)] == [256] * 3


# ---- the readers


def test_another_order_of_passes_fails_by_name(entries, checked, tmp_path):
    """An implementation with the order of Pillow 12 that is compared with Pillow 13."""
    for case in cases():
        if case.library == "Pillow" and case.arguments["interpolation"] not in ("pillow-nearest", "pillow-box"):
            arguments = {**case.arguments, "passes": "horizontal"}
            for entry in dataclasses.replace(case, arguments=arguments).entries():
                np.save(tmp_path / f"{entry.name}.npy", entry.values)
    lines, code = checked(tmp_path)
    wanted = [name for name in entries if (tmp_path / f"{name}.npy").is_file() and name.split(".")[2] == "pillow-13"]
    wanted += [name for name in entries if ".pillow-12.2." in name and "-box." not in name]
    assert len(wanted) > 10
    assert sorted(line.split()[1].rstrip(":") for line in lines[:-1]) == sorted(wanted)
    assert code == 1


BYTES, FLOATS = "resize.pillow-bilinear.uint8.shrunk", "normalise.divide.clip"


def changed(array, change):
    """An array with its second value replaced."""
    array = array.copy()
    array.flat[1] = change(array.flat[1])
    return array


RESULTS = {
    "the expected values": (BYTES, np.save, "1 passed, 0 failed"),
    "values alone": (BYTES, lambda file, array: array.tofile(file.with_suffix(".bin")), "1 passed, 0 failed"),
    "one bit": (
        BYTES,
        lambda file, array: np.save(file, changed(array, lambda byte: byte ^ 4)),
        "1 of 2304 values differ, by at most 4",
    ),
    "one level everywhere": (
        BYTES,
        lambda file, array: np.save(file, array ^ 1),
        "2304 of 2304 values differ, by at most 1",
    ),
    "NaN": (
        FLOATS,
        lambda file, array: np.save(file, changed(array, lambda _: np.nan)),
        "1 of 15189 values differ, by at most inf",
    ),
    "the last place": (
        FLOATS,
        lambda file, array: np.save(file, changed(array, lambda number: np.nextafter(number, np.float32(9)))),
        "1 of 15189 values differ, by at most",
    ),
    "no result": (FLOATS, lambda file, array: None, "0 passed, 0 failed"),
    "half a file": (
        BYTES,
        lambda file, array: file.write_bytes(array.tobytes()[:1000]),
        "its file does not hold 24x32x3 values of u1",
    ),
    "other values before": (
        BYTES,
        lambda file, array: file.write_bytes(b"\x93NUMPx" + bytes(100) + array.tobytes()),
        "its file does not hold 24x32x3 values of u1",
    ),
    "another type": (
        FLOATS,
        lambda file, array: np.save(file, array.astype(np.float16)),
        "its file does not hold 3x61x83 values of f4",
    ),
    "nothing": (BYTES, lambda file, array: file.write_bytes(b""), "its file does not hold 24x32x3 values of u1"),
}


@pytest.mark.parametrize("name, write, said", RESULTS.values(), ids=RESULTS)
def test_readers_say_what_is_wrong(name, write, said, entries, whole, checked, tmp_path):
    write(tmp_path / f"{name}.npy", np.load(whole / entries[name]["file"]))
    lines, code = checked(tmp_path)
    assert said in lines[0]
    assert (len(lines) == 1) == ("failed" in said)
    assert (len(lines) == 2) == lines[0].startswith(f"FAIL {name}: ")
    assert code == (0 if said.startswith("1 passed") else 1)


def test_whole_numbers_differ_by_their_distance(entries, whole, checked, tmp_path):
    name = "Qwen2VLImageProcessor.pil.image_grid_thw"
    np.save(tmp_path / f"{name}.npy", changed(np.load(whole / entries[name]["file"]), lambda number: -number))
    (line, _), _ = checked(tmp_path)
    wanted = 2 * np.load(whole / entries[name]["file"]).flat[1]
    assert line == f"FAIL {name}: 1 of 6 values differ, by at most {wanted}"


@pytest.mark.parametrize("damage", ["absent", "short", "other values"])
def test_a_damaged_set_is_no_set(damage, whole, reader, tmp_path, capsys):
    shutil.copytree(whole, tmp_path / "set")
    file = tmp_path / "set" / "expected" / f"{BYTES}.npy"
    content = file.read_bytes()
    file.unlink()
    if damage != "absent":
        file.write_bytes(content[:-1] if damage == "short" else content[:-1] + bytes([content[-1] ^ 1]))
    assert checked_by_python(tmp_path / "set", tmp_path) == 2
    assert f"{BYTES}.npy" in capsys.readouterr().err
    done = subprocess.run([reader, tmp_path / "set", tmp_path], capture_output=True, text=True, timeout=60, check=False)
    if damage != "other values":  # C compares no hashes
        assert done.returncode == 2
        assert f"{BYTES}.npy" in done.stderr


def test_a_line_that_is_none_is_not_the_end(reader, tmp_path):
    (tmp_path / "index.txt").write_text("no entry\n")
    done = subprocess.run([reader, tmp_path, tmp_path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == "check: the line of no in index.txt is none of an entry\n"


@pytest.mark.parametrize("arguments", [(), ("absent", "absent"), ("one", "two", "three")], ids=len)
def test_readers_refuse_in_one_line(arguments, reader, tmp_path):
    for program in ([reader], [sys.executable, HERE / "check.py"]):
        done = subprocess.run(
            [*program, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 2
        assert done.stderr.startswith("check: give the folder of the set")
        assert done.stderr.count("\n") == 1


# ---- the command


def test_a_part_is_written_and_compared_with_the_hashes(tmp_path, capsys, monkeypatch):
    assert main([str(tmp_path / "part"), "--only", "letterbox.*"]) == 0
    assert "3 entries" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "part").iterdir()} == {
        *("check.c", "check.py", "expected", "index.json", "index.txt", "inputs")
    }
    changed_hashes = {**KNOWN, "letterbox.opencv-linear.uint8.kept": "0"}
    del changed_hashes["letterbox.opencv-linear.uint8.shrunk"]
    monkeypatch.setattr("conformance.__main__.known_hashes", lambda: changed_hashes)
    assert main([str(tmp_path / "other"), "--only", "letterbox.*"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "conformance: letterbox.opencv-linear.uint8.shrunk is not in hashes.txt",
        "conformance: letterbox.opencv-linear.uint8.kept differs from hashes.txt",
    ]


@pytest.mark.parametrize(
    "arguments, said",
    [
        ((), "SET is missing, the folder to write"),
        (("{full}",), "is there already; SET is a new folder, or an empty one"),
        (("{new}", "--only", "nonsense"), "no entry is called 'nonsense'"),
        (("{new}", "--by", "Pillow"), "--by needs a SET that has been written, and --results"),
        (("{full}", "--by", "nobody"), "invalid choice: 'nobody'"),
    ],
)
def test_the_command_refuses_in_one_line(arguments, said, tmp_path, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    names = {"full": tmp_path / "full", "new": tmp_path / "new"}
    with pytest.raises(SystemExit) as leaving:
        main([argument.format(**names) for argument in arguments])
    assert leaving.value.code == 2
    problem = capsys.readouterr().err
    assert problem.startswith("conformance: ")
    assert said in problem
    assert problem.count("\n") == 1
    assert not Path(names["new"], "index.json").exists()
