"""`python -m benchmarks`: what it measures is checked first, what it prints and writes is what it measured."""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import json
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import stridedgpu as sg
from benchmarks.__main__ import main
from benchmarks.suite import chart, measure, table
from benchmarks.suite.clocks import CudaClock, HostClock
from benchmarks.suite.facts import facts_of
from benchmarks.suite.measure import Bench, _written, check_result
from benchmarks.suite.peers import registry
from benchmarks.suite.peers.numpy_peer import NumpyPeer
from benchmarks.suite.records import (
    DEVICE_COPY,
    OURS,
    OWN_COPY,
    Record,
    Results,
    Timing,
    median_interval,
    read_results,
    results_text,
    verdict,
)
from benchmarks.suite.work import make_work
from benchmarks.suite.workloads import CURVE_BYTES, CURVES, WORKLOADS, curve_of, workloads_named
from stridedgpu.values.errors import StridedGpuError


def record(name="train", ours=2e-3, measures="speed", **peers):
    times = {OURS: ours, **peers, OWN_COPY: 1e-3, DEVICE_COPY: 1.5e-3}
    timings = {who: Timing(seconds, seconds / 2, 9, "equal") for who, seconds in times.items()}
    kernel = "channels_uint8x16B_float16x16B"
    return Record(name, "photographs", kernel, (1, 3, 8, 8), 4_000_000, measures, timings, {"cv2": "has no float16"})


def results(*records, curves=()):
    device = {"name": "Some CPU", "kind": "cpu", "threads": 2, "loops": "native"}
    versions = {"stridedgpu": "0.1.0", "numpy": "2.0"}
    made = {"device": device, "scale": "quick", "versions": versions, "commit": "abc", "date": "2026-01-01"}
    return Results(made, tuple(records), tuple(curves))


def run(*arguments):
    """The exit code of the command."""
    try:
        return main([*arguments])
    except SystemExit as leaving:
        return leaving.code


@pytest.fixture
def on_the_cpu(monkeypatch):
    """Tiny sizes, and no time to speak of."""
    monkeypatch.setenv("STRIDEDGPU_DEVICE", "cpu")
    small = tuple(dataclasses.replace(one, sizes=dict.fromkeys(one.sizes, one.sizes["test"])) for one in WORKLOADS)
    monkeypatch.setattr("benchmarks.suite.workloads.WORKLOADS", small)
    monkeypatch.setattr("benchmarks.__main__._SECONDS", dict.fromkeys(("gpu", "cpu", "quick", "test"), 0))
    monkeypatch.setattr(measure, "_ROUND_SECONDS", 1e-6)


# ---- the command


def test_quick_prints_a_table_and_writes_json(on_the_cpu, tmp_path, capsys):
    options = ("--quick", "--against", "numpy", "--only", "train,transpose-1B,embed-64B-int32,tiny-plan")
    assert run(*options, "--out", str(tmp_path)) == 0
    printed, said = capsys.readouterr()
    assert "no GPU is measured" in said
    for name in ("train", "transpose-1B", "embed-64B-int32", "tiny-plan", "of own copy", "best peer"):
        assert name in printed
    (path,) = tmp_path.glob("*.json")
    held = read_results(path)
    assert [one.workload for one in held.workloads] == ["train", "transpose-1B", "embed-64B-int32", "tiny-plan"]
    assert all(one.timings[OURS].result == "equal" for one in held.workloads)
    assert all(len(timing.samples) == timing.rounds >= 6 for one in held.workloads for timing in one.timings.values())
    assert set(held.workloads[0].timings) == {OURS, "numpy", OWN_COPY, DEVICE_COPY}
    assert held.provenance["versions"]["numpy"] == np.__version__
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", held.provenance["date"])
    assert set(held.provenance) == {"device", "scale", "system", "versions", "commit", "date"}
    assert set(held.provenance["device"]) == {"name", "kind", "threads", "loops", "load_average"}
    assert str(Path.cwd()) not in path.read_text(encoding="utf-8")
    drawn = list(tmp_path.glob("*.png"))
    if importlib.util.find_spec("matplotlib"):
        assert drawn[0].read_bytes().startswith(b"\x89PNG")
    else:
        assert not drawn
        assert "needs matplotlib" in said


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("--only", "nonsense"), "there is no workload 'nonsense'; there are copy, "),
        (("--against", "nonsense"), "'nonsense' is no peer; there are numpy, torch, "),
        (("--out", "absent"), "'absent' is no folder"),
        (("--device", "tpu"), "device='tpu' is unknown"),
        (("--qui",), "there is no option --qui; the nearest is --quick"),
    ],
)
def test_refusals_are_one_line(on_the_cpu, arguments, said, capsys):
    assert run(*arguments) == 2
    printed, problem = capsys.readouterr()
    assert not printed
    assert problem.splitlines()[-1].startswith("benchmarks: ")
    assert said in problem.splitlines()[-1]


def test_a_peer_that_was_asked_for_and_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == "cv2" else name)
    with pytest.raises(StridedGpuError, match="cv2 cannot be compared with: not installed"):
        registry.installed_peers("cpu", ("numpy", "cv2"))
    found, absent = registry.installed_peers("cpu", ("numpy", "cupy"))
    assert [peer.name for peer in found] == ["numpy"]
    assert absent == {"cupy": "not for the CPU"}


# ---- measuring


def test_a_wrong_result_of_ours_is_never_timed(monkeypatch):
    monkeypatch.setattr(measure, "our_call", lambda work: lambda: work.target)
    with pytest.raises(StridedGpuError, match="train: the result is different in"):
        Bench("cpu", [], "test", 0).record(workloads_named(("train",))[0])


def test_a_peer_that_fails_is_left_out_and_the_others_are_timed():
    class Broken(NumpyPeer):
        name = "broken"

        def call(self, work):
            raise RuntimeError("no compiler\nlooked everywhere")

    made = Bench("cpu", [Broken(), NumpyPeer()], "test", 0).record(workloads_named(("planes",))[0])
    assert made.absent == {"broken": "failed: RuntimeError: no compiler"}
    assert "numpy" in made.timings


@pytest.mark.slow
@pytest.mark.interop
def test_pytorch_compiles_every_workload():
    torch = pytest.importorskip("torch")
    from torch._dynamo.utils import counters

    from benchmarks.suite.peers.torch_peer import CompiledTorchPeer

    peer = CompiledTorchPeer("cpu")
    peer._compiled = lambda function: torch.compile(function, dynamic=False, backend="eager")
    before = counters["stats"]["unique_graphs"]
    for name in ("copy", "planes", "pixels", *(f"transpose-{width}B" for width in (1, 2, 4, 8)), "broadcast", "window"):
        call = peer.call(make_work(workloads_named((name,))[0], "test", "cpu"))
        call()
    assert counters["stats"]["unique_graphs"] - before == 9, "and none of them run as it is"


def test_pytorch_without_cuda_is_not_timed_on_a_gpu():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this PyTorch has CUDA")
    _, absent = registry.installed_peers("cuda:0", ("torch", "torch.compile"))
    assert absent == dict.fromkeys(("torch", "torch.compile"), "this PyTorch has no device 'cuda'")


def test_a_peer_whose_result_is_wrong_is_left_out_and_named():
    class Idle(NumpyPeer):
        name = "idle"

        def call(self, work):
            return lambda: None

    made = Bench("cpu", [Idle(), NumpyPeer()], "test", 0).record(workloads_named(("planes",))[0])
    assert "idle" not in made.timings
    assert made.absent["idle"].startswith("its result is different in")
    assert made.timings["numpy"].result == "equal"


def test_results_are_compared_to_the_bit_or_to_a_rounding():
    exact = np.linspace(0, 1, 50, dtype=np.float32)
    assert check_result(exact, exact.copy()) == "equal"
    assert check_result(np.nextafter(exact, np.float32(2)), exact) == "close"
    assert check_result(exact + np.float32(0.01), exact).startswith("different in 50 of 50")
    assert check_result(exact.astype(np.float64), exact).startswith("different: float64")
    assert check_result(np.array([1, 2]), np.array([1, 3])).startswith("different in 1 of 2")


@pytest.mark.parametrize("name", ["train", "video", "odd-pitches", "window", "subsample", "rotate", "transpose-8B"])
def test_bytes_are_counted_once_each_way(name):
    (workload,) = workloads_named((name,))
    work = make_work(workload, "test", "cpu")
    plan = sg.plan_relayout(work.source, work.target, scale=workload.scale, bias=workload.bias)
    assert work.bytes_moved == plan.bytes_moved


def test_repeated_elements_are_read_once_and_fillers_are_written():
    padded, broadcast = (make_work(one, "test", "cpu") for one in workloads_named(("broadcast", "pad-to-4")))
    assert broadcast.bytes_moved == 8 * 4 + 2 * 8 * 7 * 8 * 4
    assert padded.bytes_moved == 16 * 16 * (3 + 4)


@pytest.mark.parametrize("name", CURVES)
def test_curves_move_about_the_bytes_that_they_say(name):
    (workload,) = workloads_named((name,))
    for nbytes in CURVE_BYTES["cpu"][1:-3]:
        moved = make_work(curve_of(workload, nbytes), "cpu", "cpu").bytes_moved
        assert nbytes / 2 < moved <= nbytes * 1.01, (nbytes, moved)


def test_the_host_clock_takes_turns():
    done = []
    seconds = HostClock("cpu").seconds([lambda: done.append("a"), lambda: done.append("b")], 5)
    assert done == ["a", "b", "a", "b", "a"]
    assert seconds > 0


def test_the_cuda_clock_delays_the_device_until_the_host_is_ahead(monkeypatch):
    """The delay is too short once, and twice as long then: what was queued behind the short one is not counted."""
    log, was_done = [], [True, False]

    class Device:
        def __init__(self, number):
            self.number = number

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    class Event:
        def record(self):
            log.append("record")

        def synchronize(self):
            log.append("wait")

        @property
        def done(self):
            return was_done.pop(0)

    cuda = types.SimpleNamespace(Device=Device, Event=Event, get_elapsed_time=lambda _begin, _end: 6.0)
    filler = types.SimpleNamespace(fill=lambda _: log.append("delay"))
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(cuda=cuda, empty=lambda *_: filler))
    seconds = CudaClock(0).seconds([lambda: log.append("a"), lambda: log.append("b")], 3)
    assert seconds == pytest.approx(2e-3)
    queued = ["record", "a", "b", "a", "record"]
    short = log.index("record")
    assert log == ["delay"] * short + queued + ["delay"] * 2 * short + queued + ["wait"]


# ---- whether it is decided


@pytest.mark.parametrize(
    "count, left_out",
    # Tables of the sign test: the lower critical values of n tosses at 5 %, two-sided.
    [(6, 0), (7, 0), (8, 0), (9, 1), (11, 1), (12, 2), (15, 3), (17, 4), (20, 5), (25, 7), (41, 13)],
)
def test_the_interval_of_the_median_leaves_out_as_many_samples_as_the_sign_test(count, left_out):
    shuffled = np.random.default_rng(count).permutation(count).tolist()
    assert median_interval(shuffled) == (left_out, count - 1 - left_out)


def test_the_interval_encloses_the_median_in_nineteen_of_twenty_draws():
    draws = np.random.default_rng(5).exponential(size=(2000, 9)).tolist()
    enclosed = sum(low <= np.log(2) <= high for low, high in map(median_interval, draws))
    assert 0.95 <= enclosed / 2000 < 0.98, "exactly 1 - 20 / 512"


def test_few_samples_have_no_interval():
    with pytest.raises(ValueError, match="5 samples have no interval of the median; 6 are needed"):
        median_interval([1.0] * 5)


def test_two_are_undecided_where_their_intervals_meet():
    ours, higher = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [7.0, 8.0, 9.0, 10.0, 11.0, 12.0]
    assert (verdict(ours, higher), verdict(higher, ours)) == ("faster", "slower")
    assert verdict(ours, [6.0, *higher[1:]]) == verdict([6.0, *higher[1:]], ours) == "undecided"


def with_samples(one, **samples):
    timings = {
        who: dataclasses.replace(timing, samples=tuple(samples[who])) if who in samples else timing
        for who, timing in one.timings.items()
    }
    return dataclasses.replace(one, timings=timings)


def test_a_peer_within_the_noise_is_neither_faster_nor_slower():
    spread = [1e-3 * factor for factor in (0.9, 0.95, 1, 1.05, 1.1, 1.2)]
    ours = {OURS: [2 * sample for sample in spread]}
    near = with_samples(record("near", numpy=1.9e-3), numpy=[1.9 * sample for sample in spread], **ours)
    far = with_samples(record("far", numpy=1e-3), numpy=spread, **ours)
    ahead = with_samples(record("ahead", numpy=4e-3), numpy=[4 * sample for sample in spread], **ours)
    assert [one.verdict for one in (near, far, ahead, record())] == ["undecided", "slower", "faster", None]
    held = results(near, far, ahead)
    assert [row[0] for row in table.slower_rows(held.workloads)] == ["far"]
    assert table.table_text(held, 120).endswith("Undecided, since the intervals of the medians overlap: near.\n")


# ---- what is said of it


def test_json_says_it_all_again(tmp_path):
    held = results(with_samples(record(numpy=3e-3), numpy=[3e-3, 4e-3]), curves=[record(torch=1e-3)])
    path = tmp_path / "r.json"
    path.write_text(results_text(held), encoding="utf-8")
    assert read_results(path) == held


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 99}', '{"format": 1, "provenance": {}, "workloads": [1]}']
)
def test_other_files_are_refused_in_a_sentence(tmp_path, text):
    path = tmp_path / "r.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(StridedGpuError, match=r"r\.json"):
        read_results(path)


def test_a_row_says_time_speed_shares_and_the_best_peer():
    row = table.row_of(record(numpy=8e-3, torch=5e-3))
    assert row == ("train", "channels", "2 ms", "2.0", "50%", "75%", "torch 5 ms", "2.50x")
    assert table.row_of(record("tiny-plan", 1e-6, "call", numpy=2e-6))[3:6] == ("-", "-", "-")
    assert table.row_of(record())[-2:] == ("-", "-")


def test_a_peer_that_is_faster_is_shown_as_such():
    held = results(record("a", numpy=1e-3), record("b", numpy=4e-3), record("c", torch=0.5e-3))
    assert table.slower_rows(held.workloads) == [
        ("c", "2 ms", "torch", "500 µs", "4.00x"),
        ("a", "2 ms", "numpy", "1 ms", "2.00x"),
    ]
    assert "Where a peer is faster (2 of 3 workloads)" in table.table_text(held, 120)


def test_the_table_is_plain_where_rich_is_not(monkeypatch):
    monkeypatch.setattr(table, "find_spec", lambda _: None)
    lines = table.table_text(results(record(numpy=3e-3)), 120).splitlines()
    assert lines[0] == "Some CPU, 2 threads, native loops"
    assert lines[3].split("  ")[0] == "workload"
    assert lines[4].startswith("train     ")
    assert lines[4].endswith("1.50x")


@pytest.mark.parametrize(
    "seconds, text", [(2.5, "2.5 s"), (0.9996, "1000 ms"), (1.234e-3, "1.23 ms"), (5e-6, "5 µs"), (3e-7, "300 ns")]
)
def test_times_have_three_figures(seconds, text):
    assert table.time_text(seconds) == text


def test_the_chart_is_a_picture():
    pytest.importorskip("matplotlib")
    curve = [dataclasses.replace(record("copy", numpy=3e-3), bytes_moved=1 << power) for power in (12, 20, 28)]
    file = io.BytesIO()
    chart.draw_chart(results(record(numpy=1e-3, torch=4e-3), record("b", 1e-4, cv2=1e-3), curves=curve), file)
    assert file.getvalue().startswith(b"\x89PNG")
    file = io.BytesIO()
    chart.draw_chart(results(record()), file)
    assert file.getvalue().startswith(b"\x89PNG")


def test_the_chart_shows_every_bar_and_its_words_lie_inside(monkeypatch):
    pytest.importorskip("matplotlib")
    drawn = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, *_, **__: drawn.append(figure))
    curve = [dataclasses.replace(record("copy", numpy=3e-3), bytes_moved=1 << power) for power in (12, 20, 28)]
    chart.draw_chart(results(record(numpy=1e-3), record("b", 1e-4, cv2=1e-3), curves=curve), io.BytesIO())
    (figure,) = drawn
    bars, *panels = figure.axes
    lowest, highest = sorted(bars.get_ylim())
    assert lowest < -0.31, "the upper bar is 0.62 high"
    assert highest > 1.31
    assert [*panels[-1].get_xticks()] == [2**12, 2**16, 2**20, 2**24, 2**28]
    assert [text.get_text() for text in figure.texts if not 0 < text.get_position()[1] < 1] == []


def test_without_matplotlib_the_chart_is_refused(monkeypatch):
    monkeypatch.setattr(chart, "find_spec", lambda _: None)
    with pytest.raises(StridedGpuError, match=r"stridedgpu\[plot\]"):
        chart.check_plotting()


# ---- facts


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_facts_are_json_and_the_same_each_time(workload):
    facts = facts_of(workload)
    assert json.loads(json.dumps(facts)) == facts == facts_of(workload)
    assert facts["launches"]
    assert all(launch["grid"][0] >= 1 for launch in facts["launches"])


def test_what_is_copied_lies_in_pages_of_its_own():
    """The system gives memory of zeros one page in common until it is written: reading it measures no memory."""
    assert _written(100_000, "cpu").numpy().all()
