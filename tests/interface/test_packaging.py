"""What is shipped: the lists in pyproject.toml against the tree, and a wheel alone in a fresh environment."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import stridedgpu

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = (
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "stridedgpu",
    "kernels",
    "tests",
)
CUBINS = "stridedgpu/devices/cuda/cubins.zip"
KERNELS = sorted(path.relative_to(ROOT / "kernels").as_posix() for path in (ROOT / "kernels").glob("*/*.cu*"))

pytestmark = pytest.mark.skipif(
    not (ROOT / "pyproject.toml").is_file(), reason="these tests look at a checkout, and the tests lie outside one"
)


@pytest.fixture(scope="module")
def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_folder_of_code_is_a_listed_package(project):
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "stridedgpu").rglob("*.py")}
    packages = {".".join(folder.parts) for folder in folders} | {"stridedgpu.kernels"}
    assert set(project["tool"]["setuptools"]["packages"]) == packages


def test_kernels_lie_in_folders_of_sources_only():
    """CUDA's are installed as text; those of the CPU are compiled when the package is built."""
    files = [path.relative_to(ROOT / "kernels") for path in (ROOT / "kernels").rglob("*") if path.is_file()]
    assert {len(path.parts) for path in files} == {2}
    suffixes = {
        of_cpu: {path.suffix for path in files if (path.parts[0] == "cpu") == of_cpu} for of_cpu in (True, False)
    }
    assert suffixes == {True: {".cpp", ".hpp"}, False: {".cu", ".cuh"}}


def test_numpy_is_the_only_requirement(project):
    assert project["project"]["dependencies"] == ["numpy>=2.1"]


def test_the_changelog_and_the_version_agree():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == stridedgpu.__version__
    citation = ROOT / "CITATION.cff"
    assert not citation.exists() or f"version: {stridedgpu.__version__}\n" in citation.read_text(encoding="utf-8")


def test_the_description_for_an_index_has_no_link_into_the_repository():
    description = runpy.run_path(str(ROOT / "setup.py"))["description"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = description(readme)
    assert re.search(r"\]\(\w+/|\]\(\w+\.md", readme)
    assert not re.search(r"\]\((?!\w+:)|!\[", shown)
    assert shown.startswith("# stridedgpu\n\nstridedgpu turns")
    assert "The tutorial takes ten minutes." in shown
    assert description("[DLPack](https://example.org/x) stays") == "[DLPack](https://example.org/x) stays"


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copied(source: Path) -> Path:
    """What is shipped, in a folder of its own."""
    ignored = shutil.ignore_patterns("__pycache__")
    source.mkdir(exist_ok=True)
    for name in (*SHIPPED, "benchmarks", "conformance"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        elif (ROOT / name).is_file():
            shutil.copy2(ROOT / name, source / name)
    return source


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Iterator[Path]:
    """A folder with the sdist, and the wheel that was built from the sdist and from nothing else."""
    if find_spec("build") is None:
        pytest.skip("`build` makes the sdist and the wheel: pip install build")
    source = copied(tmp_path_factory.mktemp("source"))
    (source / CUBINS).write_bytes(b"what benchmarks/kernel_cubins.py writes before a release")
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", out, source, cwd=source)
    yield out
    shutil.rmtree(source)


PROGRAMS = sorted((Path(__file__).parent / "user_programs").glob("*.py"))
CHECKERS = {
    "mypy": ("mypy", "--strict", "--cache-dir", "cache", "--python-executable"),
    # Pyright with a Node.js of its own, which is what the wheel brings; strict is Pyright's own mode.
    "pyright": ("basedpyright", "--pythonpath"),
}


def fresh(folder: Path, *installed: object) -> Path:
    """The Python of a new environment."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", *installed, cwd=folder)
    return python


@pytest.fixture(scope="module", params=["editable", "wheel"])
def installed(request, built, tmp_path_factory) -> Path:
    """The Python of an environment with an installation of each kind."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "wheel":
        return fresh(folder / "venv", *built.glob("*.whl"))
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    return fresh(folder / "venv", "--editable", folder / sdist.name.removesuffix(".tar.gz"))


@pytest.mark.parametrize("program", PROGRAMS, ids=[path.stem for path in PROGRAMS])
def test_programs_of_users_run(program):
    runpy.run_path(str(program))


def test_there_are_a_dozen_programs():
    assert len(PROGRAMS) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS.values(), ids=CHECKERS.keys())
def test_type_checkers_see_the_installed_package(installed, checker, tmp_path):
    """Strict, on programs of users that lie elsewhere; an import that is not found is an error."""
    module, *options = checker
    if find_spec(module) is None:
        pytest.skip(f"{module} is the type checker: pip install --group style")
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}', encoding="utf-8")
    for program in PROGRAMS:
        shutil.copy2(program, tmp_path)
    run(sys.executable, "-m", module, *options, installed, ".", cwd=tmp_path)
    (tmp_path / "wrong.py").write_text(
        "import stridedgpu as sg\n\nsg.zeros(('4',), 'uint8', device=5)\n", encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-m", module, *options, str(installed), "wrong.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert "wrong.py" in done.stdout


def test_an_archive_of_files_is_the_same_bytes_whenever_and_by_whomever_it_is_made(tmp_path):
    write = runpy.run_path(str(ROOT / "setup.py"))["write_archive"]
    made = []
    for number, names in enumerate((("b", "a", "c"), ("c", "b", "a"))):
        folder = tmp_path / str(number) / "files"
        for name in names:
            path = folder / name / f"{name}.py"
            path.parent.mkdir(parents=True)
            path.write_text(name)
            path.chmod(0o640 + number)
            os.utime(path, (1000 + number, 2000 + number))
        (folder / "a" / "a.py").chmod(0o700)
        write(tmp_path / f"{number}.tar.gz", folder, 1_700_000_000)
        made.append((tmp_path / f"{number}.tar.gz").read_bytes())
    assert made[0] == made[1]
    with tarfile.open(tmp_path / "0.tar.gz") as archive:
        held = {entry.name: (entry.mtime, entry.uid, entry.uname, entry.mode) for entry in archive}
    assert held["files/a/a.py"] == (1_700_000_000, 0, "", 0o755)
    assert held["files/b/b.py"] == (1_700_000_000, 0, "", 0o644)


@pytest.mark.slow
def test_the_sdist_and_the_wheel_are_the_same_bytes_for_one_source_date_epoch(tmp_path, monkeypatch):
    if find_spec("build") is None:
        pytest.skip("`build` makes the sdist and the wheel: pip install build")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    made = []
    for number in range(2):
        source = copied(tmp_path / str(number))
        for path in source.rglob("*"):
            os.utime(path, (1000 + number, 2000 + number))
        out = tmp_path / f"dist{number}"
        run(sys.executable, "-m", "build", "--outdir", out, source, cwd=source)
        made.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert len(made[0]) == 2
    assert made[0] == made[1]


@pytest.mark.slow
def test_the_sdist_holds_what_its_tests_need(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "stridedgpu/py.typed"}
    wanted |= {f"kernels/{name}" for name in KERNELS} | {CUBINS}
    wanted |= {
        str(path.relative_to(ROOT))
        for folder in ("stridedgpu", "tests", "benchmarks", "conformance")
        for path in (ROOT / folder).rglob("*.*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".bin"  # a library that was built
    }
    assert wanted <= names, sorted(wanted - names)


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_the_kernels_and_nothing_else(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        metadata = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        stated = archive.read(metadata).decode()
    wanted = {f"stridedgpu/kernels/{name}" for name in KERNELS} | {"stridedgpu/py.typed", CUBINS}
    setup = runpy.run_path(str(ROOT / "setup.py"))
    if chosen := setup["this_platform"]():
        wanted.add(setup["library_of"](chosen))
    wanted |= {
        str(path.relative_to(ROOT)) for kind in ("*.py", "*.css", "*.js") for path in (ROOT / "stridedgpu").rglob(kind)
    }
    assert names == wanted
    assert f"Version: {stridedgpu.__version__}\n" in stated
    assert "License-Expression: MIT\n" in stated
    assert "Description-Content-Type: text/markdown\n" in stated
    assert stated.endswith(setup["description"]((ROOT / "README.md").read_text(encoding="utf-8")))


@pytest.mark.slow
def test_the_wheel_alone_runs_the_main_job(built, tmp_path):
    (wheel,) = built.glob("*.whl")
    python = fresh(tmp_path / "fresh", wheel)
    pixels = np.random.default_rng(3).integers(0, 256, (40, 48, 3), dtype=np.uint8)
    np.save(tmp_path / "frame.npy", pixels)

    command = python.with_name("stridedgpu")
    options = ("--size", "40x48", "--channels", "bgr", "--out", "o.npy")
    said = run(command, "preprocess", "frame.npy", *options, cwd=tmp_path)
    assert "wrote 'o.npy': 1 image\n" in said
    batch = np.load(tmp_path / "o.npy", allow_pickle=False)
    assert np.array_equal(batch, pixels[np.newaxis, ..., ::-1].transpose(0, 3, 1, 2).astype(np.float32))

    code = "from stridedgpu.devices.cuda.sources import source_names; print(*source_names())"
    assert run(python, "-c", code, cwd=tmp_path).split() == sorted(name.rpartition("/")[2] for name in KERNELS)
    assert f"stridedgpu {stridedgpu.__version__}," in run(command, "info", cwd=tmp_path)
