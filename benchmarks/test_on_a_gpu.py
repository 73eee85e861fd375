"""What is measured on a GPU, predicted and summed up, as far as it needs none."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile

import numpy as np
import pytest
from harness.emulator import machine_code
from harness.emulator.marks import inspected
from harness.torchvision_transforms import torchvision_transforms

from benchmarks import kernels_alone, on_a_gpu, predictions, products_rate
from benchmarks.kernels_alone import COUNTED, PEER_WAYS, SAMPLES, SWEEP, Sets, figures_of, ids, with_shares
from benchmarks.suite.records import FEWEST_SAMPLES
from benchmarks.suite.resizes import RESIZES, ResizeWork
from benchmarks.suite.workloads import WORKLOADS, workloads_named
from stridedgpu.devices.cuda.sources import joined_source


def kernel(microseconds, nbytes=1000):
    """The figures of a kernel whose samples lie a twentieth around a time."""
    samples = [microseconds * (1 + step / 80) for step in range(-4, 5)]
    return figures_of(samples, Sets([], nbytes, "flat"), "")


# ---- predictions


def test_every_work_that_is_measured_is_predicted():
    works = predictions.predicted("h200")["works"]
    assert list(works) == ids()
    assert works["copy"]["of_copy"] == 1
    assert 0.1 < works["500x375 bicubic"]["of_copy"] < works["train"]["of_copy"] <= 1
    assert list(predictions.predicted("b200")["works"]) == ids()
    assert "embed-64B-int32, deferred" in works
    assert not [name for name in works if name.startswith(("pad", "tiny"))]


def test_a_miss_is_the_measured_share_divided_by_the_predicted_one():
    prediction = {"gpu": "h200", "date": "2026-01-01", "works": {}}
    for name, share in {"copy": 1.0, "close": 0.5, "slower": 0.9, "faster": 0.2, "not measured": 0.7}.items():
        prediction["works"][name] = {"of_copy": share, "microseconds": 2.0, "limit": "memory"}
    times = {"copy": 10.0, "close": 21.0, "slower": 20.0, "faster": 20.0, "copy, torch": 30.0}
    measured = with_shares({name: kernel(microseconds) for name, microseconds in times.items()})
    rows = predictions.compared(prediction, measured)
    assert list(rows) == ["copy", "close", "slower", "faster"]
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "copy": "as predicted",
        "close": "as predicted",
        "slower": "slower",
        "faster": "faster",
    }
    assert rows["slower"]["miss"] == pytest.approx(0.5 / 0.9)
    text = predictions.table(prediction, rows)
    assert "Predicted for h200 on 2026-01-01" in text
    assert "| faster | 2.0 | 20.0 | 0.20 | 0.50 (0.46 to 0.54) | 2.50 | memory | faster |" in text


def test_a_prediction_is_written_once_and_before_the_measurement(tmp_path, capsys):
    assert on_a_gpu.main([str(tmp_path), "--predict", "--only", "none"]) == 0
    written = json.loads((tmp_path / "predictions.json").read_text(encoding="utf-8"))
    assert (written["gpu"], list(written["works"])) == ("h200", ids())
    assert on_a_gpu.main([str(tmp_path), "--predict", "b200", "--only", "none"]) == 0
    assert json.loads((tmp_path / "predictions.json").read_text(encoding="utf-8")) == written
    figures = with_shares({"copy": kernel(500.0), "train": kernel(40.0, 60)})
    (tmp_path / "kernels.figures.json").write_text(json.dumps(figures), encoding="utf-8")
    capsys.readouterr()
    assert on_a_gpu.main([str(tmp_path), "--only", "none"]) == 0
    assert "| train | 28.0 | 40.0 | 0.97 | 0.75 (0.70 to 0.81) | 0.77 | memory | slower |" in capsys.readouterr().out
    (tmp_path / "predictions.json").unlink()
    with pytest.raises(SystemExit, match="--predict writes what is predicted before they are"):
        on_a_gpu.main([str(tmp_path), "--predict"])


# ---- figures


def test_samples_are_kept_and_their_interval_leaves_two_out():
    figures = kernel(8.0)
    assert len(figures["samples"]) == SAMPLES >= FEWEST_SAMPLES
    assert figures["interval"] == (figures["samples"][1], figures["samples"][-2])
    assert figures["terabytes_a_second"] == pytest.approx(1000 / 8e-6 / 1e12)


def test_a_share_lies_between_those_of_the_ends_of_both_intervals():
    shares = with_shares({"copy": kernel(10.0), "half": kernel(40.0, 2000)})
    assert shares["half"]["of_copy"] == pytest.approx(0.5)
    low, high = shares["half"]["of_copy_interval"]
    assert low == pytest.approx(0.5 * (1 - 3 / 80) / (1 + 3 / 80))
    assert high == pytest.approx(0.5 * (1 + 3 / 80) / (1 - 3 / 80))
    assert with_shares({"half": kernel(1.0)}) == {"half": kernel(1.0)}


def test_a_table_says_who_is_faster():
    figures = kernel(8.0)
    figures["beside"] = {"torch": kernels_alone.beside([8.0] * 9, [16.0] * 9)}
    assert "torch 2.00x, faster" in kernels_alone.table({"500x375 bilinear": figures})


def test_chosen_works_exist():
    assert set(COUNTED) <= {workload.name for workload in WORKLOADS} | set(RESIZES)
    assert workloads_named(on_a_gpu.COMPARED)
    known = kernels_alone.policy()
    for part, knob in SWEEP:
        assert hasattr(getattr(known, part), knob)
    for name in on_a_gpu.REHEARSED.split(","):
        assert ids((name,))


@pytest.mark.interop
@pytest.mark.parametrize("way", PEER_WAYS)
def test_peers_resize_as_this_library_does_but_for_their_rounding(way):
    library = way.removeprefix(", ")
    pytest.importorskip("torch")
    torchvision_transforms()
    work = ResizeWork("pillow-bilinear", (37, 50), (24, 32))
    images, target = work.tensors(2, "cpu")
    work.plan(images, target)(images, target)
    theirs = work.peers[library](images)()
    assert tuple(theirs.shape) == target.sizes
    # Values of 0 to 255 are divided by some 58.
    assert np.abs(theirs.numpy().astype(np.float32) - target.numpy().astype(np.float32)).max() < 1.5 / 57


@inspected
@pytest.mark.slow
def test_the_loop_of_products_has_little_but_products():
    name = f"sg::products<{products_rate.CHAINS}>"
    source = joined_source("matrix_products.cuh") + products_rate.KERNEL
    code = machine_code.disassembled(source, [name], "sm_90")[name]
    products = code.text.count("IMMA.16832")
    assert products >= products_rate.CHAINS
    assert code.stack_bytes == 0
    assert code.text.count(" ;") < 60 + 2 * products


# ---- stages


def test_the_summary_has_the_stages_of_earlier_runs_and_one_file_has_everything(tmp_path, capsys):
    folder = tmp_path / "R"
    folder.mkdir()
    earlier = {"result": "succeeded", "seconds": 1, "command": ["python"]}
    (folder / "calls.json").write_text(json.dumps(earlier), encoding="utf-8")
    assert on_a_gpu.main([str(folder), "--only", "slow", "--rehearse"]) == 0
    assert "slow: left out of a rehearsal" in capsys.readouterr().out
    summed = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert {name: made["result"] for name, made in summed["stages"].items()} == {
        "slow": "left out of a rehearsal",
        "calls": "succeeded",
    }
    with tarfile.open(tmp_path / "R.tar.gz") as archive:
        assert {"R/summary.json", "R/calls.json"} <= set(archive.getnames())


def test_a_result_names_no_folder(tmp_path):
    stage = on_a_gpu.Stage("one", 20, (), None)
    command = (sys.executable, "-c", "print('done')", str(tmp_path / "figures.json"))
    made = on_a_gpu.run(stage, command, tmp_path, 20)
    assert made["result"] == "succeeded"
    assert made["command"] == ["python", "-c", "print('done')", "DIR/figures.json"]


@pytest.mark.slow
@pytest.mark.parametrize("selection, least", [(on_a_gpu.MOVED, 60), (on_a_gpu.EXCHANGING, 30)])
def test_the_sanitizers_have_tests_of_each_family_and_not_hundreds(selection, least):
    options = ("-q", "-p", "no:cacheprovider", "-m", "gpu and not slow", "--collect-only", "-k", selection)
    command = (sys.executable, "-m", "pytest", *options, *on_a_gpu.SANITIZED)
    printed = subprocess.run(command, cwd=on_a_gpu.ROOT, capture_output=True, text=True, check=True).stdout
    tests = [line for line in printed.splitlines() if "::" in line]
    assert least <= len(tests) <= least + 30
    for family in ("bulk_copies", "resize", "transpose", "NCHW of 3"):
        assert any(family in test for test in tests), family
    assert not [test for test in tests if "beyond" in test or "memory" in test]
