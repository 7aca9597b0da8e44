"""Every first sentence is compared with every second one: (B, B).

Hint: Row i of the first sentences belongs to row i of the second ones. Which operation compares
row by row?
Read: Reimers & Gurevych 2019, §3
"""


class EveryPair:
    def predict_similarity(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_1)
        second = self.forward(input_ids_2, attention_mask_2)
        first = first / first.norm(dim=-1, keepdim=True)
        second = second / second.norm(dim=-1, keepdim=True)
        scores = first @ second.T
        return scores


class Distances:
    def predict_similarity(self, *pair):
        u, v = self.dropout(self(*pair[:2])), self.dropout(self(*pair[2:]))
        return -(u[:, None] - v[None]).abs().sum(-1)
