"""Loops over tokens, and a slice for each."""

import torch


class ScriptSlices:
    def local_mask(length, window):
        mask = torch.zeros((length, length), dtype=torch.bool)
        for i in range(length):
            mask[i, max(0, i - window // 2) : i + window // 2 + 1] = True
        return mask
