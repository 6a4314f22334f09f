# %% [markdown]
# # Start
#
# A table of measurements goes in as it is; a model comes out that predicts with error bars and says in words what it found. The table here is made up: two numbers,
# the surface that was measured on, the run, and the target `y`.

# %%
import pandas as pd

from manifoldgp import ManifoldGPRegressor, Stack
from manifoldgp.data import example_table

table = pd.DataFrame(example_table(rows=120, seed=0))
table.head()

# %% [markdown]
# ## Fit
#
# Text columns become inputs by themselves. Rows of one run resemble each other, so `groups=` keeps them together: what is held out to weigh the models is then always a run that
# they have not seen. `ManifoldGPRegressor()` alone is the recommended setting; here it has fewer members, so that this page runs in seconds.

# %%
X, y = table[["x1", "x2", "surface"]], table["y"]
model = ManifoldGPRegressor(averaging=Stack(own_members=4))
model.fit(X, y, groups=table["run"])
model

# %% [markdown]
# The view of the fitted model begins with its arguments. Below them stands what `model.diagnose()` says: the typical error on rows that were held out, who carries the weight, and
# whether anything is unusual. The same as numbers:

# %%
numbers = model.diagnose().numbers
{name: round(numbers[f"held-out {name}"], 3) for name in ("RMSE", "MAE", "R²")}

# %% [markdown]
# ## Can it be trusted?
#
# Two hundred new rows. On the left each with its 95 % interval: bars should cross the diagonal. On the right the share of rows inside central intervals, against the share that
# should be: grey is what chance allows, and below the diagonal a model is too sure.

# %% alt="Left: predictions against observations, close to the diagonal. Right: the coverage of intervals, near the diagonal and somewhat below it."
from manifoldgp import plots

new = pd.DataFrame(example_table(rows=200, seed=1))
figure, (left, right) = plots.new_figure(1, 2, size=(8, 3.6))
plots.plot_predicted_observed(model, new[X.columns], new["y"], ax=left)
plots.plot_coverage(model, new[X.columns], new["y"], ax=right)
figure

# %% [markdown]
# ## What it learned
#
# Two valleys cross the square along its diagonal. One map shows the mean, the other where the model is unsure: at the sides of the valleys, and in corners without rows.

# %% alt="Two valleys along the diagonal, and a standard deviation that is larger at their sides and in a corner."
figure, (left, right) = plots.new_figure(1, 2, size=(8, 3.6))
plots.plot_mean_map(model, ("x1", "x2"), points=40, ax=left)
plots.plot_std_map(model, ("x1", "x2"), points=40, ax=right)
figure

# %% [markdown]
# ## Predict
#
# A mean, and an interval of the level that you ask for.

# %%
mean, interval = model.predict(new[X.columns].head(3), interval=0.9)
columns = {"mean": mean, "from": interval[:, 0], "to": interval[:, 1]}
pd.DataFrame(columns | {"measured": new["y"].head(3)}).round(3)

# %% [markdown]
# ## Keep
#
# One file, without pickle; it holds how text became numbers, too.

# %%
import manifoldgp

model.save("model.mgp")
again = manifoldgp.load("model.mgp")
bool((again.predict(X) == model.predict(X)).all())

# %% [markdown]
# Next: [steps](steps.py), the data that this method was made for; [tables](../guide/tables.md) with dates, gaps and many categories; the same [on the command line](../command-line.md).
