"""One technique a file: pure functions and small modules on tensors, without input or output."""
