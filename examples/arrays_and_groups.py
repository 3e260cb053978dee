# %% [markdown]
"""Train on arrays and groups, with LightGBM beside it.

You have a matrix with one row per item, labels, and the number of rows of each query,
as LightGBM and XGBoost want them. Here you learn

- how to train `tfr_ext.Ranker` on them,
- how to evaluate any scores by the same metric, whoever made them,
- how it does beside LightGBM's `LGBMRanker` on the same data, and
- how to save the ranker and load it again.
"""

# %%
import importlib.util
import tempfile

import matplotlib.pyplot as plt
import numpy as np

import tfr_ext

# %% [markdown]
# ## Rows and groups
#
# A query has 5 to 30 items, and an item has ten features. The first four say how well
# the item matches, which is a sum of two products. The fifth is its price: what costs
# more than 0.5 is less wanted. The others say nothing. Networks are said to be good at
# products, and trees at limits.

# %%
rng = np.random.default_rng(1)


def draw_queries(count):
    """Returns features and labels, a row per item, and the rows of each query."""
    group = rng.integers(5, 31, size=count)
    X = rng.normal(size=[group.sum(), 10])
    match = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3]
    too_dear = X[:, 4] > 0.5
    noise = rng.normal(scale=0.4, size=len(X))
    return X, np.digitize(match - 1.5 * too_dear + noise, [0, 1, 2, 3]), group


X_train, y_train, group_train = draw_queries(500)
X_test, y_test, group_test = draw_queries(500)
print(f"{len(group_train)} training queries, {len(X_train)} items")
print("items by label:", np.bincount(y_train))

# %% [markdown]
# ## Training
#
# `Ranker` holds out a fifth of the queries, and keeps the epoch that is best on them.
# `fit` and `predict` are those of scikit-learn, and of LightGBM.

# %%
ranker = tfr_ext.Ranker(
    loss="smoothi_loss",
    loss_params={"topn": 10},
    model="mlp",  # scores items by themselves
    hidden_sizes=(64, 64),
    learning_rate=0.01,
    batch_size=50,
    num_epochs=12,
)
ranker.fit(X_train, y_train, group=group_train)
print("best epoch:", ranker.best_epoch_)

# %% [markdown]
# `evaluate` prints the usual metrics, with what they mean.

# %%
print(ranker.evaluate(X_test, y_test, group=group_test))

# %% [markdown]
# ## LightGBM on the same data
#
# It takes the same three arrays. Its settings, like those of the ranker, are what was
# best in a few tries. If it is not installed, the script goes on without it.

# %%
scores = {
    "random": rng.normal(size=len(X_test)),
    "Ranker": ranker.predict(X_test),
}
if importlib.util.find_spec("lightgbm"):
    import lightgbm

    trees = lightgbm.LGBMRanker(n_estimators=200, num_leaves=8, n_jobs=1, verbose=-1)
    trees.fit(X_train, y_train, group=group_train)
    scores["LightGBM"] = trees.predict(X_test)
else:
    print("LightGBM is left out: it is not installed (pip install lightgbm).")

# %% [markdown]
# Networks and trees err on different items. The mean of their scores, each in units of
# its standard deviation, costs nothing more.

# %%
if "LightGBM" in scores:
    pair = np.stack([scores["Ranker"], scores["LightGBM"]])
    scores["mean of both"] = (pair / pair.std(axis=1, keepdims=True)).mean(axis=0)

# %% [markdown]
# ## One metric for all
#
# `per_query` takes any scores, in the order of the rows.

# %%
test_lists = tfr_ext.data.RankingLists.from_arrays(X_test, y_test, group=group_test)
names = [f"ndcg_{k}" for k in (1, 3, 5, 10, 20)]
found = {
    model: tfr_ext.evaluation.per_query(test_lists, of_model, names)
    for model, of_model in scores.items()
}
print("NDCG at      ", *(f"{name[5:]:>5}" for name in names))
for model, values in found.items():
    print(f"{model:13}", *(f"{values[name].mean():.3f}" for name in names))

# %% [markdown]
# Each query has its value, so differences can be tested. Here each model is compared
# with the one before it, by a paired t-test.

# %%
models = list(found)[1:]
for model, other in zip(models[1:], models):
    a, b = found[model]["ndcg_10"], found[other]["ndcg_10"]
    p = tfr_ext.evaluation.p_value(a, b)
    print(f"{model} - {other}: {a.mean() - b.mean():+.3f}, p = {p:.1g}")

# %% [markdown]
# ## Saving
#
# `save` and `load` keep the whole ranker; `export` writes a model for TensorFlow
# Serving.

# %%
with tempfile.TemporaryDirectory() as folder:
    ranker.save(folder)
    again = tfr_ext.Ranker.load(folder)
same = np.array_equal(again.predict(X_test[:30]), scores["Ranker"][:30])
print("the loaded ranker scores the same:", same)

# %% [markdown]
# ## The comparison in a picture

# %%
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for model, values in list(found.items())[1:]:
    means = [values[name].mean() for name in names]
    axes.plot(means, "o-", label=model)
axes.set(xlabel="NDCG at", ylabel="mean of the test queries")
axes.set_xticks(range(len(names)), [name[5:] for name in names])
axes.legend()
figure.savefig("arrays_and_groups.png")
