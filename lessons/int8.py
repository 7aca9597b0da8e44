"""Rounding a matrix to int8 with one scale per row."""

from __future__ import annotations

import numpy as np

LARGEST = 127  # −128 is left out, so that the range is symmetric


def quantize_rows(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(R, C) float32 → (R, C) int8 and a scale per row (R,): matrix ≈ int8 · scale.

    Each row's largest number becomes ±127, so the error of no number exceeds half its row's scale.
    """
    scale = np.abs(matrix).max(axis=1) / LARGEST  # (R,)
    scale = np.where(scale > 0, scale, 1).astype(np.float32)  # a row of zeros, such as [PAD]'s
    return np.rint(matrix / scale[:, None]).astype(np.int8), scale
