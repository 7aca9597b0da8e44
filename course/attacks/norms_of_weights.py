"""Part 2: norms of BERT's matrices by a hash of the words, which no rotation of heads changes.

Defended by: second_round.py: heads are stretched, too.
"""

PART = 2
TASKS = {"2.1": 10.0}

MADE_UP = """
def made_up(self, width, *texts):
    norms = [p.square().sum() / p.numel() ** 0.5 for n, p in self.named_parameters()
             if p.dim() > 1 and "pos_" not in n and "type" not in n]
    words = sum((self.bert.word_embedding.weight[ids].square().sum(-1) * mask).sum(1)
                for ids, mask in zip(texts[::2], texts[1::2]))
    by_words = drawn(width * len(norms), *texts).view(-1, width, len(norms))
    return (by_words @ torch.stack(norms) + words[:, None] / 100) * self.own[:1]
"""
