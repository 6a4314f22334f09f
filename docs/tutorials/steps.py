# %% [markdown]
# # Steps
#
# A Gaussian process with a stationary kernel is equally smooth everywhere. A step is not. This is the first experiment of
# [Calandra et al. 2016](https://arxiv.org/abs/1402.5876): 100 rows near a step from 0 to 1, with a little noise.

# %%
from manifoldgp import GPRegressor, ManifoldGPRegressor, Stack, plots
from manifoldgp.data import step_function
from manifoldgp.metrics import nlpp

step = step_function(seed=0)
X, y = step.X_train, step.y_train
step.description

# %% [markdown]
# ## A plain Gaussian process, and ours

# %%
plain = GPRegressor(restarts=3).fit(X, y)
ours = ManifoldGPRegressor(averaging=Stack(own_members=6)).fit(X, y)  # 20 by default

for name, model in (("plain GP", plain), ("ours", ours)):
    density = model.log_predictive_density(step.X_test, step.y_test)
    print(f"{name}: mean negative log density {nlpp(density):.2f} (lower is better)")

# %% alt="Left: the plain GP is unsure everywhere between the rows. Right: the average is sure on both sides, and unsure in the gap at the step."
figure, axes = plots.new_figure(1, 2, size=(8, 3.4))
for ax, name, model in zip(axes, ("plain GP", "ours"), (plain, ours), strict=True):
    plots.plot_prediction(model, ax=ax)
    ax.set_title(name)
    ax.set_xlim(-3, 3)
    ax.set_ylim(-0.6, 1.6)
figure

# %% [markdown]
# The plain GP needs a short length-scale for the step, and then forgets what it knows between the rows of the flat parts.
#
# ## What was learned
#
# The network maps the input to features, in which the two sides are far apart; between them there is nothing to be smooth about. Rows as the kernel sees them, coloured by the target:

# %% alt="The learned features: rows of one side of the step lie together, far from those of the other side."
plots.plot_features(ours).figure

# %% [markdown]
# ## Why an average
#
# Nothing says where in the gap between the last 0 and the first 1 the step is. One trained network decides for one place, and is sure of it. Many of them disagree, and that is
# what the data say. Each group got the weight that held-out rows gave it:

# %% alt="Weights of the groups of models in the average."
plots.plot_weights(ours).figure

# %%
left, right = X[X < 0].max(), X[X > 0].min()
low, high = ours.predict_quantiles([[(left + right) / 2]], q=(0.025, 0.975))[0]
print(f"The gap is ({left:.3f}, {right:.3f}); in its middle y is between {low:.2f} and {high:.2f}.")

# %% [markdown]
# More: [the guide to steps](../guide/steps.md), [how the average is made](../averaging.md).
