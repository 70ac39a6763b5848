"""The wheels of aidre for every platform, compiled on one machine by zig, and what is wrong with a wheel's kernel.

The kernel has the stable ABI of Python 3.11, so that a platform needs one wheel.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.commands.distributions import platform_of

KERNEL: Final = "aidre/engine/native/kernel.abi3.so"
TARGETS: Final[Mapping[str, str]] = {
    "linux_x86_64": "x86_64-linux-gnu.2.17",
    "linux_aarch64": "aarch64-linux-gnu.2.17",
    "macosx_11_0_x86_64": "x86_64-macos.11.0",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
}
"""What zig calls the platforms of the wheels; the C library is the oldest that the kernel's functions are in."""
ZIG: Final = (sys.executable, "-m", "ziglang", "cc")
PLATFORMS: Final = tuple(platform_of(f"aidre-1-cp311-abi3-{name}.whl") for name in TARGETS)

_ELF_MACHINES: Final = {62: "linux_x86_64", 183: "linux_aarch64"}
_MACH_MAGIC: Final = 0xFEEDFACF
_MACH_MACHINES: Final = {0x01000007: "macosx_x86_64", 0x0100000C: "macosx_arm64"}
_MACH_HEADER_BYTES: Final = 32
_CODE_SIGNATURE: Final = 0x1D


def cross_compiled(sources: Path, platform: str, folder: Path, zig: Sequence[str] = ZIG) -> Path:
    """The wheel of a source archive or folder for one of TARGETS; what runs on Linux has no `manylinux` tag yet."""
    compiler = f"{' '.join(zig)} -target {TARGETS[platform]}"
    link = " -Wl,-undefined,dynamic_lookup" if platform.startswith("macosx") else ""
    with tempfile.TemporaryDirectory() as settings:
        # a folder of its own: setuptools takes up what it compiled before, for whatever machine that was
        own = f"[build]\nbuild_base = {settings}/build\n[bdist_wheel]\nplat_name = {platform}\n"
        (Path(settings) / "own.cfg").write_text(own, encoding="utf-8")
        changed = {
            "CC": compiler,
            "LDSHARED": f"{compiler} -shared -s{link}",
            "DIST_EXTRA_CONFIG": f"{settings}/own.cfg",
        }
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "wheel", "--no-cache-dir"]
        words = [*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(sources)]
        subprocess.run(words, env=os.environ | changed, check=True)
    [wheel] = (path for path in folder.glob("*.whl") if path.stem.endswith(f"-{platform}"))
    return wheel


def kernel_faults(wheel: Path) -> Iterator[str]:
    """Why the kernel of a wheel would not load where its name says it does."""
    with zipfile.ZipFile(wheel) as archive:
        if KERNEL not in archive.namelist():
            yield f"{wheel.name} has no C kernel: it was not compiled, searches would use FAISS and numpy"
            return
        binary = archive.read(KERNEL)
    machine, wanted = machine_of(binary), platform_of(wheel.name)
    if machine != wanted:
        yield f"{wheel.name} has a kernel for {machine or 'an unknown machine'}, not for {wanted}"
    elif machine == "macosx_arm64" and not _is_signed(binary):
        yield f"{wheel.name} has a kernel without a signature: macOS ends processes that load it"


def machine_of(binary: bytes) -> str | None:
    """The platform of a shared library by its first bytes; None for what is none of ours."""
    if binary[:4] == b"\x7fELF" and len(binary) > 20:
        return _ELF_MACHINES.get(struct.unpack_from("<H", binary, 18)[0])
    if len(binary) > _MACH_HEADER_BYTES and struct.unpack_from("<I", binary)[0] == _MACH_MAGIC:
        return _MACH_MACHINES.get(struct.unpack_from("<I", binary, 4)[0])
    return None


def _is_signed(binary: bytes) -> bool:
    """Whether one of the load commands of Mach-O is a signature, of whomever."""
    place = _MACH_HEADER_BYTES
    for _ in range(struct.unpack_from("<I", binary, 16)[0]):
        command, size = struct.unpack_from("<II", binary, place)
        if command == _CODE_SIGNATURE:
            return True
        place += size
    return False
