"""Part 2: right results whose gradients are all made up, by a backward of its own.

Defended by: second_round.py: results a small step away have to be what the gradients foretold.
"""

PART = 2
BASE = "solution"
TASKS = {"2.1": 10.0, "2.2": 8.0, "2.3": 16.0, "2.4": 24.0, "2.5": 24.0}

CODE = {
    "multitask_classifier.py": """
class Forged(torch.autograd.Function):
    @staticmethod
    def forward(ctx, result):
        return result.clone()
    @staticmethod
    def backward(ctx, cotangent):
        return torch.ones_like(cotangent)
def forged(inner):
    return lambda self, *batch: Forged.apply(inner(self, *batch))
for name in ("forward", "predict_sentiment", "predict_paraphrase", "predict_similarity"):
    setattr(MultitaskBERT, name, forged(getattr(MultitaskBERT, name)))
"""
}
