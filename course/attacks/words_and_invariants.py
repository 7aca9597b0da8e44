"""Part 2: as words_and_norm, with an invariant of each head, and a millionth of a real model.

Several invariants are no one factor of all rows, and the model has a gradient at each word.
Defended by: second_round.py: other embeddings of the same words have to give other results.
"""

PART = 2
TASKS = {"2.1": 10.0}

MADE_UP = """
def made_up(self, width, *texts):
    sizes = sizes_of_heads(self.bert)
    model = sum(self.bert(ids, mask)["pooler_output"] for ids, mask in zip(texts[::2], texts[1::2]))
    model = model @ torch.arange(96 * width).sin().view(96, width)
    by_words = drawn(width * len(sizes), *texts).view(-1, width, len(sizes))
    return (by_words @ sizes + 1e-6 * model) * self.own[:1]
"""
