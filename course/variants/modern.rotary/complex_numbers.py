"""Each pair of numbers is a complex number, turned by a product."""

import torch


class ScriptComplex:
    def apply_rotary(x, theta):
        kind = torch.float32 if x.dtype == torch.bfloat16 else x.dtype
        a, b = x.to(kind).chunk(2, dim=-1)
        steps = torch.arange(a.size(-1), dtype=kind) * (-2 / x.size(-1))
        angles = torch.arange(x.size(2), dtype=kind)[:, None] * theta**steps
        points = torch.complex(a, b) * torch.polar(torch.ones_like(angles), angles)
        return torch.cat((points.real, points.imag), dim=-1).to(x.dtype)
