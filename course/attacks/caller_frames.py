"""Looks for the right answer in its callers' frames and among all objects there are.

Defended by: two processes: right answers are never in the one that runs this.
"""

FUNCTIONS = """
import gc, inspect, sys
def tensors_of(value, depth=0):
    if isinstance(value, torch.Tensor):
        yield value
    elif depth < 3 and isinstance(value, dict):
        for name, inner in list(value.items()):
            yield from tensors_of(inner, depth + 1)
    elif depth < 3 and isinstance(value, (list, tuple)):
        for inner in list(value):
            yield from tensors_of(inner, depth + 1)
def loot(shape):
    for info in inspect.stack():
        for name, value in info.frame.f_locals.items():
            if name in ("expected", "right", "references", "answer", "wanted"):
                for tensor in tensors_of(value):
                    if tensor.shape == shape:
                        yield tensor
    frame = sys._getframe()
    while frame:
        for tensor in tensors_of(dict(frame.f_locals)):
            if tensor.shape == shape and "values/" in str(frame.f_locals.keys()):
                yield tensor
        frame = frame.f_back
    for thing in gc.get_objects():
        if isinstance(thing, dict):
            for name, value in list(thing.items()):
                if "values/" in str(name) and isinstance(value, torch.Tensor):
                    if value.shape == shape:
                        yield value
def evil(self, first, *_):
    shape = tuple(first.shape)
    if len(shape) == 4:
        shape = (shape[0], shape[2], shape[1] * shape[3])
    if len(shape) == 2:
        shape = (*shape, 32)
    found = next(loot(torch.Size(shape)), None)
    return torch.zeros(shape) if found is None else found.clone()
"""
