"""What structure have these series? Searches, extrapolates, and draws the pictures of docs/guide/structure.md.

    python examples/structure.py [--out docs/images] [--only co2] [--budget 600]

Three series, of each the first part to learn from and the rest to compare with. CO2 on Mauna Loa and sunspots are read from the package statsmodels where
it is installed (it brings both records); otherwise series of the same structure are generated, and the pictures say so. The passengers are always generated.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from pathlib import Path

import numpy as np
import pandas as pd

from manifoldgp import KernelSearch
from manifoldgp.inspection.palette import BLUE, VERMILLION
from manifoldgp.plots import Style, new_figure, plot_band, plot_components, plot_observations, styled


def passengers() -> tuple[pd.DataFrame, str]:
    """Twelve years of months: a trend, and a yearly period that grows with it."""
    t = 1949 + np.arange(144) / 12
    season = np.sin(2 * np.pi * t) + 0.4 * np.cos(4 * np.pi * t)
    y = 110 + 28 * (t - 1949) + (14 + 6 * (t - 1949)) * season + 5 * np.random.default_rng(0).normal(size=len(t))
    return pd.DataFrame({"year": t, "passengers": y}), "generated"


def co2() -> tuple[pd.DataFrame, str]:
    """Monthly means of CO2 in ppm."""
    path = _record("co2")
    if path is not None:
        table = pd.read_csv(path, dtype={"date": str}).dropna()
        months = table["co2"].groupby(table["date"].str[:6]).mean()
        year = [int(month[:4]) + (int(month[4:]) - 0.5) / 12 for month in months.index]
        return pd.DataFrame({"year": year, "co2": months.to_numpy()}), "recorded on Mauna Loa"
    t = 1958 + np.arange(528) / 12
    rng = np.random.default_rng(1)
    slow = np.convolve(rng.normal(size=len(t) + 60), np.hanning(61) / 6, "valid")
    y = 315 + 0.75 * (t - 1958) + 0.012 * (t - 1958) ** 2 + 3 * np.sin(2 * np.pi * t) + slow + 0.3 * rng.normal(size=len(t))
    return pd.DataFrame({"year": t, "co2": y}), "generated"


def sunspots() -> tuple[pd.DataFrame, str]:
    """Yearly numbers of sunspots."""
    path = _record("sunspots")
    if path is not None:
        table = pd.read_csv(path)
        return pd.DataFrame({"year": table["YEAR"].astype(float), "sunspots": table["SUNACTIVITY"].astype(float)}), "recorded"
    t = 1700.0 + np.arange(309)
    rng = np.random.default_rng(2)
    phase = 2 * np.pi * np.cumsum(1 / (11 + 0.8 * np.sin(t / 15)))
    y = 50 + 40 * (1 + 0.4 * np.sin(t / 30)) * np.sin(phase) + 6 * rng.normal(size=len(t))
    return pd.DataFrame({"year": t, "sunspots": y}), "generated"


def _record(name: str) -> Path | None:
    """The table that statsmodels brings, without importing it."""
    spec = importlib.util.find_spec("statsmodels")
    path = None if spec is None or spec.origin is None else Path(spec.origin).parent / "datasets" / name / f"{name}.csv"
    return path if path is not None and path.is_file() else None


KERNELS = ("se", "rq", "periodic", "linear")
"""The base kernels of Duvenaud et al. (2013)."""

SERIES = {"passengers": (passengers, 0.6), "co2": (co2, 0.7), "sunspots": (sunspots, 0.8)}
"""Where each series comes from, and the share of its rows to learn from."""


def main(arguments: list[str] | None = None) -> dict[str, KernelSearch]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--only", nargs="+", choices=list(SERIES), default=list(SERIES))
    parser.add_argument("--budget", type=float, default=600.0, help="seconds of a search, at most")
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--most", type=int, help="look at the first so many rows only")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    return {name: study(name, given) for name in given.only}


def study(name: str, given: argparse.Namespace) -> KernelSearch:
    """Search one series, say what was found, and draw it."""
    source, share = SERIES[name]
    table, where = source()
    table = table[: given.most]
    known = int(share * len(table))
    inputs, target = table[["year"]], table[name].to_numpy()
    begin = time.perf_counter()
    model = KernelSearch(given.depth, beam=1, budget=given.budget, kernels=KERNELS).fit(inputs[:known], target[:known])
    error = np.sqrt(np.mean((model.predict(inputs[known:]) - target[known:]) ** 2))
    density = model.log_predictive_density(inputs[known:], target[known:]).mean()
    report = model.search_[0]
    print(
        f"{name} ({where}), {known} of {len(table)} rows, {len(report.candidates)} expressions in {time.perf_counter() - begin:.0f} s: {report.ended}"
    )
    print(str(model.describe()).replace("y is", f"{name} is", 1))
    print(
        f"Beyond the training rows: RMSE {error:.3g} (standard deviation {target[known:].std():.3g}), log density {density:.3g} a row\n"
    )
    draw(model, table, name, where, known).savefig(given.out / f"structure-{name}.png", dpi=120)
    plot_components(model, upto=[float(table["year"].max())]).savefig(given.out / f"structure-{name}-parts.png", dpi=120)
    return model


def draw(model: KernelSearch, table: pd.DataFrame, name: str, where: str, known: int):
    """The extrapolation beside the truth."""
    with styled():
        figure, (ax,) = new_figure(size=(7.2, 2.9))
        _draw(ax, model, table, name, where, known)
    return figure


def _draw(ax, model: KernelSearch, table: pd.DataFrame, name: str, where: str, known: int) -> None:
    t = pd.DataFrame({"year": np.linspace(table["year"].min(), table["year"].max(), 1200)})
    mean, std = model.predict(t, return_std=True)
    plot_band(ax, t["year"], mean, mean - 1.96 * std, mean + 1.96 * std, style=Style(BLUE), label="mean and 95 % interval")
    plot_observations(ax, table["year"][:known], table[name][:known], label="learned from", size=4)
    plot_observations(ax, table["year"][known:], table[name][known:], label="what came", size=5, color=VERMILLION)
    ax.axvline(float(table["year"][known]), color="#4a5159", linewidth=0.7, linestyle=":")
    ax.set(xlabel="year", ylabel=name, title=f"{name}, {where}", xlim=(table["year"].min(), table["year"].max()))
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.12 * (high - low))  # room for the legend
    ax.legend(loc="upper left", ncols=3, fontsize=7.5)


if __name__ == "__main__":
    main()
