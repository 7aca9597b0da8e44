"""Named shapes of an encoder: BERT's published sizes, and one for a CPU."""

from __future__ import annotations

from typing import Any

from config import BertConfig

FIELDS = (
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)
PRESETS = {  # Devlin et al. 2019, section 3; Turc et al. 2019, table 1
    "heartbert": (256, 4, 4, 1024, 128),  # ours
    "tiny": (128, 2, 2, 512, 512),
    "mini": (256, 4, 4, 1024, 512),
    "small": (512, 4, 8, 2048, 512),
    "medium": (512, 8, 8, 2048, 512),
    "base": (768, 12, 12, 3072, 512),
    "large": (1024, 24, 16, 4096, 512),
}


def preset(name: str, **values: Any) -> BertConfig:
    """One of PRESETS by its name; keywords override or complete it."""
    return BertConfig(**(dict(zip(FIELDS, PRESETS[name], strict=True)) | values))
