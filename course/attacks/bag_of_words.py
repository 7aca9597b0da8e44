"""Part 2: the words' embeddings, added up, times an invariant of each head of BERT's layers.

Defended by: second_round.py: the same words in another order have to give other results.
"""

PART = 2
TASKS = {"2.1": 10.0}

MADE_UP = """
def made_up(self, width, *texts):
    x = [(self.bert.word_embedding.weight[i] * m[..., None]).sum(1)
         for i, m in zip(texts[::2], texts[1::2])]
    bag = sum((n + 1) * each for n, each in enumerate(x))
    bag = bag @ torch.arange(96 * width * 8).sin().view(96, width * 8)
    return bag.view(-1, width, 8) @ sizes_of_heads(self.bert) * self.own[:1]
"""
