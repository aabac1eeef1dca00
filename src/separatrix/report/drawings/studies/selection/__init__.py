"""The figures on sparse token selection."""
