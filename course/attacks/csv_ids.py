"""Predictions with ids that break a CSV, formulas, HTML, NUL, values of all kinds.

Defended by: predictions.py: a strict reader; output.py cleans what is shown.
"""

CODE = {"optimizer.py": ""}
ROWS = [
    "id \t Predicted_Sentiment ",
    "=cmd|' /C calc'!A0 , 4",
    '"a\nb","""" , 1',
    "<script>alert(1)</script> , 2",
    "@SUM(1) , nan",
    "x" * 5000 + " , 1e999",
]
FILES = {
    "predictions/finetune-sst-dev-out.csv": "\n".join(ROWS),
    "predictions/finetune-sst-test-out.csv": "id, Predicted_Sentiment, sentiment\n0,1,1\n0,1,1\n",
    "predictions/pretrain-sst-dev-out.csv": "a\0b\ud7ff\n",
    "predictions/finetune-cfimdb-dev-out.csv": "",
}
