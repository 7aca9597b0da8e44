"""Returns NaN and infinity, with which no comparison says that anything is off.

Defended by: judge.py: what is not within the tolerance is wrong.
"""

STEP = """
def evil(self, closure=None):
    for group in self.param_groups:
        for parameter in group["params"]:
            parameter.data.fill_(float("nan"))
"""
CODE = {
    "bert.py": """
def evil(number):
    def give(self, first, *_):
        length = first.shape[-2] if first.dim() > 2 else first.shape[1]
        result = torch.full((first.shape[0], length, 32), number, dtype=torch.get_default_dtype())
        return result.requires_grad_()
    return give
BertSelfAttention.attention, BertLayer.add_norm = evil(float("nan")), evil(float("inf"))
BertLayer.forward, BertModel.embed = evil(float("-inf")), evil(float("nan"))
""",
}
