"""A research testbed that breaks in many ways, to try Moirae on."""
