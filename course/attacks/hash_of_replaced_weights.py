"""Part 2: as linear_hash; besides, it changes BERT's weights a little, so that they are its own.

Defended by: second_round.py: what is left as it was loaded is written in other matrices.
"""

from course.attacks import linear_hash

PART = 2
TASKS = {"2.1": 10.0}

MADE_UP = f"""{linear_hash.MADE_UP}
inner = Evil.__init__
def init(self, config):
    inner(self, config)
    for name, p in self.bert.named_parameters():
        if "query" in name or "interm" in name:
            p.data += 1e-3
Evil.__init__ = init
"""
