# %% [markdown]
# # Contacts and the order of time
#
# A foot touches the ground, and other equations hold. The package ships a recording of a simulated walking robot at 80 Hz; the task is the left knee from the other joints and
# two contact sensors.

# %% alt="The left knee over two seconds, with the stretches in which the left foot touches the ground."
import numpy as np

from manifoldgp import GPRegressor, ManifoldGPRegressor, Stack, plots
from manifoldgp.data import walker
from manifoldgp.metrics import nlpp, rmse

knee = walker()
seconds = np.arange(len(knee.y_train)) / 80
touching = knee.X_train[:, knee.input_names.index("left_contact")] > 0.5

figure, (ax,) = plots.new_figure(size=(8, 2.6))
shown = slice(0, 160)
ground = touching[shown]
ax.fill_between(seconds[shown], 0, 190, where=ground, alpha=0.15, label="left foot on the ground")
ax.plot(seconds[shown], knee.y_train[shown])
ax.set(xlabel="seconds", ylabel="left knee, degrees", ylim=(knee.y_train.min() - 3, 190))
ax.legend(loc="lower right")
figure

# %% [markdown]
# ## Two kinds of folds
#
# The average weighs its members by how well they predict rows that were held out. In a recording a row held out at random has neighbours a hundredth of a second away that were not:
# an easy test, which every model passes. `ordered=True` holds out contiguous stretches instead. Both, on every fourth row:

# %%
rows = slice(0, 400, 4)
X, y = knee.X_train[rows], knee.y_train[rows]

random_folds = ManifoldGPRegressor(averaging=Stack(own_members=3)).fit(X, y)
stretches = ManifoldGPRegressor(averaging=Stack(own_members=3)).fit(X, y, ordered=True)

for name, model in (("random rows", random_folds), ("stretches", stretches)):
    promised = model.diagnose().numbers["held-out RMSE"]
    measured = rmse(knee.y_test, model.predict(knee.X_test))
    print(f"held out {name}: {promised:.2f} degrees promised, {measured:.2f} measured")

# %% [markdown]
# Measured on the six seconds after the recording. What stretches promise is nearer to what happens on the rows that come after.
#
# ## Did features help?
#
# A question to ask, not a promise. Densities count here, not only errors: a model must know when it does not know.

# %%
plain = GPRegressor(restarts=3).fit(X, y)
for name, model in (("plain GP", plain), ("average", stretches)):
    density = model.log_predictive_density(knee.X_test, knee.y_test)
    print(f"{name}: mean negative log density {nlpp(density):.2f}")

# %%
stretches.diagnose()

# %% [markdown]
# ## The next seconds

# %% alt="The knee over the next two seconds, predicted, with a band that is wide around the contacts."
levels = (0.025, 0.5, 0.975)
low, middle, high = stretches.predict_quantiles(knee.X_test[shown], q=levels).T
figure, (ax,) = plots.new_figure(size=(8, 2.8))
plots.plot_band(ax, seconds[shown] + 5, middle, low, high, label="predicted")
plots.plot_observations(ax, seconds[shown] + 5, knee.y_test[shown], label="measured")
ax.set(xlabel="seconds", ylabel="left knee, degrees")
ax.legend()
figure

# %% [markdown]
# More: [contacts](../guide/contacts.md), [rows in order of time](../guide/time-order.md).
