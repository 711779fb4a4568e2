"""The HTTP edge: REST in Pulsar's paths and words, HTTP lookup, metrics, health.

One file a resource, each with a `router`; `app.py` puts them together. Handlers translate and ask
the broker; they decide nothing. Errors are `{"reason": …}` with the status Pulsar has for them.
"""
