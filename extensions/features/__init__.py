"""What the heads and BERT see of a text: vectors of sentences, tags, counts."""
