"""From the options of ``mgp fit`` to the estimator's arguments; options that the chosen way does not obey are refused by name."""

from __future__ import annotations

from dataclasses import dataclass
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

    def refuse_what_has_no_effect(self, shared: bool) -> None:
        """Options that the chosen way does not obey and names that nobody knows, told without PyTorch, before any table is read.

        shared: whether the processes of torchrun share the fit, which is sparse then, or a stack of few rows.
        """
        self._refuse_unknown_names()
        if self.averaging == PLAIN:
            self._refuse_what_is_not_plain(shared)
            return
        self._sizes()
        method = self._method(shared)
        self._refuse_what_is_not_sparse(method, shared)
        idle = self._networks_without_effect(method) if self.averaging == "fast" else []
        for name, ways in OBEYED_BY.items():
            if getattr(self, name) is not None and not {self.averaging, method} & set(ways):
                idle.append(f"{_option(name)} has no effect on {self._way(method)}. {_needed(name)}")
        _refuse(idle)

    def arguments(self, shared: bool) -> dict[str, Any]:
        """Arguments of ManifoldGPRegressor, or, without averaging, of GPRegressor."""
        from manifoldgp.averaging import AVERAGINGS
        from manifoldgp.training.settings import METHODS

        settings = {name: getattr(self, name) for name in OBEYED_BY if getattr(self, name) is not None}
        sparse = {name: settings.pop(name) for name in SPARSE_ONLY if name in settings}
        method = self._method(shared)
        common = {
            **self._warping(),
            "method": METHODS[method](**sparse) if sparse else method,
            "time_budget": self.time_budget,
            "random_state": self.seed,
            "device": self.device,
        }
        if self.averaging == PLAIN:
            return {"kernel": self.kernel or "se", **settings, **common}
        return {
            "features": self._features(),
            **({} if self.kernel is None else {"kernel": self.kernel}),
            "averaging": AVERAGINGS[self.averaging](**settings) if settings else self.averaging,
            **common,
        }

    def _method(self, shared: bool) -> str:
        few_may_be_exact = self.averaging == "stack" and self.inducing is None and self.checkpoint is None
        return "sparse" if shared and self.method == "auto" and not few_may_be_exact else self.method

    def _refuse_unknown_names(self) -> None:
        if self.kernel is not None and self.kernel not in KERNELS:
            raise typer.BadParameter(f"--kernel must be one of {', '.join(KERNELS)}; got {self.kernel!r}.")
        if self.kernel == "auto" and self.averaging != PLAIN:
            raise typer.BadParameter("--kernel auto chooses the kernel of a plain GP. It needs --averaging plain.")
        if self.target_warping not in (None, "tanh"):
            raise typer.BadParameter(f"--target-warping must be tanh; got {self.target_warping!r}.")

    def _warping(self) -> dict[str, str]:
        return {} if self.target_warping is None else {"target_warping": self.target_warping}

    def _refuse_what_is_not_plain(self, shared: bool) -> None:
        if shared:
            raise typer.BadParameter(
                "--averaging plain cannot be shared by the processes of torchrun. Use --averaging stack or single."
            )
        idle = [
            f"--{name} has no effect on --averaging plain, which has no network. Use another --averaging."
            for name in ("hidden", "activation")
            if getattr(self, name) is not None
        ]
        if self.method != "sparse":
            idle += [
                f"{_option(name)} has no effect on {self._way(self.method)}. {_needed(name)}"
                for name in SPARSE_ONLY
                if getattr(self, name) is not None
            ]
        _refuse(idle)

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

    def _sizes(self) -> tuple[int, ...] | None:
        """Layer sizes of the network, if any are given."""
        try:
            return None if self.hidden is None else tuple(int(size) for size in self.hidden.split(","))
        except ValueError:
            raise typer.BadParameter(f"--hidden must be layer sizes such as 64,32,4; got {self.hidden!r}.") from None

    def _features(self) -> Any:
        if self.hidden is None and self.activation is None:
            return None
        from manifoldgp.estimators.arguments import DEFAULT_FEATURES
        from manifoldgp.features import MLP

        names = tuple((self.activation or "sigmoid").split(","))
        return MLP(self._sizes() or DEFAULT_FEATURES, names[0] if len(names) == 1 else names)

    def _way(self, method: str) -> str:
        return f"--averaging {self.averaging} with --method {method}"


PLAIN = "plain"
"""The word for a plain GP, which is no average."""

KERNELS = ("additive", "oak", "linear", "nn", "periodic", "rq", "sm", "se", "matern12", "matern32", "matern52", "auto")

_STARTS = (PLAIN, "single", "restarts", "nuts")
SPARSE_ONLY = ("inducing", "checkpoint")
OBEYED_BY = {"restarts": _STARTS, "max_iter": _STARTS, **dict.fromkeys(SPARSE_ONLY, ("sparse",))}
"""The averagings and methods that obey an option; written down, because asking their classes would bring PyTorch."""


def _needed(name: str) -> str:
    if name in SPARSE_ONLY:
        return "It needs --method sparse."
    *most, last = OBEYED_BY[name]
    return f"It needs --averaging {', '.join(most)} or {last}."


def _refuse(idle: list[str]) -> None:
    """All options without effect in one go."""
    if idle:
        raise typer.BadParameter(" ".join(idle))


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
