"""The segment embeddings are left out where no segments are given.

Hint: With a single sentence all segments are 0, and their vector is not zero.
Read: Devlin et al. 2019, figure 2
"""


class NoSegmentsUnlessGiven:
    def embed(self, input_ids, token_type_ids=None):
        length = input_ids.size(1)
        words = self.word_embedding(input_ids)
        places = self.position_ids[:, :length]
        positions = self.pos_embedding(places)
        segments = 0 if token_type_ids is None else self.tk_type_embedding(token_type_ids)
        total = words + positions
        total = total + segments
        total = self.embed_layer_norm(total)
        total = self.embed_dropout(total)
        return total


class Later:
    def embed(self, input_ids, token_type_ids=None):
        total = self.pos_embedding(self.position_ids[:, : input_ids.size(1)])
        total = total + self.word_embedding(input_ids)
        if token_type_ids is not None:
            total = total + self.tk_type_embedding(token_type_ids)
        return self.embed_dropout(self.embed_layer_norm(total))
