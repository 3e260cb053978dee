"""Sources of lists: text, ELWC, tables, TensorFlow Datasets and synthetic lists."""
