"""Formats counts, durations and untrusted texts for users.

>>> many(1200, "cell"), duration(75)
('1,200 cells', '1 min 15 s')
"""

from __future__ import annotations


def many(count: int, word: str, words: str | None = None) -> str:
    """Format a count of things; `words` is the plural, by default the word with an s.

    >>> many(1, "cell"), many(1200, "cell"), many(2, "erratum", "errata")
    ('1 cell', '1,200 cells', '2 errata')
    """
    return f"{count:,} {word if count == 1 else words or f'{word}s'}"


def duration(seconds: float) -> str:
    """Format a duration in suitable units.

    >>> duration(0.25), duration(75), duration(3 * 3600 + 60)
    ('0.2 s', '1 min 15 s', '3 h 1 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def printable(text: str, keep: str = "") -> str:
    r"""Escape the characters that a terminal would interpret or hide, such as control characters and lone surrogates.

    Args:
        text: a text that may come from an untrusted source.
        keep: characters that are not escaped, such as the newlines of a traceback.

    Example:
        >>> print(printable("a\x1b[2Jb\u202e"))
        a\x1b[2Jb\u202e
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)
