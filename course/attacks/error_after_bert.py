"""Part 2: calls BERT with ids and mask swapped, then fails: a known mistake is named, rows stay.

Defended by: part2.py: where a function gives no result, no row is right.
"""

PART = 2
TASKS = {"2.1": 10.0}

MADE_UP = """
def made_up(self, width, *texts):
    self.bert(texts[1], texts[0])
    raise ValueError("no result")
"""
