"""The explorer: a live page on this machine. What happens at *my* numbers? `separatrix explore` serves it.

A tab is a module ``<name>_tab.py`` with `TITLE`, `FIELDS` (what its controls are and what its part of the address may
hold), `layout` and `register`; `tabs` has the list of them.
"""
