"""The command `stridedgpu info`: the version, the devices, and the libraries that are installed."""

from __future__ import annotations

import argparse
import platform
from importlib import metadata
from typing import Any, Final

from stridedgpu import __version__
from stridedgpu.devices.interface import DeviceInfo
from stridedgpu.devices.selection import devices

from .console import print_table

_LIBRARIES: Final = {
    "numpy": "numpy",
    "pillow": "stridedgpu[cli]",
    "scikit-image": "stridedgpu[demo]",
    "ml_dtypes": "stridedgpu[ml-dtypes]",
    "cupy-cuda12x": "stridedgpu[cuda12]",
    "cupy-cuda13x": "stridedgpu[cuda13]",
}


def add_info(commands: argparse._SubParsersAction[Any]) -> None:
    """The parser of `info`."""
    info = commands.add_parser("info", help="print the version, the devices and the libraries")
    info.set_defaults(run=_run_info)


def _run_info(_chosen: argparse.Namespace) -> None:
    """Print the version, the usable devices, why the others are unusable, and which libraries are installed."""
    print(f"stridedgpu {__version__}, Python {platform.python_version()}, {platform.platform()}")
    print("devices")
    print_table([(device.name, _usability(device)) for device in devices()])
    print("libraries")
    print_table([(name, _version_of(name, extra)) for name, extra in _LIBRARIES.items()])


def _usability(device: DeviceInfo) -> str:
    if not device.available:
        return f"not available: {device.reason}"
    return f"{device.description}: {device.reason}" if device.reason else device.description


def _version_of(library: str, extra: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return f'not installed: pip install "{extra}"'
