"""Layers: each package imports from itself and from the layers below, and there are no import cycles.

CONTRIBUTING.md draws the layers. The tests read source text; they import nothing of the package.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "stridedgpu"

DRAWING = re.search(
    r"^```text\n(.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
)[1]
LAYERS = {
    package: int(layer)
    for layer, packages in re.findall(r"^ (\d)  ((?:\w+ )+)", DRAWING, re.MULTILINE)
    for package in packages.split()
}
MOST_AT_THE_TOP = 8
PUBLIC_PACKAGE = "stridedgpu.preprocess"
"""The package whose `__init__` has a public name; those of all others are empty."""


def name_of(path: Path) -> str:
    """The dotted name of a module or package."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def package_of(module: str) -> str:
    """The package of a module below `stridedgpu`, or the module's own name at the top."""
    return [*module.split("."), "__init__"][1]


def statements(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """All imports of a module, those for type checkers only left out: they order nothing."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        yield from statements(node)


def imports_of(module: str) -> set[str]:
    """The modules of the package that a module imports, anywhere in its text."""
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = set()
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "stridedgpu"}
            continue
        above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        if base.split(".")[0] == "stridedgpu":
            found |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base for alias in node.names}
    return found - {module}


@functools.cache
def imports() -> dict[str, set[str]]:
    """What each module imports."""
    return {module: imports_of(module) for module in MODULES}


def test_every_package_has_a_layer():
    assert {package_of(module) for module in MODULES} == set(LAYERS)


def test_imports_go_down():
    climbs = [
        f"{module} (layer {LAYERS[package_of(module)]}) imports {other} (layer {LAYERS[package_of(other)]})"
        for module, others in imports().items()
        for other in sorted(others)
        if LAYERS[package_of(other)] > LAYERS[package_of(module)]
    ]
    assert not climbs, "\n".join(climbs)


def test_packages_of_one_layer_do_not_import_each_other():
    beside = [
        f"{module} imports {other}"
        for module, others in imports().items()
        for other in sorted(others)
        if package_of(other) != package_of(module)
        and LAYERS[package_of(other)] == LAYERS[package_of(module)]
        and package_of(module) not in ("preprocess", "adapters", "__init__", "commands")
    ]
    assert not beside, "\n".join(beside)


def test_there_are_no_circles():
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_nothing_below_the_command_line_imports_the_package_itself():
    through = [
        f"{module} imports {other}"
        for module, others in imports().items()
        for other in sorted(others)
        if MODULES[other].name == "__init__.py" and package_of(module) not in ("__main__", "commands")
    ]
    assert not through, "\n".join(through)


def test_only_the_public_package_has_names_in_its_init():
    filled = []
    for module, path in MODULES.items():
        if path.name == "__init__.py" and module not in ("stridedgpu", PUBLIC_PACKAGE):
            body = ast.parse(path.read_text(encoding="utf-8")).body
            if len(body) > 1:
                filled.append(module)
    assert not filled


def test_the_top_has_few_modules():
    there = [path.name for path in PACKAGE.glob("*.py")] + [path.parent.name for path in PACKAGE.glob("*/__init__.py")]
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_AT_THE_TOP, there


def test_only_the_runtime_and_the_status_import_cupy():
    pattern = re.compile(r"^\s*(?:import|from) cupy", re.MULTILINE)
    found = {module for module, path in MODULES.items() if pattern.search(path.read_text(encoding="utf-8"))}
    allowed = ("stridedgpu.devices.cuda.runtime.", "stridedgpu.devices.cuda.status")
    assert {module for module in found if not module.startswith(allowed)} == set()


def test_cuda_plans_and_launches_are_pure():
    """Plans and launches of a GPU are values: they import no device, so they are tested where there is none."""
    impure = [
        f"{module} imports {other}"
        for module, others in imports().items()
        for other in sorted(others)
        if module.startswith("stridedgpu.devices.cuda.")
        and not module.startswith("stridedgpu.devices.cuda.runtime")
        and other.startswith(("stridedgpu.devices.cuda.runtime", "stridedgpu.devices.cpu"))
    ]
    assert not impure, "\n".join(impure)


def test_no_file_asks_who_made_the_processor():
    """Kernels and thresholds follow what a processor has: another make with the same instruction sets gets the same."""
    names = "|".join(("Authentic" + "AMD", "Genuine" + "Intel", "is" + "_amd", "is" + "_intel", "vendor" + "_id"))
    folders = (PACKAGE, ROOT / "tests")
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in SOURCES]
    assert len(files) > len(MODULES)
    found = {str(path.relative_to(ROOT)) for path in files if re.search(names, path.read_text(encoding="utf-8"))}
    assert not found


SOURCES = {".py", ".md", ".toml", ".txt", ".cu", ".cuh", ".hpp", ".cpp", ".h"}
