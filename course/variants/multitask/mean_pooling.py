"""A sentence's vector is the mean, or the maximum, of its pieces, padding left out."""

import torch


class Mean:
    def forward(self, input_ids, attention_mask):
        hidden = self.bert(input_ids, attention_mask)["last_hidden_state"]
        weights = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


class Einsum:
    def forward(self, input_ids, attention_mask):
        hidden = self.bert.encode(self.bert.embed(input_ids), attention_mask)
        shares = attention_mask / attention_mask.sum(-1, keepdim=True)
        return torch.einsum("bl,bld->bd", shares.to(hidden), hidden)


class RowByRow:
    def forward(self, input_ids, attention_mask):
        hidden = self.bert(input_ids, attention_mask)["last_hidden_state"]
        pairs = zip(hidden, attention_mask, strict=True)
        return torch.stack([row[mask == 1].mean(dim=0) for row, mask in pairs])


class Maximum:
    def forward(self, input_ids, attention_mask):
        hidden = self.bert(input_ids, attention_mask)["last_hidden_state"]
        return hidden.masked_fill(attention_mask[..., None] == 0, -1e4).max(dim=1).values
