# %% [markdown]
# # Contacts and the order of time
#
# A foot touches the ground, and other equations hold. The package ships a recording of a simulated walking robot at 80 Hz; the task is the left knee from the other joints and
# two contact sensors.

# %% alt="The left knee over two seconds, with the stretches in which the left foot touches the ground."
import numpy as np
import pandas as pd

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
# The average weighs its members by how well they predict rows that were held out. In a recording a row held out at random has neighbours a few hundredths of a second away that were
# not, which can be too easy a test. `ordered=True` holds out contiguous stretches instead. Both, on four choices of rows, with the error (RMSE, degrees) that the held-out rows promise and
# the one on the six seconds after the recording:

# %%
choices = {
    "every fourth of 400": slice(0, 400, 4),
    "every second of 240": slice(0, 240, 2),
    "the first 120": slice(0, 120),
    "the first 200": slice(0, 200),
}


def fitted(rows, ordered):
    model = ManifoldGPRegressor(averaging=Stack(own_members=3))
    return model.fit(knee.X_train[rows], knee.y_train[rows], ordered=ordered)


found = {}
for name, rows in choices.items():
    for folds, ordered in (("random rows", False), ("stretches", True)):
        model = fitted(rows, ordered)
        promised = model.diagnose().numbers["held-out RMSE"]
        found[name, folds] = promised, rmse(knee.y_test, model.predict(knee.X_test))
pd.DataFrame(found, index=["promised", "measured"]).T.round(2)

# %% [markdown]
# On this robot neither promise is the nearer one every time: its steps are much alike, which may be the reason. Stretches are the folds to take
# nevertheless. They ask what the model will be asked, what comes after; and where one run is not like the next, random rows can promise too much. Look at both on your own recordings.
#
# ## Did features help?
#
# A question to ask, not a promise. Densities count here, not only errors: a model must know when it does not know.

# %%
rows = choices["every fourth of 400"]
stretches = fitted(rows, ordered=True)
plain = GPRegressor(restarts=3).fit(knee.X_train[rows], knee.y_train[rows])
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
