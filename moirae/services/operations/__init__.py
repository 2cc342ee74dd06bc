"""The operations, one module for each subject. `moirae.services.load_operations` loads them all."""
