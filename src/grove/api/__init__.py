"""What our objects mean: frozen read-views of each kind, names, labels, configuration. No I/O."""
