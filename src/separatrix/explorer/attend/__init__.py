"""The tab Attend: the attention weights of a query in a call of order 3.

- `tab`: the layout and its callback.
- `fields`: the inputs: a head, a query, causal or not.
- `call_file`: a call in an uploaded file.
- `example`: the call that is shown until a file is uploaded.
- `figures`: the map of the pairs, and the list of the largest.
"""
