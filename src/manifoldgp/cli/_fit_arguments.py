"""From the options of ``mgp fit`` to the estimator's arguments; options that the chosen way does not obey are refused by name."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import typer


@dataclass(frozen=True)
class FitOptions:
    """What the command line says about training; None: not said."""

    averaging: str
    kernel: str | None
    target_warping: str | None
    method: str
    hidden: str | None
    activation: str | None
    restarts: int | None
    max_iter: int | None
    inducing: int | None
    checkpoint: Path | None
    time_budget: float | None
    seed: int
    device: str
    ordered: bool
    grouped: bool

    def arguments(self, shared: bool) -> dict[str, Any]:
        """Arguments of ManifoldGPRegressor, or, without averaging, of GPRegressor.

        shared: whether the processes of torchrun share the fit, which is sparse then, or a stack of few rows.
        """
        from manifoldgp.averaging import AVERAGINGS
        from manifoldgp.training.settings import METHODS

        self._refuse_unknown_kernels()
        if self.averaging == PLAIN:
            return self._plain_arguments(shared)
        few_may_be_exact = self.averaging == "stack" and self.inducing is None and self.checkpoint is None
        method = "sparse" if shared and self.method == "auto" and not few_may_be_exact else self.method
        ways = {"averaging": AVERAGINGS[self.averaging], **({} if method == "auto" else {"method": METHODS[method]})}
        self._refuse_what_is_not_sparse(method, shared)
        given: dict[str, dict[str, Any]] = {argument: {} for argument in ways}
        idle = self._networks_without_effect(method) if self.averaging == "fast" else []
        for name in ("restarts", "max_iter", "inducing", "checkpoint"):
            if getattr(self, name) is None:
                continue
            home = next((argument for argument, way in ways.items() if name in {f.name for f in fields(way)}), None)
            if home is None:
                idle.append(f"{_option(name)} has no effect on {self._way(method)}. {_OBEYED_BY[name]}")
            else:
                given[home][name] = getattr(self, name)
        if self.ordered and self.averaging != "stack":
            idle.append(f"--ordered has no effect on {self._way(method)}, which holds out no rows. It needs --averaging stack.")
        _refuse(idle)
        return {
            "features": self._features(),
            **({} if self.kernel is None else {"kernel": self.kernel}),
            **self._warping(),
            "averaging": ways["averaging"](**given["averaging"]) if given["averaging"] else self.averaging,
            "method": ways["method"](**given["method"]) if given.get("method") else method,
            "time_budget": self.time_budget,
            "random_state": self.seed,
            "device": self.device,
        }

    def _refuse_unknown_kernels(self) -> None:
        from manifoldgp.kernels import Kernel
        from manifoldgp.registry import shorthands

        known = [*shorthands(Kernel), "auto"]
        if self.kernel is not None and self.kernel not in known:
            raise typer.BadParameter(f"--kernel must be one of {', '.join(known)}; got {self.kernel!r}.")
        if self.kernel == "auto" and self.averaging != PLAIN:
            raise typer.BadParameter("--kernel auto chooses the kernel of a plain GP. It needs --averaging plain.")

    def _warping(self) -> dict[str, str]:
        if self.target_warping not in (None, "tanh"):
            raise typer.BadParameter(f"--target-warping must be tanh; got {self.target_warping!r}.")
        return {} if self.target_warping is None else {"target_warping": self.target_warping}

    def _plain_arguments(self, shared: bool) -> dict[str, Any]:
        """Arguments of GPRegressor."""
        from manifoldgp.training.settings import METHODS

        if shared:
            raise typer.BadParameter(
                "--averaging plain cannot be shared by the processes of torchrun. Use --averaging stack or single."
            )
        idle = [
            f"--{name} has no effect on --averaging plain, which has no network. Use another --averaging."
            for name in ("hidden", "activation")
            if getattr(self, name) is not None
        ]
        held_out = [name for name, given in (("--ordered", self.ordered), ("--group", self.grouped)) if given]
        if self.kernel != "auto" and held_out:
            idle.append(f"{held_out[0]} has no effect on --averaging plain, which holds out no rows. It needs --kernel auto.")
        sparse = {name: getattr(self, name) for name in ("inducing", "checkpoint") if getattr(self, name) is not None}
        if self.method != "sparse":
            idle += [f"{_option(name)} has no effect on {self._way(self.method)}. {_SPARSE}" for name in sparse]
        _refuse(idle)
        starts = {name: getattr(self, name) for name in ("restarts", "max_iter") if getattr(self, name) is not None}
        return {
            "kernel": self.kernel or "se",
            **self._warping(),
            **starts,
            "method": METHODS["sparse"](**sparse) if sparse else self.method,
            "time_budget": self.time_budget,
            "random_state": self.seed,
            "device": self.device,
        }

    def _refuse_what_is_not_sparse(self, method: str, shared: bool) -> None:
        if shared and method == "exact":
            raise typer.BadParameter("--method exact cannot be shared by the processes of torchrun. Use --method sparse.")
        if method == "local" and self.averaging != "stack":
            raise typer.BadParameter(
                f"--method local is for --averaging stack; --averaging {self.averaging} needs exact or sparse."
            )
        if method == "sparse" and self.averaging not in ("stack", "single"):
            one = "Under torchrun use" if shared else "Use --method exact, or"
            raise typer.BadParameter(
                f"--averaging {self.averaging} cannot be done by sparse models. {one} --averaging stack or single."
            )

    def _networks_without_effect(self, method: str) -> list[str]:
        return [
            f"--{name} has no effect on {self._way(method)}, which has networks of its own. Use another --averaging."
            for name in ("hidden", "activation")
            if getattr(self, name) is not None
        ]

    def _features(self) -> Any:
        if self.hidden is None and self.activation is None:
            return None
        from manifoldgp.estimators.arguments import DEFAULT_FEATURES
        from manifoldgp.features import MLP

        sizes: tuple[int, ...] = DEFAULT_FEATURES
        if self.hidden is not None:
            try:
                sizes = tuple(int(size) for size in self.hidden.split(","))
            except ValueError:
                raise typer.BadParameter(f"--hidden must be layer sizes such as 64,32,4; got {self.hidden!r}.") from None
        names = tuple((self.activation or "sigmoid").split(","))
        return MLP(sizes, names[0] if len(names) == 1 else names)

    def _way(self, method: str) -> str:
        return f"--averaging {self.averaging} with --method {method}"


PLAIN = "plain"
"""The word for a plain GP, which is no average."""

_STARTS = "It needs --averaging plain, single, restarts or nuts."
_SPARSE = "It needs --method sparse."
_OBEYED_BY = {"restarts": _STARTS, "max_iter": _STARTS, "inducing": _SPARSE, "checkpoint": _SPARSE}


def _refuse(idle: list[str]) -> None:
    """All options without effect in one go."""
    if idle:
        raise typer.BadParameter(" ".join(idle))


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
