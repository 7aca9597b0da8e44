"""Positions counted up in the function, not taken from the buffer."""

import torch


class Counted:
    def embed(self, input_ids, token_type_ids=None):
        batch, length = input_ids.shape
        zeros = (
            torch.zeros(batch, length, dtype=torch.long, device=input_ids.device)
            if token_type_ids is None
            else token_type_ids
        )
        positions = torch.arange(length).to(input_ids.device)
        words, places = self.word_embedding(input_ids), self.pos_embedding(positions)
        total = words + places + self.tk_type_embedding(zeros)
        return self.embed_dropout(self.embed_layer_norm(total))
