"""The formula, one step a line."""

import torch


class Script:
    def apply_rotary(x, theta):
        length, width = x.shape[-2:]
        exact = torch.promote_types(x.dtype, torch.float32)
        positions = torch.arange(length, dtype=exact, device=x.device)
        exponents = torch.arange(0, width, 2, dtype=exact, device=x.device) / width
        frequencies = 1 / theta**exponents
        angles = positions[:, None] * frequencies
        cos, sin = angles.cos(), angles.sin()
        first, second = x.chunk(2, dim=-1)
        turned_first = first * cos - second * sin
        turned_second = first * sin + second * cos
        turned = torch.cat((turned_first, turned_second), dim=-1)
        return turned.to(x.dtype)
