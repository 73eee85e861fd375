"""The notebook for a GPU of one's own: it has no outputs, calls what exists, and runs over the stand-in for CUDA."""

from __future__ import annotations

import ast
import json
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import on_a_gpu
from stridedgpu.devices.cuda.status import cuda_status

NOTEBOOK = Path(__file__).parent / "a_gpu_of_yours.ipynb"
STATUS = cuda_status()


def notebook():
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))


def code_cells():
    return ["".join(cell["source"]) for cell in notebook()["cells"] if cell["cell_type"] == "code"]


def test_nothing_has_been_run():
    for cell in notebook()["cells"]:
        assert cell.get("execution_count") is None
        assert not cell.get("outputs")


def test_it_is_a_notebook_of_the_current_format():
    held = notebook()
    assert (held["nbformat"], held["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in held["cells"]}) == len(held["cells"])


def test_modules_functions_and_stages_of_the_project_exist():
    tree = ast.parse("\n".join(code_cells()))
    modules = {"on_a_gpu": on_a_gpu}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                assert hasattr(import_module(node.module), alias.name), alias.name
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            assert callable(getattr(modules[node.value.id], node.attr))
    stages = {stage.name for stage in on_a_gpu.stages(Path(), 1)}
    words = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    only = [words[place + 1] for place, word in enumerate(words) if word == "--only"]
    assert [set(names.split(",")) <= stages for names in only] == [True, True]


def test_bits_are_compared_before_anything_is_timed():
    cells = code_cells()
    bits, timed = (next(place for place, cell in enumerate(cells) if name in cell) for name in ('"bits"', "kernels"))
    assert bits < timed
    assert "raise RuntimeError" in cells[bits]


@pytest.mark.gpu
@pytest.mark.skipif(STATUS.device_count == 0, reason=str(STATUS.reason))
def test_cells_run_after_the_installation_and_write_what_can_be_sent(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "tests")
    _, *cells = code_cells()
    text = "\n".join(cells)
    assert text.count("OPTIONS: list[str] = []") == 1
    text = text.replace("OPTIONS: list[str] = []", 'OPTIONS = ["--rehearse"]')
    run = compile(
        f"import sys\nfrom pathlib import Path\nROOT = Path({str(on_a_gpu.ROOT)!r})\n{text}", "notebook", "exec"
    )
    exec(run, {})
    summary = json.loads((tmp_path / "a_gpu_of_yours" / "summary.json").read_text(encoding="utf-8"))
    assert set(summary["figures"]) == {"bits", "calls", "kernels"}
    assert {each["result"] for each in summary["figures"]["bits"].values()} == {"equal"}
    assert summary["compared"].keys() == summary["figures"]["kernels"].keys()
    assert str(tmp_path) not in json.dumps(summary)
    assert "kernels in" in capsys.readouterr().out


def test_a_wrong_result_ends_the_notebook(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def differing(arguments):
        Path(arguments[0]).mkdir()
        (Path(arguments[0]) / "bits.log").write_text("train: different in 3 of 9 elements", encoding="utf-8")
        return 1

    monkeypatch.setattr(on_a_gpu, "main", differing)
    cell = next(cell for cell in code_cells() if '"bits"' in cell)
    with pytest.raises(RuntimeError, match="nothing is timed"):
        exec(f"import sys\nfrom pathlib import Path\nROOT = Path()\n{cell}", {})
    assert "train: different in 3 of 9 elements" in capsys.readouterr().out
