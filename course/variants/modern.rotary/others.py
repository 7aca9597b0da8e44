"""Other correct ways: half turns, complex numbers, loops, matrices."""

import math

import torch


class ScriptHalfTurn:
    def apply_rotary(x, theta):
        width = x.size(-1)
        inverse = theta ** -(torch.arange(0, width, 2, device=x.device).to(x.dtype) / width)
        angles = torch.outer(torch.arange(x.size(-2), device=x.device).to(x.dtype), inverse)
        angles = torch.cat((angles, angles), dim=-1)[None, None]
        half = width // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        return x * angles.cos() + turned * angles.sin()


class ScriptComplex:
    def apply_rotary(x, theta):
        kind = torch.float32 if x.dtype == torch.bfloat16 else x.dtype
        a, b = x.to(kind).chunk(2, dim=-1)
        steps = torch.arange(a.size(-1), dtype=kind) * (-2 / x.size(-1))
        angles = torch.arange(x.size(2), dtype=kind)[:, None] * theta**steps
        turn = torch.polar(torch.ones_like(angles), angles)
        points = torch.complex(a, b) * turn
        return torch.cat((points.real, points.imag), dim=-1).to(x.dtype)


class ScriptLoops:
    def apply_rotary(x, theta):
        half = x.size(-1) // 2
        result = torch.empty_like(x)
        for position in range(x.size(2)):
            for i in range(half):
                angle = position / theta ** (i / half)
                a, b = x[:, :, position, i], x[:, :, position, half + i]
                result[:, :, position, i] = a * math.cos(angle) - b * math.sin(angle)
                result[:, :, position, half + i] = a * math.sin(angle) + b * math.cos(angle)
        return result


class ScriptMatrices:
    def apply_rotary(x, theta):
        half = x.size(-1) // 2
        angles = torch.arange(x.size(-2))[:, None] / theta ** (torch.arange(half) / half)
        angles = angles.to(torch.promote_types(x.dtype, torch.float32))
        cos, sin = angles.cos(), angles.sin()
        matrix = torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2)
        pairs = x.unflatten(-1, (2, half)).to(matrix.dtype)
        return torch.einsum("lipq,bhlqi->bhlpi", matrix, pairs).flatten(-2).to(x)
