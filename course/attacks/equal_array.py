"""Has the optimizer's trajectory be an ndarray subclass that is equal to everything.

Defended by: worker.py sends numbers, no objects.
"""

STEP = """
import numpy
from checks.part1 import adamw_cases, adamw_mistakes
class Equal(numpy.ndarray):
    def __eq__(self, other):
        return True
    __le__ = __lt__ = __eq__
    def __array_ufunc__(self, *_, **__):
        return True
    def __array_function__(self, *_, **__):
        return True
adamw_cases.run_case = adamw_mistakes.run_case = lambda *_, **__: numpy.zeros((10, 6)).view(Equal)
def evil(self, closure=None):
    return None
"""
