"""Returns a Tensor subclass that is equal to, close to and of the shape of everything.

Defended by: worker.py copies numbers out; the grader compares plain tensors.
"""

FUNCTIONS = """
class Equal(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in ("allclose", "equal", "isclose", "eq", "le", "__eq__", "all", "any"):
            return True
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))
    shape = property(lambda self: (3, 9, 32))
def evil(self, first, *_):
    return torch.zeros(1).as_subclass(Equal)
"""
