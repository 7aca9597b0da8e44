"""From raw text to a BERT: the corpus, its rows, and the script that trains."""
