"""Each sentence goes with the mask of the other one.

Hint: A mask says which pieces of one sentence are real. Which mask belongs to which ids?
Read: docs/handout.md, Task 1.1
"""

import torch


class MasksSwapped:
    def predict_paraphrase(self, input_ids_1, attention_mask_1, input_ids_2, attention_mask_2):
        first = self.forward(input_ids_1, attention_mask_2)
        second = self.forward(input_ids_2, attention_mask_1)
        pair = torch.cat([first, second, (first - second).abs()], dim=-1)
        pair = self.dropout(pair)
        logits = self.paraphrase(pair)
        logits = logits.squeeze(-1)
        return logits


class OneMaskForBoth:
    def predict_paraphrase(self, ids_a, mask_a, ids_b, mask_b):
        u, v = (self.bert(ids, mask_a)["pooler_output"] for ids in (ids_a, ids_b))
        return self.paraphrase(self.dropout(torch.cat((u, v, (u - v).abs()), 1))).flatten()
