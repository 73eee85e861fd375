"""The folder of emulated kernels, which are run: another's, a link, and one that others may write are refused."""

from __future__ import annotations

import os

import pytest
from harness.emulator.cache import cache_directory

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners on this system")

CHANGES = {
    "others may write": lambda folder: folder.chmod(0o777),
    "the group may write": lambda folder: folder.chmod(0o770),
    "another's": lambda folder: os.chown(folder, 12345, -1),
    "a link": lambda folder: (folder.rename(folder.with_name("real")), folder.symlink_to("real")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_programs_that_another_user_could_have_written_are_not_run(tmp_path, monkeypatch, change):
    monkeypatch.setenv("STRIDEDGPU_EMULATION_CACHE", str(tmp_path / "cache"))
    folder = cache_directory()
    assert folder.stat().st_mode & 0o777 == 0o700
    try:
        change(folder)
    except PermissionError:
        pytest.skip("only root gives files away")
    with pytest.raises(PermissionError, match="programs would be run from it"):
        cache_directory()
