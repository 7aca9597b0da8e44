"""The text's two lines, one operation a line."""

import torch


class Plain:
    def embed(self, input_ids, token_type_ids=None):
        length = input_ids.size(1)
        if token_type_ids is None:
            token_type_ids = torch.zeros_like(input_ids)
        words = self.word_embedding(input_ids)
        places = self.position_ids[:, :length]
        positions = self.pos_embedding(places)
        segments = self.tk_type_embedding(token_type_ids)
        total = words + positions
        total = total + segments
        total = self.embed_layer_norm(total)
        total = self.embed_dropout(total)
        return total
