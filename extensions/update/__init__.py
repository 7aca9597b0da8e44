"""From a gradient to new weights: optimizers, learning rates, averages."""
