"""What our part 2 imports of its own, and hands in with it, as a student may; in no handout."""
