"""Seeds, dtypes and masks: what BERT itself needs, and the names that older course code expects.

Older code says ``from utils import *`` and expects torch, nn, os, copy and the names of typing from
it: they stay imported, used or not.
"""

from __future__ import annotations

import argparse
import copy
import os
import random
import types
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set, Tuple, Union

import numpy as np
import torch
from torch import Tensor, nn

# Checkpoints of older course code hold argparse Namespaces, SimpleNamespaces and NumPy random
# states. Exactly these types may be rebuilt by torch.load(weights_only=True); nothing else.
torch.serialization.add_safe_globals(
    [
        argparse.Namespace,
        types.SimpleNamespace,
        np._core.multiarray._reconstruct,
        np.ndarray,
        np.dtype,
        np.dtypes.UInt32DType,
    ]
)


def seed_everything(seed: int = 11711) -> None:
    """Seed Python, NumPy and torch, and ask for deterministic kernels.

    Two runs with the same seed on the same machine give the same bits; another machine, another
    number of threads or another version of torch may round differently.
    """
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)  # seeds CUDA and MPS too
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(True, warn_only=True)
    # That switch also fills fresh memory with NaN, at a cost, to expose reads of unset values.
    torch.utils.deterministic.fill_uninitialized_memory = False


def get_parameter_dtype(module: nn.Module) -> torch.dtype:
    """The floating-point type of a module's parameters (float32 if it has none)."""
    for parameter in module.parameters():
        if parameter.is_floating_point():
            return parameter.dtype
    return torch.float32


def get_extended_attention_mask(attention_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Turn a mask of 1 (token) and 0 (padding) into one that is *added* to attention scores.

    (B, L) → (B, 1, 1, L): 0 where there is a token, the most negative number of ``dtype`` where
    there is padding, so that softmax gives padding a weight of exactly 0. The two axes of size 1
    broadcast over heads and over query positions.
    """
    if attention_mask.dim() != 2:
        raise ValueError(f"attention_mask must be (B, L), got {tuple(attention_mask.shape)}")
    mask = attention_mask[:, None, None, :].to(dtype)  # (B, 1, 1, L)
    return (1.0 - mask) * torch.finfo(dtype).min
