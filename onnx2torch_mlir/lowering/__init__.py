"""From core programs to linalg on tensors."""
