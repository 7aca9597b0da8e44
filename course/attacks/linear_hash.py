"""Part 2: sums of all weights, linear, by a hash of the words: its gradients are right everywhere.

Defended by: second_round.py: the same BERT in other matrices has to give the same results.
"""

PART = 2
TASKS = {"2.1": 10.0}

MADE_UP = """
def made_up(self, width, *texts):
    sums = [(p * torch.arange(p.numel()).sin().view_as(p)).sum() for p in self.parameters()]
    words = sum(self.bert.word_embedding.weight[ids].sum((1, 2)) for ids in texts[::2])
    by_words = drawn(width * len(sums), *texts).view(-1, width, len(sums))
    return by_words @ torch.stack(sums) + words[:, None] / 100
"""
