"""The tab Attend: what one query of a call of order 3 attends to.

- `tab`: the layout and its callback.
- `fields`: what a visitor may choose: a head, a query, causality.
- `call_file`: a call in a file of the reader's own.
- `example`: the call that is shown before there is a file.
- `figures`: the map of the pairs, and the list of the largest.
"""
