"""The figures of the studies, in files named as those of their claims."""
