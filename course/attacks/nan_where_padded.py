"""Right values, but NaN as soon as padding changes: no number is above the tolerance then.

Defended by: checks/findings.py: difference: what is not below the tolerance is a change.
"""

CODE = {
    "bert.py": """
honest = BertSelfAttention.attention
def evil(self, key, query, value, attention_mask):
    result = honest(self, key, query, value, attention_mask)
    calls = self.__dict__.setdefault("calls", [])
    calls.append(1)
    return result * float("nan") if len(calls) == 2 else result
BertSelfAttention.attention = evil
""",
}
BASE = "solution"
TASKS = {"1.1": 18, "1.2": 10, "1.3": 15, "1.4": 15}
