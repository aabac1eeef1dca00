"""The figures on what small models learn."""
