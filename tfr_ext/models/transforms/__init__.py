"""Feature transforms inside the model, which trains and serves on raw features.

A transform is a Keras layer of `(features, mask)`, and `FeatureTransforms` applies
several in turn. It is called like the preprocessors of TensorFlow Ranking, so it can
also be used in a `tfr.keras.model.ModelBuilder`. `tfr_ext.models` has their names.
"""
