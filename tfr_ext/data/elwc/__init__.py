"""ELWC: TFRecords of `ExampleListWithContext`, TensorFlow Ranking's own format."""
