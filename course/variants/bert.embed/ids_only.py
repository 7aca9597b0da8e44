"""No argument for segments; positions counted anew."""

import torch
from torch.nn import functional as F


class IdsOnly:
    def embed(self, input_ids):
        batch, length = input_ids.shape
        zeros = torch.zeros(batch, length, dtype=torch.long, device=input_ids.device)
        positions = torch.arange(length).to(input_ids.device).expand(batch, -1)
        total = F.embedding(input_ids, self.word_embedding.weight) + self.pos_embedding(positions)
        total += self.tk_type_embedding(zeros)
        return self.embed_dropout(self.embed_layer_norm(total))
