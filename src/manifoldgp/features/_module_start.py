"""Starting values of a torch.nn.Module: what it comes with, then what its own reset draws."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside, the CPU's global generator starts at ``seed``; afterwards it is as before."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def draw_starts(
    module: nn.Module, names: list[str], reset: bool, generator: torch.Generator, count: int, device: torch.device
) -> dict[str, Tensor]:
    """``count`` values of the named parameters, leaves (count, *shape): the module's own first, then redrawn ones."""
    parameters = dict(module.named_parameters())
    own = {name: parameters[name].detach().to("cpu", torch.float64) for name in names}
    starts = [own]
    for _ in range(count - 1):
        seed = int(torch.randint(2**62, (), generator=generator))
        redrawn = _reset(module, names, seed) if reset else {}
        starts.append({name: redrawn[name] if name in redrawn else _scattered(own[name], generator) for name in names})
    return {name: torch.stack([start[name] for start in starts]).to(device) for name in names}


def _reset(module: nn.Module, names: list[str], seed: int) -> dict[str, Tensor]:
    """The named parameters that a reset of all submodules redraws. NaN marks those that none reaches."""
    twin = copy.deepcopy(module).to("cpu", torch.float64)
    parameters = dict(twin.named_parameters())
    with torch.no_grad(), seeded(seed):
        for name in names:
            parameters[name].fill_(torch.nan)
        for part in reversed(list(twin.modules())):  # the outermost last: its law overrides its parts'
            for method in ("reset_parameters", "_reset_parameters"):
                if callable(getattr(part, method, None)):
                    getattr(part, method)()
    return {name: parameters[name].detach() for name in names if not bool(parameters[name].isnan().any())}


def _scattered(value: Tensor, generator: torch.Generator) -> Tensor:
    """value + 10 % noise, relative to its root mean square (0.1 where that is zero)."""
    size = value.square().mean().sqrt()
    noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
    return value + 0.1 * (size if size > 0 else 1.0) * noise
