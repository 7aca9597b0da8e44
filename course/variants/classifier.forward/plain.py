"""What the handout's comments ask for, line by line."""


class Plain:
    def forward(self, input_ids, attention_mask):
        outputs = self.bert(input_ids, attention_mask)
        pooled = outputs["pooler_output"]
        pooled = self.dropout(pooled)
        logits = self.classifier(pooled)
        return logits
