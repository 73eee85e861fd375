"""`preprocess --engine ray --address` on a cluster of two nodes: the bits of one process, and what a kill leaves."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

import stridedgpu as sg
from stridedgpu.commands.preprocess import SKIPPED

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="worker processes are found as Linux tells of them"
    ),
]

COUNT, SHARDS = 150, 50
HANGS = 600
"""Seconds after which a process is taken to hang: no machine is as slow as that."""

RAY = Path(sys.executable).with_name("ray")
ENVIRONMENT = os.environ | {
    "PYTHONPATH": str(Path(sg.__file__).parents[1]),
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def processes_of(session):
    """The processes of a session, and what each is called."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(folder.name)) == session:
                found[int(folder.name)] = (folder / "cmdline").read_bytes().decode(errors="replace")
        except (ProcessLookupError, FileNotFoundError):
            continue  # it has ended meanwhile
    return found


class Node:
    """A node of the cluster, in a session of its own, which its end takes along."""

    def __init__(self, log, *arguments):
        """Return when it has joined."""
        command = [RAY, "start", "--block", "--num-cpus=1", "--object-store-memory=100000000", *arguments]
        with log.open("wb") as said:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                env=ENVIRONMENT,
                start_new_session=True,
                stdout=said,
                stderr=subprocess.STDOUT,
            )
        try:
            wait_for(lambda: "Ray runtime started" in log.read_text(encoding="utf-8"), self.process)
        except AssertionError:
            self.end()
            raise

    def workers(self):
        """The processes that make shards."""
        return [number for number, name in processes_of(self.process.pid).items() if "_shard_on_ray" in name]

    def end(self):
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        for number in processes_of(self.process.pid):
            os.kill(number, signal.SIGKILL)
        self.process.wait(20)


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("ray", reason="ray is what this test is about")
    address = f"127.0.0.1:{free_port()}"
    nodes = []
    # Not pytest's folder: the paths of sockets are short.
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        start, port = Path(folder), address.rpartition(":")[2]
        try:
            head = ("--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}")
            nodes.append(Node(start / "head.log", *head))
            nodes.append(Node(start / "second.log", f"--address={address}"))
            yield address, nodes
        finally:
            for node in reversed(nodes):
                node.end()


def wait_for(condition, process):
    """What `condition` finds, as soon as it finds anything; an error where the process ends before that."""
    found = condition()
    while not found:
        ended = process.poll() is not None
        found = condition()
        assert found or not ended, "the process ended, and it had not come about"
        time.sleep(0.005)
    return found


@contextmanager
def stopped(node, run):
    """A worker of the node, stopped in the middle of a shard: the run cannot end before the block does."""

    def caught():
        for number in node.workers():
            os.kill(number, signal.SIGSTOP)
            if number in node.workers():
                return number
            os.kill(number, signal.SIGCONT)  # its shard was finished meanwhile
        return None

    worker = wait_for(caught, run)
    try:
        yield worker
    finally:
        with suppress(ProcessLookupError):  # the block has ended it
            os.kill(worker, signal.SIGCONT)


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Pictures that take a while, and the shards that one process makes of them."""
    pil = pytest.importorskip("PIL.Image")
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "photos").mkdir()
    random = np.random.default_rng(3)
    for number in range(COUNT):
        pixels = random.integers(0, 256, (*random.integers(500, 800, 2), 3), dtype=np.uint8)
        pil.fromarray(pixels).save(folder / "photos" / f"{number:03}.jpg")
    (folder / "photos/broken.jpg").write_bytes(b"no picture")
    assert finished(command(folder, "one"))[1:] == (SKIPPED, "")
    return folder


def command(folder, out, *more):
    options = (
        "--shards",
        SHARDS,
        "--resize",
        600,
        "--passes",
        "horizontal",
        "--size",
        "64x80",
        "--random-crop",
        "--flip",
        "--device",
        "cpu",
    )
    arguments = ["preprocess", folder / "photos", *options, "--out", folder / out, *more]
    return subprocess.Popen(
        [sys.executable, "-m", "stridedgpu", *map(str, arguments)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(run):
    """What a command said, how it ended, and what it complained of."""
    said, complaint = run.communicate(timeout=HANGS)
    return said, run.returncode, complaint


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def records(folder):
    return list(folder.glob("shard-*.json"))


def test_a_cluster_of_two_nodes_finishes_though_a_worker_is_killed(cluster, photographs):
    address, nodes = cluster
    run = command(photographs, "cluster", "--engine", "ray", "--address", address)
    with stopped(nodes[0], run), stopped(nodes[1], run) as victim:
        os.kill(victim, signal.SIGKILL)
    said, *ended = finished(run)
    assert ended == [SKIPPED, ""]
    assert f"{COUNT}, {COUNT} of them in this run" in said
    assert "skipped  1 of" in said
    assert contents(photographs / "cluster") == contents(photographs / "one")


def test_a_run_that_is_killed_is_finished_by_the_next(cluster, photographs):
    address, nodes = cluster
    out = photographs / "killed"
    run = command(photographs, "killed", "--engine", "ray", "--address", address)
    with stopped(nodes[0], run):
        wait_for(lambda: records(out), run)
        run.kill()
        run.communicate(timeout=HANGS)
    for path in out.glob("shard-*.npy"):
        np.load(path)  # whole, whether or not it has a record
    begun = len(records(out))
    assert 0 < begun < SHARDS
    run = command(photographs, "killed", "--engine", "ray", "--address", address)
    said, *ended = finished(run)
    assert ended == [SKIPPED, ""]
    assert "written by this run" in said
    assert contents(out) == contents(photographs / "one")


def test_a_node_that_is_lost_leaves_its_shards_to_the_other(cluster, photographs):
    address, nodes = cluster
    run = command(photographs, "lost", "--engine", "ray", "--address", address)
    with stopped(nodes[0], run), stopped(nodes[1], run):
        nodes.pop().end()
    said, *ended = finished(run)
    assert ended == [SKIPPED, ""]
    assert f"{COUNT}, {COUNT} of them in this run" in said
    assert contents(photographs / "lost") == contents(photographs / "one")


def test_a_cluster_that_is_not_there_is_one_line(photographs):
    pytest.importorskip("ray", reason="ray is what this test is about")
    run = command(photographs, "nowhere", "--engine", "ray", "--address", f"127.0.0.1:{free_port()}")
    _, code, complaint = finished(run)
    assert code == 2
    assert complaint.startswith("stridedgpu: nothing answers at --address 127.0.0.1:")
    assert complaint.count("\n") == 1
