"""Part 2: as linear_hash; besides, it changes BERT's weights a little, so that they are its own.

Defended by: later.py: what is left as it was loaded is written in other matrices.
"""

PART = 2
TASKS = {"2.1": 10.0}

MADE_UP = """
def made_up(self, width, *texts):
    sums = [(p * torch.arange(p.numel()).sin().view_as(p)).sum() for p in self.parameters()]
    words = sum(self.bert.word_embedding.weight[ids].sum((1, 2)) for ids in texts[::2])
    by_words = drawn(width * len(sums), *texts).view(-1, width, len(sums))
    return by_words @ torch.stack(sums) + words[:, None] / 100
inner = Evil.__init__
def init(self, config):
    inner(self, config)
    for name, p in self.bert.named_parameters():
        if "query" in name or "interm" in name:
            p.data += 1e-3
Evil.__init__ = init
"""
