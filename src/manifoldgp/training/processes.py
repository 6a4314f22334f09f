"""The processes that share a fit: sums over all of them, and one decision for all of them (torch.distributed; gloo on CPU, nccl on GPU)."""

from __future__ import annotations

import json
import math
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch import distributed as dist

from manifoldgp._system.torchrun import is_first, launched, process_count, rank


class Addable(Protocol):
    """Something that takes the sum of another one and itself: a tensor, the sums of a bound."""

    def add_(self, other: Self, /) -> Self: ...


Summand = TypeVar("Summand", bound=Addable)


@dataclass(frozen=True)
class Ranks:
    """The number of this process, ``rank``, among ``count`` that share a fit. With one process alone every call returns at once what it was given."""

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """Whether this process speaks for all of them: writes files, shows progress, keeps the time."""
        return self.rank == 0

    def sum_(self, *tensors: Tensor) -> None:
        """Replace every tensor by its sum over all processes, in one message.

        With a power of two of them the sum is a fixed binary tree, the one :func:`tree_sum` goes on with inside a process: the result has the
        same bits however many processes share the slots.
        """
        if self.count == 1:
            return
        flat = torch.cat([t.reshape(-1) for t in tensors])
        if self.count & (self.count - 1):
            dist.all_reduce(flat)
        else:
            flat = self._butterfly(flat)
        for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def _butterfly(self, flat: Tensor) -> Tensor:
        """In round i everyone exchanges sums with the partner whose rank differs in bit i; a + b = b + a, so that both get the same."""
        bit = 1
        while bit < self.count:
            theirs = torch.empty_like(flat)
            partner = self.rank ^ bit
            exchange = [dist.P2POp(dist.isend, flat, partner), dist.P2POp(dist.irecv, theirs, partner)]
            for request in dist.batch_isend_irecv(exchange):
                request.wait()
            flat = flat + theirs
            bit *= 2
        return flat

    def follow_first_(self, *tensors: Tensor) -> None:
        """Replace every tensor by the first process's: sums may differ in their last bit, and all must take the same steps."""
        if self.count == 1:
            return
        flat = torch.cat([t.reshape(-1) for t in tensors])
        dist.broadcast(flat, 0)
        for tensor, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def gather(self, plain: Any = None, arrays: Sequence[np.ndarray] = ()) -> list[tuple[Any, list[np.ndarray]]]:
        """Plain data and arrays from every process, in order of rank; all get the same list. They travel as JSON and bytes: nothing is unpickled."""
        if self.count == 1:
            return [(plain, list(arrays))]
        mine = packed(plain, arrays)
        lengths = [_on_backend(torch.zeros(1, dtype=torch.int64)) for _ in range(self.count)]
        dist.all_gather(lengths, _on_backend(torch.tensor([len(mine)])))
        longest = int(max(int(length) for length in lengths))
        padded = _on_backend(torch.frombuffer(bytearray(mine.ljust(longest, b"\0")), dtype=torch.uint8))
        everyone = [torch.empty_like(padded) for _ in range(self.count)]
        dist.all_gather(everyone, padded)
        return [unpacked(theirs[: int(length)].cpu().numpy().tobytes()) for theirs, length in zip(everyone, lengths, strict=True)]

    def decide(self, flag: bool) -> bool:
        """The first process's answer to a question that each could answer differently, such as whether time is up."""
        if self.count == 1:
            return flag
        answer = _on_backend(torch.tensor([int(flag)]))
        dist.broadcast(answer, 0)
        return bool(int(answer))

    def agreed(self, number: float) -> float:
        """The first process's number, where each has another one, such as the time."""
        if self.count == 1:
            return number
        answer = _on_backend(torch.tensor([number], dtype=torch.float64))
        dist.broadcast(answer, 0)
        return float(answer)


def packed(plain: Any, arrays: Sequence[np.ndarray]) -> bytes:
    """A message: the length of its JSON, the JSON, and the bytes of the arrays.

    >>> unpacked(packed({"rows": 2}, [np.arange(2)]))
    ({'rows': 2}, [array([0, 1])])
    """
    contiguous = [np.ascontiguousarray(array) for array in arrays]
    head = json.dumps([plain, [[array.dtype.str, list(array.shape)] for array in contiguous]]).encode()
    return len(head).to_bytes(8, "little") + head + b"".join(array.tobytes() for array in contiguous)


def unpacked(message: bytes) -> tuple[Any, list[np.ndarray]]:
    """What :func:`packed` packed: plain data, and arrays of numbers."""
    end = 8 + int.from_bytes(message[:8], "little")
    plain, kinds = json.loads(message[8:end])
    arrays = []
    for kind, shape in kinds:
        if np.dtype(kind).kind not in "biuf":
            raise ValueError(f"A message holds an array of {kind}, and only numbers are sent.")
        count = math.prod(shape)
        arrays.append(np.frombuffer(message, kind, count, end).reshape(shape).copy())
        end += count * np.dtype(kind).itemsize
    return plain, arrays


def _on_backend(tensor: Tensor) -> Tensor:
    """The tensor where the processes' messages have to be: on the GPU for nccl."""
    return tensor.cuda() if dist.get_backend() == "nccl" else tensor


ALONE = Ranks()


def slots_of(count: int, ranks: Ranks) -> tuple[int, list[int]]:
    """How many slots ``count`` rows are dealt to, contiguously, and which of them are this process's.

    Slots depend on the rows alone, never on the processes: each is summed by itself, and then they are summed in a fixed order. Up to 4 of them have 500
    rows or more; up to 16, for as many processes, 2,000: products of shorter parts are slower.

    >>> slots_of(5000, Ranks(1, 2)), slots_of(100_000, Ranks(1, 2))[0]
    ((4, [2, 3]), 16)
    """
    slots = 1
    while slots < 16 and 2 * slots * (500 if slots < 4 else 2000) <= count:
        slots *= 2
    if ranks.count & (ranks.count - 1):  # no tree to keep to: as many as make equal parts
        slots = ranks.count * -(-slots // ranks.count)
    return slots, [slot for slot in range(slots) if slot * ranks.count // slots == ranks.rank]


def tree_sum(parts: list[Summand]) -> Summand:
    """The sum of the parts (with an in-place add_) as a balanced binary tree."""
    while len(parts) > 1:
        pairs = [parts[i].add_(parts[i + 1]) for i in range(0, len(parts) - 1, 2)]
        parts = pairs + parts[2 * len(pairs) :]
    return parts[0]


def current_ranks() -> Ranks:
    """The processes that joined_ranks (or the user's own init_process_group) has joined; alone where there are none."""
    return Ranks(dist.get_rank(), dist.get_world_size()) if dist.is_available() and dist.is_initialized() else ALONE


_sharing: list[Ranks] = []
"""The processes of the innermost :func:`joined_ranks`."""


def sharing_ranks() -> Ranks:
    """The processes inside :func:`joined_ranks`, which all fit the same rows; a process group of the user's own says nothing of the kind."""
    return _sharing[-1] if _sharing else ALONE


@contextmanager
def joined_ranks(device: str = "cpu") -> Iterator[Ranks]:
    """Join the processes that torchrun started, for as long as the block lasts; alone where it did not start this one.

    Every process has to make the same fits, to the same rows: they share the work of each.
    Processes of one machine talk over its loopback interface, unless GLOO_SOCKET_IFNAME names another one.
    """
    if not launched():
        yield ALONE
        return
    backend = "nccl" if device.startswith("cuda") else "gloo"
    if os.environ.get("GROUP_WORLD_SIZE", "1") == "1":
        if sys.platform.startswith("linux"):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        # After a restart on one machine torchrun's store still holds the addresses of the processes that died: a prefix hides them.
        number = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        attempt = dist.PrefixStore(f"attempt{number}", _store())  # pyright: ignore[reportPrivateImportUsage]
        dist.init_process_group(backend, store=attempt, rank=rank(), world_size=process_count())
    else:
        dist.init_process_group(backend)
    _sharing.append(Ranks(dist.get_rank(), dist.get_world_size()))
    try:
        yield _sharing[-1]
    finally:
        _sharing.pop()
        dist.destroy_process_group()


def _store() -> Any:
    """Where the processes find each other: torchrun's own store, or one that the first process opens at MASTER_ADDR and nowhere else."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return next(dist.rendezvous("env://"))[0]  # pyright: ignore[reportPrivateImportUsage]
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    count = process_count()
    if not is_first():
        return dist.TCPStore(address, port, count, is_master=False)  # pyright: ignore[reportPrivateImportUsage]
    listening = socket.create_server((address, port))
    return dist.TCPStore(  # pyright: ignore[reportPrivateImportUsage]
        address, port, count, is_master=True, master_listen_fd=listening.detach(), wait_for_workers=False
    )
