"""What of the model learns: parts put into BERT, frozen, started over or made per task."""
