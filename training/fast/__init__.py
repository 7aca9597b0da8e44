"""What --fast puts in place of the code that one reads. No handout contains this folder.

Attention and AdamW's step are computed by PyTorch's kernels, the last layer for [CLS] alone, and
dropout draws cheaper random numbers: the same formulas, rounded differently, with other draws.
"""

from types import MethodType

from torch import nn
from torch.optim import Optimizer

from training.fast.adamw import fused_step
from training.fast.methods import attention_by_kernel, dropout_by_bits, lazy_output


def replace_by_kernels(model: nn.Module, optimizer: Optimizer | None = None) -> list[str]:
    """Replace attention, dropout and last layers in one or several BERTs, and an optimizer's step.

    Returns what was replaced by what, a phrase each.
    """
    on_gpu = next(model.parameters()).device.type != "cpu"
    for name, module in model.named_modules():
        if type(module).__name__ == "BertModel":
            module.forward = MethodType(lazy_output, module)
        elif name.split(".")[-1] == "self_attention":
            module.attention = MethodType(attention_by_kernel, module)
        elif type(module) is nn.Dropout and not on_gpu:
            module.forward = MethodType(dropout_by_bits, module)
    replaced = [f"attention by scaled_dot_product_attention{'' if on_gpu else ' in evaluation'}"]
    replaced.append("the last layer for [CLS] alone where that suffices")
    if not on_gpu:
        replaced.append("dropout by 16-bit draws")
    if optimizer:
        optimizer.step = MethodType(fused_step, optimizer)
        replaced.append("AdamW.step by PyTorch's fused kernel")
    return replaced
