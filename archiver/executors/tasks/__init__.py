"""What tasks do: decode pieces, compare identities, write data files. No state of the driver."""
