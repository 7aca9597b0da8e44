"""Returns objects that claim to be tensors by __class__, __array__ and __torch_function__.

Defended by: worker.py names what is no tensor by its type, judge.py calls it wrong.
"""

FUNCTIONS = """
class Claims:
    __class__ = property(lambda self: torch.Tensor)
    layout = torch.strided
    shape, dtype, requires_grad = (3, 9, 32), torch.float64, False
    numel = lambda self: 1
    is_complex = lambda self: False
    detach = lambda self: self
    __eq__ = lambda self, other: True
    __hash__ = None
    def __array__(self, *_, **__):
        raise SystemExit(0)
    @classmethod
    def __torch_function__(cls, *_, **__):
        return cls()
def evil(self, *_):
    return Claims()
"""
