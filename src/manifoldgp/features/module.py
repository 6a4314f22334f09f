"""Any torch.nn.Module as features. Its starting values: what it comes with, then what its own reset draws."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap

from manifoldgp.errors import InputError
from manifoldgp.features.feature_map import Features
from manifoldgp.features.joint_law import JointLaw
from manifoldgp.features.projections import constants
from manifoldgp.parameters import Parameter, Tree, leaves, nest
from manifoldgp.predictor.rows import Rows
from manifoldgp.registry import register
from manifoldgp.torch_modules import called_with, module_rows


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
        starts.append({name: redrawn[name] if name in redrawn else scattered(own[name], generator) for name in names})
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


def scattered(value: Tensor, generator: torch.Generator) -> Tensor:
    """value + 10 % noise, relative to its root mean square (0.1 where that is zero)."""
    size = value.square().mean().sqrt()
    noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
    return value + 0.1 * (size if size > 0 else 1.0) * noise.to(value.device)


_DROPOUT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
_ROWS_OF_PROBE = 5


@register("features.Module")
@dataclass(frozen=True, eq=False)
class Module(Features):
    """H = module(X) for any ``torch.nn.Module`` that maps (N, D) to (N, Q), row by row. The module itself is never changed.

    Its parameters: those of ``module.named_parameters()`` and ``named_buffers()``; dots in names are levels of the tree.

    Parameters
    ----------
    module
        Parameters with ``requires_grad`` are trained, the others and the buffers are constants; all in float64.
    restarts
        The first start is the module as it comes. "reset" draws the others by ``reset_parameters()`` of every submodule that has it (the outermost last),
        and scatters what no reset reaches by 10 %; "jitter" scatters everything by 10 %, for networks trained elsewhere.
    batching
        How a batch of parameters is computed: "vmap", "loop", or "auto" for the first that works.
    """

    module: nn.Module
    restarts: str = "reset"
    batching: str = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.module, nn.Module):
            raise InputError(f"A torch.nn.Module expected, got {self.module!r}.")
        if self.restarts not in ("reset", "jitter"):
            raise InputError(f"restarts must be 'reset' or 'jitter', got {self.restarts!r}.")
        if self.batching not in ("auto", "vmap", "loop"):
            raise InputError(f"batching must be 'auto', 'vmap' or 'loop', got {self.batching!r}.")
        _refuse_training_mode(self.module)

    def bind(self, X: Tensor) -> Module:
        """A copy of the module in float64, tried on a few rows: lazy layers get their sizes, and maps that are
        random, or do not treat each row by itself, are refused."""
        own = copy.deepcopy(self.module).to(X.device, torch.float64)
        probe = X[:_ROWS_OF_PROBE].detach()
        with torch.no_grad(), seeded(0):
            H, again, fewer = own(probe), own(probe), own(probe[:1])
        if not isinstance(H, Tensor) or H.ndim != 2 or len(H) != len(probe):
            came = f"shape {tuple(H.shape)}" if isinstance(H, Tensor) else f"a {type(H).__name__}"
            raise InputError(f"Features must map ({len(probe)}, D) to ({len(probe)}, Q); {_name(self)} gave {came}.")
        scale = float(H.abs().max())
        if not torch.equal(H, again):
            raise InputError(
                f"{_name(self)} is random: it gave two outputs for the same inputs. Switch that off first, by eval()."
            )
        if not torch.allclose(H[:1], fewer, rtol=0, atol=1e-8 * scale):
            raise InputError(
                f"{_name(self)} gives a row other features when other rows are present. Features must treat each row by itself."
            )
        return replace(self, module=own, batching=self.batching if self.batching != "auto" else _fastest(own, probe))

    def parameters(self, X: Tensor) -> Tree:
        trained = {n: p for n, p in self.module.named_parameters() if p.requires_grad}
        fixed = {n: p for n, p in self.module.named_parameters() if not p.requires_grad} | dict(self.module.named_buffers())
        if any(nn.parameter.is_lazy(p) for p in (trained | fixed).values()):
            raise InputError(
                f"{_name(self)} has lazy layers without sizes. Call features.bind(X) first, and use what it returns."
            )
        joint = JointLaw(lambda g, count: draw_starts(self.module, list(trained), self.restarts == "reset", g, count, X.device))
        named = {name: Parameter(tuple(p.shape), joint.law(name)) for name, p in trained.items()}
        values = {n: v.detach().to(X.device, torch.float64 if v.is_floating_point() else v.dtype) for n, v in fixed.items()}
        return nest(named | {name: constants(value=value)["value"] for name, value in values.items()})

    def __call__(self, values: Tree, X: Tensor) -> Tensor:
        named = dict(leaves(values))
        own = dict(self.module.named_parameters()) | dict(self.module.named_buffers())
        N, D = X.shape[-2:]
        batches = {name: value.shape[: value.ndim - own[name].ndim] for name, value in named.items()}
        if all(math.prod(batch) == 1 for batch in batches.values()):
            # One network for everything: rows are rows, whatever batch they come from.
            single = {name: value.reshape(own[name].shape) for name, value in named.items()}
            H = called_with(self.module, single, (X.reshape(-1, D),))
            return H.reshape(*np.broadcast_shapes(X.shape[:-2], *batches.values()), N, H.shape[-1])
        batch = np.broadcast_shapes(X.shape[:-2], *batches.values())
        count = math.prod(batch)
        stacked = {n: v.expand(*batch, *own[n].shape).reshape(count, *own[n].shape) for n, v in named.items() if batches[n]}
        shared = {n: v for n, v in named.items() if not batches[n]}
        inputs = X if X.ndim == 2 else X.expand(*batch, N, D).reshape(count, N, D)
        H = _BATCHED[self.batching](self.module, stacked, shared, inputs)
        return H.reshape(*batch, N, H.shape[-1])

    def _program(self, values: Tree, X: Rows) -> Rows:
        return module_rows(self.module, values, X)

    def __eq__(self, other: object) -> bool:
        # Modules compare by identity only; two descriptions are equal when structure, modes and values are.
        if not isinstance(other, Module) or (self.restarts, self.batching) != (other.restarts, other.batching):
            return False
        if self.module is other.module:
            return True
        mine, theirs = self.module.state_dict(), other.module.state_dict()
        same_code = type(self.module) is type(other.module) and repr(self.module) == repr(other.module)
        return same_code and mine.keys() == theirs.keys() and all(torch.equal(mine[key], theirs[key]) for key in mine)

    def __hash__(self) -> int:
        return hash((type(self.module), self.restarts, self.batching))


def _name(features: Module) -> str:
    return f"The module {type(features.module).__name__}"


def _refuse_training_mode(module: nn.Module) -> None:
    for name, part in module.named_modules():
        where = f"{type(part).__name__}{f' ({name!r})' if name else ''}"
        if isinstance(part, _DROPOUT) and part.training and part.p > 0:
            raise InputError(
                f"{where} is in training mode, so the features would be random. Call module.eval() first, or remove it."
            )
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and (part.training or not part.track_running_stats):
            raise InputError(
                f"{where} would make the features of a row depend on the other rows. Call module.eval() to use "
                "its running averages, or replace it by LayerNorm."
            )


def _vmapped(module: nn.Module, stacked: dict[str, Tensor], shared: dict[str, Tensor], X: Tensor) -> Tensor:
    def one(values: dict[str, Tensor], X: Tensor) -> Tensor:
        return called_with(module, values | shared, (X,))

    return vmap(one, in_dims=(0, None if X.ndim == 2 else 0), randomness="error")(stacked, X)


def _looped(module: nn.Module, stacked: dict[str, Tensor], shared: dict[str, Tensor], X: Tensor) -> Tensor:
    count = len(next(iter(stacked.values())))
    members = [{name: value[i] for name, value in stacked.items()} | shared for i in range(count)]
    return torch.stack([called_with(module, m, (X if X.ndim == 2 else X[i],)) for i, m in enumerate(members)])


def _tried(module: nn.Module, stacked: dict[str, Tensor], shared: dict[str, Tensor], X: Tensor) -> Tensor:
    try:
        return _vmapped(module, stacked, shared, X)
    except (RuntimeError, ValueError, TypeError):  # what is wrong with the module itself, the loop will say
        return _looped(module, stacked, shared, X)


_BATCHED: dict[str, Callable[..., Tensor]] = {"vmap": _vmapped, "loop": _looped, "auto": _tried}


def _fastest(module: nn.Module, X: Tensor) -> str:
    """The way to compute a batch: "vmap" if that works for this module without complaint, otherwise "loop"."""
    values = {name: torch.stack([p.detach(), p.detach()]) for name, p in module.named_parameters()}
    if not values:
        return "loop"
    with torch.no_grad():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # an operation without a batching rule warns, and is a slow loop inside
                batched = _vmapped(module, values, {}, X)
        except (RuntimeError, ValueError, TypeError, UserWarning):
            return "loop"
        return "vmap" if torch.allclose(batched, _looped(module, values, {}, X), rtol=1e-10, atol=1e-12) else "loop"
