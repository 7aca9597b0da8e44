"""Distances, one step a line."""

import torch


class Script:
    def local_mask(length, window):
        positions = torch.arange(length)
        differences = positions[:, None] - positions
        distances = differences.abs()
        half = window // 2
        mask = distances <= half
        return mask
