"""Keyword arguments to BERT; the rest in one expression."""


class OneLine:
    def forward(self, ids, mask):
        found = self.bert(input_ids=ids, attention_mask=mask)
        return self.classifier(self.dropout(found["pooler_output"]))
