"""Experiments in rounds: fit a table, ask for the next batch, measure, append, again.

    python examples/suggestion_loop.py            # 5 rounds of 4 experiments, beside as many at random
    python examples/suggestion_loop.py --quick    # 2 rounds of 2

The experiment is simulated: a coating holds better the hotter and the longer it is cured, until it burns; one of two resins burns sooner, and each wants its own pressure.
Temperatures can be set in steps of 5, curing costs energy (a condition on both inputs), and every measurement has noise. In a laboratory `measure` is you, and the table is a file:

    mgp fit table.csv --target strength --averaging fast --out model.mgp
    mgp suggest model.mgp --maximize --batch 4 --step temperature=5 --constraint "temperature * hours <= 900" --like table.csv >> table.csv
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from manifoldgp import ManifoldGPRegressor, TableEncoding, suggest

BOUNDS = {"temperature": (100.0, 200.0), "hours": (1.0, 8.0), "pressure": (1.0, 4.0)}
ENERGY = "temperature * hours <= 900"


def strength(table: pd.DataFrame) -> np.ndarray:
    """What an experiment gives without noise: more with heat and time, fast less where the resin burns, and less at the wrong pressure. At best 5."""
    first = table["resin"] == "A"
    heat = (table["temperature"] - 100) / 100 + 0.1 * (table["hours"] - 1)
    burnt = np.maximum(heat - np.where(first, 1.0, 0.8), 0.0)
    return (5 * heat - 25 * burnt - (table["pressure"] - np.where(first, 1.5, 3.0)) ** 2).to_numpy()


def measure(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """The same rows with what was measured."""
    return table.assign(strength=strength(table) + 0.05 * rng.normal(size=len(table)))


def at_random(count: int, rng: np.random.Generator) -> pd.DataFrame:
    """Experiments that are possible."""
    temperature, hours = 5 * rng.integers(20, 41, 20 * count), rng.uniform(1, 8, 20 * count)
    table = pd.DataFrame({"temperature": temperature.astype(float), "hours": hours, "pressure": rng.uniform(1, 4, 20 * count)})
    table["resin"] = rng.choice(["A", "B"], len(table))
    return table[table["temperature"] * table["hours"] <= 900].head(count).reset_index(drop=True)


def next_batch(table: pd.DataFrame, count: int) -> pd.DataFrame:
    """What to do next, after what the table says."""
    encoding = TableEncoding.learn(table, ["strength"])
    model = ManifoldGPRegressor(averaging="fast").fit(encoding.inputs(table), encoding.target_values(table))
    model.table_encoding_ = encoding
    return suggest(model, "maximize", batch=count, bounds=BOUNDS, steps={"temperature": 5}, constraints=[ENERGY]).frame()


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Print the best true strength after every round; returns that of suggestions and that of random experiments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="two rounds of two experiments")
    given = parser.parse_args(arguments)
    if given.quick:
        given.rounds, given.batch = 2, 2
    rng = np.random.default_rng(given.seed)
    table = measure(at_random(10, rng), rng)
    other = measure(at_random(10 + given.rounds * given.batch, rng), rng)
    best = lambda rows: float(strength(rows).max())  # noqa: E731
    print(f"10 random experiments: best strength {best(table):.3f}")
    for number in range(1, given.rounds + 1):
        table = pd.concat([table, measure(next_batch(table, given.batch), rng)], ignore_index=True)
        print(
            f"round {number}, {len(table)} experiments: suggested {best(table):.3f}, at random {best(other.head(len(table))):.3f}"
        )
    print("\nThe last suggestions:\n" + table.tail(given.batch).round(3).to_string(index=False))
    return best(table), best(other)


if __name__ == "__main__":
    main()
