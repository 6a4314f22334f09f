# %% [markdown]
# # Experiments and suggestions
#
# A coating holds better the hotter and the longer it is cured, until it burns. There are two resins, temperatures come in steps of 5, and the oven's energy is limited. Ten
# experiments were done at random. Which four are next? The laboratory is simulated here, so that it can be said in the end how good the advice was: 5 is the best that is possible.

# %%
import numpy as np
import pandas as pd

from manifoldgp import ManifoldGPRegressor, plots, suggest

rng = np.random.default_rng(0)


def strength(table):
    """What an experiment gives, without noise."""
    heat = (table["temperature"] - 100) / 100 + 0.1 * (table["hours"] - 1)
    burnt = np.maximum(heat - np.where(table["resin"] == "A", 1.0, 0.8), 0.0)
    return 5 * heat - 25 * burnt


def measure(table):
    """The laboratory: the same rows with what was measured."""
    return table.assign(strength=strength(table) + 0.05 * rng.normal(size=len(table)))


def at_random(count):
    """Experiments that the oven can do."""
    drawn = pd.DataFrame({"temperature": 5.0 * rng.integers(20, 41, 200)})
    drawn["hours"] = rng.uniform(1, 8, 200)
    drawn["resin"] = rng.choice(["A", "B"], 200)
    possible = drawn["temperature"] * drawn["hours"] <= 900
    return drawn[possible].head(count).reset_index(drop=True)


done = measure(at_random(10))
done.round(2)

# %% [markdown]
# ## Fit, and ask
#
# `averaging="fast"` needs no held-out folds, of which ten rows have few to give. What is possible is said in the words of the table.

# %%
possible = {
    "bounds": {"temperature": (100, 200), "hours": (1, 8)},
    "steps": {"temperature": 5},
    "constraints": ["temperature * hours <= 900"],
}


def fitted(table):
    inputs = table[["temperature", "hours", "resin"]]
    return ManifoldGPRegressor(averaging="fast").fit(inputs, table["strength"])


found = suggest(fitted(done), "maximize", batch=4, **possible)
found.frame().assign(expected=found.mean, plus_minus=2 * found.std).round(2)

# %% [markdown]
# Four experiments to be done at the same time: each was chosen given those before it, so they do not all ask the same question. Rows have the columns of the table; measure them, append
# them, and go on.
#
# ## Three rounds, beside as many experiments at random

# %%
random = pd.concat([done, measure(at_random(12))], ignore_index=True)
best = [(len(done), strength(done).max(), strength(done).max())]
for _ in range(3):
    batch = suggest(fitted(done), "maximize", batch=4, **possible).frame()
    done = pd.concat([done, measure(batch)], ignore_index=True)
    best.append((len(done), strength(done).max(), strength(random.head(len(done))).max()))
pd.DataFrame(best, columns=["experiments", "best, suggested", "best, at random"]).round(2)

# %% alt="Experiments over temperature and hours: many of the suggested ones lie along the limit of energy."
figure, (ax,) = plots.new_figure(size=(7, 3.6))
hours = np.linspace(1, 8)
ax.plot(900 / hours, hours, color="grey", linewidth=1, label="limit of energy")
colours = {"vmin": 0, "vmax": 5, "edgecolors": "black", "linewidths": 0.5}
for label, rows, marker in (("random", done.head(10), "o"), ("suggested", done.tail(12), "D")):
    place = rows["temperature"], rows["hours"]
    points = ax.scatter(*place, c=rows["strength"], marker=marker, label=label, **colours)
figure.colorbar(points, label="strength")
ax.set(xlabel="temperature", ylabel="hours", xlim=(95, 205), ylim=(0.5, 8.5))
ax.legend(loc="upper right")
figure

# %% [markdown]
# ## To learn instead
#
# With `"learn"` experiments are chosen that make the model surest over the region of the data, whatever they give. That needs no goal, and no BoTorch.

# %%
lesson = suggest(fitted(done), "learn", batch=2, **possible)
lesson.frame().round(2)

# %% [markdown]
# More: [which experiment next](../suggest.md), also on the command line; acquisition functions of your own in [BoTorch](../guide/bayesian-optimisation.md).
