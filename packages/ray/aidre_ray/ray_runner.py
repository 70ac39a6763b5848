"""Blocks on a Ray cluster: a Ray Data pipeline whose actors hold the models. Ray is imported by `connect` alone."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute

from aidre.engine.embedding import available_cores
from aidre.engine.errors import ConfigurationError
from aidre_ray.blocks import Block, block_table
from aidre_ray.job import Job
from aidre_ray.worker import Worker

LOCAL: Final = "ray"
LOOPBACK: Final = "127.0.0.1"
OBJECT_STORE_BYTES: Final = 256 << 20
"""Shared memory of a local cluster. Blocks and answers are lists of names and ids: documents, vectors and segments go
from the worker to the disk."""
CONNECT_SECONDS: Final = 10.0
"""How long an address may take to accept a connection."""
WORKER_CPUS: Final = 1
IN_FLIGHT_PER_WORKER: Final = 2
"""Blocks that a worker has at once: one in work, one waiting."""

_ENVIRONMENT: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Without it Ray replaces 127.0.0.1 by the address of this machine, and listens on all of its interfaces.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}
"""Ray reads it when it is imported. Local clusters stay on the loopback interface, and send no usage statistics."""


@dataclass(frozen=True, slots=True)
class _RayRunner:
    """`workers` actors, one a CPU of the cluster."""

    ray: Any
    workers: int

    def run(self, job: Job, blocks: Sequence[Block]) -> Iterator[pa.Table]:
        if not blocks:
            return
        # Ray Data does not run in a client of a cluster, but in an actor of it, which ends with the client.
        pipeline = self.ray.remote(num_cpus=0)(_Pipeline).remote(job, list(blocks), min(self.workers, len(blocks)))
        with _clear_errors("the cluster", "the run ended"):
            while (table := self.ray.get(pipeline.next.remote())) is not None:
                yield table


class _Pipeline:
    """The pipeline, in a process of the cluster: `next` is one answer, None at the end."""

    def __init__(self, job: Job, blocks: Sequence[Block], actors: int) -> None:
        self._answers = _answers(job, blocks, actors)

    def next(self) -> pa.Table | None:
        return next(self._answers, None)


def _answers(job: Job, blocks: Sequence[Block], actors: int) -> Iterator[pa.Table]:
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = False
    # Ray Data spreads the actors over the nodes, and replaces one that dies, whose blocks are done again.
    answers = ray.data.from_arrow([block_table(block) for block in blocks]).map_batches(
        Worker,
        fn_constructor_args=(job,),
        batch_size=None,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=IN_FLIGHT_PER_WORKER),
        num_cpus=WORKER_CPUS,
    )
    for table in answers.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
        numbers = table.column("block")
        for number in dict.fromkeys(numbers.to_pylist()):  # Ray may join small tables
            yield table.filter(pa.compute.equal(numbers, number))


@contextmanager
def connect(address: str) -> Iterator[_RayRunner]:
    """The runner of a cluster: "ray" starts one of this machine alone, "ray://HOST:PORT" is one that runs.

    ConfigurationError where Ray is not installed, for another form of address, and where nothing answers there.
    """
    _check_address(address)
    with _environment(address == LOCAL):
        try:
            import ray
        except ImportError:
            raise ConfigurationError("--on needs Ray, which is not installed: pip install 'ray[client,data]'") from None
        if address == LOCAL:
            _start_here(ray)
        else:
            _join(ray, address)
        try:
            cpus = int(ray.cluster_resources().get("CPU", 1))
            yield _RayRunner(ray, max(1, cpus // WORKER_CPUS))
        finally:
            ray.shutdown()


@contextmanager
def _environment(is_local: bool) -> Iterator[None]:
    """The variables that Ray reads. A local cluster gets a token of its own: other users of this machine could run
    programs on it else, and Ray would write one into the home folder."""
    added = dict(_ENVIRONMENT)
    if is_local:
        added |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _local_token()}
    former = {name: os.environ.get(name) for name in added}
    os.environ |= added
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@cache
def _local_token() -> str:
    """One for all local clusters of this process, since Ray reads it once."""
    return secrets.token_hex(32)


def _check_address(address: str) -> None:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address != LOCAL and not (address.startswith("ray://") and host and port.isdecimal()):
        raise ConfigurationError(f"--on {address!r} is no cluster: use ray, or an address like ray://HOST:10001")


def _start_here(ray: Any) -> None:
    """A cluster of this machine, which no other one reaches."""
    with _clear_errors(LOCAL, "the local cluster did not start"):
        ray.init(
            address="local",
            num_cpus=available_cores(),
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            log_to_driver=False,
            logging_level="error",
            _node_ip_address=LOOPBACK,
        )
    if ray.util.get_node_ip_address() != LOOPBACK:
        ray.shutdown()
        raise ConfigurationError("--on ray would listen on all interfaces, since this process imported Ray before")


def _join(ray: Any, address: str) -> None:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConfigurationError(f"--on {address}: no cluster answers there ({error}): is it running?") from None
    with _clear_errors(address, "no Ray cluster answers there"):
        ray.init(address=address, log_to_driver=False, logging_level="error")


@contextmanager
def _clear_errors(address: str, what: str) -> Iterator[None]:
    """Any exception of Ray and of gRPC as one line; none of them is ours."""
    try:
        yield
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigurationError(f"--on {address}: {what} ({reason})") from error
