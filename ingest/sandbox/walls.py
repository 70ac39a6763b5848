"""The walls around a parser, which the child raises for good before it reads a document.

Landlock (landlock(7)) closes the file system but for Python's folders, and TCP, signals and abstract sockets as far as
the kernel knows them. A seccomp filter (seccomp(2)) ends the process at calls that no parser makes. Both are Linux's:
elsewhere the limits of `child` are all there is.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import site
import struct
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import suppress
from mimetypes import knownfiles
from pathlib import Path
from typing import Any, NamedTuple

from aidre.engine.checkout import PACKAGE, checkout_root, search_path
from aidre.engine.errors import ConfigurationError


class Walls(NamedTuple):
    """The active walls: the version of Landlock's interface, 0 for none, and whether calls are filtered."""

    landlock: int = 0
    seccomp: bool = False

    @property
    def are_whole(self) -> bool:
        return self.landlock > 0 and self.seccomp

    @property
    def missing(self) -> str:
        """The names of the walls that this system lacks."""
        return " and ".join(name for name, stands in zip(self._fields, self, strict=True) if not stands)


class Program(NamedTuple):
    """A program that a process becomes behind the walls: its file, and the folder of its data."""

    file: str
    data: str

    def folders(self) -> Iterator[str]:
        yield from _READABLE_FOLDERS
        yield self.data
        yield from {str(Path(each).parent.parent / "lib") for each in (self.file, os.path.realpath(self.file))}


_standing = Walls()


def raise_walls(program: Program | None = None) -> Walls:
    """Raise what the system has, for this process and all threads that it starts; returns what stands.

    Call it before the first thread: Landlock holds for the calling thread and those that it starts. With a `program`
    the process may become that, and reads its folders in place of Python's; the walls stay.
    """
    global _standing  # noqa: PLW0603 - what stands belongs to the process
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.syscall.restype = ctypes.c_long
        _drop_privileges(libc)
        _standing = Walls(_restrict_files(libc, program), _filter_calls(libc, may_execute=program is not None))
    return _standing


def standing() -> Walls:
    """The walls of this process."""
    return _standing


def describe(content: bytes, options: Mapping[str, Any]) -> list[int | bool]:
    """For the sandbox: the walls of the child."""
    return [*_standing]


def available() -> Walls:
    """The walls that this system offers, by its answers to questions that change nothing."""
    if sys.platform != "linux":
        return Walls()
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_ASK_VERSION))
    action = ctypes.c_uint32(_END)
    status = _machine() and libc.syscall(_machine()["seccomp"], _ASK_ACTION, 0, ctypes.byref(action))
    return Walls(max(0, version), status == 0)


def check_walls() -> None:
    """Raises ConfigurationError where a wall is missing that the configuration requires."""
    if not (offered := available()).are_whole:
        raise ConfigurationError(
            f'sources.sandbox is "required", and this system has no {offered.missing} for parsers: run where the kernel'
            ' has both (Linux from 5.13 on), or set it to "available"'
        )


def set_dumpable(*, is_dumpable: bool) -> bool:
    """Open or close this process's memory and environment to other processes of its user (proc(5)); returns whether
    they were open."""
    if sys.platform != "linux":
        return True
    libc = ctypes.CDLL(None)
    was_dumpable = bool(libc.prctl(_GET_DUMPABLE, 0, 0, 0, 0) == 1)
    libc.prctl(_SET_DUMPABLE, int(is_dumpable), 0, 0, 0)
    return was_dumpable


# -- Landlock --------------------------------------------------------------------------------------------------

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""System calls, of one number on every machine."""

_ASK_VERSION = 1
_EXECUTE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 2, 1 << 3
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""The rights on files by the version that brought them: the last ones are moves, truncation and device control."""

_NETWORK_VERSION, _SCOPE_VERSION = 4, 6
_TCP, _SCOPES = 0b11, 0b11
"""Bind and connect; abstract sockets and signals."""

_READABLE_FOLDERS = (
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/libexec", "/usr/local/lib", "/nix/store", "/usr/share/zoneinfo",
    "/usr/share/fonts", "/sys/devices/system/cpu",
)  # fmt: skip
_READABLE_FILES = (
    "/etc/ld.so.cache", "/etc/localtime", "/etc/ssl/openssl.cnf", "/dev/null", "/dev/zero", "/dev/urandom",
    "/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm/overcommit_memory",
)  # fmt: skip
"""What libraries read at their start, and holds nothing of anybody."""


def _restrict_files(libc: ctypes.CDLL, program: Program | None) -> int:
    """Allow reading of Python's folders, or the program's, and nothing else; returns the version of Landlock, 0 where
    there is none."""
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_ASK_VERSION))
    if version < 1:
        return 0
    handled = max(rights for least, rights in _FILE_RIGHTS.items() if least <= version)
    network = _TCP if version >= _NETWORK_VERSION else 0
    scopes = _SCOPES if version >= _SCOPE_VERSION else 0
    attributes = struct.pack("=QQQ", handled, network, scopes)
    size = 24 if version >= _SCOPE_VERSION else 16 if version >= _NETWORK_VERSION else 8
    ruleset = libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), ctypes.c_uint(0))
    if ruleset < 0:
        return 0
    try:
        for folder in _python_folders() if program is None else program.folders():
            _allow(libc, ruleset, folder, _EXECUTE | _READ_FILE | _READ_DIR)
        if program is not None:
            _allow(libc, ruleset, program.file, _EXECUTE | _READ_FILE)
        for file in (*_READABLE_FILES, *knownfiles):
            _allow(libc, ruleset, file, _READ_FILE)
        if libc.syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0)) != 0:
            return 0
    finally:
        os.close(ruleset)
    return int(version)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str | os.PathLike[str], rights: int) -> None:
    """Allow rights on a path and what is below it; a path that is missing needs none."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rule = struct.pack("=Qi", rights, descriptor)
            libc.syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint(0))
        finally:
            os.close(descriptor)


def _python_folders() -> Iterator[str]:
    """The folders of libraries and of this package; of a checkout the packages, since beside them may lie a store."""
    yield from _READABLE_FOLDERS
    yield from filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    yield from {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    yield str(Path(sys.base_prefix) / "lib")
    yield from site.getsitepackages()
    root = checkout_root()
    checkout = [] if root is None else search_path(root)
    closed = {*_own_folders(), *map(Path, checkout)}
    for entry in map(Path, sys.path):
        with suppress(OSError):
            if entry.is_absolute() and not any(each.is_relative_to(entry.resolve()) for each in closed):
                yield str(entry)
    if root is None:
        yield str(PACKAGE)
    else:
        yield from (str(root / name) for name in ("aidre", "engine", "ingest", "api", "packages"))


def _own_folders() -> Iterator[Path]:
    """The home and the working folder. A user without an entry has no home, and a folder may have been removed."""
    for find in (Path.home, Path.cwd):
        with suppress(RuntimeError, OSError):
            yield find().resolve()


# -- seccomp ---------------------------------------------------------------------------------------------------

_ENDED: Mapping[str, tuple[int | None, int | None]] = {
    # programs and processes
    "execve": (59, 221), "execveat": (322, 281), "fork": (57, None), "vfork": (58, None), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272), "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "setsid": (112, 157), "setpgid": (109, 154),
    "unshare": (272, 97), "setns": (308, 268), "personality": (135, 92), "modify_ldt": (154, None),
    # the network
    "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242),
    "sendto": (44, 206), "sendmsg": (46, 211), "sendmmsg": (307, 269),
    # names, modes, owners and sizes of files
    "unlink": (87, None), "unlinkat": (263, 35), "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276),
    "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None), "mknod": (133, None), "mknodat": (259, 33),
    "link": (86, None), "linkat": (265, 37), "symlink": (88, None), "symlinkat": (266, 36), "creat": (85, None),
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "chown": (92, None), "fchown": (93, 55),
    "lchown": (94, None), "fchownat": (260, 54), "truncate": (76, 45), "ftruncate": (77, 46), "fallocate": (285, 47),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "inotify_init": (253, None),
    "inotify_init1": (294, 26), "quotactl": (179, 60), "acct": (163, 89),
    # mounts and the system
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "swapon": (167, 224),
    "swapoff": (168, 225), "reboot": (169, 142), "sethostname": (170, 161), "setdomainname": (171, 162),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "iopl": (172, None), "ioperm": (173, None), "syslog": (103, 116),
    "vhangup": (153, 58), "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_setup": (206, 0), "io_submit": (209, 2), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219),
    # memory that outlives the process or escapes its limits
    "memfd_create": (319, 279), "shmget": (29, 194), "shmat": (30, 196), "semget": (64, 190), "msgget": (68, 186),
    "mq_open": (240, 180), "mq_unlink": (241, 181), "vmsplice": (278, 75), "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # users
    "setuid": (105, 146), "setgid": (106, 144), "setreuid": (113, 145), "setregid": (114, 143),
    "setresuid": (117, 147), "setresgid": (119, 149), "setgroups": (116, 159), "setfsuid": (122, 151),
    "setfsgid": (123, 152), "capset": (126, 91),
}  # fmt: skip
"""Calls that end the process: their numbers on x86-64 and on the machines of Linux's common table."""

_REFUSED: Mapping[str, tuple[int | None, int | None]] = {
    "socket": (41, 198), "socketpair": (53, 199), "setsockopt": (54, 208), "mbind": (237, 235),
    "set_mempolicy": (238, 237), "setpriority": (141, 140), "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119), "sched_setparam": (142, 118), "sched_setattr": (314, 274),
    "ioprio_set": (251, 30),
}  # fmt: skip
"""Calls that libraries try when they are imported: they fail with EACCES."""

_CHECKED: Mapping[str, tuple[int | None, int | None]] = {
    "open": (2, None), "openat": (257, 56), "clone": (56, 220), "kill": (62, 129), "tgkill": (234, 131),
    "prlimit64": (302, 261), "seccomp": (317, 277),
}  # fmt: skip
"""Calls that are judged by an argument, and those that this module makes."""

_NEW_CALLS = 424
_ALLOWED_NEW_CALLS = (436, 439, 441, 449)
"""Later calls have one number everywhere and are unknown here (ENOSYS), but for close_range, faccessat2, epoll_pwait2
and futex_waitv. Libraries do without the others."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_THREAD = 0x00010000
_X32 = 0x40000000
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1), "riscv64": (0xC00000F3, 1)}
"""AUDIT_ARCH of a machine, and its column in the tables."""

_GET_DUMPABLE, _SET_DUMPABLE, _SET_SECCOMP, _DROP_BOUND, _NO_NEW_PRIVILEGES = 3, 4, 22, 24, 38
_ASK_ACTION, _FILTER = 2, 2
_LAST_CAPABILITY = 63
_ALLOW, _END = 0x7FFF0000, 0x80000000
_LOAD, _RETURN, _EQUAL, _AT_LEAST, _ANY_BIT = 0x20, 0x06, 0x15, 0x35, 0x45
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in seccomp_data; an argument has eight bytes, the low half first on these machines."""


def _machine() -> dict[str, int]:
    """System call numbers of this architecture; empty for one that is not in the tables."""
    name = platform.machine()
    if name not in _MACHINES or sys.maxsize < 1 << 32:
        return {}
    column = _MACHINES[name][1]
    numbers = {call: row[column] for table in (_ENDED, _REFUSED, _CHECKED) for call, row in table.items()}
    return {call: number for call, number in numbers.items() if number is not None}


def _drop_privileges(libc: ctypes.CDLL) -> None:
    """Set no_new_privs, and give up all capabilities."""
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    for capability in range(_LAST_CAPABILITY + 1):
        libc.prctl(_DROP_BOUND, capability, 0, 0, 0)
    if numbers := _machine():
        libc.syscall(numbers["capset"], struct.pack("=Ii", 0x20080522, 0), bytes(24))


def _filter_calls(libc: ctypes.CDLL, *, may_execute: bool) -> bool:
    numbers = _machine()
    if not numbers:
        return False
    if may_execute:
        del numbers["execve"]
    steps = b"".join(_filter(numbers, _MACHINES[platform.machine()][0], os.getpid()))
    program = ctypes.create_string_buffer(steps, len(steps))
    header = struct.pack("@HP", len(steps) // 8, ctypes.addressof(program))
    return bool(libc.prctl(_SET_SECCOMP, _FILTER, header, 0, 0) == 0)


def _filter(numbers: Mapping[str, int], architecture: int, pid: int) -> Iterator[bytes]:
    """The instructions of the filter (struct sock_filter)."""
    refuse = 0x00050000 | errno.EACCES
    yield _step(_LOAD, _ARCHITECTURE)
    yield _step(_EQUAL, architecture, 1, 0)
    yield _step(_RETURN, _END)
    yield _step(_LOAD, _NUMBER)
    yield from _if(_AT_LEAST, _X32, _END)
    for call in _ENDED:
        if call in numbers:
            yield from _if(_EQUAL, numbers[call], _END)
    for call in _REFUSED:
        yield from _if(_EQUAL, numbers[call], refuse)
    for number in _ALLOWED_NEW_CALLS:
        yield from _if(_EQUAL, number, _ALLOW)
    yield from _if(_AT_LEAST, _NEW_CALLS, 0x00050000 | errno.ENOSYS)
    for call, argument in (("open", 1), ("openat", 2)):
        if call in numbers:
            yield from _judge(numbers[call], argument, _step(_ANY_BIT, _WRITES, 0, 1), refuse, _ALLOW)
    yield from _judge(numbers["clone"], 0, _step(_ANY_BIT, _THREAD, 0, 1), _ALLOW, _END)
    for call in ("kill", "tgkill"):
        yield from _judge(numbers[call], 0, _step(_EQUAL, pid, 0, 1), _ALLOW, _END)
    yield _step(_EQUAL, numbers["prlimit64"], 0, 6)
    yield _step(_LOAD, _ARGUMENTS)
    yield from _if(_EQUAL, 0, _ALLOW)
    yield from _if(_EQUAL, pid, _ALLOW)
    yield _step(_RETURN, _END)
    yield _step(_RETURN, _ALLOW)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _if(code: int, value: int, action: int) -> Iterator[bytes]:
    yield _step(code, value, 0, 1)
    yield _step(_RETURN, action)


def _judge(number: int, argument: int, test: bytes, if_true: int, if_false: int) -> Iterator[bytes]:
    """For one call: load an argument, test it, and return one of two actions."""
    yield _step(_EQUAL, number, 0, 4)
    yield _step(_LOAD, _ARGUMENTS + 8 * argument)
    yield test
    yield _step(_RETURN, if_true)
    yield _step(_RETURN, if_false)
