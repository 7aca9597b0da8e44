"""What --fast puts in place of the code that one reads. No handout contains this folder.

Attention and AdamW's step are computed by PyTorch's kernels, the last layer for [CLS] alone, and
dropout draws cheaper random numbers: the same formulas, rounded differently, with other draws.
"""

from types import MethodType

from torch import nn
from torch.optim import Optimizer

from training.fast.adamw import fused_step
from training.fast.attention import use_attention_kernel
from training.fast.dropout import use_short_draws
from training.fast.pooler import use_lazy_output


def replace_by_kernels(model: nn.Module, optimizer: Optimizer | None = None) -> list[str]:
    """Replace attention, dropout and the last layer in a model, and an optimizer's step.

    Attention in training takes the kernel on GPUs alone: on a CPU with dropout it is not faster.
    Returns what was replaced by what, a phrase each.
    """
    on_gpu = next(model.parameters()).device.type != "cpu"
    use_attention_kernel(model)
    use_lazy_output(model)
    replaced = [f"attention by scaled_dot_product_attention{'' if on_gpu else ' in evaluation'}"]
    replaced.append("the last layer for [CLS] alone where that suffices")
    if not on_gpu:
        use_short_draws(model)
        replaced.append("dropout by 16-bit draws")
    if optimizer is not None:
        optimizer.step = MethodType(fused_step, optimizer)
        replaced.append("AdamW.step by PyTorch's fused kernel")
    return replaced
