"""Other correct ways: two comparisons, triangles, loops and slices."""

import torch


class ScriptBothSides:
    def local_mask(length, window):
        row, column = torch.arange(length).unsqueeze(1), torch.arange(length).unsqueeze(0)
        return (column >= row - window // 2) & (column <= row + window // 2)


class ScriptTriangles:
    def local_mask(length, window):
        ones = torch.ones(length, length, dtype=torch.bool)
        return ones.tril(window // 2).triu(-(window // 2))


class ScriptLoops:
    def local_mask(length, window):
        half = int(window / 2)
        return torch.tensor([[abs(i - j) <= half for j in range(length)] for i in range(length)])


class ScriptSlices:
    def local_mask(length, window):
        mask = torch.zeros((length, length), dtype=torch.bool)
        for i in range(length):
            mask[i, max(0, i - window // 2) : i + window // 2 + 1] = True
        return mask
