"""A loop over the columns."""

import torch


class PieceByPiece:
    def embed(self, input_ids, token_type_ids=None):
        columns = []
        for place, pieces in enumerate(input_ids.unbind(dim=1)):
            kinds = torch.zeros_like(pieces) if token_type_ids is None else token_type_ids[:, place]
            total = self.word_embedding(pieces) + self.tk_type_embedding(kinds)
            columns.append(self.embed_layer_norm(total + self.pos_embedding.weight[place]))
        return self.embed_dropout(torch.stack(columns, dim=1))
