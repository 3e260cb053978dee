# %% [markdown]
"""Rank the products of a shop: from a frame with strings to a call of the server.

You have a table of shown products with the words of the query, and who bought what.
Here you learn

- how to train `tfr_ext.Ranker` on brands, titles and queries beside numbers,
- what each of them brings,
- what becomes of words and brands that training did not have, and
- how to export the ranker, and what one sends to TensorFlow Serving.
"""

# %%
import json
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf

import tfr_ext

# %% [markdown]
# ## A shop
#
# A query asks for a thing of a colour. Ten products are shown: some are what was asked
# for, in words of their own. Cheap ones sell better, premium customers look at the
# brand.

# %%
rng = np.random.default_rng(1)
COLOURS = ["red", "blue", "green", "black", "white"]
THINGS = ["shoe", "boot", "hat", "coat", "bag", "scarf"]
FILLERS = ["new", "classic", "the", "for", "women", "men", "sale", "original"]
BRANDS = {f"brand {letter}": rng.normal() for letter in "abcdefghijklmnop"}


def draw_lists(count, start):
    """Returns a row for each product that was shown."""
    rows = []
    for query in range(start, start + count):
        colour, thing = rng.choice(COLOURS), rng.choice(THINGS)
        segment = rng.choice(["premium", "saver"])
        for _ in range(10):
            words = [rng.choice([thing, rng.choice(THINGS)])]
            words += [rng.choice([colour, rng.choice(COLOURS)])]
            brand, price = rng.choice([*BRANDS]), rng.lognormal()
            wanted = 2.0 * (thing in words) + (colour in words) - price / 2
            wanted += BRANDS[brand] * (segment == "premium") + rng.normal(0, 0.3)
            words += [*rng.choice(FILLERS, 3)]
            title = " ".join(rng.permutation(words)).title()
            row = query, f"{colour} {thing}", segment, title, brand, price, wanted
            rows.append(row)
    names = ["query", "words", "segment", "title", "brand", "price", "wanted"]
    frame = pd.DataFrame(rows, columns=names)
    frame["bought"] = (frame["wanted"] > 2.0).astype(int)
    return frame.drop(columns="wanted")


train, test = draw_lists(800, 0), draw_lists(300, 800)
print(train.drop(columns="query").head(4).to_string(index=False))

# %% [markdown]
# ## Training
#
# Columns of texts are categories, unless `texts` names them: then their words count.
# `context` names what is of the query or the user, once a list.

# %%
COLUMNS = {
    "price": ["query", "price"],
    "and brand": ["query", "price", "brand", "segment"],
    "and words": ["query", "price", "brand", "segment", "title", "words"],
}
for name, columns in COLUMNS.items():
    ranker = tfr_ext.Ranker(
        query="query",
        texts=[x for x in columns if x in ("title", "words")],
        context=[x for x in columns if x in ("segment", "words")],
        num_epochs=40,
    ).fit(train[columns], train["bought"])
    print(f"NDCG@10 {ranker.score(test[columns], test['bought']):.3f}  {name}")

# %% [markdown]
# ## Words that nobody asked for before
#
# A purple umbrella was not in training. That a title has these words tells all the
# same.

# %%
new = pd.DataFrame(
    {
        "query": 1,
        "words": "purple umbrella",
        "segment": "saver",
        "title": ["Umbrella, purple", "Red shoe", "Purple-ish umbrellas"],
        "brand": "a new brand",
        "price": 1.0,
    }
)
for score, title in sorted(zip(ranker.predict(new[columns]), new["title"]))[::-1]:
    print(f"{score:7.2f}  {title}")

# %% [markdown]
# ## The server
#
# The export takes texts as they are. For a server one would name a directory that
# stays; with TensorFlow Serving on it, this is the call:

# %%
with tempfile.TemporaryDirectory() as folder:
    version = ranker.export(folder)
    served = tf.saved_model.load(version).signatures["serving_default"]
    request = {
        "float_features": [new[["price"]].to_numpy().tolist()],
        "brand": [new["brand"].tolist()],
        "title": [new["title"].tolist()],
        "segment": [new["segment"][0]],
        "words": [new["words"][0]],
    }
    scores = served(**{name: tf.constant(x) for name, x in request.items()})["scores"]

print(f"curl -d '{json.dumps({'inputs': request})}' \\")
print("  localhost:8501/v1/models/ranker:predict")
print("served as predicted:", np.allclose(scores[0], ranker.predict(new[columns])))

# %% [markdown]
# ## What each column brings
#
# The drop of NDCG@10 if the values of a column go to other products, or to other lists.

# %%
found = ranker.importances(test[columns], test["bought"])
print(found)
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
found.plot(axes)
figure.savefig("shop.png")
