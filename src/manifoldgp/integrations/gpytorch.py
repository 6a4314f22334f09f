"""Kernels of GPyTorch as kernels of this package (extra `[gpytorch]`)."""

from __future__ import annotations

import copy
import math
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from manifoldgp.errors import InputError, MissingExtraError
from manifoldgp.kernels import Kernel
from manifoldgp.parameters import Law, Parameter, Tree, constant_law, leaves, nest
from manifoldgp.registry import register
from manifoldgp.torch_modules import called_with

try:
    import gpytorch
except ImportError as error:
    raise MissingExtraError(
        f"manifoldgp.integrations.gpytorch needs GPyTorch ({error}). Install it with: pip install 'manifoldgp[gpytorch]'"
    ) from error

_ROWS_OF_PROBE = 3


@register("integrations.GPyTorchKernel")
@dataclass(frozen=True, eq=False)
class GPyTorchKernel(Kernel):
    """k(h, h') of a ``gpytorch.kernels.Kernel``, trained together with everything else. The kernel handed in is copied, never changed.

    Its parameters: those of ``kernel.named_parameters()``; dots in names are levels of the tree. The first start is the kernel as it comes; the others
    have natural values scattered by a factor of e. A file holds the learnt tensors; whoever loads it brings the kernel:
    ``manifoldgp.load(path, modules=[RBFKernel()])``.

    Parameters
    ----------
    kernel
        Its raw parameters (``raw_lengthscale``) are trained, without constraints: GPyTorch's own constraints turn them into natural values. Parameters
        without ``requires_grad`` and buffers are constants. A kernel with GPyTorch priors is refused: use the estimator's ``priors``.
    batching
        How a batch of parameters is computed: "native", by the kernel's own batch dimensions; "loop", one after another; or "auto" for the first, if it
        gives the same.

    Examples
    --------
    >>> kernel = GPyTorchKernel(gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()))
    >>> sorted(name for name, parameter in leaves(kernel.parameters(torch.zeros(3, 2))) if parameter.trainable)
    ['base_kernel.raw_lengthscale', 'raw_outputscale']
    """

    kernel: gpytorch.kernels.Kernel
    batching: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.kernel, gpytorch.kernels.Kernel):
            raise InputError(f"A gpytorch.kernels.Kernel is expected; got {self.kernel!r}.")
        if self.batching not in ("auto", "native", "loop"):
            raise InputError(f"batching must be 'auto', 'native' or 'loop', got {self.batching!r}.")
        if self.kernel.batch_shape:
            raise InputError(
                f"The kernel has the batch shape {tuple(self.kernel.batch_shape)}; restarts bring batches of their own. Leave out batch_shape."
            )
        priors = [name for name, *_ in self.kernel.named_priors()]
        if priors:
            raise InputError(
                f"The kernel has GPyTorch priors ({', '.join(priors)}), which training here would pass over. Make it without them, and give the "
                "estimator priors on the raw parameters: priors={'kernel.*raw_lengthscale': Normal(0, 1)}."
            )
        object.__setattr__(self, "kernel", copy.deepcopy(self.kernel).double())

    def _parameters(self, H: Tensor) -> Tree:
        constraints = {name: constraint for name, _, constraint in self.kernel.named_parameters_and_constraints()}
        named = {}
        for name, own in self._own().items():
            value, trained = own.detach().to(H.device), isinstance(own, torch.nn.Parameter) and own.requires_grad
            law = _scattered(value, constraints[name]) if trained else constant_law(value)
            named[name] = Parameter(tuple(value.shape), law, trainable=trained)
        return nest(named)

    def _matrix(self, values: Tree, H: Tensor) -> Tensor:
        K = self._cross(values, H, H)
        # Distances of a row to itself are rounding errors in GPyTorch's matrix; its diagonal knows better.
        return K + torch.diag_embed(self._diagonal(values, H) - K.diagonal(dim1=-2, dim2=-1))

    def _cross(self, values: Tree, H1: Tensor, H2: Tensor) -> Tensor:
        return self._batched(values, H1, H2, diagonal=False)

    def _diagonal(self, values: Tree, H: Tensor) -> Tensor:
        return self._batched(values, H, H, diagonal=True)

    def _own(self) -> dict[str, Tensor]:
        return dict(self.kernel.named_parameters()) | dict(self.kernel.named_buffers())

    def _batched(self, values: Tree, H1: Tensor, H2: Tensor, diagonal: bool) -> Tensor:
        """k for values with leaves (*B, *shape), H1 (*B', N1, Q), H2 (*B', N2, Q): (*B'', N1, N2), or (*B'', N1)."""
        own, named = self._own(), dict(leaves(values))
        trained = {name for name in named if isinstance(own[name], torch.nn.Parameter)}
        batches = [v.shape[: v.ndim - own[name].ndim] for name, v in named.items() if name in trained]
        batch = np.broadcast_shapes(H1.shape[:-2], H2.shape[:-2], *batches)
        stacked = {n: named[n].expand((*batch, *own[n].shape)).reshape(-1, *own[n].shape) for n in trained}
        constants = {n: v.reshape(-1, *own[n].shape)[0] for n, v in named.items() if n not in trained}
        A, B = (H.expand(*batch, *H.shape[-2:]).reshape(-1, *H.shape[-2:]) for H in (H1, H2))
        if self._native(stacked, constants, A, B):
            K = _evaluate(self.kernel, stacked | constants, A, B, diagonal)
        else:
            K = _looped(self.kernel, stacked, constants, A, B, diagonal)
        return K.reshape(*batch, *K.shape[1:])

    def _native(self, stacked: dict[str, Tensor], constants: dict[str, Tensor], A: Tensor, B: Tensor) -> bool:
        """Whether the kernel's own batch dimensions give what a loop gives, tried once on a few rows."""
        if self.batching == "auto" and len(A) > 1 and A.shape[-2] and B.shape[-2]:
            object.__setattr__(self, "batching", _way(self.kernel, stacked, constants, A, B))
        return self.batching == "native"

    def __eq__(self, other: object) -> bool:
        # Modules compare by identity only; two descriptions are equal when structure and values are.
        if not isinstance(other, GPyTorchKernel) or self.dims != other.dims:
            return False
        mine, theirs = self._own(), other._own()
        same_code = type(self.kernel) is type(other.kernel) and repr(self.kernel) == repr(other.kernel)
        return same_code and mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash((type(self.kernel), self.dims))


def _evaluate(kernel: gpytorch.kernels.Kernel, values: dict[str, Tensor], A: Tensor, B: Tensor, diagonal: bool) -> Tensor:
    with ExitStack() as stack:
        stack.enter_context(gpytorch.settings.lazily_evaluate_kernels(False))
        stack.enter_context(gpytorch.settings.trace_mode(True))  # plain operations, which can be differentiated twice
        K = called_with(kernel, values, (A, B), {"diag": diagonal})
    K = K if isinstance(K, Tensor) else K.to_dense()
    expected = (*A.shape[:-1],) if diagonal else (*A.shape[:-1], B.shape[-2])
    if K.shape != expected:
        raise InputError(
            f"{type(kernel).__name__} gave a covariance of shape {tuple(K.shape)} where {expected} is expected: one number for each pair of rows."
        )
    return K


def _looped(
    kernel: gpytorch.kernels.Kernel,
    stacked: dict[str, Tensor],
    constants: dict[str, Tensor],
    A: Tensor,
    B: Tensor,
    diagonal: bool,
) -> Tensor:
    members = ({name: value[i] for name, value in stacked.items()} | constants for i in range(len(A)))
    return torch.stack([_evaluate(kernel, values, A[i], B[i], diagonal) for i, values in enumerate(members)])


def _way(kernel: gpytorch.kernels.Kernel, stacked: dict[str, Tensor], constants: dict[str, Tensor], A: Tensor, B: Tensor) -> str:
    few = {name: value[:2].detach() for name, value in stacked.items()}
    A, B = A[:2, :_ROWS_OF_PROBE].detach(), B[:2, :_ROWS_OF_PROBE].detach()
    loop = _looped(kernel, few, constants, A, B, diagonal=False)
    try:
        native = _evaluate(kernel, few | constants, A, B, diagonal=False)
        same = torch.allclose(native, loop, rtol=1e-10, atol=1e-12)
        diagonal = _evaluate(kernel, few | constants, A, A, diagonal=True)
        same = same and torch.allclose(diagonal, _looped(kernel, few, constants, A, A, True), rtol=1e-10, atol=1e-12)
    except (RuntimeError, InputError, ValueError, IndexError):
        return "loop"
    return "native" if same else "loop"


def _scattered(raw: Tensor, constraint: gpytorch.constraints.Interval | None) -> Law:
    """The raw value itself, then natural values scattered by a factor of e; between two bounds, or without any, raw ones are."""

    def draw(generator: torch.Generator, count: int) -> Tensor:
        noise = torch.randn((count, *raw.shape), generator=generator, dtype=torch.float64).to(raw.device)
        noise[:1] = 0.0
        if constraint is None or not constraint.enforced:
            size = float(raw.square().mean().sqrt())
            return raw + 0.1 * (size if size > 0 else 1.0) * noise
        if not math.isinf(float(constraint.upper_bound.max())):
            return raw + noise
        natural = constraint.transform(raw) - constraint.lower_bound
        return torch.where(noise == 0, raw, constraint.inverse_transform(constraint.lower_bound + natural * noise.exp()))

    return draw
