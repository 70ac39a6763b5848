"""A child's program for tests of the sandbox's walls: each parser tries one thing that a parser must not be able to do.

A try returns where it succeeded, and raises OSError where it was refused. With the argument "bare" no wall is raised.
"""

# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH208, PTH211

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from aidre.ingest.sandbox import child

Try: TypeAlias = Callable[[Mapping[str, Any]], Any]

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
TRIES: dict[str, Try] = {}


def attempt(do: Try) -> Try:
    TRIES[do.__name__] = do
    return do


def call(number: int, *values: Any) -> int:
    """A system call; raises OSError. The numbers are those of x86-64 where the machine has one of its own."""
    wrapped = [ctypes.c_long(value) if isinstance(value, int) else value for value in values]
    result = int(LIBC.syscall(number, *wrapped))
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def simple(name: str, do: Try) -> None:
    do.__name__ = name
    TRIES[name] = do


# -- reading -----------------------------------------------------------------------------------------------------

simple("read_passwords", lambda at: Path("/etc/passwd").read_bytes())
simple("read_a_secret", lambda at: Path(at["secret"]).read_bytes())
simple("read_a_secret_by_a_link", lambda at: (Path(at["folder"]) / "link").read_bytes())
simple("read_the_home", lambda at: os.listdir(at["home"]))
simple("list_a_folder", lambda at: os.listdir(at["folder"]))
simple("list_the_root", lambda at: os.listdir("/"))
simple("read_the_parents_environment", lambda at: Path(f"/proc/{os.getppid()}/environ").read_bytes())
simple("read_the_parents_command", lambda at: Path(f"/proc/{os.getppid()}/cmdline").read_bytes())
simple("read_own_environment", lambda at: Path("/proc/self/environ").read_bytes())
simple("list_the_parents_files", lambda at: os.listdir(f"/proc/{os.getppid()}/fd"))
simple("open_the_parents_memory", lambda at: os.open(f"/proc/{os.getppid()}/mem", os.O_RDONLY))
simple("read_the_kernels_log", lambda at: call(103, 3, ctypes.create_string_buffer(4096), 4096))
simple("open_a_file_by_its_handle", lambda at: call(303, -100, at["secret"].encode(), bytes(140), bytes(8), 0))


@attempt
def read_the_parents_memory(at: Mapping[str, Any]) -> Any:
    buffer = ctypes.create_string_buffer(16)
    local = (ctypes.c_ulong * 2)(ctypes.addressof(buffer), 16)
    remote = (ctypes.c_ulong * 2)(at["address"], 16)
    return call(310, os.getppid(), local, 1, remote, 1, 0)


# -- files -------------------------------------------------------------------------------------------------------

simple("empty_a_file", lambda at: os.open(at["secret"], os.O_WRONLY | os.O_TRUNC))
simple("truncate_a_file", lambda at: os.truncate(at["secret"], 0))
simple("open_for_writing", lambda at: os.open(at["secret"], os.O_RDWR))
simple("append_to_a_file", lambda at: os.open(at["secret"], os.O_WRONLY | os.O_APPEND))
simple("make_a_file", lambda at: os.open(at["folder"] + "/new", os.O_CREAT | os.O_WRONLY))
simple("make_a_nameless_file", lambda at: os.open(at["folder"], os.O_TMPFILE | os.O_RDWR))
simple("make_a_folder", lambda at: os.mkdir(at["folder"] + "/made"))
simple("remove_a_folder", lambda at: os.rmdir(at["folder"] + "/empty"))
simple("delete_a_file", lambda at: os.unlink(at["folder"] + "/victim"))
simple("rename_a_file", lambda at: os.rename(at["secret"], at["folder"] + "/renamed"))
simple("link_a_file", lambda at: os.link(at["secret"], at["folder"] + "/linked"))
simple("make_a_symbolic_link", lambda at: os.symlink("/etc", at["folder"] + "/etc"))
simple("make_a_pipe_with_a_name", lambda at: os.mkfifo(at["folder"] + "/pipe"))
simple("change_a_mode", lambda at: os.chmod(at["folder"], 0o777))
simple("change_an_owner", lambda at: os.chown(at["folder"], os.getuid(), os.getgid()))
simple("change_a_time", lambda at: os.utime(at["folder"], (1, 1)))
simple("set_an_attribute", lambda at: os.setxattr(at["folder"], "user.aidre", b"x"))
simple("write_to_the_package", lambda at: os.open(child.__file__, os.O_WRONLY))
simple("watch_a_folder", lambda at: call(294, 0))


# -- the network -------------------------------------------------------------------------------------------------

simple("open_a_tcp_socket", lambda at: socket.socket())
simple("open_a_udp_socket", lambda at: socket.socket(type=socket.SOCK_DGRAM))
simple("open_a_unix_socket", lambda at: socket.socket(socket.AF_UNIX))
simple("open_a_netlink_socket", lambda at: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
simple("connect", lambda at: socket.create_connection(("127.0.0.1", at["port"]), 5))
simple("ask_a_name_server", lambda at: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", at["port"])))
simple("make_a_pair_of_sockets", lambda at: socket.socketpair())


@attempt
def hand_a_descriptor_to_the_parent(at: Mapping[str, Any]) -> Any:
    number = next(number for number in range(3, 20) if _is_socket(number))
    return socket.send_fds(socket.socket(fileno=number), [b"x"], [number])


def _is_socket(number: int) -> bool:
    try:
        return Path(f"/proc/self/fd/{number}").is_socket() or bool(os.fstat(number).st_mode & 0o140000 == 0o140000)
    except OSError:
        return False


# -- processes ---------------------------------------------------------------------------------------------------


@attempt
def fork(at: Mapping[str, Any]) -> Any:
    if (pid := os.fork()) == 0:
        os._exit(0)
    return os.waitpid(pid, 0)


@attempt
def start_a_program(at: Mapping[str, Any]) -> Any:
    return os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)


@attempt
def become_a_program(at: Mapping[str, Any]) -> Any:
    """Where it succeeds, the program's output is not an answer: so a program is asked for that does not exist."""
    try:
        os.execv("/bin/true/not", ["true"])
    except (FileNotFoundError, NotADirectoryError):
        return "the call was made"


@attempt
def run_a_program_from_memory(at: Mapping[str, Any]) -> Any:
    return os.memfd_create("program")


simple("signal_the_parent", lambda at: os.kill(os.getppid(), 0))
simple("signal_the_first_process", lambda at: os.kill(1, 0))
simple("signal_the_parents_group", lambda at: os.killpg(os.getpgid(os.getppid()), 0))
simple("queue_a_signal", lambda at: call(129, os.getppid(), 0, _signal_info()))
simple("trace_the_parent", lambda at: call(101, 0x4206, os.getppid(), 0, 0))
simple("open_the_parent", lambda at: os.pidfd_open(os.getppid()))
simple("limit_the_parent", lambda at: resource.prlimit(os.getppid(), resource.RLIMIT_CORE, (0, 0)))
simple("bind_the_parent_to_a_core", lambda at: os.sched_setaffinity(os.getppid(), {0}))
simple("slow_the_parent_down", lambda at: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19))
simple("leave_the_session", lambda at: call(109, 0, 0))


def _signal_info() -> Any:
    return (ctypes.c_int * 32)(signal.SIGCONT, 0, -1)


# -- the system --------------------------------------------------------------------------------------------------


@attempt
def mount(at: Mapping[str, Any]) -> Any:
    call(165, b"none", at["folder"].encode(), b"tmpfs", 0, None)
    return call(166, at["folder"].encode(), 2)


simple("make_a_namespace", lambda at: call(272, 0x10000000))
simple("make_a_namespace_by_a_thread", lambda at: call(435, (ctypes.c_ulong * 11)(0x10000000), 88))
simple("change_the_root", lambda at: os.chroot(at["folder"]))
simple("set_the_clock", lambda at: call(227, 0, (ctypes.c_long * 2)(0, -1)))
simple("load_bpf", lambda at: call(321, 0, (ctypes.c_uint32 * 30)(2, 4, 4, 1), 120))
simple("make_a_ring", lambda at: call(425, 4, ctypes.create_string_buffer(120)))
simple("handle_page_faults", lambda at: call(323, 1))
simple("count_events", lambda at: call(298, (ctypes.c_uint32 * 32)(1, 128), 0, -1, -1, 0))
simple("share_memory", lambda at: call(31, call(29, 0, mmap.PAGESIZE, 0o1600), 0, 0))
simple("make_a_queue", lambda at: call(71, call(68, 0, 0o1600), 0, 0))
simple("add_a_key", lambda at: call(248, b"user", b"aidre", b"x", 1, -3))
simple("become_another_user", lambda at: os.setuid(os.getuid()))
simple("raise_a_limit", lambda at: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
simple("use_another_machines_calls", lambda at: call(0x40000000 | 39))
simple("open_with_openat2", lambda at: call(437, -100, at["secret"].encode(), (ctypes.c_ulong * 3)(), 24))


def parse(content: bytes, options: Mapping[str, Any]) -> str:
    """For the sandbox: the try that `content` names."""
    return repr(TRIES[content.decode()](options))[:100]


if __name__ == "__main__":
    if sys.argv[1:] == ["bare"]:
        child.raise_walls = lambda program=None: child.standing()  # type: ignore[attr-defined]
    child.main({"try": "__main__:parse", "walls": child.KINDS["walls"]})
