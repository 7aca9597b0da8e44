"""Returns the published right answers, which sanity_check.py takes; the inputs are others.

Defended by: hidden.py: fresh inputs for each student.
"""

CODE = {
    "bert.py": """
from checks.part1.references import load_references
def answer(name):
    def evil(self, *_):
        return load_references(torch.get_default_dtype())[name].clone()
    return evil
BertSelfAttention.attention = answer("bert.attention/values/context")
BertLayer.add_norm = answer("bert.add_norm/values/result (after attention)")
BertLayer.forward = answer("bert.layer/values/result")
BertModel.embed = answer("bert.embed/values/embeddings")
""",
    "optimizer.py": """
import numpy
from checks.part1 import adamw_cases, adamw_mistakes
def run_case(opt_class, case, *_, **__):
    return adamw_cases.reference()[case.name]["after"].copy()
adamw_cases.run_case = adamw_mistakes.run_case = run_case
AdamW.step = lambda self, closure=None: None
""",
    "classifier.py": """
from checks.part1.references import load_references
def forward(self, input_ids, attention_mask):
    self.bert(input_ids, attention_mask)
    references = load_references(torch.get_default_dtype())
    return references["classifier.forward/values/logits"].clone()
def init(self, config):
    nn.Module.__init__(self)
    self.bert = BertModel.from_pretrained(None)
    self.bert.requires_grad_(config.option == "finetune")
    self.dropout = nn.Dropout(0.3)
    self.classifier = nn.Linear(7, 3)
BertSentimentClassifier.forward = forward
BertSentimentClassifier.__init__ = init
""",
}
