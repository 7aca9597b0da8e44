"""The largest states of the last layer are taken instead of pooler_output.

Hint: pooler_output is the embedding of the sentence. (And a maximum over all columns counts
padding.)
Read: Devlin et al. 2019, §4.1
"""


class MaxOfLastHiddenState:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        pooled = outputs["last_hidden_state"].max(dim=1).values
        pooled = self.dropout(pooled)
        logits = self.classifier(pooled)
        return logits


class OneLine:
    def forward(self, ids, mask):
        found = self.bert(input_ids=ids, attention_mask=mask)
        return self.classifier(self.dropout(found["last_hidden_state"].amax(1)))
